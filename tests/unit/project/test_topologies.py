"""The example topologies: each is taken as it stands by the command that its comment names, and is what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import DEFAULT_KUBERNETES
from ansible_collections.ballast.kube.plugins.module_utils._instance.model import PROXY_BACKENDS
from ansible_collections.ballast.kube.plugins.module_utils._lab.resolve import HostFacts, Lab, resolve
from ansible_collections.ballast.kube.plugins.module_utils._lab.topology import DEFAULT_ADDONS, parse_request

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / "lab/topologies").glob("*.yml"))
FACTS = HostFacts(cpu_millis=2000, memory_bytes=8 * 2**30, networks=())


def commands(path: Path) -> list[dict[str, str]]:
    """The variables of each `make lab` line in the comment on top."""
    lines = re.findall(r"^#   make lab (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [dict(word.split("=", 1) for word in shlex.split(line)) for line in lines]


def lab_of(path: Path, variables: dict[str, str]) -> Lab:
    topology = yaml.safe_load(path.read_text(encoding="utf-8"))
    params: dict[str, Any] = {
        "lab_dir": "/var/lib/ballast/lab",
        "name": None,
        "nodes": None,
        "topology": topology,
        "target": variables.get("LAB_TARGET", "host"),
        "bootstrap": variables.get("LAB_BOOTSTRAP", "lab"),
        "hosts": int(variables.get("LAB_HOSTS", "2")),
        "kubernetes_version": topology.get("kubernetes_version", DEFAULT_KUBERNETES),
        "addons": None,
        "default_addons": DEFAULT_ADDONS,
        "ip_family": None,
        "balloons": False,
        "sizes": {},
        "service_cidr": "10.96.0.0/16",
    }
    return resolve(parse_request(params), None, FACTS)


def example(name: str) -> Lab:
    path = ROOT / "lab/topologies" / f"{name}.yml"
    return lab_of(path, commands(path)[0])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_topology_is_taken_by_the_commands_in_its_comment(path):
    named = commands(path)
    assert [variables.pop("LAB_TOPOLOGY") for variables in named] == [f"lab/topologies/{path.name}"] * len(named)
    assert named
    for variables in named:
        assert len(lab_of(path, variables)["nodes"]) > 1


def test_one_example_has_every_backend():
    assert {node["proxy_backend"] for node in example("proxy-backends")["nodes"]} == set(PROXY_BACKENDS)


def test_the_pools_have_shares_labels_and_taints_and_leave_a_quarter_of_the_host():
    nodes = {node["name"]: node for node in example("pools")["nodes"]}
    assert {name: node["cpu"] for name, node in nodes.items()} == {
        "service-1": "250m",
        "service-2": "250m",
        "batch-1": "750m",
        "small-1": "250m",
    }
    # A GiB of the host's eight is kept for the control plane.
    assert sum(int(node["memory"]) for node in nodes.values()) == pytest.approx(7 * 2**30 * 3 / 4, abs=4 * 2**20)
    assert nodes["batch-1"]["labels"] == {"pool": "batch"}
    assert nodes["batch-1"]["taints"] == [{"key": "pool", "value": "batch", "effect": "NoSchedule"}]
    assert nodes["service-1"]["taints"] == []


def test_the_balloons_divide_the_whole_host():
    lab = example("balloons")
    assert lab["balloons"]
    assert {node["name"]: node["cpu"] for node in lab["nodes"]} == {
        "large": "1000m",
        "small-1": "500m",
        "small-2": "500m",
    }


def test_the_two_hosts_carry_two_nodes_each():
    lab = example("two-hosts")
    assert [host["name"] for host in lab["hosts"]] == ["vm1", "vm2"]
    assert sorted(node["host"] for node in lab["nodes"]) == ["vm1", "vm1", "vm2", "vm2"]
