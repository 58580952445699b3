# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a preflight reads of a node, from what its tools and its kernel print."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._audit.dump_reading import DumpReading
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import (
    BallastError,
    CommandFailed,
    UserError,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight import foreign_programs, kernel
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.facts import Facts
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.foreign_programs import (
    Closed,
    KubeChainRule,
    Portmap,
    kube_chain_rules,
    parse_portmaps,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.versions import Versions, parse_version
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.backend import Iptables
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.parse import parse
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.iptables import compile_tables
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import SET_TYPES
from tests.unit.fakes import Call, FakeHost
from tests.unit.kube_proxy.preflight_node import (
    IPVS,
    LINKS,
    RELEASE,
    SOCKETS,
    asked,
    facts,
    links_json,
    nft_json,
    node,
)
from tests.unit.rules import given
from tests.unit.rules.strategies import Scenario, scenarios

NODES = Path(__file__).parents[1] / "audit/nodes"


def test_a_plain_node_is_read_whole() -> None:
    found = facts()
    states = dict.fromkeys(kernel.nftables_modules(), "loadable")
    assert found.modules == {**states, "nf_tables": "loaded", "nf_conntrack": "loaded"}
    assert (found.kernel, found.nft, found.version) == ((6, 12, 43), (1, 0, 6), (1, 36, 4))
    assert found.has_ipv6
    assert sorted(found.views) == sorted(found.before) == sorted(found.after) == [4, 6]
    nothing = replace(
        Facts(found.change), kernel=found.kernel, nft=found.nft, modules=found.modules, links=found.links,
        views=found.views, before=found.before, after=found.after, foreign=found.foreign,
    )  # fmt: skip
    assert found == nothing


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("v1.36.4", (1, 36, 4)),
        ("v1.37.0-rc.1", (1, 37, 0)),
        ("6.18.44-fc-v595", (6, 18, 44)),
        ("5.13.0+deb", (5, 13, 0)),
        ("1.0.6.1", (1, 0, 6)),
        ("6.12", (6, 12, 0)),
        ("", None),
        ("devel", None),
        ("v1", None),
        ("99999.1", None),
    ],
)
def test_versions_are_read_from_their_beginning(text: str, wanted: object) -> None:
    assert parse_version(text) == wanted


def test_a_span_of_versions_ends_in_each_branch_where_it_was_mended() -> None:
    span = Versions(since=(1, 29, 0), before=((1, 33, 6), (1, 34, 2), (1, 35, 0)))
    inside = [(1, 29, 0), (1, 32, 99), (1, 33, 5), (1, 34, 1)]
    outside = [(1, 28, 9), (1, 33, 6), (1, 33, 7), (1, 34, 2), (1, 35, 0), (1, 36, 0), (2, 0, 0)]
    assert [one in span for one in inside + outside] == [True] * len(inside) + [False] * len(outside)
    assert (1, 2, 3) in Versions()
    assert (str(span), str(Versions())) == ("from 1.29, before 1.33.6, 1.34.2, 1.35", "all")
    for wrong in (((1, 33, 0), (1, 32, 0)), ((1, 29, 0),)):
        with pytest.raises(ValueError, match="no span"):
            Versions(since=(1, 29, 0), before=wrong)


# The kernel


def test_modules_are_found_wherever_they_are() -> None:
    host = node()
    host.given_directory("/sys/module/nft_numgen")
    names = ("nf_tables", "nft_numgen", "dummy", "nft_fib_ipv4", "nft_elsewhere")
    found = kernel.read_modules(host, RELEASE, names)
    assert found == dict(zip(names, ("loaded", "loaded", "built in", "loadable", "absent")))


def test_without_a_directory_of_modules_only_ip_vs_is_known_to_be_absent() -> None:
    host = FakeHost(files={"/proc/modules": ""})
    names = ("ip_vs", "nft_ct")
    assert kernel.read_modules(host, RELEASE, names) == {"ip_vs": "absent", "nft_ct": "not known"}
    host.given("/proc/net/ip_vs", IPVS)
    assert kernel.read_modules(host, RELEASE, names)["ip_vs"] == "loaded"


def nft_without(*words: str) -> object:
    """nft in a kernel that cannot do these."""

    def answer(call: Call) -> Completed:
        text = call.stdin.decode()
        line = next((one for one in text.splitlines() if any(word in one for word in words)), "")
        error = f"/dev/stdin:5:60-74: Error: Could not process rule: No such file or directory\n{line}\n      ^^^^^\n"
        return Completed(call.argv, 1 if line else 0, "", error if line else "")

    return answer


def test_a_refused_rule_names_the_module_that_is_missing() -> None:
    host = node()
    host.given(f"/lib/modules/{RELEASE}/modules.dep", "kernel/net/netfilter/nf_tables.ko:\n")
    host.on("nft", "--check", "-f", "-", answer=nft_without(" ip6 ballast-preflight forwarded fib"), reads=True)  # type: ignore[arg-type]
    assert facts(host=host).refused_statements == (
        "IPv6: fib daddr type local: Could not process rule: No such file or directory (module nft_fib_ipv6: absent)",
    )


def test_a_kernel_without_a_family_is_told_of_once() -> None:
    host = node()
    host.on("nft", "--check", "-f", "-", answer=nft_without("table ip6 "), reads=True)  # type: ignore[arg-type]
    found = facts(host=host)
    assert len(found.refused_statements) == 1
    assert found.refused_statements[0].startswith("IPv6: a table with base chains: ")
    assert len(found.refused_rules) == 1
    assert found.refused_rules[0].startswith("IPv6: ")


def test_rules_are_asked_about_in_the_families_that_the_kernel_has() -> None:
    host = node()
    host.remove("/proc/net/if_inet6")
    host.effects.clear()
    given_texts: list[str] = []

    def answer(call: Call) -> str:
        given_texts.append(call.stdin.decode())
        return ""

    host.on("nft", "--check", "-f", "-", answer=answer, reads=True)
    found = facts(host=host)
    assert not found.has_ipv6
    assert found.refused_statements == ()
    assert len(given_texts) == 2
    assert not any(" ip6 " in one for one in given_texts)
    assert any("10.96.0.1" in one for one in given_texts), "the Services' own rules are asked about"


def test_without_nft_nothing_is_asked_of_it() -> None:
    host = FakeHost(files={"/proc/net/if_inet6": "", "/proc/sys/kernel/osrelease": "6.1.0\n"})
    host.on("ip", "-j", "address", "show", answer=links_json(LINKS), reads=True)
    found = facts(host=host)
    assert found.missing_tools == ("nft",)
    assert (found.nft, found.refused_statements, found.refused_rules, found.closed) == (None, (), (), ())
    assert found.unread == ()


def test_tools_are_asked_for_where_kube_proxy_is_no_pod() -> None:
    host = FakeHost(files={"/proc/net/if_inet6": "", "/proc/sys/kernel/osrelease": "6.1.0\n"})
    host.on("ip", "-j", "address", "show", answer=links_json(LINKS), reads=True)
    everything = ("nft", "iptables", "iptables-save", "iptables-restore", "ipset")
    assert facts(asked("nftables", "ipvs"), host).missing_tools == everything
    assert facts(asked("nftables", "iptables"), host).missing_tools == everything[:-1]
    assert facts(asked("nftables", "ipvs", deployment="daemonset"), host).missing_tools == ("nft",)


# Firewalls


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


# KUBE-* chains


@pytest.mark.parametrize("version", ["1.35.8", "1.36.4", "1.37.1"])
def test_nothing_of_a_real_kube_proxy_is_another_program_s(version: str) -> None:
    text = (NODES / f"kube-proxy-{version}" / "iptables.txt").read_text(encoding="utf-8")
    backend = Iptables("nft")
    rulesets = {("nft", family): DumpReading(text, backend).rules(family) for family in (4, 6)}
    assert sum(len(table.chains) for one in rulesets.values() for table in one.tables) > 50
    assert list(kube_chain_rules(rulesets)) == []


@drawn(scenario=scenarios(backend="iptables"))
def test_nothing_that_kube_proxy_may_write_is_another_program_s(scenario: Scenario) -> None:
    compiled = Iptables("nft").compile(scenario.view, scenario.config)
    assert list(kube_chain_rules({("nft", scenario.view.family): compiled})) == []


@pytest.mark.parametrize("family", [4, 6])
def test_nor_is_anything_of_mode_ipvs(family: int) -> None:
    config = facts(asked("ipvs", "iptables")).before[family]
    closed = [("10.96.0.1" if family == 4 else "fd00:96::1", "TCP", 80)]
    compiled = compile_tables(family, config, used=tuple(SET_TYPES), closed_to_node=closed)
    assert list(kube_chain_rules({("nft", family): compiled})) == []


FOREIGN = """\
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-ROUTER-FORWARD - [0:0]
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -j KUBE-ROUTER-FORWARD
-A INPUT -j KUBE-FIREWALL
-A KUBE-FORWARD -s 203.0.113.0/24 -m comment --comment "mine, -j KUBE-FORWARD" -j ACCEPT
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FIREWALL -s 203.0.113.1/32 -j DROP
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-SERVICES - [0:0]
:CNI-HOSTPORT-SETMARK - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j KUBE-MARK-MASQ
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-SERVICES -d 10.96.0.9/32 -j LOG --log-prefix "seen "
-A KUBE-SERVICES -s 203.0.113.5/32 -j RETURN
COMMIT
"""


def test_rules_of_others_are_told_from_kube_proxy_s() -> None:
    found = list(kube_chain_rules({("legacy", 4): parse(FOREIGN, family=4)}))
    assert [(one.table, one.kube_chain, one.inside) for one in found] == [
        ("nat", "KUBE-MARK-MASQ", False),
        ("nat", "KUBE-SERVICES", True),
        ("nat", "KUBE-SERVICES", True),
        ("filter", "KUBE-FORWARD", True),
    ]
    assert found[0] == KubeChainRule(
        "nat",
        "KUBE-MARK-MASQ",
        False,
        "iptables (legacy), IPv4: -t nat -A CNI-HOSTPORT-SETMARK "
        '-m comment --comment "CNI portfwd masquerade mark" -j KUBE-MARK-MASQ',
    )


# Agents, CNI


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


# ipvs


def test_virtual_servers_and_listeners_are_read() -> None:
    host = node()
    host.given(
        "/proc/net/ip_vs",
        IPVS + "TCP  0A600001:0050 rr\n  -> 0A010005:1F90      Masq    1      3          4\n"
        "UDP  [fd00:0000:0000:0000:0000:0000:0000:0001]:0035 rr\nFWM  00000007 wlc\n",
    )
    row = " 0: 0A00600A:0035 00000000:0000 {} 00000000:00000000 00:00000000 00000000 0 0 1 2 0\n"
    host.given("/proc/net/tcp", SOCKETS + row.format("0A") + row.format("01") + " 1: cut short\n")
    host.given("/proc/net/udp", SOCKETS + row.format("07"))
    found = facts(host=host)
    assert found.virtual_servers == {
        (0, "10.96.0.1", "TCP", 80): 7,
        (0, "fd00::1", "UDP", 53): 0,
        (7, "", "", 0): 0,
    }
    assert found.listeners == (("10.96.0.10", 53, "TCP"), ("10.96.0.10", 53, "UDP"))


def test_a_listing_of_ipvs_that_is_not_understood_is_told_of() -> None:
    host = node()
    host.given("/proc/net/ip_vs", f"{IPVS}NEW  0A600001:0050\n")
    assert [what for what, _problem in facts(host=host).unread] == ["/proc/net/ip_vs"]


# What is not understood


def test_what_cannot_be_read_is_named_and_the_rest_is_read() -> None:
    host = node(rules="not of iptables\n")
    host.given("/proc/sys/kernel/osrelease", "mine\n")
    host.on("nft", "--version", answer="nftables of mine\n", reads=True)
    host.on("nft", "-j", "list", "chains", answer=CommandFailed(["nft"], status=1, output="no"), reads=True)
    host.on("ip", "-j", "address", "show", answer="[", reads=True)
    found = facts(host=host)
    assert [what for what, _problem in found.unread] == [
        "interfaces and addresses",
        "the version of the kernel",
        "the version of nft",
        "iptables rules of IPv4, variant nft",
        "tables of nftables",
    ]
    assert (found.kernel, found.nft) == (None, None)


def test_a_current_configuration_that_is_not_understood_is_no_input_error() -> None:
    question = asked()
    found = facts(replace(question, config={**question.config, "ofAnotherRelease": 1}))
    assert [what for what, _problem in found.unread] == ["kube-proxy's current configuration"]
    assert found.before == {}
    assert found.after != {}


def test_a_wanted_configuration_that_cannot_be_is_one() -> None:
    with pytest.raises(UserError) as caught:
        facts(asked(wanted={"nodePortAddresses": ["everywhere"]}))
    assert caught.value.id == "rules-config-value"


def test_a_snapshot_that_cannot_be_is_one() -> None:
    with pytest.raises(UserError):
        facts(asked(objects=(given.service(clusterIP="here"), given.node())))


@drawn(
    data=st.dictionaries(
        st.sampled_from(["kind", "items", "apiVersion", "spec"]), st.lists(st.text() | st.none()) | st.text()
    )
)
def test_whatever_the_snapshot_is_it_is_read_or_refused(data: dict[str, object]) -> None:
    try:
        facts(replace(asked(), snapshot=data))
    except BallastError:
        pass


@drawn(text=st.text(alphabet='kubeproxy_{}="\n 0123.e+-NaInf', max_size=200))
def test_whatever_metrics_are_they_are_read(text: str) -> None:
    counted = replace(facts_of_nothing(), change=replace(asked(), metrics=text)).count_of("kubeproxy_0")
    assert counted is None or math.isfinite(counted)


def facts_of_nothing() -> Facts:
    return Facts(asked())
