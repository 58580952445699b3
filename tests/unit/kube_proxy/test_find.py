# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How kube-proxy runs on a node, and whose it is: cases/installations.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.daemonset.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.daemonset.model import SPEC, DaemonSetRequest
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.find import find_installation, locate
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.installation import (
    DAEMONSET,
    SERVICE,
    Installation,
    own_processes,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.request import AUTO, KubeProxyRequest
from ansible_collections.ballast.kube.plugins.module_utils._kubelet.owners import cluster_owners, kube_proxy_owners
from tests.unit.fakes import FakeHost, json_answer
from tests.unit.kube_proxy import daemonset_cluster
from tests.unit.kube_proxy.fake_node import SERVER, STATE, kubeconfig, params
from tests.unit.kubelet.machine import machine

CASES: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("cases").joinpath("installations.json").read_text(encoding="utf-8")
)
OPEN = Installation(AUTO, "", "")
CONFIG_PATH = "/var/lib/kube-proxy/config.conf"
UNIT = {"argv": ["/usr/bin/kube-proxy", "--config=/p"], "cgroups": ["/system.slice/kube-proxy.service"]}


def daemonset_request(state: str) -> DaemonSetRequest:
    options = {name: option.get("default") for name, option in SPEC.items()}
    given = {"kubeconfig": daemonset_cluster.KUBECONFIG, "mode": "nftables", "state": state}
    return DaemonSetRequest.from_params({**options, **given})


def node(case: dict[str, Any]) -> FakeHost:
    host = machine({key: value for key, value in case.items() if key != "links"})
    for path in ("/etc/kubernetes/kubelet.conf", "/etc/kubernetes/kubeconfig-kubelet", "/var/lib/k0s/kubelet.conf"):
        host.given(path, kubeconfig())
    host.given("/var/lib/rancher/rke2/agent/kubelet.kubeconfig", kubeconfig())
    links = [{"ifname": name, "addr_info": []} for name in case.get("network", [])]
    host.on("ip", "-j", "address", "show", answer=json.dumps(links), reads=True)
    if "api" in case:
        listed = {"metadata": {"resourceVersion": "7"}, "items": case["api"]["pods"]}
        host.answer(f"{SERVER}/api/v1/namespaces/kube-system/pods", json_answer(200, listed))
        host.answer(f"{SERVER}/api/v1/nodes/n1", json_answer(200, case["api"]["node"]))
    return host


def find(case: dict[str, Any], where: Installation = OPEN) -> Installation:
    return find_installation(node(case), where, STATE)


def refused(case: dict[str, Any], where: Installation = OPEN) -> BallastError:
    host = node(case)
    with pytest.raises(BallastError) as caught:
        find_installation(host, where, STATE)
    assert host.effects == []
    return caught.value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_what_a_node_has(case: dict[str, Any]) -> None:
    answer = case["answer"]
    if "deployment" in answer:
        assert find(case) == Installation(**answer)
        return
    error = refused(case)
    assert error.id == answer.get("error", f"migrate-owner-{answer.get('owner')}")
    assert all(text in str(error) for text in answer.get("says", []))
    assert error.remedy


def test_each_owner_of_kube_proxy_has_a_case() -> None:
    assert {owner.name for owner in kube_proxy_owners()} == {case["answer"].get("owner") for case in CASES} - {None}


@pytest.mark.parametrize("name", ["Amazon EKS", "Azure AKS", "k0s", "Talos"])
def test_a_deployment_that_is_given_is_no_leave_to_change_what_an_owner_keeps(name: str) -> None:
    [case] = [case for case in CASES if case["name"] == name]
    assert refused(case, Installation(DAEMONSET, "", "")).id == f"migrate-owner-{case['answer']['owner']}"


def test_what_is_given_counts() -> None:
    case = {"processes": {"900": UNIT}}
    assert find(case, Installation(SERVICE, "", "")) == Installation(SERVICE, "kube-proxy", "/p")
    assert find(case, Installation(AUTO, "kube-proxy", "/q")) == Installation(SERVICE, "kube-proxy", "/q")
    assert find(case, Installation(SERVICE, "other", "")) == Installation(SERVICE, "other", CONFIG_PATH)
    assert find({"processes": {}}, Installation(SERVICE, "", "")) == Installation(SERVICE, "kube-proxy", CONFIG_PATH)


def test_a_child_that_has_yet_to_execute_its_program_is_no_kube_proxy() -> None:
    """It comes first in /proc where process ids began again, and is gone when its files are read."""
    host = FakeHost()
    child = host.given_process(["kube-proxy"], exe="/usr/local/bin/kube-proxy")
    parent = host.given_process(["kube-proxy"], exe="/usr/local/bin/kube-proxy")
    host.processes[child].parent = parent
    assert [process.pid for process in own_processes(host)] == [parent]


def test_while_it_is_down_its_unit_says_which_file_it_reads() -> None:
    text = "[Service]\nExecStart=/usr/bin/kube-proxy \\\n  --config=/opt/p.yaml --v=2\n"
    host = FakeHost(systemd=True, files={"/etc/systemd/system/kube-proxy.service": text})
    show = "LoadState=loaded\nMainPID=0\nFragmentPath=/etc/systemd/system/kube-proxy.service\n"
    host.on("systemctl", "show", answer=show, reads=True)
    assert find_installation(host, OPEN, STATE) == Installation(SERVICE, "kube-proxy", "/opt/p.yaml")


def test_while_a_change_has_it_stopped_what_the_change_found_counts() -> None:
    host = node({"processes": {}})
    task: dict[str, Any] = {"params": {"deployment": SERVICE, "service": "kp", "config_path": "/opt/p.yaml"}}
    host.given(f"{STATE}/guard/guard.json", json.dumps(task))
    assert find_installation(host, OPEN, STATE) == Installation(SERVICE, "kp", "/opt/p.yaml")
    assert find_installation(host, Installation(SERVICE, "", ""), STATE).service == "kp"
    for broken in (
        {"params": {**task["params"], "deployment": AUTO}},
        {"params": {**task["params"], "service": 7}},
        [],
    ):
        host.given(f"{STATE}/guard/guard.json", json.dumps(broken))
        with pytest.raises(BallastError) as caught:
            find_installation(host, OPEN, STATE)
        assert caught.value.id == "migrate-none"


def test_the_watchdog_gets_what_was_found() -> None:
    request = locate(KubeProxyRequest.from_params(params()), node({"processes": {"900": UNIT}}))
    assert request.where == Installation(SERVICE, "kube-proxy", "/p")
    assert KubeProxyRequest.from_params({**request.params, "state": "previous"}).where == request.where


def test_without_root_nothing_is_concluded(monkeypatch: pytest.MonkeyPatch) -> None:
    host = node({"processes": {}})
    monkeypatch.setattr(host, "is_root", lambda: False)
    assert locate(KubeProxyRequest.from_params(params()), host).where == OPEN


ON_NODES: dict[str, dict[str, Any]] = {
    case["answer"]["owner"]: case["api"]["node"] for case in CASES if "owner" in case["answer"] and "api" in case
}
ON_NODES["k3s"] = {"status": {"nodeInfo": {"kubeletVersion": "v1.34.1+k3s1"}}}
ON_NODES["openshift"] = {
    "status": {
        "nodeInfo": {"osImage": "Red Hat Enterprise Linux CoreOS 418.94.202510150125-0", "kubeletVersion": "v1.31.13"}
    }
}
FORMS: dict[str, dict[str, Any]] = {
    "eks": {"labels": {"eks.amazonaws.com/component": "kube-proxy", "k8s-app": "kube-proxy"}},
    "aks": {"labels": {"component": "kube-proxy", "kubernetes.azure.com/managedby": "aks"}},
}


@pytest.mark.parametrize("owner", [owner.name for owner in cluster_owners()])
def test_a_cluster_whose_kube_proxy_an_owner_keeps_is_left_alone(owner: str) -> None:
    original = daemonset_cluster.daemonset()
    original["metadata"].update(FORMS.get(owner, {}))
    cluster = daemonset_cluster.Cluster(2, original=original)
    for path, item in cluster.objects.items():
        if path.startswith(f"{daemonset_cluster.NODES}/"):
            item.update({key: value for key, value in ON_NODES[owner].items() if key in ("spec", "status")})
    before = cluster.state()
    for state in ("canary", "final", "absent"):
        with pytest.raises(BallastError) as caught:
            ENGINE.observe(Context(daemonset_request(state), cluster.host))
        assert caught.value.id == f"daemonset-owner-{owner}"
    assert cluster.state() == before


def test_a_provider_id_alone_is_no_owner() -> None:
    cluster = daemonset_cluster.Cluster(2)
    for path, item in cluster.objects.items():
        if path.startswith(f"{daemonset_cluster.NODES}/"):
            item["spec"] = {"providerID": "aws:///eu-west-1a/i-0"}
    assert ENGINE.observe(Context(daemonset_request("canary"), cluster.host)).pods
