# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is read of a kernel, and how often."""

from __future__ import annotations

import json
from collections import Counter

from ansible_collections.ballast.kube.plugins.module_utils._audit.facts import facts_of
from ansible_collections.ballast.kube.plugins.module_utils._audit.info import SPEC, trace_and_audit
from ansible_collections.ballast.kube.plugins.module_utils._audit.kernel_reading import KernelReading
from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import Backend
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.backend import Iptables
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.backend import Nftables
from tests.unit.fakes import FakeHost

SERVERS = "IP Virtual Server version 1.2.1 (size=4096)\nTCP  0A600001:01BB rr\n  -> 0A610001:192B      Masq    1      0          0\n"
LINKS = [{"ifname": "kube-ipvs0", "addr_info": [{"local": "10.96.0.1"}]}]
SAVED = "*nat\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\nCOMMIT\n"
HIDDEN = "# Table `filter' is incompatible, use 'nft' tool.\n"
TABLES = (("ip", "nat"), ("ip", "filter"), ("ip6", "nat"), ("inet", "guard"), ("ip", "kube-proxy"), ("arp", "other"))


def node(**files: str) -> FakeHost:
    host = FakeHost(files={"/proc/net/if_inet6": "", **files})
    host.on("ip", "-j", "address", "show", answer=json.dumps(LINKS), reads=True)
    host.on("nft", "list", "chains", answer="".join(f"table {of} {name} {{\n}}\n" for of, name in TABLES), reads=True)
    for of, name in TABLES:
        listed = json.dumps({"nftables": [{"table": {"family": of, "name": name}}]})
        host.on("nft", "-j", "list", "table", of, name, answer=listed, reads=True)
    host.on("iptables", "--version", answer="iptables v1.8.9 (nf_tables)\n", reads=True)
    for tool, saved in (("iptables", SAVED + HIDDEN), ("ip6tables", SAVED)):
        for variant, text in (("nft", saved), ("legacy", "")):
            host.given(f"/usr/sbin/{tool}-{variant}-save", mode=0o755)
            host.on(f"{tool}-{variant}-save", answer=text, reads=True)
    return host


def test_every_program_s_rules_are_read_and_each_once() -> None:
    host = node()
    reading = KernelReading(host, Nftables("kube-proxy"))
    for _again in range(2):
        four, six = reading.node_rules(4), reading.node_rules(6)
        facts_of(host, reading, "nftables")
    # iptables shows nat, and says that nft alone shows filter.
    assert set(four.nftables.tables) == {("ip", "filter"), ("inet", "guard"), ("ip", "kube-proxy")}
    assert set(six.nftables.tables) == {("inet", "guard")}
    assert {variant: [table.name for table in rules.tables] for variant, rules in four.iptables.items()} == {
        "nft": ["nat"],
        "legacy": [],
    }
    listings = Counter(command for command in host.commands if command[0] in ("nft", "ip") or "save" in command[0])
    shared = {("nft", "list", "chains"), ("nft", "list", "chains", "ip"), ("ipset", "list", "-n")}
    assert {command for command, count in listings.items() if count > 1} <= shared
    assert ("nft", "-j", "list", "table", "ip", "nat") not in host.commands
    assert host.effects == []


def test_rules_in_use_are_not_read_a_second_time() -> None:
    host = node()
    reading = KernelReading(host, Iptables("legacy"))
    rules = reading.rules(4)
    assert reading.node_rules(4).iptables["legacy"] is rules
    assert host.commands.count(("iptables-legacy-save",)) == 1


def test_the_rest_of_ipvs_counts_in_every_mode() -> None:
    backends: tuple[Backend, ...] = (Nftables("kube-proxy"), Iptables("legacy"))
    for backend in backends:
        host = node()
        rules = KernelReading(host, backend).node_rules(4).ipvs
        assert rules is not None
        assert rules.addresses == ("10.96.0.1",)
        assert ("ipvsadm", "-S", "-n") not in host.commands  # it would load ip_vs
    host = node(**{"/proc/net/ip_vs": SERVERS})
    host.on("ipvsadm", "-S", "-n", answer="-A -t 10.96.0.1:443 -s rr\n", reads=True)
    reading = KernelReading(host, Nftables("kube-proxy"))
    rules = reading.node_rules(4).ipvs
    assert rules is not None
    assert [server.text for server in rules.servers] == ["10.96.0.1:443/TCP"]
    assert reading.unread == []


def test_what_no_tool_shows_is_noted() -> None:
    host = node(**{"/proc/net/ip_vs": SERVERS})
    reading = KernelReading(host, Nftables("kube-proxy"))
    reading.node_rules(4)
    assert [what for what, _why in reading.unread] == ["1 virtual servers of ipvs"]


def test_ipsets_are_read_where_a_rule_asks_for_one() -> None:
    """Else ipset would load ip_set."""
    for rule, count in (("-A OUTPUT -m set --match-set blocked src -j ACCEPT\n", 1), ("", 0)):
        host = node()
        host.on("ip", "-j", "address", "show", answer="[]", reads=True)
        host.on("iptables-nft-save", answer=SAVED.replace("COMMIT", rule + "COMMIT"), reads=True)
        host.on("ipset", "save", answer="create blocked hash:net family inet\nadd blocked 10.1.0.0/16\n", reads=True)
        sets = KernelReading(host, Nftables("kube-proxy")).node_rules(4).sets
        assert [(one.name, *one.elements) for one in sets] == [("blocked", "10.1.0.0/16")] * count
        assert host.commands.count(("ipset", "save")) == count


SNAPSHOT = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "door", "namespace": "shop"},
            "spec": {
                "type": "NodePort",
                "clusterIP": "10.96.0.9",
                "clusterIPs": ["10.96.0.9"],
                "ipFamilies": ["IPv4"],
                "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}],
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1"},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.7"}]},
        },
    ],
}


def test_compiled_rules_are_of_the_snapshot_alone() -> None:
    """Nothing of the host is read, not even its addresses: the Node object has them."""
    for backend in ("nftables", "iptables", "ipvs"):
        host = FakeHost()
        packet = {"source": "198.51.100.1", "destination": "192.0.2.7", "port": 30080, "protocol": "TCP"}
        params = {
            **{name: option.get("default") for name, option in SPEC.items()},
            "backend": backend,
            "against": "compiled",
            "snapshot": SNAPSHOT,
            "node_name": "n1",
            "audit_rules": True,
            "packets": [{**packet, "inbound_interface": "", "node_local": False}],
        }
        answered = trace_and_audit(host, params)
        assert [row["verdict"] for row in answered["packets"]] == ["reject"]
        assert (answered["findings"], answered["missing"], host.commands) == ([], [], [])
