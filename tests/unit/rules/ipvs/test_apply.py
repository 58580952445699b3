# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs import plan as planning
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.apply import commit, read
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.compile import compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import IpvsRules
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.plan import (
    AnyOperation,
    find_draining,
    plan,
    select_own,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import FamilyView, RuleConfig
from tests.unit.fakes import FakeHost
from tests.unit.rules.iptables import views
from tests.unit.rules.ipvs.kernel import LINK, Kernel, Server
from tests.unit.rules.strategies import POOLS, Scenario, scenarios

CONFIG = RuleConfig(backend="ipvs")
IPTABLES = r" (chain|rule)$"  # kinds of its operations
NODE_ADDRESSES = [address for pool in POOLS.values() for address in (pool.gateway, pool.primary, pool.second)]


def view(*, family: int = 4, endpoints: Optional[Sequence[str]] = None, **fields: Any) -> FamilyView:
    """One Service, TCP port 80; `endpoints` are addresses of POOLS."""
    pool = POOLS[family]
    chosen = (pool.local_pods[0], pool.other_pods[0]) if endpoints is None else endpoints
    found = [views.here(one) if one in pool.local_pods else views.there(one) for one in chosen]
    return views.view([views.service("web", *found, family=family, **fields)], family=family)


def kernel_with_foreign_things() -> Kernel:
    """A node with another program's virtual servers, sets and rules."""
    return Kernel(
        links={"lo": ["127.0.0.1", "::1"], "eth0": NODE_ADDRESSES},
        servers={"-t 10.7.0.1:80": Server(["-s", "wrr"], {"10.9.9.8:80": ["-g", "-w", "3"]})},
        sets={"cali40all": ("hash:net family inet hashsize 1024 maxelem 65536", {"10.0.0.0/8"})},
        rules={
            4: {
                "filter": {
                    "INPUT": ("ACCEPT", ["-m set --match-set cali40all src -j cali-x"]),
                    "FORWARD": ("DROP", []),
                    "OUTPUT": ("ACCEPT", []),
                    "cali-x": ("-", ["-j DROP"]),
                }
            },
            6: {},
        },
    )


def apply(
    desired: Optional[IpvsRules], host: FakeHost, *, family: int = 4, exclude_cidrs: tuple[str, ...] = ()
) -> tuple[AnyOperation, ...]:
    found = read(host, family=family, variant="nft")
    operations = plan(desired, found, exclude_cidrs=exclude_cidrs)
    commit(operations, host, live=found, variant="nft")
    return operations


def kinds(operations: tuple[AnyOperation, ...]) -> list[str]:
    return [one.kind for one in operations]


def test_what_is_read_back_is_what_was_compiled_and_a_second_run_does_nothing() -> None:
    kernel = kernel_with_foreign_things()
    host = kernel.host()
    desired = compile_rules(view(), CONFIG)
    assert kinds(apply(desired, host))[0] == "add set"
    found = select_own(read(host, family=4, variant="nft"))
    assert (found.servers, found.sets, found.addresses) == (desired.servers, desired.sets, desired.addresses)
    assert host.effects
    host.effects.clear()
    host.given("/proc/net/ip_vs", kernel.list_connections())
    assert apply(desired, host) == ()
    assert host.effects == []


def test_absent_leaves_what_others_have_and_nothing_else() -> None:
    kernel = kernel_with_foreign_things()
    before = kernel.state()
    host = kernel.host()
    for family in (4, 6):
        apply(compile_rules(view(family=family), CONFIG), host, family=family)
    assert kernel.state() != before
    for family in (4, 6):
        apply(None, host, family=family)
        assert (LINK in kernel.links) is (family == 4), "the link stays while the other family has addresses on it"
        host.given("/proc/net/ip_vs", kernel.list_connections())
    assert kernel.state() == before
    assert apply(None, host) == ()


def test_order_of_a_change() -> None:
    kernel = kernel_with_foreign_things()
    host = kernel.host()
    apply(compile_rules(view(), CONFIG), host)
    operations = apply(compile_rules(view(cluster_ip="10.96.0.2"), CONFIG), host)
    assert kinds(operations) == [
        "add set element",  # KUBE-CLUSTER-IP
        "add set element",  # KUBE-IPVS-IPS
        "add virtual server",
        "add real server",
        "add real server",
        "bind address",
        "unbind address",
        "remove virtual server",
        "remove set element",
        "remove set element",
    ]
    operations = apply(None, host)
    order = list(dict.fromkeys(kinds(operations)))
    assert order[:4] == ["unbind address", "remove link", "remove virtual server", "delete rule"]
    assert order[-1] == "remove set"


def test_rules_change_after_virtual_servers_and_before_addresses() -> None:
    """Packets arrive with the address. Without the rules they are neither marked for masquerading nor filtered."""
    host = kernel_with_foreign_things().host()
    first = apply(compile_rules(view(), CONFIG), host)
    marking = replace(CONFIG, masquerade_all=True)
    changed = apply(compile_rules(view(cluster_ip="10.96.0.2"), marking), host)
    removed = apply(None, host)
    for operations, parts in (
        (first, ("add set", "add virtual server", IPTABLES, "bind address")),
        (
            changed,
            ("add set element", "add virtual server", IPTABLES, "address", "remove virtual server", "remove set"),
        ),
        (removed, ("unbind address", "remove virtual server", IPTABLES, "remove set")),
    ):
        places = [[at for at, kind in enumerate(kinds(operations)) if re.search(part, kind)] for part in parts]
        assert all(places), parts
        assert all(max(here) < min(after) for here, after in zip(places, places[1:])), kinds(operations)


def test_what_exempts_comes_before_what_catches_and_goes_after_it() -> None:
    guarded = view(load_balancer_ips=("198.51.100.10",), source_ranges=("172.16.0.0/16", "192.168.1.0/24"))
    host = kernel_with_foreign_things().host()
    apply(compile_rules(view(), CONFIG), host)
    made = apply(compile_rules(guarded, CONFIG), host)
    order = ["SOURCE-CIDR", "SOURCE-CIDR", "SOURCE-IP", "FW", "LOAD-BALANCER", "IPVS-IPS"]
    assert [one.target.split()[0].rpartition("KUBE-LOAD-BALANCER-")[2] for one in made[:4]] == order[:4]
    assert [one.target.split()[0].partition("KUBE-")[2] for one in made[4:6]] == order[4:]
    gone = apply(compile_rules(view(), CONFIG), host)
    assert [one.target for one in gone[-6:]] == [one.target for one in (*made[5:1:-1], *made[:2])]


def test_one_endpoint_more_is_one_operation_for_each_virtual_server() -> None:
    host = kernel_with_foreign_things().host()
    apply(compile_rules(view(), CONFIG), host)
    operations = apply(compile_rules(view(endpoints=("10.1.0.5", "10.1.1.5", "10.1.1.6")), CONFIG), host)
    assert [(one.kind, one.target) for one in operations] == [("add real server", "10.96.0.1:80/TCP > 10.1.1.6:8080")]


def test_a_changed_scheduler_and_affinity_keep_the_virtual_server() -> None:
    kernel = kernel_with_foreign_things()
    host = kernel.host()
    apply(compile_rules(view(), CONFIG), host)
    operations = apply(compile_rules(view(affinity_seconds=300), replace(CONFIG, scheduler="mh")), host)
    assert kinds(operations) == ["change virtual server"]
    assert kernel.servers["-t 10.96.0.1:80"].options == ["-s", "mh", "-p", "300", "-b", "mh-port"]


class Draining:
    """An endpoint leaves that has open connections."""

    def __init__(self, protocol: str = "TCP") -> None:
        self.kernel = kernel_with_foreign_things()
        self.host = self.kernel.host()
        apply(compile_rules(view(protocol=protocol), CONFIG), self.host)
        option = {"TCP": "-t", "UDP": "-u"}[protocol]
        self.real = (f"{option} 10.96.0.1:80", "10.1.1.5:8080")
        self.connect(3)
        self.desired = compile_rules(view(endpoints=("10.1.0.5",), protocol=protocol), CONFIG)

    def connect(self, count: int) -> None:
        self.kernel.connections[self.real] = count
        self.host.given("/proc/net/ip_vs", self.kernel.list_connections())

    def run(self, overdue: tuple[str, ...] = ()) -> list[str]:
        found = read(self.host, family=4, variant="nft")
        operations = plan(self.desired, found, overdue=overdue)
        commit(operations, self.host, live=found, variant="nft")
        return kinds(operations)


TARGET = "10.96.0.1:80/TCP > 10.1.1.5:8080"


def test_a_real_server_with_connections_gets_weight_0_and_goes_when_it_has_none() -> None:
    case = Draining()
    assert case.run() == ["drain real server"]
    assert case.kernel.servers["-t 10.96.0.1:80"].real["10.1.1.5:8080"] == ["-m", "-w", "0"]
    assert case.run() == [], "it waits"
    assert find_draining(case.desired, read(case.host, family=4, variant="nft")) == (TARGET,)
    case.connect(0)
    assert case.run() == ["remove real server"]
    assert find_draining(case.desired, read(case.host, family=4, variant="nft")) == ()


def test_a_real_server_that_waited_long_enough_goes() -> None:
    case = Draining()
    case.run()
    since = planning.drain_times(find_draining(case.desired, read(case.host, family=4, variant="nft")), {}, now=1000)
    assert since == {TARGET: 1000}
    since = planning.drain_times((TARGET, "another"), since, now=1500)
    assert since == {TARGET: 1000, "another": 1500}
    assert planning.find_overdue(since, now=1899) == frozenset()
    assert planning.find_overdue(since, now=1900) == {TARGET}
    assert case.run(overdue=(TARGET,)) == ["remove real server"]


def test_a_real_server_that_comes_back_gets_its_weight_back() -> None:
    case = Draining()
    case.run()
    case.desired = compile_rules(view(), CONFIG)
    assert case.run() == ["change real server"]
    assert case.kernel.servers["-t 10.96.0.1:80"].real["10.1.1.5:8080"] == ["-m", "-w", "1"]


def test_udp_does_not_wait() -> None:
    assert Draining("UDP").run() == ["remove real server"]


def test_a_virtual_server_of_another_program_on_our_addresses_is_kept_by_exclude_cidrs() -> None:
    kernel = kernel_with_foreign_things()
    host = kernel.host()
    apply(compile_rules(view(), CONFIG), host)
    kernel.servers["-t 10.96.0.1:9999"] = Server(["-s", "rr"])
    assert apply(compile_rules(view(), CONFIG), host, exclude_cidrs=("10.96.0.0/24",)) == ()
    assert kinds(apply(compile_rules(view(), CONFIG), host)) == ["remove virtual server"]


def test_a_virtual_server_that_exclude_cidrs_keeps_for_another_is_not_taken() -> None:
    kernel = kernel_with_foreign_things()
    kernel.servers["-t 10.96.0.1:80"] = Server(["-s", "wlc"])
    with pytest.raises(BallastError) as caught:
        apply(compile_rules(view(), CONFIG), kernel.host(), exclude_cidrs=("10.96.0.0/24",))
    assert caught.value.id == "rules-ipvs-excluded"
    assert "10.96.0.1:80/TCP" in str(caught.value)


def test_a_node_port_that_is_gone_is_told_by_its_set_from_a_foreign_virtual_server() -> None:
    kernel = kernel_with_foreign_things()
    host = kernel.host()
    apply(compile_rules(view(node_port=30080), CONFIG), host)
    assert "-t 192.168.1.10:30080" in kernel.servers
    kernel.servers["-t 192.168.1.10:8443"] = Server(["-s", "rr"])  # on the node's address, but no node port
    kernel.servers["-t 10.7.7.7:30080"] = Server(["-s", "rr"])  # that port, but not the node's address
    apply(compile_rules(view(), CONFIG), host)
    assert sorted(kernel.servers) == ["-t 10.7.0.1:80", "-t 10.7.7.7:30080", "-t 10.96.0.1:80", "-t 192.168.1.10:8443"]


def test_a_set_of_the_same_name_and_another_type() -> None:
    kernel = kernel_with_foreign_things()
    kernel.sets["KUBE-CLUSTER-IP"] = ("hash:ip family inet hashsize 1024 maxelem 65536", set())
    with pytest.raises(BallastError) as caught:
        apply(compile_rules(view(), CONFIG), kernel.host())
    assert caught.value.id == "rules-ipvs-set-type"


def test_a_set_without_room() -> None:
    kernel = kernel_with_foreign_things()
    kernel.sets["KUBE-LOOP-BACK"] = ("hash:ip,port,ip family inet hashsize 1024 maxelem 1", set())
    apply(compile_rules(view(), CONFIG), kernel.host())  # its one element fits
    kernel = kernel_with_foreign_things()
    kernel.sets["KUBE-LOOP-BACK"] = ("hash:ip,port,ip family inet hashsize 1024 maxelem 0", set())
    with pytest.raises(BallastError) as caught:
        apply(compile_rules(view(), CONFIG), kernel.host())
    assert caught.value.id == "rules-ipvs-set-small"


LINES = [
    "create KUBE-IPVS-IPS",
    "add KUBE-CLUSTER-IP",
    "-A -t",
    "-a -t",
    "-A KUBE-SERVICES",
    "COMMIT",
    "-A KUBE-FORWARD",
    "link add",
    "address add",
]


@pytest.mark.parametrize("line", LINES)
def test_a_failure_puts_back_what_was_there(line: str) -> None:
    kernel = kernel_with_foreign_things()
    before = kernel.state()
    kernel.fail_on = line
    with pytest.raises(BallastError) as caught:
        apply(compile_rules(view(), CONFIG), kernel.host())
    assert caught.value.id == "rules-ipvs-commit"
    assert "as the test asks" in str(caught.value)
    assert "were undone" in str(caught.value) or "nothing had been changed" in str(caught.value)
    assert kernel.state() == before


@pytest.mark.parametrize("line", ["add KUBE", "-A -t", "address add", "address delete", "-D -t", "-d -t", "del KUBE"])
def test_a_failure_in_the_middle_of_a_change_puts_back_the_rules_before_it(line: str) -> None:
    kernel = kernel_with_foreign_things()
    host = kernel.host()
    apply(compile_rules(view(node_port=30080), CONFIG), host)
    before = kernel.state()
    kernel.fail_on = line
    desired = compile_rules(view(cluster_ip="10.96.0.2", node_port=30081), CONFIG)
    if line == "-d -t":
        desired = compile_rules(view(node_port=30080, endpoints=("10.1.0.6",)), CONFIG)
    with pytest.raises(BallastError):
        apply(desired, host)
    assert kernel.state() == before


def test_a_real_server_that_is_taken_back_does_not_drain() -> None:
    """A connection may have come to it meanwhile; what was there before had it not."""
    kernel = kernel_with_foreign_things()
    host = kernel.host()
    apply(compile_rules(view(endpoints=("10.1.0.5",)), CONFIG), host)
    before = kernel.state()
    found = read(host, family=4, variant="nft")
    operations = plan(compile_rules(view(external_ips=("203.0.113.10",)), CONFIG), found)
    kernel.fail_on = "address add"
    kernel.connections["-t 10.96.0.1:80", "10.1.1.5:8080"] = 2
    host.given("/proc/net/ip_vs", kernel.list_connections())
    with pytest.raises(BallastError):
        commit(operations, host, live=found, variant="nft")
    assert kernel.state() == before


def test_without_ip_vs_in_the_kernel_nothing_is_loaded_by_looking() -> None:
    host = kernel_with_foreign_things().host()
    host.remove("/proc/net/ip_vs")
    host.commands.clear()
    assert read(host, family=4, variant="nft").servers == ()
    assert not [one for one in host.commands if one[0] == "ipvsadm"]


@settings(max_examples=20, deadline=None)
@given(st.sampled_from((4, 6)).flatmap(lambda family: st.tuples(*[scenarios(backend="ipvs", family=family)] * 2)))
def test_from_any_cluster_to_any_other_and_to_nothing(pair: tuple[Scenario, Scenario]) -> None:
    family = pair[0].view.family
    kernel = Kernel(links={name: list(addresses) for name, addresses in pair[0].surroundings.interfaces})
    host = kernel.host()
    before = kernel.state()
    for scenario in pair:
        # The second cluster is seen by the same node: its links stay as they are.
        moved = replace(scenario.view, node=pair[0].view.node)
        desired = compile_rules(moved, scenario.config)
        apply(desired, host, family=family)
        found = select_own(read(host, family=family, variant="nft"))
        assert (found.servers, found.sets, found.addresses) == (desired.servers, desired.sets, desired.addresses)
        assert plan(desired, read(host, family=family, variant="nft")) == ()
    apply(None, host, family=family)
    assert kernel.state() == before
