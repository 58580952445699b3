# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which process is this node's kubelet, and which distribution runs it: cases/processes.json."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._kubelet.config import read_config_files, runtime_endpoint
from ansible_collections.ballast.kube.plugins.module_utils._kubelet.distributions import DISTRIBUTIONS
from ansible_collections.ballast.kube.plugins.module_utils._kubelet.find import kubelet_of_service, list_kubelets
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.managed import MANAGED
from tests.unit.kubelet.machine import machine, read_cases

UNIT = ["/system.slice/kubelet.service"]


@pytest.mark.parametrize("case", read_cases("processes"), ids=lambda case: case["name"])
def test_the_kubelets_of_a_node(case: dict[str, Any]) -> None:
    found = list_kubelets(machine(case))
    shown = [
        {
            "pid": kubelet.pid,
            "distribution": kubelet.distribution.name if kubelet.distribution else None,
            "service": kubelet.service,
            "flags": list(kubelet.argv),
        }
        for kubelet in found
    ]
    expected = [{"flags": row["flags"], **answer} for row, answer in zip(shown, case["kubelets"])]
    assert shown == (expected if len(shown) == len(case["kubelets"]) else case["kubelets"])


def test_a_kubelet_in_another_network_is_another_nodes() -> None:
    case = {"processes": {"700": {"argv": ["/usr/bin/kubelet"], "cgroups": UNIT, "own_network": False}}}
    assert list_kubelets(machine(case)) == []


def test_the_kubelet_that_a_script_of_its_service_starts_is_the_services() -> None:
    script = {"argv": ["/bin/bash", "/usr/local/bin/kubelet"], "exe": "/usr/bin/bash", "cgroups": UNIT, "started": 1}
    tracer = {"argv": ["strace", "-f", "kubelet"], "parent": 600, "cgroups": UNIT, "started": 2}
    kubelet = {"argv": ["/opt/kubelet", "--v=2"], "parent": 650, "cgroups": UNIT, "started": 3}
    other = {"argv": ["/opt/kubelet", "--v=3"], "cgroups": ["/system.slice/other.service"], "started": 3}
    host = machine({"processes": {"600": script, "650": tracer, "640": kubelet, "641": other}})
    found = kubelet_of_service(host, "kubelet")
    assert found is not None
    assert (found.pid, found.argv, found.service) == (640, ("/opt/kubelet", "--v=2"), "kubelet")
    host.end_process(640)
    assert kubelet_of_service(host, "kubelet") is None
    assert kubelet_of_service(host, "nothing") is None


def test_the_configuration_of_k3s_is_that_of_its_own_directory() -> None:
    directory = "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d"
    case = {
        "processes": {"9": {"argv": ["k3s", "agent"], "cgroups": ["/system.slice/k3s-agent.service"]}},
        "files": {
            f"{directory}/00-k3s-defaults.conf": '{"containerRuntimeEndpoint": "unix:///run/k3s/containerd/containerd.sock"}',
            f"{directory}/20-cli-config-dir/x.conf": '{"maxParallelImagePulls": 3}',
        },
    }
    host = machine(case)
    [kubelet] = list_kubelets(host)
    assert [file.path for file in read_config_files(host, kubelet)] == [
        f"{directory}/00-k3s-defaults.conf",
        f"{directory}/20-cli-config-dir/x.conf",
    ]
    assert runtime_endpoint(host, kubelet) == "unix:///run/k3s/containerd/containerd.sock"


def test_a_configuration_that_cannot_be_read_hides_nothing_else() -> None:
    case = {
        "processes": {"9": {"argv": ["k3s", "agent"], "cgroups": ["/system.slice/k3s-agent.service"]}},
        "files": {"/etc/rancher/k3s/config.yaml": "kubelet-arg: [a\n"},
    }
    [kubelet] = list_kubelets(machine(case))
    assert kubelet.argv == (
        "k3s",
        "--kubeconfig=/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
        "--container-runtime-endpoint=unix:///run/k3s/containerd/containerd.sock",
    )


def test_each_distribution_has_its_way() -> None:
    assert {each.name for each in DISTRIBUTIONS} == set(MANAGED)
