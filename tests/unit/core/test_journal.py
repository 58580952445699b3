# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.journal import Journal
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT, Policy, Step, Value
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from tests.unit.fakes import FakeHost

PATH = "/var/lib/ledger.jsonl"


def step(target: str, *, before: Value = ABSENT, after: Value = 1) -> Step:
    return Step(kind="k", title=f"thing {target}", target=target, after=after, before=before, group="node n1")


def load(host: FakeHost) -> Journal:
    return Journal(PATH, host=host, kinds={"k"})


def originals(journal: Journal) -> dict[str, Value]:
    return {record.target: record.original for record in journal.recorded}


def a_run(journal: Journal) -> None:
    journal.begin(Policy.UNDO)
    for one in (step("a"), step("b", before=7), step("c")):
        journal.doing(one)
        journal.done(one)


def test_what_was_made_is_recorded_in_order_with_what_was_there_before() -> None:
    host = FakeHost()
    journal = load(host)
    a_run(journal)
    journal.end()
    for found in (journal, load(host)):
        assert originals(found) == {"a": ABSENT, "b": 7, "c": ABSENT}
        assert not found.open
        assert found.unfinished.steps == ()
    assert host.mode(PATH) == 0o600
    assert [record.group for record in journal.recorded] == ["node n1"] * 3


def test_after_its_end_a_run_leaves_nothing_but_the_records() -> None:
    host = FakeHost()
    journal = load(host)
    a_run(journal)
    journal.end()
    assert len(host.text(PATH).splitlines()) == 3
    assert all('"op": "recorded"' in line for line in host.text(PATH).splitlines())


def test_what_was_there_first_is_kept_over_a_second_change_and_forgotten_when_it_is_back() -> None:
    host = FakeHost()
    journal = load(host)
    journal.begin(Policy.KEEP)
    for one in (step("a", before=7, after=8), step("a", before=8, after=9)):
        journal.doing(one)
        journal.done(one)
    assert originals(journal) == {"a": 7}
    back = step("a", before=9, after=7)
    journal.doing(back)
    assert originals(load(host)) == {"a": 7}, "until it is done it is ours"
    journal.done(back)
    assert originals(load(host)) == {}


def test_a_removal_that_is_undone_is_ours_again() -> None:
    host = FakeHost()
    journal = load(host)
    a_run(journal)
    journal.end()
    journal.begin(Policy.UNDO)
    removal = step("b", before=1, after=7)
    journal.doing(removal)
    journal.done(removal)
    assert originals(load(host)) == {"a": ABSENT, "c": ABSENT}
    journal.undone(removal)
    for found in (journal, load(host)):
        assert originals(found) == {"a": ABSENT, "b": 7, "c": ABSENT}


def cut_points(host: FakeHost) -> list[int]:
    data = host.text(PATH)
    return [0, *(number for number, sign in enumerate(data, start=1) if sign == "\n")]


def test_killed_after_each_line_what_was_begun_counts_as_ours() -> None:
    host = FakeHost()
    a_run(load(host))
    data = host.text(PATH)
    seen = []
    for point in cut_points(host):
        host.given(PATH, data[:point])
        found = load(host)
        seen.append((len(found.recorded), len(found.unfinished.steps), found.open))
    assert seen == [(0, 0, False), (0, 0, True), (1, 1, True), (1, 1, True), (2, 2, True), (2, 2, True)] + [
        (3, 3, True),
        (3, 3, True),
    ]


def test_a_power_cut_takes_no_line_of_a_run_that_is_to_be_undone() -> None:
    host = FakeHost()
    journal = load(host)
    journal.begin(Policy.KEEP)
    journal.doing(step("old"))
    journal.done(step("old"))
    journal.end()
    lines = [
        lambda: journal.begin(Policy.UNDO, again=[("k", "old")]),
        lambda: journal.doing(step("a")),
        lambda: journal.done(step("a")),
        lambda: journal.doing(step("old", before=1, after=2)),
        lambda: journal.undone(step("old", before=1, after=2)),
        journal.end,
    ]
    for write_line in lines:
        write_line()
        written = host.text(PATH)
        host.cut_power()
        assert host.text(PATH) == written
    assert originals(load(host)) == originals(journal)


def test_a_run_that_is_kept_does_not_wait_for_the_disk_before_its_end() -> None:
    host = FakeHost()
    journal = load(host)
    journal.begin(Policy.KEEP)
    journal.doing(step("a"))
    host.cut_power()
    assert not load(host).open
    journal.end()
    host.cut_power()
    assert originals(load(host)) == {"a": ABSENT}


def test_a_line_cut_short_anywhere_is_as_if_it_was_never_begun() -> None:
    host = FakeHost()
    a_run(load(host))
    data = host.text(PATH)
    for point in range(len(data)):
        host.given(PATH, data[:point])
        torn = originals(load(host))
        host.given(PATH, data[: data.rfind("\n", 0, point) + 1])
        assert torn == originals(load(host))


@pytest.mark.parametrize(
    "write",
    [
        lambda journal: journal.undone(step("a")),
        a_run,
        lambda journal: journal.end(),
    ],
)
def test_what_is_written_after_a_line_cut_short_can_be_read(write: Callable[[Journal], None]) -> None:
    host = FakeHost()
    a_run(load(host))
    host.given(PATH, host.text(PATH)[:-5])
    journal = load(host)
    write(journal)
    assert originals(load(host)) == originals(journal)


@pytest.mark.parametrize(
    "line",
    [
        '{"op": "doing", "kind": "new", "title": "", "target": "x", "after": 1, "before": null, "group": ""}',
        '{"op": "recorded", "kind": "new", "target": "x", "title": "", "original": null}',
        '{"op": "recorded", "kind": "k", "target": "x", "title": "", "original": null, "later": 1}',
        '{"op": "invented", "kind": "k"}',
        '{"op": "begin", "policy": "hope"}',
        '{"kind": "k"}',
        "[]",
        "no json",
    ],
)
@pytest.mark.parametrize("last", [True, False])
def test_a_line_that_is_not_of_this_version_refuses_the_whole(line: str, last: bool) -> None:
    host = FakeHost()
    a_run(load(host))
    whole = host.text(PATH)
    host.given(PATH, whole + line + "\n" + ("" if last else whole))
    with pytest.raises(HostError) as caught:
        load(host)
    assert caught.value.id == "core-ledger"
    assert f"{PATH}:{len(whole.splitlines()) + 1}" in caught.value.text


def test_no_ledger_is_an_empty_one() -> None:
    host = FakeHost()
    journal = load(host)
    assert (journal.recorded, journal.unfinished.steps, journal.open) == ((), (), False)
    assert host.effects == []


def test_what_a_run_made_and_took_away_again_is_undone_in_that_order() -> None:
    host = FakeHost()
    journal = load(host)
    journal.begin(Policy.UNDO)
    there, other, gone = step("bridge"), step("proxy", before=1, after=2), step("bridge", before=1, after=ABSENT)
    for one in (there, other, gone):
        journal.doing(one)
        journal.done(one)
    assert load(host).unfinished.steps == (there, other, gone)
    assert originals(load(host)) == {"proxy": 1}


def test_a_run_may_record_anew_and_its_undoing_brings_the_old_record_back() -> None:
    host = FakeHost()
    journal = load(host)
    journal.begin(Policy.UNDO)
    for one in (step("proxy", before=1, after=2), step("guard")):
        journal.doing(one)
        journal.done(one)
    journal.end()
    again = step("proxy", before=2, after=3)
    journal.begin(Policy.UNDO, again=[again.key, ("k", "unknown")])
    journal.doing(again)
    journal.done(again)
    for found in (journal, load(host)):
        assert originals(found) == {"guard": ABSENT, "proxy": 2}
    killed = load(host)
    killed.undone(again)
    for found in (killed, load(host)):
        assert originals(found) == {"guard": ABSENT, "proxy": 1}
    killed.end()
    assert originals(load(host)) == {"guard": ABSENT, "proxy": 1}
