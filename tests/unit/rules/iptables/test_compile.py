# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.compile import (
    compile_rules,
    required_sysctls,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.names import (
    cluster_chain,
    endpoint_chain,
    external_chain,
    firewall_chain,
    local_chain,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import Goto, Jump, Tables
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.parse import parse
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.text import render, rule_text
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import LocalDetector, ServicePort
from tests.unit.rules.iptables.views import config, everything, here, service, there, view
from tests.unit.rules.strategies import Scenario, scenarios

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "iptables"
WEB = service("web", here("10.1.0.5"))


def lines(rules: Tables, table: str, chain: str) -> list[str]:
    found = rules.chain(table, chain)
    assert found is not None, f"there is no {chain} in {table}"
    return [rule_text(rule) for rule in found.rules]


@pytest.mark.parametrize("family", [4, 6])
def test_rules_are_the_golden_ones(family: int) -> None:
    """With UPDATE_GOLDEN=1 the files are written anew; look at the difference."""
    text = render(compile_rules(everything(family), config(family=family)))
    path = GOLDEN / f"everything-ipv{family}.rules"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("namespace", "name", "port_name", "protocol", "chain"),
    [
        ("ns4", "svc4", "p80", "TCP", "KUBE-SVC-4SW47YFZTEDKD3PK"),
        ("default", "kubernetes", "https", "TCP", "KUBE-SVC-NPX46M4PTMTKRN6Y"),
        ("kube-system", "kube-dns", "dns", "UDP", "KUBE-SVC-TCOU7JCQXEZGVUNU"),
    ],
)
def test_chains_have_the_names_that_kube_proxy_gives_them(
    namespace: str, name: str, port_name: str, protocol: str, chain: str
) -> None:
    one = service(name, namespace=namespace, port_name=port_name, protocol=protocol)
    assert cluster_chain(one) == chain
    digest = chain[len("KUBE-SVC-") :]
    assert [local_chain(one), external_chain(one), firewall_chain(one)] == [
        f"KUBE-SVL-{digest}",
        f"KUBE-EXT-{digest}",
        f"KUBE-FW-{digest}",
    ]


def test_endpoints_of_two_services_have_chains_of_their_own() -> None:
    endpoint = here("10.1.0.5")
    assert endpoint_chain(WEB, endpoint) != endpoint_chain(WEB._replace(name="api"), endpoint)
    assert endpoint_chain(WEB, endpoint) != endpoint_chain(WEB, here("10.1.0.5", 8081))


@given(scenario=scenarios(backend="iptables"))
def test_every_jump_has_its_chain_and_every_chain_is_jumped_to(scenario: Scenario) -> None:
    rules = compile_rules(scenario.view, scenario.config)
    for table in rules.tables:
        targets = {
            rule.target.chain for chain in table.chains for rule in chain.rules if isinstance(rule.target, (Jump, Goto))
        }
        own = {chain.name for chain in table.chains if not chain.policy}
        assert targets <= own
        # These two are there for whom tools look: no source may need a mark, and no address may serve node ports.
        assert own - targets <= {"KUBE-MARK-MASQ", "KUBE-NODEPORTS"}


@given(scenario=scenarios(backend="iptables"))
def test_what_is_compiled_is_what_its_text_says(scenario: Scenario) -> None:
    rules = compile_rules(scenario.view, scenario.config)
    assert parse(render(rules), family=scenario.view.family) == rules


def test_services_in_another_order_give_the_same_rules() -> None:
    one = everything(4)
    other = replace(one, services=tuple(reversed(one.services)), frontends=tuple(reversed(one.frontends)))
    assert lines(compile_rules(one, config()), "nat", "KUBE-SERVICES")[-1].endswith("-j KUBE-NODEPORTS")
    assert set(lines(compile_rules(one, config()), "nat", "KUBE-SERVICES")) == set(
        lines(compile_rules(other, config()), "nat", "KUBE-SERVICES")
    )


def test_node_ports_come_last_on_every_local_address() -> None:
    rules = compile_rules(view([WEB._replace(node_port=30080)]), config())
    assert lines(rules, "nat", "KUBE-SERVICES")[-1] == (
        '-m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" '
        "-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS"
    )


def test_loopback_is_left_out_where_it_does_not_work() -> None:
    closed = compile_rules(view([]), config(localhost_node_ports=False))
    assert "! -d 127.0.0.0/8" in lines(closed, "nat", "KUBE-SERVICES")[-1]
    six = compile_rules(view([], family=6), config(family=6))
    assert "! -d ::1/128" in lines(six, "nat", "KUBE-SERVICES")[-1]


def test_node_ports_of_named_networks_are_on_their_addresses_alone() -> None:
    rules = compile_rules(view([]), config(node_port_addresses=("10.50.0.0/16", "127.0.0.0/8")))
    comment = '-m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain"'
    assert lines(rules, "nat", "KUBE-SERVICES") == [
        f"-d {address}/32 {comment} -j KUBE-NODEPORTS" for address in ("10.50.0.10", "127.0.0.1")
    ]


def test_loopback_node_ports_need_route_localnet_and_its_guard() -> None:
    assert required_sysctls(view([]), config()) == (("net.ipv4.conf.all.route_localnet", "1"),)
    assert lines(compile_rules(view([]), config()), "filter", "KUBE-FIREWALL") == [
        '! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" '
        "-m conntrack ! --ctstate DNAT,ESTABLISHED,RELATED -j DROP"
    ]


@pytest.mark.parametrize(
    ("family", "said"), [(4, {"localhost_node_ports": False}), (4, {"node_port_addresses": ("primary",)}), (6, {})]
)
def test_without_loopback_node_ports_nothing_is_opened_and_nothing_guarded(
    family: int, said: dict[str, object]
) -> None:
    wanted = config(family=family, **said)
    assert required_sysctls(view([], family=family), wanted) == ()
    assert compile_rules(view([], family=family), wanted).chain("filter", "KUBE-FIREWALL") is None


def test_endpoints_that_hints_name_for_the_zone_of_the_node_serve_alone() -> None:
    far, near = there("10.1.1.5", zone_hints=("b",)), there("10.1.1.6", zone_hints=("a",))
    text = render(_rules(service("web", far, near)))
    assert "10.1.1.6:8080" in text
    assert "10.1.1.5:8080" not in text


def test_each_endpoint_is_as_likely_as_the_others() -> None:
    rules = compile_rules(view([service("web", *(here(f"10.1.0.{last}") for last in (5, 6, 7)))]), config())
    drawn = [line for line in lines(rules, "nat", cluster_chain(WEB)) if "KUBE-SEP" in line]
    assert [line.split("--probability ")[1].split()[0] for line in drawn[:2]] == ["0.33333333349", "0.50000000000"]
    assert "--probability" not in drawn[2]


def test_affinity_asks_each_endpoint_before_any_lot_is_drawn() -> None:
    one = service("web", here("10.1.0.5"), here("10.1.0.6"), affinity_seconds=60)
    rules = compile_rules(view([one]), config())
    kinds = [
        "recent" if "--rcheck --seconds 60 --reap" in line else "lot"
        for line in lines(rules, "nat", cluster_chain(one))
    ]
    assert kinds[1:] == ["recent", "recent", "lot", "lot"]
    assert "-m recent --set --name KUBE-SEP" in lines(rules, "nat", endpoint_chain(one, here("10.1.0.5")))[1]


def test_source_ranges_with_the_node_in_them_let_it_use_the_balancers_address() -> None:
    one = WEB._replace(load_balancer_ips=("198.51.100.10",), source_ranges=("172.16.0.0/16",))
    assert not any("-s 198.51.100.10" in line for line in lines(_rules(one), "nat", firewall_chain(one)))
    one = one._replace(source_ranges=("172.16.0.0/16", "192.168.1.0/24"))
    assert any("-s 198.51.100.10/32" in line for line in lines(_rules(one), "nat", firewall_chain(one)))


def test_a_range_of_all_addresses_asks_nothing() -> None:
    one = WEB._replace(load_balancer_ips=("198.51.100.10",), source_ranges=("0.0.0.0/0",))
    assert not any("-s 0.0.0.0/0" in line for line in lines(_rules(one), "nat", firewall_chain(one)))
    assert len(lines(_rules(one), "nat", firewall_chain(one))) == 3


@pytest.mark.parametrize(
    ("detector", "elsewhere"),
    [
        (LocalDetector("cidr", "10.1.0.0/16"), "! -s 10.1.0.0/16"),
        (LocalDetector("bridge", "cni0"), "! -i cni0"),
        (LocalDetector("prefix", "veth"), "! -i veth+"),
    ],
)
def test_who_is_not_a_pod_here_is_masqueraded_to_a_cluster_ip(detector: LocalDetector, elsewhere: str) -> None:
    first = lines(compile_rules(view([WEB]), config(detector=detector)), "nat", cluster_chain(WEB))[0]
    assert elsewhere in first
    assert first.endswith("-j KUBE-MARK-MASQ")


def test_with_masquerade_all_every_packet_to_a_cluster_ip_is_masqueraded() -> None:
    first = lines(compile_rules(view([WEB]), config(masquerade_all=True)), "nat", cluster_chain(WEB))[0]
    assert first.startswith("-d 10.96.0.1/32 ")
    assert first.endswith("-m tcp --dport 80 -j KUBE-MARK-MASQ")


def test_a_thousand_endpoints_have_comments_and_one_more_has_not() -> None:
    many = [service("web", *(there(f"10.1.{n // 250}.{n % 250 + 1}") for n in range(1000)))]
    assert "web:http -> " in render(compile_rules(view(many), config()))
    many.append(service("one", here("10.1.0.5"), cluster_ip="10.96.0.10"))
    text = render(compile_rules(view(many), config()))
    assert "web:http -> " not in text
    assert "web:http cluster IP" in text


def test_a_health_check_port_is_opened_once_for_all_ports_of_its_service() -> None:
    first = WEB._replace(node_port=30080, external_local=True, health_check_node_port=31001)
    second = first._replace(port=443, port_name="https", node_port=30081)
    rules = compile_rules(view([first, second]), config())
    assert lines(rules, "filter", "KUBE-NODEPORTS") == [
        '-p tcp -m comment --comment "default/web:http health check node port" -m tcp --dport 31001 -j ACCEPT'
    ]


def test_late_packets_are_dropped_unless_conntrack_is_liberal() -> None:
    assert "--ctstate INVALID" in lines(compile_rules(view([]), config()), "filter", "KUBE-FORWARD")[0]
    liberal = compile_rules(view([]), config(tcp_be_liberal=True))
    assert not any("INVALID" in line for line in lines(liberal, "filter", "KUBE-FORWARD"))


def test_the_mark_is_the_configured_bit() -> None:
    rules = compile_rules(view([]), config(masquerade_bit=31))
    assert lines(rules, "nat", "KUBE-MARK-MASQ") == ["-j MARK --set-xmark 0x80000000/0x80000000"]
    assert "0x4000" not in render(rules)


def _rules(one: ServicePort) -> Tables:
    return compile_rules(view([one]), config())
