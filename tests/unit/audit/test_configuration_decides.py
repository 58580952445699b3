# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Version, feature gates and odd objects: what service_rules_info answers for each case of cases/configuration."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._audit.info import SPEC, trace_and_audit
from tests.unit.fakes import FakeHost
from tests.unit.rules import given

FOLDER = Path(__file__).parent / "cases" / "configuration"
CASES: list[dict[str, Any]] = json.loads((FOLDER / "cases.json").read_text(encoding="utf-8"))
KEYS = {
    *(
        "title",
        "source",
        "version",
        "backend",
        "config",
        "service",
        "ingress",
        "endpoints",
        "packet",
        "verdict",
        "zone",
    ),
    *("annotations", "labels", "slice_labels", "nodes", "node_addresses", "endpoints_reached", "warnings"),
}
NODE_IPS = ["192.168.1.10", "10.9.0.1"]
CIDRS = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "ServiceCIDR",
    "metadata": {"name": "kubernetes"},
    "spec": {"cidrs": ["10.96.0.0/16"]},
}


def objects(case: dict[str, Any]) -> list[dict[str, Any]]:
    """One Service with its endpoints, this Node, and what the case says of them."""
    said = case.get("service", {})
    node_port = 0 if said.get("type", "ClusterIP") == "ClusterIP" else 30080
    ports = [{"name": "http", "port": 80, "protocol": "TCP", "nodePort": node_port}]
    service = given.service(ports=ports, **said)
    service["metadata"].update(annotations=case.get("annotations"), labels=case.get("labels"))
    service["status"] = {"loadBalancer": {"ingress": case.get("ingress", [])}}
    endpoint_slice = given.endpoint_slice(case.get("endpoints", [{"addresses": ["10.244.0.8"], "nodeName": "n1"}]))
    endpoint_slice["metadata"]["labels"].update(case.get("slice_labels", {}))
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": case.get("zone", "")}},
        "spec": {"podCIDR": "10.244.0.0/24"},
        "status": {
            "addresses": case.get("node_addresses", [{"type": "InternalIP", "address": NODE_IPS[0]}]),
            "nodeInfo": {"kubeletVersion": case.get("version", "")},
        },
    }
    others = [{"apiVersion": "v1", "kind": "Node", **other} for other in case.get("nodes", [])]
    return [service, endpoint_slice, node, *others, CIDRS]


def ask(case: dict[str, Any]) -> dict[str, Any]:
    source, destination, port, protocol = case["packet"]
    defaults = {name: spec.get("default") for name, spec in SPEC.items()}
    packet = {"source": source, "destination": destination, "port": port, "protocol": protocol}
    asked = {
        "backend": case.get("backend", "nftables"),
        "against": "compiled",
        "snapshot": given.snapshot(*objects(case)),
        "node_name": "n1",
        "node_ips": NODE_IPS,
        "config": {"clusterCIDR": "10.244.0.0/16", **case.get("config", {})},
        "packets": [{**packet, "inbound_interface": "", "node_local": source.startswith("127.")}],
    }
    return trace_and_audit(FakeHost(), {**defaults, **asked})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["title"])
def test_a_case_is_answered_rightly(case: dict[str, Any]) -> None:
    assert set(case) <= KEYS
    answered = ask(case)
    packet = answered["packets"][0]
    assert packet["verdict"] == case["verdict"]
    if "endpoints_reached" in case:
        assert packet["endpoints"] == case["endpoints_reached"]
    ids = {match for warning in answered["warnings"] for match in re.findall(r"id: +(\S+)", warning)}
    assert ids == set(case.get("warnings", []))


def test_each_case_says_where_it_is_from() -> None:
    listed = (FOLDER / "SOURCES.md").read_text(encoding="utf-8")
    assert [case["title"] for case in CASES if case["title"] not in listed or case["source"] not in listed] == []
