# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A lab of the minor version before is upgraded in place to the default version: one story, in the order of the tests."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import DEFAULT_KUBERNETES
from tests.integration.lab import Lab, lab_named

pytestmark = [
    pytest.mark.lab,
    pytest.mark.versions,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a lab"),
]
BEFORE = "1.36.4"
_WEB = ("deployment", "web", "--image=ballast.local/busybox:1", "--replicas=2")


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with lab_named("iu") as lab:
        run = lab.up(lab_nodes=2, lab_kubernetes_version=BEFORE)
        assert run.status == 0, run.output
        lab.kubectl("create", *_WEB, "--", "sleep", "3600")
        place_web(lab, {"kubernetes.io/hostname": "n1"})
        yield lab
        run = lab.down()
        assert run.status == 0, run.output


def place_web(lab: Lab, selector: dict[str, str] | None) -> None:
    patch = {"spec": {"template": {"spec": {"nodeSelector": selector}}}}
    lab.kubectl("patch", "deployment/web", "-p", json.dumps(patch))
    lab.kubectl("rollout", "status", "deployment/web", "--timeout=90s")


def kubelets(lab: Lab) -> dict[str, tuple[str, bool]]:
    """Of each node the version of its kubelet, and whether it is cordoned."""
    nodes = json.loads(lab.kubectl("get", "nodes", "-o", "json"))["items"]
    return {
        node["metadata"]["name"]: (
            node["status"]["nodeInfo"]["kubeletVersion"].partition("+")[0].removeprefix("v"),
            node["spec"].get("unschedulable", False),
        )
        for node in nodes
    }


def test_check_mode_shows_the_plan_and_changes_nothing(lab: Lab) -> None:
    before = lab.services()
    run = lab.playbook("lab_up", "--check", "--diff", lab_kubernetes_version=DEFAULT_KUBERNETES)
    assert run.status == 0, run.output
    assert "drain of node n1" in run.output
    assert "drain of node n2" in run.output
    assert lab.services() == before
    assert lab.record["kubernetes_version"] == BEFORE


def test_a_node_whose_pods_a_budget_holds_keeps_its_version_and_takes_pods(lab: Lab) -> None:
    lab.kubectl("create", "poddisruptionbudget", "web", "--selector=app=web", "--min-available=2")
    run = lab.playbook("lab_up", lab_kubernetes_version=DEFAULT_KUBERNETES)
    assert run.status != 0
    assert "node n1 could not be drained within 60 seconds, so it was not removed" in run.output
    assert kubelets(lab) == {"n1": (BEFORE, False), "n2": (BEFORE, False)}
    lab.kubectl("delete", "poddisruptionbudget", "web")
    place_web(lab, None)


def test_the_next_run_goes_on_and_every_node_has_the_version(lab: Lab) -> None:
    uid = lab.kubectl("get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")
    run = lab.playbook("lab_up")
    assert run.status == 0, run.output
    assert kubelets(lab) == {"n1": (DEFAULT_KUBERNETES, False), "n2": (DEFAULT_KUBERNETES, False)}
    assert f"v{DEFAULT_KUBERNETES}" in lab.kubectl("get", "--raw", "/version")
    assert lab.kubectl("get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}") == uid
    lab.kubectl("wait", "deployment/web", "--for=condition=Available", "--timeout=60s")
    assert lab.summary["connectivity"] == {"pairs": 4, "passed": 4}


def test_a_run_after_it_changes_nothing(lab: Lab) -> None:
    before = lab.services()
    run = lab.playbook("lab_up")
    assert run.status == 0, run.output
    assert run.changed == 0
    assert lab.services() == before


@pytest.mark.parametrize("version", [BEFORE, "1.35.8"])
def test_a_downgrade_is_refused(lab: Lab, version: str) -> None:
    run = lab.playbook("lab_up", lab_kubernetes_version=version)
    assert run.status != 0
    assert "lab-downgrade" in run.output
    assert lab.record["kubernetes_version"] == DEFAULT_KUBERNETES
