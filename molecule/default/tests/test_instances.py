# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role node_instances made of the virtual machines, seen from inside them: the systemd and cgroup v2 side."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import testinfra
import yaml

VARIABLES = yaml.safe_load((Path(__file__).resolve().parents[1] / "vars" / "lab.yml").read_text(encoding="utf-8"))
LAB_DIR = Path(VARIABLES["lab_dir"])
LAB = json.loads((LAB_DIR / "lab.json").read_text(encoding="utf-8"))
SERVICES = ("containerd", "kubelet", "kube-proxy")


def on(name: str) -> testinfra.host.Host:
    """The virtual machine of that name."""
    machine = next(host for host in LAB["hosts"] if host["name"] == name)
    known = LAB_DIR / "vms" / "known_hosts"
    return testinfra.get_host(
        f"ssh://{machine['user']}@{machine['address']}",
        ssh_identity_file=machine["ssh_key"],
        ssh_extra_args=f"-o UserKnownHostsFile={known} -o StrictHostKeyChecking=yes",
    )


def unit(node: dict[str, Any], service: str) -> str:
    return f"ballast-{LAB['name']}-{node['name']}-{service}"


@pytest.fixture(params=LAB["nodes"], ids=lambda node: node["name"])
def node(request: pytest.FixtureRequest) -> dict[str, Any]:
    return request.param


def test_the_nodes_are_spread_over_the_machines() -> None:
    assert sorted(one["host"] for one in LAB["nodes"]) == ["vm1", "vm1", "vm2", "vm2"]


def test_what_was_done_for_a_node_on_a_machine_was_told_here(node: dict[str, Any]) -> None:
    lines = (LAB_DIR / "events.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(one) for one in lines]
    assert {"started", "done"} <= {one["kind"] for one in events if one["subject"] == f"node {node['name']}"}


@pytest.mark.parametrize("service", SERVICES)
def test_services_are_units_that_start_with_the_machine(node: dict[str, Any], service: str) -> None:
    found = on(node["host"]).service(unit(node, service))
    assert found.is_running
    assert found.is_enabled


def slice_of(node: dict[str, Any]) -> str:
    """systemd nests slices at dashes, so that those of a node's name are written otherwise."""
    return f"ballast-{LAB['name']}-{node['name'].replace('-', '_')}.slice"


def test_processes_are_in_the_slice_and_the_namespace(node: dict[str, Any]) -> None:
    host = on(node["host"])
    shown = host.check_output("systemctl show -p MainPID -p Slice %s", unit(node, "kubelet"))
    rows = dict(line.split("=", 1) for line in shown.splitlines())
    assert rows["Slice"] == slice_of(node)
    inside = host.check_output("stat -L -c %%i /proc/%s/ns/net", rows["MainPID"])
    assert inside == host.check_output("stat -L -c %%i %s", node["netns"])
    assert inside != host.check_output("stat -L -c %%i /proc/1/ns/net")


def test_the_slice_has_its_limits(node: dict[str, Any]) -> None:
    host = on(node["host"])
    slice_name = slice_of(node)
    path = host.check_output("systemctl show -p ControlGroup --value %s", slice_name)
    assert host.file(f"/sys/fs/cgroup{path}/memory.max").content_string.strip() == node["memory"]
    assert host.file(f"/sys/fs/cgroup{path}/pids.max").content_string.strip() == str(node["pids"])


def test_keys_are_their_owners_alone(node: dict[str, Any]) -> None:
    host = on(node["host"])
    home = next(one["state_dir"] for one in LAB["hosts"] if one["name"] == node["host"])
    listed = host.check_output("find %s/nodes/%s/pki -name '*.key' -printf '%%m %%p\\n'", home, node["name"])
    assert len(listed.splitlines()) == 3
    assert all(line.startswith("600 ") for line in listed.splitlines())


def test_every_pod_reaches_every_other_across_machines() -> None:
    summary = json.loads((LAB_DIR / "summary.json").read_text(encoding="utf-8"))
    assert summary["connectivity"] == {"pairs": 16, "passed": 16}
    assert all(one["service_reached"] for one in summary["nodes"])


@pytest.mark.parametrize("machine", sorted({node["host"] for node in LAB["nodes"]}))
def test_after_a_restart_a_unit_made_again_what_the_kernel_forgot(machine: str) -> None:
    told = on(machine).check_output("journalctl --boot --output=cat --unit=%s", f"ballast-{LAB['name']}-nodes-restore")
    for node in LAB["nodes"]:
        assert (f"made netns ballast-{LAB['name']}-{node['name']}" in told) is (node["host"] == machine)


@pytest.mark.parametrize("machine", sorted({node["host"] for node in LAB["nodes"]}))
def test_pods_have_no_network_namespace_outside_their_instance(machine: str) -> None:
    names = on(machine).check_output("ls /run/netns").split()
    assert sorted(names) == sorted(
        f"ballast-{LAB['name']}-{node['name']}" for node in LAB["nodes"] if node["host"] == machine
    )


def kubectl(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(LAB_DIR / "bin/kubectl"), f"--kubeconfig={LAB_DIR}/admin.kubeconfig", *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def deny_all() -> Iterator[None]:
    """No pod of the lab's namespace may be reached, while this holds."""
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "deny-all", "namespace": "ballast-lab"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
    }
    assert kubectl("apply", "-f", "-", given=json.dumps(policy)).returncode == 0
    yield
    kubectl("delete", "--namespace=ballast-lab", "networkpolicy", "deny-all")


def eventually_reached(pod: str, address: str, reached: bool) -> bool:
    """Whether the pod reaches the address, as soon as it is as given: a policy is in force a moment after it is made."""
    ask = ("timeout", "2", "wget", "-q", "-O", "-", f"http://{address}:8080/")  # wget's own -T ends it by a fault here
    deadline = time.monotonic() + 30
    while True:
        done = kubectl("exec", "--namespace=ballast-lab", pod, "--", *ask)
        if (done.returncode == 0) is reached or time.monotonic() > deadline:
            return done.returncode == 0


def test_a_network_policy_is_enforced_on_every_node(request: pytest.FixtureRequest) -> None:
    listed = kubectl("get", "pods", "--namespace=ballast-lab", "--selector=app=echo", "--output=json")
    pods = {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in json.loads(listed.stdout)["items"]}
    names = sorted(pods)
    pairs = [(name, pods[names[index - 1]]) for index, name in enumerate(names)]
    assert len(pairs) == 4
    assert all(eventually_reached(*pair, reached=True) for pair in pairs)
    request.getfixturevalue("deny_all")
    assert not any(eventually_reached(*pair, reached=False) for pair in pairs)
    kubectl("delete", "--namespace=ballast-lab", "networkpolicy", "deny-all")
    assert all(eventually_reached(*pair, reached=True) for pair in pairs)
    # Its pods hold connections to the API, and so virtual servers of ipvs, which kube_proxy_migrate is to find all removed.
    gone = kubectl("delete", "--namespace=kube-system", "daemonset", "kube-network-policies", "--cascade=foreground")
    assert gone.returncode == 0, gone.stderr
