# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses of Services that machines have, before ipvs binds them: what the preflight finds, what service_rules refuses.

Each case is a file in cases/ipvs_addresses:

    nodes      Nodes with their addresses, InternalIP first; the node is n1, its link eth0 has the first one
    services   the specs of Services in namespace default; `ingress` goes into status, `endpoints` into an EndpointSlice
    labels     of every Service
    links, routes ("LINK NETWORK GATEWAY"), files, api_server (of the kubeconfig), bound (on kube-ipvs0)
    preflight  the lines of findings of a change to ipvs, by id
    refused, warned  of service_rules: "ADDRESS ID USER"
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.facts import read_facts
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.rules import preflight
from ansible_collections.ballast.kube.plugins.module_utils._rules.engine import ENGINE, SPEC, ServiceRulesRequest
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.surrounding_machines import (
    read_routes,
    read_users,
)
from tests.unit.fakes import FakeHost
from tests.unit.kube_proxy.preflight_node import asked, node
from tests.unit.rules import given
from tests.unit.rules.ipvs.kernel import LINK, Kernel

CASES = sorted(Path(__file__).with_name("cases").joinpath("ipvs_addresses").glob("*.yml"))
OURS = ("preflight-ipvs-node-address", "preflight-ipvs-own-address", "preflight-ipvs-cluster-ip-network")


def load(path: Path) -> dict[str, Any]:
    case: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    known = {"why", "source", "nodes", "services", "labels", "links", "routes", "files", "api_server", "bound"}
    assert case.keys() <= known | {"preflight", "refused", "warned"}
    assert case["why"]
    assert case["source"]
    return case


def objects(case: Mapping[str, Any]) -> tuple[given.Object, ...]:
    found: list[given.Object] = []
    for name, addresses in case["nodes"].items():
        item = given.node(name)
        item["status"]["addresses"] = [
            {"type": "ExternalIP" if number else "InternalIP", "address": address}
            for number, address in enumerate(addresses)
        ]
        found.append(item)
    for name, written in case["services"].items():
        fields = dict(written)
        ingress, endpoints = fields.pop("ingress", []), fields.pop("endpoints", [])
        if "clusterIP" in fields:
            family = "IPv6" if ":" in fields["clusterIP"] else "IPv4"
            fields.update(clusterIPs=[fields["clusterIP"]], ipFamilies=[family])
        item = given.service(name, **fields)
        item["metadata"]["labels"] = case.get("labels", {})
        item["status"] = {"loadBalancer": {"ingress": ingress}}
        found.append(item)
        if endpoints:
            found.append(given.endpoint_slice([given.endpoint(one, "") for one in endpoints], of=name))
    return tuple(found)


def links(case: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {"lo": ("127.0.0.1", "::1"), **(case.get("links") or {"eth0": tuple(case["nodes"]["n1"][:1])})}


def bring_files(case: Mapping[str, Any], host: FakeHost) -> FakeHost:
    for path, text in case.get("files", {}).items():
        host.given(path, text)
    lines = ["Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT"]
    for route in case.get("routes", []):
        link, network, gateway = route.split()
        parsed = ipaddress.IPv4Network(network)
        numbers = [parsed.network_address, ipaddress.IPv4Address(gateway), parsed.netmask]
        destination, way, mask = (f"{int.from_bytes(one.packed, sys.byteorder):08X}" for one in numbers)
        flags = "0001" if gateway == "0.0.0.0" else "0003"
        lines.append(f"{link}\t{destination}\t{way}\t{flags}\t0\t0\t0\t{mask}\t0\t0\t0")
    host.given("/proc/net/route", "\n".join(lines) + "\n")
    return host


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_preflight(path: Path) -> None:
    case = load(path)
    change = replace(asked("iptables", "ipvs", objects=objects(case)), api_server=case.get("api_server", ""))
    facts = read_facts(bring_files(case, node(links=links(case))), change)
    found = {one.id: list(one.found) for one in preflight(facts) if one.id in OURS}
    assert found == case.get("preflight", {})
    for from_mode, to_mode in (("ipvs", "ipvs"), ("ipvs", "nftables"), ("iptables", "nftables")):
        other = replace(asked(from_mode, to_mode, objects=objects(case)), api_server=case.get("api_server", ""))
        seen = {one.id for one in preflight(read_facts(bring_files(case, node(links=links(case))), other))}
        assert not seen.intersection(OURS), "who has had it so can change other things"


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_service_rules(path: Path) -> None:
    case = load(path)
    own = {name: list(addresses) for name, addresses in links(case).items()}
    kernel = Kernel(links={**own, **({LINK: list(case["bound"])} if "bound" in case else {})})
    host = bring_files(case, kernel.host())
    host.given("/proc/net/if_inet6")
    for setting in ("conntrack", "expire_nodest_conn", "expire_quiescent_template"):
        host.given_sysctl(f"net.ipv4.vs.{setting}", 0)
    host.given_sysctl("net.ipv4.ip_forward", 0)
    params = {name: option.get("default") for name, option in SPEC.items()}
    params |= {"backend": "ipvs", "node_name": "n1", "snapshot": given.snapshot(*objects(case))}
    desired = ServiceRulesRequest.from_params(params, host)
    context = Context(desired, host, Progress(NullSink(), feature="test"))
    refused: list[BallastError] = []
    try:
        ENGINE.apply(ENGINE.plan(desired, ENGINE.observe(context)), context)
    except Problems as problems:
        refused = list(problems.problems)
        assert host.effects == []
    except BallastError as error:
        refused = [error]
        assert host.effects == []
    assert [_line(error.id, error.text) for error in refused] == case.get("refused", [])
    for error in refused:
        assert "ipMode: Proxy" in error.remedy
    if not refused:
        warned = [_line(one.id, one.text) for one in ENGINE.verify(context) if one.id.startswith("rules-ipvs")]
        assert warned == case.get("warned", [])


def _line(id: str, text: str) -> str:
    """As cases have it."""
    address, _comma, rest = text.partition(",")
    user = rest.partition(" is an address of ")[2].partition(":")[0].removeprefix("this node, ")
    return f"{address} {id} {user}"


def test_the_sources_are_logged() -> None:
    log = CASES[0].with_name("SOURCES.md").read_text(encoding="utf-8")
    assert [path.stem for path in CASES if f"`{path.stem}`" not in log] == []


ROUTES6 = """\
20010db8000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001       va
00000000000000000000000000000000 00 00000000000000000000000000000000 00 20010db8000000000000000000000001 00000400 00000001 00000000 00000003       va
20010db8000000000000000000000010 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 00000002 00000000 80200001       va
20010db8000000000000000000000077 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000400 00000001 00000000 00000001 kube-ipvs0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
nonsense
"""


def test_routes_of_ipv6_are_read_as_the_kernel_prints_them() -> None:
    """Seen in a network namespace of Linux 6.18."""
    host = FakeHost(files={"/proc/net/ipv6_route": ROUTES6})
    routes = read_routes(host)
    assert [(one.link, str(one.network), one.gateway) for one in routes] == [
        ("va", "2001:db8::/64", ""),
        ("va", "::/0", "2001:db8::1"),
    ]
    assert [one.address for one in read_users(host, routes)] == ["2001:db8::1"]


@pytest.mark.parametrize(
    "url", ["", "unix:/run/x.sock", "https://[::1]:6443", "https://[bad", "https://api:99999", "x" * 99]
)
def test_a_server_that_says_nothing_of_an_address(url: str) -> None:
    assert read_users(FakeHost(), (), api_server=url) == ()


def test_a_file_that_cannot_be_read_is_no_hint() -> None:
    host = FakeHost(files={"/etc/resolv.conf": "nameserver 192.0.2.53\n"})
    host.given_directory("/etc/hosts")
    host.given_directory("/proc/net/route")
    assert read_routes(host) == ()
    assert [user.address for user in read_users(host, (), api_server="https://api:6443")] == ["192.0.2.53"]
