# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Prometheus gets."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent.metrics import Metrics, View
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import (
    SETTLED,
    STARTING,
    WORKLOAD,
    Balloon,
    Fleet,
    Node,
    Pod,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import MIB, Resources

SIZE, FOUR = Resources(2500, 1024 * MIB), Resources(4000, 4096 * MIB)
BALLOON = Balloon("kube-system", "b", "u", "1", SIZE, SIZE, SIZE, SETTLED)
N1 = Node(
    "n1", "h", FOUR, FOUR, (1, 36), ready=True, balloon=BALLOON, pods=(Pod("d", "p", Resources(500, 2**20), WORKLOAD),)
)
N2 = replace(N1, name="n2", pods=(), balloon=None)
FLEET = Fleet({"n1": N1, "n2": N2}, {"h": FOUR}, {"h": Resources(500, 0)})
VIEW = View(FLEET, {"n1": Resources(1500, 3072 * MIB), "n2": Resources(1000, MIB)}, frozenset({"n1"}))


def told(metrics: Metrics) -> dict[str, float]:
    """By name and labels, as Prometheus reads it: `target{node="n1",resource="cpu"}`."""
    text = metrics.library.generate_latest(metrics.registry).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(value for key, value in sorted(sample.labels.items()) if key != "unit")
            found[f"{sample.name.removeprefix('ballast_balloon_')} {labels}".strip()] = sample.value
    return found


def test_it_says_what_nodes_and_hosts_have() -> None:
    found = told(Metrics(lambda: VIEW, lambda: 7))
    expected = {
        "target n1,cpu": 1.5,
        "target n1,memory": 3072 * MIB,
        "desired n1,cpu": 2.5,
        "allocated n1,cpu": 2.5,
        "actual n1,memory": 1024 * MIB,
        "free n1,cpu": 1.0,
        "free n2,cpu": 4.0,
        "at_target n1": 1,
        "at_target n2": 0,
        "present n1": 1,
        "present n2": 0,
        "host_room h,cpu": 3.5,
        "host_open h,cpu": 5.5,
        "host_holds h": 0,
        "api_calls_total": 7,
        "resizes_total reverted": 0,
        "leases_denied_total": 0,
    }
    assert {name: found.get(name) for name in expected} == expected
    assert "allocated n2,cpu" not in found, "there is no balloon"


def test_a_balloon_that_is_not_taken_in_is_absent() -> None:
    starting = replace(N1, balloon=replace(BALLOON, state=STARTING))
    view = replace(VIEW, fleet=replace(FLEET, nodes={"n1": starting, "n2": N2}))
    assert told(Metrics(lambda: view, lambda: 0))["present n1"] == 0


def test_nodes_without_a_target_are_not_told_of() -> None:
    found = told(Metrics(lambda: View(FLEET), lambda: 0))
    assert not [name for name in found if "n1" in name or " h" in name]


def test_it_counts() -> None:
    metrics = Metrics(View, lambda: 0)
    metrics.count_outcome("done")
    metrics.count_outcome("reverted")
    metrics.count_outcome("reverted")
    metrics.count_error("core-no-answer")
    metrics.count_denied()
    metrics.note_success(1795335600.0)
    expected = {
        "resizes_total done": 1,
        "resizes_total reverted": 2,
        "errors_total core-no-answer": 1,
        "leases_denied_total": 1,
        "last_success_timestamp_seconds": 1795335600.0,
    }
    assert expected.items() <= told(metrics).items()
