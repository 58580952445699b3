# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A preflight with the real nft, iptables (both variants) and kernel, in a network namespace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import NOTHING, READ_LIMIT, Completed
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight import kernel
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.facts import (
    Facts,
    ModeChange,
    read_facts,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.rules import preflight
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.backend import Iptables
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.restore import VARIANTS
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import IPTABLES, IPVS, NFTABLES
from tests.integration.kube_proxy import NodeHost
from tests.integration.wire import InNamespace, namespace
from tests.unit.rules import given

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not all(shutil.which(one) for one in ("nft", *(f"iptables-{of}-save" for of in VARIANTS))),
    reason="only root can make network namespaces, and nft and both variants of iptables are needed",
)

SERVICES = (
    given.service(),
    given.service(
        "local", clusterIP="10.96.0.2", clusterIPs=["10.96.0.2", "fd00:96::2"], ipFamilies=["IPv4", "IPv6"],
        sessionAffinity="ClientIP",
    ),
    given.endpoint_slice([given.endpoint("10.1.0.5"), given.endpoint("10.1.0.6", node="n2")]),
    given.endpoint_slice([given.endpoint("10.1.0.7"), given.endpoint("10.1.0.8")], of="local"),
    given.endpoint_slice([given.endpoint("fd00:1::7")], of="local", name="local-6", family="IPv6"),
    given.node(),
)  # fmt: skip
NODE_PORT = given.service(
    "out", clusterIP="10.96.0.3", clusterIPs=["10.96.0.3"], type="NodePort",
    ports=[{"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080}],
)  # fmt: skip


class Node(NodeHost):
    """The namespace, of which files of /etc are not the machine's: those of the machine that runs this do not count."""

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self.refused = ""  # a word of rules that this kernel is to refuse

    def read(self, path: str, *, limit: int = READ_LIMIT) -> Optional[bytes]:
        return None if path.startswith("/etc/") else super().read(path, limit=limit)

    def listdir(self, path: str) -> list[str]:
        return [] if path.startswith("/etc/") else super().listdir(path)

    def is_systemd(self) -> bool:
        return False

    def run(self, argv: Any, *, stdin: bytes = b"", env: Mapping[str, str] = NOTHING, **more: Any) -> Completed:
        """A word that nft does not know stands for what a kernel without the module refuses."""
        if self.refused:
            stdin = stdin.replace(self.refused.encode(), b"no-such-statement")
        return super().run(argv, stdin=stdin, env=env, **more)


@pytest.fixture
def node() -> Iterator[Node]:
    with namespace("preflight") as made:
        made.run(["ip", "link", "add", "eth0", "type", "bridge"], timeout=60)
        made.run(["ip", "address", "add", "192.0.2.10/24", "dev", "eth0"], timeout=60)
        made.run(["ip", "link", "set", "eth0", "up"], timeout=60)
        yield Node(made.namespace)


def look(node: Node, from_mode: str = IPTABLES, to_mode: str = NFTABLES, *more: given.Object, **changes: Any) -> Facts:
    before = state(node)
    asked = ModeChange(
        from_mode=from_mode,
        to_mode=to_mode,
        config={"mode": from_mode, "clusterCIDR": "10.1.0.0/16,fd00:1::/48"},
        new_config={"mode": to_mode, "clusterCIDR": "10.1.0.0/16,fd00:1::/48"},
        kube_proxy_version="v1.37.1",
        node_name="n1",
        snapshot=given.snapshot(*SERVICES, *more),
    )
    found = read_facts(node, replace(asked, **changes))
    assert state(node) == before, "looking changes nothing"
    return found


def state(node: InNamespace) -> str:
    return (
        node.run(["nft", "--stateless", "list", "ruleset"], timeout=60).stdout
        + node.run(["ip", "-brief", "link"], timeout=60).stdout
    )


def found_in(facts: Facts) -> dict[str, tuple[str, ...]]:
    return {one.id: one.found for one in preflight(facts)}


def do(node: Node, *argv: str, stdin: str = "") -> None:
    node.run(argv, timeout=60, stdin=stdin.encode())


@pytest.mark.parametrize(("from_mode", "to_mode"), [(IPTABLES, NFTABLES), (NFTABLES, IPTABLES)])
def test_nothing_is_found_on_a_node_with_nothing_but_services(node: Node, from_mode: str, to_mode: str) -> None:
    facts = look(node, from_mode, to_mode)
    assert preflight(facts) == []
    assert facts.unread == ()
    assert facts.kernel is not None
    assert facts.nft is not None


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_is_found_where_our_own_iptables_rules_are_kube_proxy_s(node: Node, variant: str) -> None:
    """As the engine compiles them: by the layout of kube-proxy, with its comments."""
    backend = Iptables(variant)
    facts = look(node, IPTABLES, NFTABLES)
    for family, view in facts.views.items():
        there = backend.read(node, family)
        wanted = backend.compile(view, facts.before[family])
        backend.commit(backend.plan(wanted, there), node, there)
    assert "KUBE-SERVICES" in node.run([f"iptables-{variant}-save"], timeout=60).stdout
    assert preflight(look(node)) == []


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("tool", "family"), [("iptables", 4), ("ip6tables", 6)])
def test_a_policy_of_drop_is_found_in_each_variant_and_family(node: Node, variant: str, tool: str, family: int) -> None:
    do(node, f"{tool}-{variant}", "-P", "FORWARD", "DROP")
    facts = look(node)
    remedy = f"{tool}-{variant} -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT"
    where = f"iptables ({variant}), IPv{family}: chain FORWARD, policy DROP; to accept them: {remedy}"
    assert found_in(facts) == {"preflight-firewall-forward": (where,)}
    assert "preflight-firewall-forward" not in found_in(look(node, IPTABLES, IPVS)), "mode ipvs lets them pass itself"
    do(node, *remedy.split())
    assert found_in(look(node)) == {}, "the remedy ends it"


def test_a_table_that_drops_is_found_until_it_lets_services_pass(node: Node) -> None:
    chain = "fw-forward { type filter hook forward priority 0; policy drop; }"
    do(node, "nft", "-f", "-", stdin=f"add table inet fw\nadd chain inet fw {chain}\n")
    remedy = "nft insert rule inet fw fw-forward ct status dnat accept"
    where = f"nftables, table inet fw: chain fw-forward, policy drop; to accept them: {remedy}"
    assert found_in(look(node)) == {"preflight-firewall-forward": (where,)}
    do(node, *remedy.split())
    assert found_in(look(node)) == {}


def test_a_rule_that_rejects_the_rest_is_found_as_firewalld_has_it(node: Node) -> None:
    do(
        node, "nft", "-f", "-",
        stdin="""
add table inet firewalld
add chain inet firewalld filter_FORWARD { type filter hook forward priority filter + 10; policy accept; }
add rule inet firewalld filter_FORWARD ct state { established, related } accept
add rule inet firewalld filter_FORWARD reject with icmpx type admin-prohibited
""",
    )  # fmt: skip
    found = found_in(look(node))
    assert sorted(found) == ["preflight-firewall-forward", "preflight-firewalld-flush"]
    where = (
        "nftables, table inet firewalld: chain filter_FORWARD, a rule that drops everything else; "
        "to accept them: nft insert rule inet firewalld filter_FORWARD ct status dnat accept"
    )
    assert found["preflight-firewall-forward"] == (where,)


@pytest.mark.parametrize("variant", VARIANTS)
def test_foreign_rules_that_go_to_kube_chains_or_stand_in_them_are_found(node: Node, variant: str) -> None:
    do(
        node, f"iptables-{variant}-restore", "--noflush",
        stdin="""\
*nat
:KUBE-MARK-MASQ - [0:0]
:KUBE-SERVICES - [0:0]
:CNI-HOSTPORT-SETMARK - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j KUBE-MARK-MASQ
-A KUBE-SERVICES -s 203.0.113.9/32 -m comment --comment "agent: keep out" -j ACCEPT
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
:KUBE-ROUTER-INPUT - [0:0]
-A INPUT -j KUBE-FIREWALL
-A INPUT -j KUBE-ROUTER-INPUT
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -j DROP
COMMIT
""",
    )  # fmt: skip
    begin = f"iptables ({variant}), IPv4: -t nat -A"
    mark = '-m comment --comment "CNI portfwd masquerade mark" -j KUBE-MARK-MASQ'
    keep = '-s 203.0.113.9/32 -m comment --comment "agent: keep out" -j ACCEPT'
    assert found_in(look(node)) == {
        "preflight-kube-chains-used": (f"{begin} CNI-HOSTPORT-SETMARK {mark}",),
        "preflight-kube-chains-changed": (f"{begin} KUBE-SERVICES {keep}",),
    }


@pytest.mark.parametrize(
    ("word", "module"),
    [
        ("fib daddr", "nft_fib_ipv"),
        ("masquerade", "nft_masq"),
        ("numgen random mod 2 vmap", "nft_numgen"),
        ("dnat to 192.0.2.1:80", "nft_nat"),
        ("forwarded reject", "nft_reject_ipv"),
        ("forwarded ct state", "nft_ct"),
    ],
)
def test_a_statement_that_is_refused_is_found_by_its_own_module(node: Node, word: str, module: str) -> None:
    assert kernel.refused_statements(node, (4, 6), {}) == ()
    node.refused = word
    found = kernel.refused_statements(node, (4, 6), {})
    assert found
    assert all(f"module {module}" in line for line in found)


def test_compiled_rules_that_are_refused_are_told_with_what_nft_says(node: Node) -> None:
    node.refused = "10.96.0.1"
    found = found_in(look(node, NFTABLES, IPTABLES))
    assert sorted(found) == ["preflight-rules-refused"]
    (line,) = found["preflight-rules-refused"]
    assert line.startswith("IPv4: ")
    assert "Error" in line


def test_node_ports_of_a_second_address_are_found(node: Node) -> None:
    assert sorted(found_in(look(node, IPTABLES, NFTABLES, NODE_PORT))) == ["preflight-node-port-localhost"]
    do(node, "ip", "link", "add", "eth1", "type", "bridge")
    do(node, "ip", "address", "add", "10.50.0.10/24", "dev", "eth1")
    found = found_in(look(node, IPVS, NFTABLES, NODE_PORT))
    assert found == {"preflight-node-port-addresses": ("10.50.0.10: node port 30080/TCP of default/out:http",)}


def test_agents_are_found_by_their_links(node: Node) -> None:
    for link in ("cilium_host", "antrea-gw0", "kube-bridge"):
        do(node, "ip", "link", "add", link, "type", "bridge")
    do(node, "ip", "link", "add", "nodelocaldns", "type", "bridge")
    do(node, "ip", "address", "add", "169.254.20.10/32", "dev", "nodelocaldns")
    do(node, "iptables-legacy", "-N", "cali-FORWARD")
    wanted = ["antrea", "calico-iptables", "cilium", "kube-router"]
    assert sorted(found_in(look(node))) == [f"preflight-{one}" for one in wanted]
    do(node, "ip", "address", "add", "10.96.0.1/32", "dev", "nodelocaldns")
    assert found_in(look(node))["preflight-node-local-dns"] == ("link nodelocaldns has 10.96.0.1",)


def test_a_listener_on_an_address_of_ipvs_is_found(node: Node) -> None:
    """A socket of the namespace, which a program in it holds while we look."""
    do(node, "ip", "link", "add", "kube-ipvs0", "type", "bridge")
    do(node, "ip", "address", "add", "10.96.0.1/32", "dev", "kube-ipvs0")
    script = (
        "import socket, sys\n"
        "one = socket.create_server(('10.96.0.1', 5353))\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    argv = ["ip", "netns", "exec", node.namespace, sys.executable, "-IS", "-c", script]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as listening:
        assert listening.stdout is not None
        assert listening.stdin is not None
        try:
            assert listening.stdout.readline() == "ready\n"
            found = found_in(look(node, IPVS, NFTABLES))
        finally:
            listening.stdin.close()
    assert found == {"preflight-ipvs-addresses-used": ("10.96.0.1 port 5353/TCP",)}
