# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.host.names import (
    LINK_NAME_MAX,
    MARK,
    is_name,
    join_name,
    link_name,
    without_entry,
)

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", fullmatch=True)


@given(NAMES, NAMES)
def test_a_link_name_fits_the_kernel_bears_our_mark_and_is_the_same_each_time(lab: str, node: str) -> None:
    name = link_name(lab, node)
    assert len(name) <= LINK_NAME_MAX
    assert name.startswith(f"{MARK}-")
    assert name == link_name(lab, node)
    if len(join_name(lab, node)) <= LINK_NAME_MAX:
        assert name == join_name(lab, node)


@given(st.lists(NAMES, min_size=2, max_size=20, unique=True))
def test_link_names_of_one_lab_differ(nodes: list[str]) -> None:
    assert len({link_name("lab", node) for node in nodes}) == len(nodes)


@given(NAMES)
def test_names_are_dns_labels(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize("text", ["", "-a", "a-", "A", "a_b", "a.b", "a b", "a\n", "\u00e9", "a" * 41])
def test_what_is_no_dns_label_is_no_name(text: str) -> None:
    assert not is_name(text)


@pytest.mark.parametrize(
    ("path", "outside"),
    [
        ("/.ballast-lab-n1/usr/bin/python3", "/usr/bin/python3"),
        ("/.ballast-lab-n1/.ballast-lab-n1/bin/sh", "/.ballast-lab-n1/bin/sh"),
        ("/usr/bin/python3", "/usr/bin/python3"),
        ("/srv/.ballast-lab-n1/python3", "/srv/.ballast-lab-n1/python3"),
        ("/.ballast-lab-n1", "/.ballast-lab-n1"),
    ],
)
def test_a_path_of_an_instance_is_known_outside_without_its_link(path: str, outside: str) -> None:
    assert without_entry(path) == outside
