# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Firewalls of many kinds, and real packets of a lab, in a network namespace that stands for the host."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._lab.packets import Paths, find_dropped
from tests.integration.wire import namespace

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make network namespaces")

PATHS = Paths(f"try{os.getpid()}", "10.97.0.1/24", "10.128.0.0/16", 6443)
LAB = "ballast-lab"  # in the rules below, for the bridge
BRIDGE = 'iifname "ballast-lab"'


class Machine(LocalHost):
    """With a network namespace alone: `ip netns exec` has a mount namespace too, in which namespaces that it makes stay."""

    def __init__(self, namespace: str) -> None:
        self._path = f"/run/netns/{namespace}"

    def run(self, argv: Sequence[str], *, timeout: float, **options: Any) -> Completed:
        return super().run(["nsenter", f"--net={self._path}", "--", *argv], timeout=timeout, **options)


@pytest.fixture
def host() -> Iterator[Machine]:
    with namespace(f"firewall-{os.getpid()}") as made:
        yield Machine(made.namespace)


def state(host: Machine) -> str:
    words = [["nft", "list", "ruleset"], ["ip", "-brief", "link"], ["ip", "route"]]
    left = [name for name in os.listdir("/run/netns") if name in PATHS.namespaces]
    return "".join([*(host.run(argv, timeout=60).stdout for argv in words), *left])


def load(host: Machine, rules: str) -> None:
    """A brace ends at the end of a line, for nft."""
    host.run(
        ["nft", "-f", "-"],
        timeout=60,
        stdin=rules.replace(LAB, PATHS.bridge).replace("}", "}\n").replace("}\n;", "};").encode(),
    )


def found(host: Machine) -> list[BallastError]:
    before = state(host)
    problems = find_dropped(host, PATHS)
    assert state(host) == before, "nothing stays"
    return problems


PASSING = {
    "nothing": "",
    "accepted by name": f"""table ip filter {{
        chain FORWARD {{ type filter hook forward priority 0; policy drop; {BRIDGE} accept; }}
        chain INPUT {{ type filter hook input priority 0; policy drop; {BRIDGE} accept; }} }}""",
    "accepted in a chain of another program's, as DOCKER-USER": f"""table ip filter {{
        chain DOCKER-USER {{ {BRIDGE} accept; }}
        chain FORWARD {{ type filter hook forward priority 0; policy drop; jump DOCKER-USER; }} }}""",
    "accepted by a set": """table inet fw {
        set lab { type ipv4_addr; flags interval; elements = { 10.97.0.0/24, 10.128.0.0/16 } }
        chain forward { type filter hook forward priority 0; policy drop; ip saddr @lab accept; }
        chain input { type filter hook input priority 0; policy drop; ip saddr @lab accept; } }""",
    "a policy that other networks have": """table ip filter {
        chain FORWARD { type filter hook forward priority 0; policy accept; ip saddr 192.0.2.0/24 drop; } }""",
}
DROPPING = {
    "docker": (
        "table ip filter { chain FORWARD { type filter hook forward priority 0; policy drop; } }",
        "between nodes",
        "ip filter FORWARD: policy drop",
        "iptables -I FORWARD -i ballast-lab -j ACCEPT",
    ),
    "an input policy": (
        "table inet fw { chain in { type filter hook input priority 0; policy drop; ct state established accept; } }",
        "from nodes to the API server",
        "inet fw in: policy drop",
        "nft insert rule inet fw in iifname ballast-lab accept",
    ),
    "firewalld": (
        """table inet firewalld { chain filter_FORWARD { type filter hook forward priority 10; policy accept;
            ct state established,related accept; reject with icmpx type admin-prohibited; } }""",
        "between nodes",
        "inet firewalld filter_FORWARD: reject with icmpx admin-prohibited",
        "firewall-cmd --zone=trusted --add-interface=ballast-lab",
    ),
    "a chain that is jumped to, as ufw's": (
        """table ip filter { chain ufw-reject-input { reject; }
            chain INPUT { type filter hook input priority 0; policy accept; jump ufw-reject-input; } }""",
        "from nodes to the API server",
        "ip filter ufw-reject-input: reject",
        "iptables -I INPUT -i ballast-lab -j ACCEPT",
    ),
    "an output policy, as one that limits what leaves": (
        "table inet fw { chain out { type filter hook output priority 0; policy drop; ct state established,related accept; } }",
        "from this host to nodes",
        "inet fw out: policy drop",
        "nft insert rule inet fw out oifname ballast-lab accept",
    ),
    "an output policy that drops replies too, of packets with a mark": (
        """table inet fw { chain marks { type route hook output priority -150; meta mark set 0xd4; }
            chain out { type filter hook output priority 0; policy drop; } }""",
        "from this host to nodes",
        "inet fw out: policy drop",
        "nft insert rule inet fw out oifname ballast-lab accept",
    ),
    "both": (
        """table inet fw { chain in { type filter hook input priority 0; policy drop; }
            chain through { type filter hook forward priority 0; policy drop; } }""",
        "between nodes and from nodes to the API server",
        "inet fw through: policy drop; inet fw in: policy drop",
        "nft insert rule inet fw through iifname ballast-lab accept; nft insert rule inet fw in iifname ballast-lab accept",
    ),
}


@pytest.mark.parametrize("rules", PASSING.values(), ids=PASSING)
def test_a_firewall_that_lets_packets_pass_is_no_problem_whatever_its_rules_are(host: Machine, rules: str) -> None:
    load(host, rules)
    assert found(host) == []


@pytest.mark.parametrize(("rules", "what", "where", "commands"), DROPPING.values(), ids=DROPPING)
def test_what_drops_a_packet_is_named_with_what_lets_it_pass(
    host: Machine, rules: str, what: str, where: str, commands: str
) -> None:
    load(host, rules)
    commands = commands.replace(LAB, PATHS.bridge)
    (problem,) = found(host)
    assert problem.id == "lab-firewall"
    assert problem.text == f"this host's firewall drops packets {what}"
    assert problem.found == where
    assert problem.remedy == f"allow this lab's traffic: {commands}"
    for command in commands.split("; "):
        if command.startswith("nft"):
            host.run(command.split(), timeout=60)
            assert command.split()[-2] == PATHS.bridge
    if commands.startswith("nft"):
        assert found(host) == [], "the remedy ends it"


def test_rules_of_iptables_legacy_are_met_by_packets_too(host: Machine) -> None:
    host.run(["iptables-legacy", "-P", "FORWARD", "DROP"], timeout=60)
    (problem,) = found(host)
    assert problem.found.startswith("the rule is unknown")
    host.run(["iptables-legacy", "-I", "FORWARD", "-i", PATHS.bridge, "-j", "ACCEPT"], timeout=60)
    assert found(host) == []


def test_a_bridge_that_is_there_is_left_alone(host: Machine) -> None:
    host.run(["ip", "link", "add", PATHS.bridge, "type", "bridge"], timeout=60)
    load(host, DROPPING["docker"][0])
    assert found(host) == []


IPV6 = Paths(PATHS.bridge, "fd00:97::1/64", "fd00:128::/56", None)


@pytest.mark.parametrize(
    ("rules", "where"),
    [
        ("", ""),
        ("table ip filter { chain FORWARD { type filter hook forward priority 0; policy drop; } }", ""),
        (
            "table ip6 filter { chain FORWARD { type filter hook forward priority 0; policy drop; } }",
            "ip6 filter FORWARD: policy drop",
        ),
        (  # the neighbour discovery of nodes, without which they do not find the bridge
            "table inet fw { chain in { type filter hook input priority 0; policy drop; ct state established accept; } }",
            "inet fw in: policy drop",
        ),
    ],
    ids=["nothing", "IPv4 alone", "forward", "input"],
)
def test_packets_of_ipv6_are_tried_on_their_own(host: Machine, rules: str, where: str) -> None:
    load(host, rules)
    # As the lab sets it; before Linux 6.17 no link can forward alone, and the trial leaves the whole host's setting.
    host.run(["sysctl", "-q", "-w", "net.ipv6.conf.all.forwarding=1"], timeout=60)
    before = state(host)
    problems = find_dropped(host, IPV6)
    assert state(host) == before, "nothing stays"
    assert [problem.found for problem in problems] == [where][: bool(where)]
    if "ip6 filter" in where:
        assert problems[0].remedy == f"allow this lab's traffic: ip6tables -I FORWARD -i {PATHS.bridge} -j ACCEPT"
