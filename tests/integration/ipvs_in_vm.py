# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ipvs rules in a real kernel, as test_rules_ipvs.py runs it in a virtual machine: what is read back is what was
compiled, real packets meet the fate that the tracer tells, and nothing is left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Optional

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.apply import commit, read
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.compile import compile_rules, required_sysctls
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import IpvsRules
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.plan import (
    AnyOperation,
    find_draining,
    plan,
    select_own,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import RuleConfig
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_addresses import LINK
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import Answer, Packet, Surroundings
from tests.integration.fate import expect, is_answered_around_us, real, real_packets
from tests.integration.wire import InNamespace, Wire, namespace, wire
from tests.unit.audit.answers import trace
from tests.unit.rules.iptables.views import here, service, there, view
from tests.unit.rules.strategies import POOLS, SECOND_LINK, Scenario, scenarios

VARIANT = "legacy"  # the kernel of Debian's user-mode-linux has no tables of nft for IPv4 and IPv6
CONFIG = RuleConfig(backend="ipvs")


def random(examples: int) -> Any:
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


class Node(InNamespace):
    """A namespace that shows its own /proc/net."""

    inside = ("/proc/net/",)


def put(host: Node, wanted: Optional[IpvsRules], family: int) -> tuple[AnyOperation, ...]:
    found = read(host, family=family, variant=VARIANT)
    operations = plan(wanted, found, overdue=None)
    commit(operations, host, live=found, variant=VARIANT)
    return operations


def is_there(host: Node, wanted: IpvsRules) -> None:
    found = read(host, family=wanted.family, variant=VARIANT)
    assert plan(wanted, found) == ()
    mine = select_own(found)
    assert (mine.servers, mine.sets, mine.addresses) == (wanted.servers, wanted.sets, wanted.addresses)


def leftovers(host: Node) -> str:
    shown = [["ipvsadm", "-S", "-n"], ["ipset", "save"], ["ip", "-br", "link", "show", "type", "dummy"]]
    rules = [f"{program}-{VARIANT}-save" for program in ("iptables", "ip6tables")]
    lines = [host.run(argv, timeout=20).stdout for argv in (*shown, *([one] for one in rules))]
    return "".join(line + "\n" for line in "".join(lines).splitlines() if "KUBE" in line or line[0] not in "#*:C")


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with namespace("ipvs") as host:
        host.run(["ip", "link", "add", "eth0", "type", "bridge"], timeout=60)
        for pool in POOLS.values():
            for address in (pool.gateway, pool.primary, pool.second, pool.load_balancer_ips[0]):
                host.run(["ip", "address", "add", address, "dev", "eth0"], timeout=60)
        yield Node(host.namespace)


@pytest.fixture(scope="module")
def net() -> Iterator[Wire]:
    with wire("ipvs") as made:
        kernel = tuple(int(part) for part in os.uname().release.split(".")[:2])
        values = [f"{name}={value}" for name, value in required_sysctls(CONFIG, kernel=kernel)]
        # A rule with physdev loads br_netfilter, and then the bridge itself sends on what NAT turned to one of its ports: not
        # back to the port that it came from (a CNI's hairpinMode), and not between ports that the wire keeps apart.
        values += [f"net.bridge.bridge-nf-call-{program}=0" for program in ("iptables", "ip6tables")]
        made.node.run(["sysctl", "-qw", *values], timeout=60)
        yield made


@random(4)
@given(data=st.data())
def test_what_is_read_back_is_what_was_compiled(node: Node, data: st.DataObject) -> None:
    family = data.draw(st.sampled_from((4, 6)))
    for _time in range(2):
        scenario = data.draw(scenarios(backend="ipvs", family=family))
        wanted = compile_rules(scenario.view, scenario.config)
        put(node, wanted, family)
        is_there(node, wanted)
    put(node, None, family)
    assert leftovers(node) == ""


def test_both_families_share_the_link_and_foreign_things_stay(node: Node) -> None:
    foreign = "-A -t 10.7.0.1:80 -s wrr\n-a -t 10.7.0.1:80 -r 10.9.9.8:80 -m -w 3\n"
    node.run(["ipvsadm", "-R"], stdin=foreign.encode(), timeout=60)
    node.run(["ipset", "create", "others", "hash:net"], timeout=60)
    before = leftovers(node)
    wanted = {family: compile_rules(view([service("web", family=family)], family=family), CONFIG) for family in (4, 6)}
    for family, rules in wanted.items():
        put(node, rules, family)
    for rules in wanted.values():
        is_there(node, rules)
    for family in wanted:
        put(node, None, family)
    assert leftovers(node) == before
    node.run(["ipvsadm", "-C"], timeout=60)
    node.run(["ipset", "destroy", "others"], timeout=60)


def test_a_failure_puts_back_what_was_there(node: Node) -> None:
    first = compile_rules(view([service("web", here("10.1.0.5"), node_port=30080)]), CONFIG)
    put(node, first, 4)
    before = leftovers(node)
    second = compile_rules(view([service("api", here("10.1.0.6"), cluster_ip="10.96.0.10")]), CONFIG)
    broken = replace(second, servers=(replace(second.servers[0], scheduler="nosuch"),))
    with pytest.raises(BallastError) as caught:
        put(node, broken, 4)
    assert "changes were undone" in str(caught.value)
    assert leftovers(node) == before
    put(node, None, 4)


def test_a_real_server_with_an_open_connection_drains(net: Wire) -> None:
    host = Node(net.node.namespace)
    both = compile_rules(view([service("web", here("10.1.0.5"), there("10.1.1.5"))]), CONFIG)
    one = compile_rules(view([service("web", here("10.1.0.5"))]), CONFIG)
    put(host, both, 4)
    packet = Packet(POOLS[4].clients[0], "10.96.0.1", 80, "TCP")
    assert all(" from " in answer for answer in net.send([packet] * 6))
    found = read(host, family=4, variant=VARIANT)
    assert sum(real.connections for real in found.servers[0].real_servers) == 6
    operations = plan(one, found)
    assert [operation.kind for operation in operations] == ["drain real server"]
    commit(operations, host, live=found, variant=VARIANT)
    found = read(host, family=4, variant=VARIANT)
    assert plan(one, found) == ()
    assert find_draining(one, found) == ("10.96.0.1:80/TCP > 10.1.1.5:8080",)
    answers = net.send([packet] * 6)
    assert {answer.partition(" ")[0] for answer in answers} == {"10.1.0.5:8080"}
    put(host, None, 4)


# Packets


def is_as_told(scenario: Scenario, packet: Packet, answer: Answer, happened: str) -> bool:
    try:
        expect(scenario, packet, answer, happened)
    except AssertionError:
        return False
    return True


@random(int(os.environ.get("BALLAST_TEST_EXAMPLES", "3")))
@given(data=st.data())
def test_packets_meet_the_fate_that_the_tracer_tells(net: Wire, data: st.DataObject) -> None:
    scenario = real(data.draw(scenarios(backend="ipvs")))
    assume(scenario.view.node.primary and scenario.view.frontends)
    net.set_second_link(dict(scenario.surroundings.interfaces)[SECOND_LINK])
    packets = data.draw(st.lists(st.sampled_from(list(real_packets(scenario))), min_size=60, max_size=150, unique=True))
    wanted = compile_rules(scenario.view, scenario.config)
    bound = Surroundings((*scenario.surroundings.interfaces, (LINK, wanted.addresses)))
    scenario = replace(scenario, surroundings=bound)
    family = wanted.family
    host = Node(net.node.namespace)
    put(host, wanted, family)
    try:
        answers = [trace(wanted, packet, bound) for packet in packets]
        pairs = [pair for pair in zip(packets, answers) if not is_answered_around_us(net, *pair)]
        for (packet, answer), happened in zip(pairs, net.send([packet for packet, _answer in pairs])):
            tried = [happened]
            while not is_as_told(scenario, packet, answer, tried[-1]):
                # The machine has one slow processor, and all packets were sent at once: what was late is asked alone.
                assert len(tried) < 4, f"{packet}\ntold: {answer}\nhappened: {tried}\n{wanted}"
                tried += net.send([packet])
    finally:
        put(host, None, family)
