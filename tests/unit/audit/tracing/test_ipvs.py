# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import (
    Chain,
    MatchSet,
    Verdict,
    rule,
    tables,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.compile import compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import IpSet, IpvsRules, VirtualServer
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import LocalDetector
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import (
    DNAT,
    DROP,
    PASS,
    REJECT,
    UNKNOWN,
    Answer,
    Packet,
)
from tests.unit.audit.answers import to, trace
from tests.unit.rules.iptables.views import SURROUNDINGS, config, everything, here, service, there, view
from tests.unit.rules.strategies import POOLS

POOL = POOLS[4]
CLIENT, REFUSED_CLIENT = POOL.clients
BALANCER = POOL.load_balancer_ips[0]


def rules(*services: Any, **said: Any) -> IpvsRules:
    return compile_rules(view(services), config(backend="ipvs", **said))


def meet(found: IpvsRules, source: str, destination: str, port: int = 80, protocol: str = "TCP", **said: Any) -> Answer:
    return trace(found, Packet(source, destination, port, protocol, **said), SURROUNDINGS)


WEB = rules(service("web", here("10.1.0.5"), there("10.1.1.5"), node_port=30080, health_check_node_port=31001))
BOTH = ("10.1.0.5:8080", "10.1.1.5:8080")


def test_every_real_server_may_be_drawn() -> None:
    assert meet(WEB, "10.1.0.6", "10.96.0.1") == to(*BOTH)
    assert meet(WEB, CLIENT, "10.96.0.1") == to(*BOTH, masquerade=True)
    assert meet(WEB, POOL.primary, "10.96.0.1", node_local=True) == to(*BOTH, masquerade=True)


def test_why_names_what_decided() -> None:
    why = "\n".join(meet(WEB, CLIENT, "10.96.0.1").why)
    assert "KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ" in why
    assert "ip_vs: 10.96.0.1:80/TCP scheduler rr" in why


def test_a_local_endpoint_that_may_draw_itself_is_masqueraded_then() -> None:
    assert meet(WEB, "10.1.0.5", "10.96.0.1").hairpin == ("10.1.0.5:8080",)
    assert meet(WEB, "10.1.1.5", "10.96.0.1").hairpin == (), "the set has local endpoints only"


def test_a_node_port_is_served_on_addresses_of_the_node_alone() -> None:
    assert meet(WEB, CLIENT, POOL.primary, 30080) == to(*BOTH, masquerade=True)
    assert meet(WEB, CLIENT, POOL.second, 30080).verdict == DNAT
    assert meet(WEB, CLIENT, "10.96.0.1", 30080).verdict == REJECT
    assert meet(WEB, POOL.loopback, POOL.loopback, 30080, node_local=True).verdict == PASS


def test_a_port_that_no_service_has_is_rejected_on_a_service_address() -> None:
    assert meet(WEB, CLIENT, "10.96.0.1", 7).verdict == REJECT
    assert meet(WEB, POOL.primary, "10.96.0.1", 7, node_local=True).verdict == REJECT, "it comes back to INPUT"
    assert meet(WEB, CLIENT, POOL.primary, 7).verdict == PASS
    assert meet(WEB, CLIENT, POOL.elsewhere, 80).verdict == PASS


def test_a_set_of_ports_knows_tcp_and_udp_alone() -> None:
    assert [meet(WEB, CLIENT, "10.96.0.1", 31001, one).verdict for one in ("TCP", "UDP", "SCTP")] == [
        PASS,
        PASS,
        REJECT,
    ]


def test_a_virtual_server_without_real_servers_rejects() -> None:
    assert meet(rules(service("web")), CLIENT, "10.96.0.1") == Answer(REJECT)


def test_a_draining_real_server_is_not_drawn() -> None:
    server = WEB.servers[1]
    drained = tuple(replace(one, weight=0) if one.address == "10.1.0.5" else one for one in server.real_servers)
    others = tuple(one for one in WEB.servers if one is not server)
    found = replace(WEB, servers=(*others, replace(server, real_servers=drained)))
    assert meet(found, "10.1.0.6", server.address, server.port).endpoints == ("10.1.1.5:8080",)


def test_an_endpoint_on_the_node_itself_sees_the_client() -> None:
    found = rules(service("web", here(POOL.primary)), masquerade_all=True)
    assert meet(found, CLIENT, "10.96.0.1") == to(f"{POOL.primary}:8080")


def test_affinity_is_the_persistence() -> None:
    assert (
        meet(rules(service("web", here("10.1.0.5"), affinity_seconds=300)), CLIENT, "10.96.0.1").affinity_seconds == 300
    )


@pytest.mark.parametrize(
    ("ranges", "fates"),
    [
        (("172.16.0.0/16",), [DNAT, DROP, DROP, DNAT]),
        (("172.16.0.0/16", "192.168.1.0/24"), [DNAT, DROP, DNAT, DNAT]),
        (("0.0.0.0/0",), [DNAT, DNAT, DNAT, DNAT]),
        (("172.17.0.5/32",), [DROP, DNAT, DROP, DNAT]),
    ],
)
def test_source_ranges(ranges: tuple[str, ...], fates: list[str]) -> None:
    """Of clients before ip_vs; of the node's own packets those alone that come from the load balancer's address."""
    found = rules(service("web", here("10.1.0.5"), load_balancer_ips=(BALANCER,), source_ranges=ranges))
    assert [
        meet(found, CLIENT, BALANCER).verdict,
        meet(found, REFUSED_CLIENT, BALANCER).verdict,
        meet(found, BALANCER, BALANCER, node_local=True).verdict,
        meet(found, POOL.primary, BALANCER, node_local=True).verdict,
    ] == fates


def test_what_is_closed_to_the_node_is_one_port_and_protocol() -> None:
    closed = service("web", here("10.1.0.5"), load_balancer_ips=(BALANCER,), source_ranges=("172.16.0.0/16",))
    other = service("api", here("10.1.0.6"), load_balancer_ips=(BALANCER,), port=443, cluster_ip="10.96.0.10")
    found = rules(closed, other)
    assert meet(found, BALANCER, BALANCER, 80, node_local=True).verdict == DROP
    assert meet(found, BALANCER, BALANCER, 443, node_local=True).verdict == DNAT


def test_without_a_detector_the_node_is_masqueraded_where_it_speaks_as_the_service() -> None:
    found = compile_rules(view([service("web", here("10.1.0.5"))]), config(backend="ipvs", detector=LocalDetector()))
    assert meet(found, "10.96.0.1", "10.96.0.1", node_local=True).masquerade
    assert not meet(found, CLIENT, "10.96.0.1").masquerade


def test_ipv6() -> None:
    found = compile_rules(everything(6), config(family=6, backend="ipvs"))
    pool = POOLS[6]
    packet = Packet(pool.clients[0], pool.load_balancer_ips[0], 80, "TCP")
    assert trace(found, packet, SURROUNDINGS) == to(f"[{pool.local_pods[1]}]:8080")
    assert trace(found, replace(packet, source=pool.elsewhere), SURROUNDINGS).verdict == DROP
    assert trace(found, replace(packet, port=7), SURROUNDINGS).verdict == REJECT


def test_rules_of_others_on_the_way_are_obeyed() -> None:
    """INPUT is on the way of a packet that ip_vs sends on, FORWARD is not, OUTPUT is."""
    for chain, fate in (("INPUT", DROP), ("FORWARD", DNAT), ("OUTPUT", DROP)):
        filters = {**WEB.tables.table("filter").by_name, chain: Chain(chain, (), policy="DROP")}
        found = tables(4, {"nat": dict(WEB.tables.table("nat").by_name), "filter": filters})
        assert meet(replace(WEB, tables=found), CLIENT, "10.96.0.1").verdict == fate, chain


def test_a_packet_for_an_endpoint_on_the_node_is_not_sent_again() -> None:
    found = rules(service("web", here(POOL.primary)))
    filters = {**found.tables.table("filter").by_name, "OUTPUT": Chain("OUTPUT", (), policy="DROP")}
    closed = tables(4, {"nat": dict(found.tables.table("nat").by_name), "filter": filters})
    assert meet(replace(found, tables=closed), CLIENT, "10.96.0.1").verdict == DNAT
    assert meet(replace(found, tables=closed), POOL.primary, "10.96.0.1", node_local=True).verdict == DROP


def check_problem(answer: Answer, named: str, error_id: str = "rules-ipvs-unknown") -> None:
    assert answer.verdict == UNKNOWN
    assert answer.problem is not None
    assert answer.problem.id == error_id
    assert named in answer.problem.text


def known(server: VirtualServer) -> IpvsRules:
    return replace(WEB, servers=(server,))


SERVER = WEB.server_by_key[0, "10.96.0.1", "TCP", 80]


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (known(replace(SERVER, scheduler="ovf")), "scheduler ovf"),
        (
            known(replace(SERVER, real_servers=tuple(replace(one, method="route") for one in SERVER.real_servers))),
            "10.96.0.1:80/TCP by the method route",
        ),
        (known(replace(SERVER, port=0)), "all ports of 10.96.0.1"),
        (known(VirtualServer("", 0, "", mark=0x4000)), "mark 16384"),
    ],
)
def test_what_is_not_known_is_named(found: IpvsRules, named: str) -> None:
    check_problem(meet(found, CLIENT, "10.96.0.1"), named)


@pytest.mark.parametrize(
    ("match", "named"),
    [
        (MatchSet("machines", ("src",)), "machines of type hash:mac"),
        (MatchSet("KUBE-CLUSTER-IP", ("dst",)), "matched by dst"),
        (MatchSet("KUBE-IPVS-IPS", ("dst",)), "KUBE-IPVS-IPS of type hash:net"),
        (MatchSet("gone", ("dst",)), "gone, which was not read"),
        (MatchSet("ports", ("dst", "src")), "ports, matched by the source's port"),
    ],
)
def test_a_set_that_is_not_known_is_named_when_a_packet_comes_to_it(match: MatchSet, named: str) -> None:
    foreign = rule(match, target=Verdict("DROP"))
    filters = {**WEB.tables.table("filter").by_name, "INPUT": Chain("INPUT", (foreign,), policy="ACCEPT")}
    found = replace(
        WEB,
        tables=tables(4, {"filter": filters}),
        sets=(
            *(ipset for ipset in WEB.sets if ipset.name != "KUBE-IPVS-IPS"),
            IpSet("machines", "hash:mac"),
            IpSet("KUBE-IPVS-IPS", "hash:net", 4),
            IpSet("ports", "hash:ip,port", 4, frozenset({f"{POOL.primary},tcp:81"})),
        ),
    )
    check_problem(meet(found, CLIENT, POOL.primary), named, "rules-iptables-ipset")
    assert meet(found, CLIENT, POOL.elsewhere).verdict == PASS, "no packet comes to it there"
