# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a cluster answers of the production readiness of its balloons: when all is well, and with each known failure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon import info
from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import (
    DEFERRED,
    INFEASIBLE,
    STARTING,
    Fleet,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.messages import MESSAGES
from ansible_collections.ballast.kube.plugins.module_utils._balloon.readiness_answers import (
    METRICS,
    Facts,
    Reconciler,
    build_report,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.report import findings
from ansible_collections.ballast.kube.plugins.module_utils._balloon.request import INFO_SPEC
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import FLOOR, Resources
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness import ENABLED, MEASURED, REQUIRED
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import PeerError
from ansible_collections.ballast.kube.plugins.module_utils._core.text.exposition import parse_exposition
from tests.model_cluster.model import ModelCluster
from tests.unit.balloon.sized import CAPACITY, OVERHEAD, amount, balloon, fleet, node
from tests.unit.balloon.test_engine import HALVES, Sizing
from tests.unit.fakes import FakeHost
from tests.unit.readings import BY_NAME, completed

FEATURE = BY_NAME["balloons"]

TARGET = amount(4000, 16 * 1024)
SIZE = CAPACITY - OVERHEAD - TARGET
LINES = """\
kubelet_pod_resize_duration_milliseconds_bucket{success="true",le="100"} 9
kubelet_pod_resize_duration_milliseconds_bucket{success="true",le="+Inf"} 10
kubelet_pod_pending_resizes{reason="deferred"} 1
"""
PLAN = ("change balloon of a: x -> y", "remove target of a")


def two(**changes: Any) -> Fleet:
    """Two nodes of a host, each at its target, unless `changes` say otherwise of the first."""
    first = replace(node("a", target=TARGET, balloon=balloon(SIZE)), **changes)
    return fleet(first, node("b", target=TARGET, balloon=balloon(SIZE)), reserve=None)


def facts(found: Fleet, **changes: Any) -> Facts:
    names = tuple(found.nodes)
    samples = {"a": parse_exposition(LINES, METRICS)}
    told = Facts(found, names, tuple(findings(found, names)), (), (), PLAN, None, None, samples)
    return replace(told, **changes)


def read(found: Fleet, **changes: Any) -> dict[str, Any]:
    """As the report takes it."""
    return completed(build_report(facts(found, **changes)).as_json())


def verdicts(found: dict[str, Any]) -> dict[str, str]:
    return {name: answer["verdict"] for name, answer in found["answers"].items()}


def test_without_targets_it_is_off() -> None:
    assert verdicts(read(fleet(node("a")))) == {ENABLED: "no"}


def test_nodes_at_their_targets_are_ready() -> None:
    found = read(two(), reconciler=Reconciler(answers=True, seconds_since_success=3.0))
    assert verdicts(found) == dict.fromkeys(MEASURED, "yes")
    assert (found["present"], found["versions"]) == ((), {"kubelet": "v1.36"})
    answers = found["answers"]
    assert answers["disabling"]["lines"] == PLAN
    assert "1 host with several nodes may then be overcommitted" in answers["disabling"]["text"]
    reached, resize, waiting, success = answers["healthy"]["figures"]
    assert (reached["value"], waiting["value"], success["value"]) == (2, 1, 3)
    assert [(bucket["le"], bucket["count"]) for bucket in resize["buckets"]] == [(0.1, 9), (None, 10)]
    assert resize["value"] == pytest.approx(0.1)
    cpus, memory = answers["scale"]["figures"]
    assert (cpus["value"], cpus["limit"]) == (8.0, 15.8)
    assert memory["value"] == 32 * 2**30 < memory["limit"]


def test_balloons_at_the_floor_are_not_used() -> None:
    most = CAPACITY - OVERHEAD - FLOOR
    found = read(fleet(node("a", target=most), reserve=None))
    assert {name for name, verdict in verdicts(found).items() if verdict != "yes"} == {"in_use"}


def test_a_kubelet_that_cannot_resize_and_objects_that_are_missing_are_told() -> None:
    found = read(two(version=(1, 32)), missing=("ballast-balloon of daemonsets",))
    answer = found["answers"]["dependencies"]
    assert (
        answer["text"]
        == "missing: kubelets that support resizing pods (1.33): a; objects: ballast-balloon of daemonsets"
    )
    assert "upgrade them" in answer["remedy"]


def test_what_cannot_be_taken_away_is_told() -> None:
    found = read(two(), plan_problem=PeerError("it is not ours", id="x", remedy="check what it is for"))
    for name in ("disabling", "rollback"):
        answer = found["answers"][name]
        assert (answer["verdict"], answer["remedy"]) == ("no", "check what it is for")


def test_many_nodes_are_not_all_named() -> None:
    nodes = [node(f"n{number:02}", host=f"h{number}", target=TARGET, balloon=None) for number in range(30)]
    found = read(fleet(*nodes, reserve=None))
    text = found["answers"]["failures"]["lines"][0]
    assert text.endswith("n19; and 10 more")
    assert len(found["answers"]["scale"]["figures"]) == 40


# Failures

_ASKED = balloon(FLOOR, desired=SIZE, state=DEFERRED, message="Node didn't have enough resource: cpu")
_NEVER = balloon(FLOOR, desired=SIZE, state=INFEASIBLE, message="can never be")
_FOREIGN = MESSAGES.error("balloon-not-ready", found="pod x is no balloon")


@pytest.mark.parametrize(
    ("found", "changes", "id", "words"),
    [
        (two(balloon=None), {}, "balloon-absent", "balloon-absent: a"),
        (two(balloon=balloon(SIZE, state=STARTING)), {}, "balloon-absent", "balloon-absent: a"),
        (two(balloon=_ASKED), {}, "balloon-off-target", "a (deferred): 1m cpu, 16Mi memory of 11900m cpu"),
        (two(balloon=_NEVER), {}, "balloon-kubelet-refuses", "can never be"),
        (two(target=None, balloon=None), {}, "balloon-host-oversold", "h1: the host is overcommitted"),
        (two(limit=Resources(100, 2**20)), {}, "balloon-host-oversold", "a: the node is overcommitted"),
        (two(ready=False), {}, "balloon-node-not-ready", "balloon-node-not-ready: a"),
        (two(), {"problems": (_FOREIGN,)}, "balloon-foreign-pod", "pod x is no balloon"),
        (two(), {"reconciler": Reconciler(answers=False)}, "balloon-reconciler-down", "does not respond"),
        (two(), {"reconciler": Reconciler(True, ("401",))}, "balloon-reconciler-failing", "401"),
    ],
)
def test_a_known_failure_is_found(found: Fleet, changes: dict[str, Any], id: str, words: str) -> None:
    told = read(found, **changes)
    assert id in told["present"]
    failures = told["answers"]["failures"]
    assert failures["verdict"] == "no"
    assert FEATURE.modes([id])[0].mitigation in failures["remedy"]
    assert any(line.startswith(f"{id}: ") and words in line for line in failures["lines"])
    assert set(verdicts(told)) == set(MEASURED)
    assert all(told["answers"][name]["remedy"] for name in REQUIRED if verdicts(told)[name] != "yes")


def test_every_failure_that_is_found_is_known_and_the_other_way_round() -> None:
    cases = test_a_known_failure_is_found.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {case[2] for case in cases} == {mode.id for mode in FEATURE.failures}


# Against the model cluster


@pytest.fixture
def model(tmp_path: Path) -> Iterator[ModelCluster]:
    with ModelCluster(tls=tmp_path) as found:
        for name in ("n1", "n2"):
            found.add_node(name, unsized=True)
        yield found


class NoReconciler(LocalHost):
    """This machine may have one, which is none of this cluster."""

    def stat(self, path: str) -> Any:
        return None if path == info.INSTALLATION.config else super().stat(path)


def asked(model: ModelCluster, tmp_path: Path) -> dict[str, Any]:
    path = model.kubeconfig(tmp_path / "kubeconfig")
    given = {name: row.get("default") for name, row in INFO_SPEC.items()}
    told: Any = info.read_params(NoReconciler(), {**given, "kubeconfig": str(path), "readiness": True})
    return completed(told["readiness"])


def test_a_cluster_is_read_and_not_changed(model: ModelCluster, tmp_path: Path) -> None:
    assert verdicts(asked(model, tmp_path)) == {ENABLED: "no"}
    Sizing(model, tmp_path, HALVES).run()
    before = [model.node(name)["metadata"]["resourceVersion"] for name in ("n1", "n2")]
    found = asked(model, tmp_path)
    assert verdicts(found) == dict.fromkeys(MEASURED, "yes")
    lines = found["answers"]["disabling"]["lines"]
    assert [line for line in lines if line.startswith("remove target")] == [
        "remove target of n1",
        "remove target of n2",
    ]
    assert "remove DaemonSet ballast-balloon" in lines
    assert [model.node(name)["metadata"]["resourceVersion"] for name in ("n1", "n2")] == before


def test_a_reconciler_is_asked_where_one_is_installed() -> None:
    host = FakeHost()
    assert info._read_reconciler(host) is None
    host.given(info.INSTALLATION.config, "{}")
    host.given_listener(f"{info.INSTALLATION.sockets}/control", lambda: None)
    assert info._read_reconciler(host) == Reconciler(answers=False)
    status = {"problems": ["x"], "seconds_since_success": 2}
    host.given_listener(f"{info.INSTALLATION.sockets}/control", lambda: json.dumps(status))
    assert info._read_reconciler(host) == Reconciler(True, ("x",), 2.0)
