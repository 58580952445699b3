# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a preflight reads of other programs on a node: firewalls, agents, and CNI."""

from __future__ import annotations

import json

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import CommandFailed
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight import foreign_programs
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.foreign_programs import (
    Closed,
    Portmap,
    parse_portmaps,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.parse import parse
from tests.unit.fakes import FakeHost
from tests.unit.kube_proxy.preflight_node import facts, nft_json, node

DROPPING = [
    {"table": {"family": "inet", "name": "fw", "handle": 1}},
    {"chain": {"family": "inet", "table": "fw", "name": "fwd", "handle": 1, "type": "filter", "hook": "forward",
               "prio": 0, "policy": "drop"}},
    {"chain": {"family": "inet", "table": "fw", "name": "in", "handle": 2, "type": "filter", "hook": "input",
               "prio": 0, "policy": "accept"}},
    {"chain": {"family": "inet", "table": "fw", "name": "out", "handle": 3, "type": "filter", "hook": "output",
               "prio": 0, "policy": "drop"}},
]  # fmt: skip
MATCH = {"match": {"op": "in", "left": {"ct": {"key": "status"}}, "right": "dnat"}}


def rule(chain: str, *expressions: dict[str, object]) -> dict[str, object]:
    return {"rule": {"family": "inet", "table": "fw", "chain": chain, "handle": 9, "expr": list(expressions)}}


def with_table(*rules: dict[str, object]) -> FakeHost:
    host = node()
    host.on("nft", "-j", "list", "chains", answer=nft_json(*DROPPING[1:]), reads=True)
    host.on("nft", "list", "chains", answer="table inet fw {\n\tchain fwd {\n\t}\n}\n", reads=True)
    host.on("nft", "-j", "list", "table", "inet", "fw", answer=nft_json(*DROPPING, *rules), reads=True)
    return host


FORWARD = "nftables, table inet fw: chain fwd, policy drop"


@pytest.mark.parametrize(
    ("rules", "wanted"),
    [
        ((), [(FORWARD, "forward", False)]),
        ((rule("fwd", MATCH, {"counter": {"packets": 1, "bytes": 2}}, {"accept": None}),), [(FORWARD, "forward", True)]),
        ((rule("fwd", MATCH, {"match": {}}, {"accept": None}),), [(FORWARD, "forward", False)]),
        ((rule("fwd", MATCH, {"drop": None}),), [(FORWARD, "forward", False)]),
        (
            (rule("in", {"log": None}, {"reject": {"type": "icmpx", "expr": "admin-prohibited"}}),),
            [(FORWARD, "forward", False), ("nftables, table inet fw: chain in, a rule that drops everything else", "input", False)],
        ),
    ],
)  # fmt: skip
def test_base_chains_that_drop_the_rest_are_found(
    rules: tuple[dict[str, object], ...], wanted: list[tuple[str, str, bool]]
) -> None:
    assert [(one.where, one.hook, one.lets_services_pass) for one in facts(host=with_table(*rules)).closed] == wanted


def test_a_table_that_cannot_be_listed_is_told_of() -> None:
    host = with_table()
    argv = ("nft", "-j", "list", "table", "inet", "fw")
    host.on(*argv, answer=CommandFailed(argv, status=1, output="Segmentation fault"), reads=True)
    assert [what for what, _problem in facts(host=host).unread] == ["table inet fw"]


def test_policies_are_read_in_both_variants_and_families() -> None:
    host = node(rules=EMPTY.replace(":FORWARD ACCEPT", ":FORWARD DROP"))
    host.on("ip6tables-legacy-save", answer=EMPTY.replace(":INPUT ACCEPT", ":INPUT DROP"), reads=True)
    accept = (
        "-A FORWARD -m conntrack --ctstate DNAT -j ACCEPT\n-A FORWARD -j REJECT --reject-with icmp-port-unreachable\n"
    )
    host.on("iptables-legacy-save", answer=EMPTY.replace("COMMIT", f"{accept}COMMIT"), reads=True)
    assert facts(host=host).closed == (
        Closed("iptables (nft), IPv4: chain FORWARD, policy DROP", "forward", False, "iptables-nft -I FORWARD"),
        Closed(
            "iptables (legacy), IPv4: chain FORWARD, a rule that drops everything else",
            "forward",
            True,
            "iptables-legacy -I FORWARD",
        ),
        Closed("iptables (legacy), IPv6: chain INPUT, policy DROP", "input", False, "ip6tables-legacy -I INPUT"),
    )


EMPTY = """\
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
COMMIT
"""


def test_what_iptables_shows_is_not_told_twice() -> None:
    host = node(rules=EMPTY.replace(":FORWARD ACCEPT", ":FORWARD DROP"))
    chain = {**DROPPING[1]["chain"], "family": "ip", "table": "filter", "name": "FORWARD"}
    host.on("nft", "-j", "list", "chains", answer=nft_json({"chain": chain}), reads=True)
    host.on("nft", "list", "chains", answer="table ip filter {\n}\n", reads=True)
    assert len(facts(host=host).closed) == 1


@pytest.mark.parametrize(
    ("conf", "active", "found"),
    [
        ("FlushAllOnReload=yes\n", "active", True),
        ("# FlushAllOnReload=no\n", "active", True),  # the default
        ("FlushAllOnReload=no\n", "active", False),
        ("FlushAllOnReload=yes\n", "inactive", False),
    ],
)
def test_firewalld_is_read_where_it_runs(conf: str, active: str, found: bool) -> None:
    host = FakeHost(files={"/etc/firewalld/firewalld.conf": conf}, systemd=True)
    host.on("systemctl", "is-active", "firewalld", answer=f"{active}\n", reads=True)
    assert bool(foreign_programs.read_firewalld(host, ())) == found


def test_firewalld_is_known_by_its_table_too() -> None:
    assert foreign_programs.read_firewalld(FakeHost(), ("inet firewalld",)) != ()


@pytest.mark.parametrize(
    ("text", "enabled", "found"),
    [
        ("#!/usr/sbin/nft -f\n\nflush ruleset\n\ntable inet filter {\n}\n", True, True),
        ("#!/usr/sbin/nft -f\n\nflush ruleset\n", False, False),
        ("#!/usr/sbin/nft -f\n# flush ruleset\nflush table inet filter\n", True, False),
    ],
)
def test_a_file_that_flushes_counts_where_its_service_is_enabled(text: str, enabled: bool, found: bool) -> None:
    host = FakeHost(files={"/etc/nftables.conf": text})
    if enabled:
        host.given_directory("/etc/systemd/system/sysinit.target.wants")
        host.symlink(
            "/etc/systemd/system/sysinit.target.wants/nftables.service", "/usr/lib/systemd/system/nftables.service"
        )
    assert bool(foreign_programs.read_flushing_files(host)) == found


def test_sets_are_looked_for_where_nft_is_new_enough_to_write_what_crashes_others() -> None:
    host = node()
    found = {"family": "inet", "table": "fw", "name": "s", "type": "ipv4_addr", "handle": 1}
    own = {**found, "family": "ip", "table": "kube-proxy"}
    host.on("nft", "-j", "list", "sets", answer=nft_json({"set": found}, {"set": own}), reads=True)
    host.on("nft", "-j", "list", "maps", answer=nft_json({"map": {**found, "table": "other"}}), reads=True)
    for version, wanted in (("1.1.2", ()), ("1.1.3", ("inet fw", "inet other"))):
        host.on("nft", "--version", answer=f"nftables v{version} (Commodore Bullmoose #4)\n", reads=True)
        assert facts(host=host).tables_with_sets == wanted


def test_agents_are_known_by_what_they_leave() -> None:
    chains = "".join(
        f":{name} - [0:0]\n" for name in ("cali-FORWARD", "cali-INPUT", "CILIUM_FORWARD", "ANTREA-FORWARD")
    )
    rulesets = {("nft", 4): parse(EMPTY.replace("COMMIT", f"{chains}COMMIT"), family=4)}
    links = (("kube-bridge", ()), ("kube-dummy-if", ()), ("cilium_host", ()), ("eth0", ()))
    assert foreign_programs.agents(rulesets, links, ("ip calico", "ip mine")) == {
        "kube-router": ("link kube-bridge",),
        "the Service proxy of kube-router": ("link kube-dummy-if",),
        "Cilium": ("link cilium_host", "iptables (nft), IPv4: 1 chains, as CILIUM_FORWARD"),
        "Calico in nftables": ("nftables, table ip calico",),
        "Calico": ("iptables (nft), IPv4: 2 chains, as cali-FORWARD",),
        "Antrea": ("iptables (nft), IPv4: 1 chains, as ANTREA-FORWARD",),
    }


PORTMAP = {"type": "portmap", "capabilities": {"portMappings": True}, "externalSetMarkChain": "KUBE-MARK-MASQ"}


def test_portmaps_are_read_of_lists_and_of_single_plugins() -> None:
    listed = json.dumps({"cniVersion": "1.0.0", "name": "mynet", "plugins": [{"type": "ptp"}, PORTMAP]})
    assert list(parse_portmaps(listed, path="a")) == [Portmap("a", "KUBE-MARK-MASQ", "")]
    single = json.dumps({"cniVersion": "0.4.0", "type": "portmap", "backend": "nftables"})
    assert list(parse_portmaps(single, path="b")) == [Portmap("b", "", "nftables")]
    assert list(parse_portmaps('{"plugins": 3}', path="c")) == []


def test_a_cni_configuration_that_is_none_is_told_of() -> None:
    host = node()
    host.given("/etc/cni/net.d/10-a.conflist", "{")
    host.given("/etc/cni/net.d/20-b.conf", "[]")
    host.given("/etc/cni/net.d/30-c.conf", json.dumps(PORTMAP))
    host.given("/etc/cni/net.d/README", "{")
    found = facts(host=host)
    assert [what for what, _problem in found.unread] == ["/etc/cni/net.d/10-a.conflist", "/etc/cni/net.d/20-b.conf"]
    assert found.portmaps == (Portmap("/etc/cni/net.d/30-c.conf", "KUBE-MARK-MASQ", ""),)


WORDS = st.sampled_from(["plugins", "type", "externalSetMarkChain", "portmap"])
DOCUMENTS = st.recursive(
    st.none() | st.integers() | st.text() | WORDS, lambda one: st.lists(one) | st.dictionaries(WORDS, one)
)


@drawn(text=st.text() | DOCUMENTS.map(json.dumps))
def test_whatever_a_cni_configuration_is_it_is_read_or_refused(text: str) -> None:
    try:
        assert all(isinstance(one, Portmap) for one in parse_portmaps(text, path="x"))
    except (ValueError, RecursionError):
        pass
