# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules of other programs beside those of Services in a kernel: packets go where the audit of that kernel says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._audit.info import SPEC, trace_and_audit
from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import Backend
from ansible_collections.ballast.kube.plugins.module_utils._rules.config import parse_config
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.backend import Iptables
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.backend import Nftables
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import Packet
from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import parse_snapshot
from tests.integration.wire import Wire, wire
from tests.unit.rules import given

BACKENDS: dict[str, Backend] = {"nftables": Nftables("ballast"), "iptables": Iptables("nft")}
NODE, CLIENT, ENDPOINT, OTHER = "192.168.1.10", "172.16.5.5", "10.1.0.5", "10.1.0.6"
PACKET = Packet(CLIENT, NODE, 30080, "TCP")
CONFIG = {"clusterCIDR": "10.1.0.0/16", "nodePortAddresses": ["primary"]}
TABLE = f"""table ip mine {{
    chain preroute {{
        type nat hook prerouting priority %s; policy accept;
        tcp dport 30080 dnat to {OTHER}:8080
    }}
}}
"""
DOCKER = f"""*nat
:DOCKER - [0:0]
%s PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A DOCKER ! -i docker0 -p tcp -m tcp --dport 30080 -j DNAT --to-destination {OTHER}:8080
COMMIT
"""
TAKEN, UNCLEAR = ["rules-audit-foreign-nat"], ["rules-audit-foreign-nat-unclear"]


@dataclass(frozen=True)
class Arrangement:
    mode: str
    rules: str  # of the other program
    first: bool  # whether they are loaded before those of Services
    findings: list[str]
    target: str  # where packets go


ARRANGEMENTS = {
    "nothing of others": Arrangement("nftables", "", True, [], ENDPOINT),
    "an earlier priority": Arrangement("nftables", TABLE % "mangle", True, TAKEN, OTHER),
    "an earlier priority beside iptables": Arrangement("iptables", TABLE % "mangle", True, TAKEN, OTHER),
    "the same priority, first": Arrangement("nftables", TABLE % "dstnat", True, UNCLEAR, ENDPOINT),
    "the same priority, last": Arrangement("nftables", TABLE % "dstnat", False, UNCLEAR, OTHER),
    "a later priority": Arrangement("nftables", TABLE % "-90", True, [], ENDPOINT),
    "a jump above": Arrangement("iptables", DOCKER % "-I", False, TAKEN, OTHER),
    "a jump below": Arrangement("iptables", DOCKER % "-A", False, [], ENDPOINT),
    "iptables beside nftables": Arrangement("nftables", DOCKER % "-A", False, UNCLEAR, OTHER),
}


@pytest.fixture(scope="module")
def net() -> Iterator[Wire]:
    with wire("foreign") as made:
        yield made


def objects() -> given.Object:
    node = given.node()
    node["status"]["addresses"] = [{"type": "InternalIP", "address": NODE}]
    ports = [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080, "nodePort": 30080}]
    service = given.service(type="NodePort", ports=ports)
    return given.snapshot(node, service, given.endpoint_slice([given.endpoint(ENDPOINT)]))


def load(net: Wire, text: str) -> None:
    tool = ["nft", "-f", "-"] if text.startswith(("table", "add")) else ["iptables-nft-restore", "--noflush"]
    if text:
        net.node.run(tool, timeout=60, stdin=text.encode())


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_packets_go_where_the_audit_says(net: Wire, name: str) -> None:
    arrangement = ARRANGEMENTS[name]
    snapshot = parse_snapshot(objects(), node_name="n1", node_ips=[NODE])
    backend, view = BACKENDS[arrangement.mode], snapshot.view(4)
    config = parse_config(CONFIG, backend=arrangement.mode, family=4, node=view.node).rules

    def load_own() -> None:
        live = backend.read(net.node, 4)
        backend.commit(backend.plan(backend.compile(view, config), live), net.node, live)

    params: dict[str, Any] = {option: row.get("default") for option, row in SPEC.items()}
    params.update(
        backend=arrangement.mode, snapshot=objects(), node_name="n1", node_ips=[NODE], config=CONFIG, audit_rules=True
    )
    try:
        if not arrangement.first:
            load_own()
        load(net, arrangement.rules)
        if arrangement.first:
            load_own()
        findings = [row for row in trace_and_audit(net.node, params)["findings"] if "nat" in row["id"]]
        happened = net.send([PACKET, PACKET])
    finally:
        net.node.run(["nft", "flush", "ruleset"], timeout=60)
    assert [row["id"] for row in findings] == arrangement.findings
    assert {answer.partition(" from ")[0] for answer in happened} == {f"{arrangement.target}:8080"}
    for row in findings:
        assert f"dnat to {OTHER}:8080" in row["found"]
