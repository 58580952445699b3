# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.given import Given, plain
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.placement import balloons, image_pull_proxy

Hosts = Mapping[str, Mapping[str, Any]]
LAB: Hosts = {"m1": {}, "n1": {"ballast_host": "m1"}, "n2": {"ballast_host": "m1"}, "w1": {}, "plane": {}}


def given(hosts: Hosts, **variables: Any) -> Given:
    return Given(
        value=variables.get,
        host_value=lambda host, name: {**hosts.get(host, {}), **variables}.get(name),
        match=lambda pattern: list(hosts) if pattern == "all" else [],
        group=lambda name: ["plane"] if name == "ballast_control_plane" else [],
    )


def test_instances_of_a_machine_share_its_pull_proxy() -> None:
    problems: list[BallastError] = []
    found = image_pull_proxy(given(LAB, image_pull_proxy_max_in_flight="4"), list(LAB), problems)
    assert problems == []
    assert found == {
        "state": "present",
        "limit": 4,
        "nodes": ["n1", "n2", "w1"],
        "machines": ["m1", "w1"],
        "machine_of": {"n1": "m1", "n2": "m1", "w1": "w1"},
    }


@pytest.mark.parametrize(
    ("hosts", "variables", "id"),
    [
        (["n1"], {}, "fleet-missing"),
        (["m1", "plane"], {"image_pull_proxy_max_in_flight": 0}, "fleet-machines-alone"),
        (["n1"], {"image_pull_proxy_state": "absent"}, "fleet-shared-proxy"),
        (["w1"], {"image_pull_proxy_state": "gone"}, "fleet-value"),
    ],
)
def test_what_cannot_be_done_to_image_pulls(hosts: list[str], variables: dict[str, Any], id: str) -> None:
    problems: list[BallastError] = []
    image_pull_proxy(given(LAB, **variables), hosts, problems)
    assert [problem.id for problem in problems] == [id]


def test_slices_are_moved_on_their_machine_and_other_sizes_from_here() -> None:
    hosts: Hosts = {
        "m1": {},
        "n1": {"ballast_host": "m1", "balloons_slice": "a", "balloons_share": "1/2"},
        "n2": {
            "ballast_host": "m1",
            "balloons_slices": False,
            "balloons_target": {"cpu": "2"},
            "balloons_node_name": "two",
        },
    }
    problems: list[BallastError] = []
    variables = {"balloons_state": "present"}
    mixed = {**hosts, "n1": {**hosts["n1"], "balloons_slices": "true"}}
    found = balloons(given(mixed, **variables), ["n1", "n2"], problems)
    assert problems == []
    assert found["rows"] == {
        "m1": [{"name": "n1", "share": "1/2", "slice": "a"}],
        "localhost": [{"name": "two", "target": {"cpu": "2"}}],
    }
    assert found["machines"] == ["m1", "localhost"]
    assert found["machine_of"] == {"n1": "m1", "n2": "localhost"}
    assert found["name_of"] == {"n1": "n1", "n2": "two"}
    gone = balloons(given(mixed, balloons_state="absent"), ["n1", "n2"], problems)
    assert gone["rows"]["localhost"] == [{"name": "two"}]


def test_what_cannot_be_done_to_balloons() -> None:
    problems: list[BallastError] = []
    found = given(LAB, balloons_slices=True, balloons_vm=True, balloons_machine="m7")
    balloons(found, ["n1"], problems)
    assert [problem.id for problem in problems] == ["fleet-exclusive", "fleet-machine-unknown"]


def test_values_of_ansible_become_those_of_json() -> None:
    class Lazy(dict[str, Any]):
        def items(self) -> Any:
            return [(key, str(value).upper()) for key, value in super().items()]

    assert plain(Lazy(a="x")) == {"a": "X"}
    assert plain([Lazy(a="x"), (1, None)]) == [{"a": "X"}, [1, None]]
