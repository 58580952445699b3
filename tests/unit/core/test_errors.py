# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import (
    BallastError,
    Bug,
    CommandFailed,
    HostError,
    Message,
    Messages,
    PeerError,
    Problems,
    Unavailable,
    UserError,
    last_lines,
    shorten,
)


def test_an_error_says_what_was_found_what_to_do_and_its_id() -> None:
    error = UserError(
        "image_pulls.host.max_in_flight: -1 is not allowed; use 0 or more (0 is no limit)",
        id="pulls-limit-negative",
        found="runtime limit 3 from /etc/containerd/config.toml,\nno kubelet limit",
        remedy="set a number, or remove the key",
        page="docs/image-pulls.md",
    )
    assert str(error) == (
        "image_pulls.host.max_in_flight: -1 is not allowed; use 0 or more (0 is no limit)\n"
        "  found: runtime limit 3 from /etc/containerd/config.toml,\n"
        "         no kubelet limit\n"
        "  do:    set a number, or remove the key\n"
        "  id:    pulls-limit-negative   (docs/image-pulls.md#pulls-limit-negative)"
    )


def test_what_is_not_known_is_left_out() -> None:
    assert str(Bug("it broke", id="x-y")) == "it broke\n  id:    x-y"


def test_each_family_has_its_own_exit_code() -> None:
    codes = {family.exit_code for family in (BallastError, UserError, HostError, PeerError, Bug)}
    assert len(codes) == 5
    assert 0 not in codes


def test_all_problems_are_reported_at_once_and_one_stands_for_itself() -> None:
    one, two = UserError("first", id="a"), UserError("second", id="b")
    Problems.raise_if([])
    with pytest.raises(UserError) as single:
        Problems.raise_if([one])
    assert single.value is one
    with pytest.raises(Problems) as caught:
        Problems.raise_if([one, two])
    assert str(caught.value) == f"{one}\n{two}"
    assert caught.value.exit_code == 2


def test_a_failed_command_can_be_pasted_and_shows_the_end_of_its_output() -> None:
    error = CommandFailed(["ip", "link", "add", "a b"], status=2, output="\n".join(f"line {n}" for n in range(25)))
    assert error.text == "command ended with status 2: ip link add 'a b'"
    assert error.found.splitlines()[0] == "(5 earlier lines left out)"
    assert error.found.splitlines()[-1] == "line 24"
    assert CommandFailed(["true"], status=1, output="\n").found == "no output"


def test_a_missing_tool_is_named_with_its_package() -> None:
    assert "apt-get install iproute2" in str(Unavailable("ip"))
    assert "apt-get install runit" in str(Unavailable("sv"))
    assert "apt-get install jq" in str(Unavailable("jq"))
    assert "apt-get install other" in str(Unavailable("jq", package="other"))


def row(id: str) -> Message:
    return Message(id=id, error=HostError, text="{path} is not there", remedy="make {path}")


@pytest.mark.parametrize("ids", [["a", "a"], ["A"], ["a b"], ["a_b"], ["-a"], ["a--b"], [""]])
def test_a_table_refuses_an_id_that_is_taken_or_of_another_form(ids: list[str]) -> None:
    with pytest.raises(ValueError):
        Messages("docs/x.md", [row(id) for id in ids])


def test_a_row_makes_its_error() -> None:
    error = Messages("docs/x.md", [row("x-gone")]).error("x-gone", found="nothing", path="/a/{b}")
    assert isinstance(error, HostError)
    assert (error.text, error.remedy, error.found) == ("/a/{b} is not there", "make /a/{b}", "nothing")
    assert "docs/x.md#x-gone" in str(error)


def test_a_long_field_is_shortened_with_a_count() -> None:
    error = Messages("docs/x.md", [row("x-gone")]).error("x-gone", path="p" * 250)
    assert "(50 characters left out)" in error.text


@given(st.text(), st.integers(1, 50))
def test_shortened_text_begins_and_ends_as_it_was_and_counts_the_rest(text: str, limit: int) -> None:
    short = shorten(text, limit=limit)
    if len(text) <= limit:
        assert short == text
    else:
        begin, middle, end = short.partition(f"... ({len(text) - limit} characters left out) ...")
        assert middle
        assert text.startswith(begin)
        assert text.endswith(end)
        assert len(begin + end) == limit
        assert 0 <= len(end) - len(begin) <= 1


@given(st.text())
def test_output_of_a_program_cannot_command_the_terminal(text: str) -> None:
    assert all(line.isprintable() for line in last_lines(text).split("\n"))
