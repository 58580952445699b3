# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run writes into ConfigMaps fits, or the run is refused before anything is made."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.record import Record, SliceRecord
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.sizes import (
    TEXT_BYTES,
    find_size_problems,
    report_text,
)
from tests.unit.fleet_run.test_run import REQUEST, request

CONFIG_MAP_BYTES = 2**20  # of all values together (k8s.io/kubernetes, pkg/apis/core: MaxSecretSize)
PODS = tuple(f"{number:036}" for number in range(30))


def names(count: int, *, length: int = 20) -> list[str]:
    return [f"n{number:0{length - 1}}" for number in range(count)]


def problems(hosts: list[str], *, slices: int = 4, canaries: int = 1) -> list[str]:
    asked_for = {**REQUEST, "hosts": hosts, "canaries": hosts[:canaries]}
    inventory: dict[str, Any] = {"hosts": {host: {} for host in hosts}, "groups": {}, "extra": {}}
    with pytest.raises(BallastError) as caught:
        request(request=asked_for, inventory=inventory, slices=slices)
    found = caught.value.problems if isinstance(caught.value, Problems) else [caught.value]
    assert {error.id for error in found} == {"fleet-run-names"}
    return [f"{error.text.partition(' can have')[0]}: {error.remedy}" for error in found]


def test_names_that_the_record_does_not_hold_are_refused() -> None:
    (problem,) = problems(names(40_000), slices=16)
    assert problem.startswith("the record of all names: run parts of the fleet one after the other")


def test_a_slice_whose_report_does_not_hold_its_names_is_refused() -> None:
    assert problems(names(24_000), slices=2) == [
        "the report of slice-0: use more slices: -e fleet_slices=16",
        "the report of slice-1: use more slices: -e fleet_slices=16",
    ]
    (problem,) = problems(names(24_000), slices=16, canaries=12_000)
    assert problem.startswith("the report of canary-0: name fewer canaries")


def test_names_count_as_they_are_written() -> None:
    """Other letters than those of ASCII take six bytes each."""
    assert find_size_problems({"slice-0": ["n" * 50 + str(number) for number in range(2000)]}) == []
    assert find_size_problems({"slice-0": ["\u00fc" * 50 + str(number) for number in range(2000)]}) != []


def largest(slices_of: Callable[[int], dict[str, list[str]]], most: int) -> int:
    """Number of hosts that is not refused, to a thousandth of `most`."""
    low, high = 0, most
    while high - low > most // 1000:
        middle = (low + high) // 2
        low, high = (low, middle) if find_size_problems(slices_of(middle)) else (middle, high)
    return low


@pytest.mark.parametrize("length", [20, 63])
def test_the_largest_fleet_fits_into_its_configmaps_whatever_becomes_of_it(length: int) -> None:
    """With workers replaced thirty times in each of a hundred slices."""
    count = largest(lambda count: parts(count, length), 50_000)
    assert count >= 12_000
    ends = "no node was changed: " + "x" * 200
    for state in ("begun", "failed", "done"):
        rows = {
            name: SliceRecord(holder=PODS[0], former=PODS, ended=ends, **{state: tuple(hosts)})  # type: ignore[arg-type]
            for name, hosts in parts(count, length).items()
        }
        assert Record(1, rows).of("slice-0").former == PODS
        assert sum(len(row.as_text()) for row in rows.values()) < CONFIG_MAP_BYTES


def parts(count: int, length: int) -> dict[str, list[str]]:
    hosts = names(count, length=length)
    return {f"slice-{index}": hosts[index::100] for index in range(100)}


def test_a_report_that_no_configmap_holds_loses_its_texts_and_no_outcome() -> None:
    rows = {f"n{number}": ("failed", "x" * 400) for number in range(5000)}
    text = report_text({"rows": rows, "not_done": [], "lines": [], "failure": ""})
    assert len(text) < TEXT_BYTES
    assert len(json.loads(text)["rows"]) == 5000
    preview = report_text({"rows": {}, "not_done": [], "lines": ["x" * 400] * 5000, "failure": ""})
    assert json.loads(preview)["lines"] == ["5000 lines do not fit into the report: read the log of this slice"]


def test_a_slice_that_is_not_refused_has_room_for_every_outcome() -> None:
    hosts = names(largest(lambda count: {"slice-0": names(count)}, 20_000))
    assert len(hosts) > 9000
    rows = dict.fromkeys(hosts, ("failed after the change", "x" * 400))
    text = report_text({"rows": rows, "not_done": hosts, "lines": ["x" * 400] * 9000, "failure": "y" * 10**6})
    assert len(text) <= TEXT_BYTES
    assert {word for word, _text in json.loads(text)["rows"].values()} == {"failed after the change"}
