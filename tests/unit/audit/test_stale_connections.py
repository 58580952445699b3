# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""UDP connections at former endpoints, as files of stale_connections: Services, what conntrack lists, what is stale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._audit.facts import UdpConnection, parse_connections
from ansible_collections.ballast.kube.plugins.module_utils._audit.findings import AuditFinding
from ansible_collections.ballast.kube.plugins.module_utils._audit.stale_connections import (
    find_stale_connections,
    forget_command,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.config import parse_config
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import Surroundings
from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import parse_snapshot
from tests.unit.rules import given

CASES = sorted(Path(__file__).with_name("stale_connections").glob("*.yml"))
CONFIG = {"clusterCIDR": "10.1.0.0/16"}
NODE_IPS = ("192.0.2.10", "10.9.0.1", "2001:db8::10")
AROUND = Surroundings((("eth0", NODE_IPS),))


def objects(row: Mapping[str, Any]) -> Iterator[given.Object]:
    port = {"name": "dns", "port": row["port"], "protocol": "UDP", "targetPort": row["port"]}
    port.update({"nodePort": row["node_port"]} if "node_port" in row else {})
    spec = {"clusterIP": row["cluster_ip"], "clusterIPs": [row["cluster_ip"]], "ports": [port], **row.get("spec", {})}
    made = given.service(row["name"], **spec)
    made["status"]["loadBalancer"] = {"ingress": [{"ip": address} for address in row.get("balancers", ())]}
    yield made
    ends = [
        {"addresses": [end["address"]], "conditions": {"ready": end.get("serving", True), **end}}
        for end in row.get("endpoints", ())
    ]
    for end in ends:
        end["conditions"].pop("address")
    ports = [{"name": "dns", "port": row.get("target_port", row["port"]), "protocol": "UDP"}]
    family = "IPv6" if ":" in row["cluster_ip"] else "IPv4"
    yield given.endpoint_slice(ends, of=row["name"], family=family, ports=ports)


def _destination(found: AuditFinding) -> str:
    return found.expected.partition("connections to ")[2].split()[0]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_connections_that_lead_nowhere_are_found(path: Path) -> None:
    case = yaml.safe_load(path.read_text())
    items = [item for row in case["services"] for item in objects(row)]
    items += [given.service_cidr(*case["service_cidrs"])] if "service_cidrs" in case else []
    snapshot = parse_snapshot(given.snapshot(given.node(), *items), node_name="n1", node_ips=NODE_IPS)
    found = []
    for view in snapshot.views:
        config = parse_config(CONFIG, backend=case["mode"], family=view.family, node=view.node).rules
        flows = parse_connections(case["conntrack"])
        found += find_stale_connections(flows, view, config, AROUND)
    shown = [f"{one.id} {one.service or '-'} {_destination(one)} {one.found}" for one in found]
    assert [line.replace(",", "") for line in shown] == case["stale"], case["why"]


def test_the_cases_are_sourced() -> None:
    log = CASES[0].with_name("SOURCES.md").read_text()
    assert [path.stem for path in CASES if f"`{path.name}`" not in log] == []


def test_the_remedy_names_both_ends_and_the_family() -> None:
    four = forget_command(UdpConnection("10.96.0.10", 53, "10.1.0.5", 1053))
    assert four == ["conntrack", "-D", "-f", "ipv4", "-p", "udp"] + (
        ["--orig-dst", "10.96.0.10", "--orig-port-dst", "53", "--reply-src", "10.1.0.5", "--reply-port-src", "1053"]
    )
    assert forget_command(UdpConnection("fd00::a", 53, "fd00::5", 53))[2:4] == ["-f", "ipv6"]
