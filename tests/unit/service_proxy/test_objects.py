# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""Any object that an API server may answer is read, or refused with a text: an event never ends a thread of the feed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._rules.gates import Release
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.objects import (
    CIDR,
    NODE,
    SERVICE,
    SLICE,
    TRIGGER_ANNOTATION,
    Objects,
    read_object,
)
from tests.unit.rules.given import service
from tests.unit.rules.test_parse_anything import GOOD, JSON, PLACES, change

KINDS = (SERVICE, SLICE, NODE, CIDR)


def take(kind: str, item: Any) -> None:
    """As the feed and the loop do."""
    seen = read_object(kind, item)
    objects = Objects()
    changed = objects.take([seen])
    assert bool(seen.problem) == (bool(changed.unreadable) or bool(changed.faults))
    seen.problem.encode()
    for name in changed.services:
        for family in (4, 6):
            objects.state_of(name, family, Release(37))


@given(kind=st.sampled_from(KINDS), item=st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), JSON))
def test_any_object(kind: str, item: Any) -> None:
    take(kind, item)


@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), JSON | st.just(...)), min_size=1, max_size=3))
def test_good_objects_with_something_changed_or_left_out(changes: list[tuple[tuple[Any, ...], object]]) -> None:
    data = copy.deepcopy(GOOD)
    for path, value in changes:
        change(data, path, value)
    items = data.get("items") if isinstance(data, dict) else None
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            for kind in KINDS:
                take(kind, item)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-21T12:00:00Z", 1795262400.0),
        ("2026-11-21T12:00:00.25Z", 1795262400.25),
        ("2026-11-21", 0.0),
        ("", 0.0),
        (17, 0.0),
        (None, 0.0),
        ("2026-11-21T12:00:00.x5Z", 1795262400.0),
    ],
)
def test_the_time_of_the_change_behind_a_slice(text: object, seconds: float) -> None:
    item = {
        "metadata": {"name": "a", "namespace": "b", "annotations": {TRIGGER_ANNOTATION: text}},
        "addressType": "IPv4",
    }
    assert read_object(SLICE, item).triggered == seconds


def test_a_service_is_read() -> None:
    assert read_object(SERVICE, service("web")).problem == ""
