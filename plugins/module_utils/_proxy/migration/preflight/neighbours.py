# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What other programs have on a node that bears on a change of mode: their firewalls, their rules in kube-proxy's chains,
the traces of network agents, CNI configurations. Parsers are pure, but for `read_...`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...._core.errors import BallastError, Unavailable, shorten
from ...._core.host import Host
from ...._core.names import MARK
from ...auditing.facts import read_iptables
from ...backends import KUBE_PROXY_TABLE
from ...iptables import restore
from ...iptables.names import LAYOUT as IPTABLES_LAYOUT
from ...iptables.objects import (
    BUILT_IN,
    ConnectionState,
    Dnat,
    Goto,
    IpvsService,
    Jump,
    Layout,
    Mark,
    Masquerade,
    MatchSet,
    Reject,
    Rule,
    SetMark,
    Source,
    Tables,
    Verdict,
)
from ...iptables.text import rule_text
from ...ipvs.iptables import LAYOUT as IPVS_LAYOUT
from ...model import IPTABLES, IPVS, NFTABLES
from ...surroundings import Links

SECONDS = 60
FORWARD, INPUT = "forward", "input"
LAYOUTS: Mapping[str, Layout] = {IPTABLES: IPTABLES_LAYOUT, IPVS: IPVS_LAYOUT, NFTABLES: Layout(frozenset())}
_EITHER = Layout(IPTABLES_LAYOUT.chains | IPVS_LAYOUT.chains, IPTABLES_LAYOUT.prefixes)
_CNI = "/etc/cni/net.d"
_NFTABLES_FILES = ("/etc/nftables.conf", "/etc/sysconfig/nftables.conf")  # of Debian, of Fedora
_FLUSH = re.compile(r"^\s*flush\s+ruleset\b", re.MULTILINE)
_FIREWALLD = "/etc/firewalld/firewalld.conf"
_FLUSH_ALL = re.compile(r"^\s*FlushAllOnReload\s*=\s*(\w+)", re.MULTILINE)
_IGNORED = ("counter", "log", "comment")  # statements of a rule that decide nothing

Rulesets = Mapping[tuple[str, int], Tables]  # of iptables, by variant and family


@dataclass(frozen=True)
class Closed:
    """A place that drops what no rule of it lets pass."""

    where: str  # as a person finds it again
    hook: str  # FORWARD or INPUT
    lets_services_pass: bool  # it has a rule that accepts every connection which was translated


@dataclass(frozen=True)
class KubeChainRule:
    """A rule of another program that goes to a chain of kube-proxy's, or stands in one."""

    table: str
    kube_chain: str
    inside: bool  # it stands in it
    shown: str


@dataclass(frozen=True)
class Portmap:
    path: str
    mark_chain: str  # externalSetMarkChain; "" where it is not set
    backend: str  # "" where it is not set


# iptables


def read_rulesets(host: Host, unread: list[tuple[str, str]]) -> dict[tuple[str, int], Tables]:
    try:
        return read_iptables(host, unread)
    except BallastError as error:
        unread.append(("iptables", error.text))
        return {}


def closed_in_iptables(rulesets: Rulesets) -> Iterator[Closed]:
    for (variant, family), tables in rulesets.items():
        for hook in (FORWARD, INPUT):
            chain = tables.chain("filter", hook.upper())
            if chain is None or not (chain.policy == "DROP" or any(_drops_all(one) for one in chain.rules)):
                continue
            why = "policy DROP" if chain.policy == "DROP" else "a rule that drops the rest"
            where = f"iptables ({variant}), IPv{family}: chain {chain.name}, {why}"
            yield Closed(where, hook, any(_accepts_translated(one) for one in chain.rules))


def _drops_all(rule: Rule) -> bool:
    return not rule.matches and (isinstance(rule.target, Reject) or rule.target == Verdict("DROP"))


def _accepts_translated(rule: Rule) -> bool:
    return rule.matches == (ConnectionState(("DNAT",)),) and rule.target == Verdict("ACCEPT")


def kube_chain_rules(rulesets: Rulesets) -> Iterator[KubeChainRule]:
    """Of both modes' chains. What another program writes exactly as kube-proxy does is not told from it."""
    for (variant, family), tables in rulesets.items():
        own = restore.own(tables, _EITHER)
        for table in tables.tables:
            for chain in table.chains:
                mine = _EITHER.owns(table.name, chain.name)
                known = own.chain(table.name, chain.name)
                for rule in chain.rules:
                    shown = f"iptables ({variant}), IPv{family}: -t {table.name} -A {chain.name} {rule_text(rule)}"
                    target = rule.target.chain if isinstance(rule.target, (Jump, Goto)) else ""
                    if mine and not _is_kube_proxys(chain.name, rule):
                        yield KubeChainRule(table.name, chain.name, True, shown)
                    elif not mine and _EITHER.owns(table.name, target) and (known is None or rule not in known.rules):
                        yield KubeChainRule(table.name, target, False, shown)


_LOOPBACK = (Source("127.0.0.0/8"), Source("::1/128"))
_SOURCE_RANGES = "KUBE-SOURCE-RANGES-FIREWALL"
_KUBE_COMMENT = re.compile(
    r"kube|has no (local )?endpoints|not accepted by KUBE-|health check node port|incoming localnet"
)


def _is_kube_proxys(chain: str, rule: Rule) -> bool:
    """By its form: what kube-proxy writes into its chains goes to another of them, translates, marks, looks into its sets,
    or says in a comment what it is for. Source: reference of kube-proxy 2.2, 2.3."""
    target = rule.target
    if isinstance(target, (Jump, Goto)):
        return target.chain.startswith("KUBE-")
    if target is None or isinstance(target, (Dnat, SetMark, Masquerade)):
        return True
    if any(isinstance(one, MatchSet) and one.name.startswith("KUBE-") for one in rule.matches):
        return True
    if target == Verdict("RETURN"):
        return any(isinstance(one, Mark) or one in _LOOPBACK for one in rule.matches)
    if not rule.comment:
        drops_invalid = any(
            one == ConnectionState(("INVALID",)) or isinstance(one, IpvsService) for one in rule.matches
        )
        return target == Verdict("DROP") and (drops_invalid or (chain == _SOURCE_RANGES and not rule.matches))
    return isinstance(target, (Verdict, Reject)) and _KUBE_COMMENT.search(rule.comment) is not None


# nftables


def read_closed_tables(
    host: Host, rulesets: Rulesets, unread: list[tuple[str, str]]
) -> tuple[list[Closed], tuple[str, ...]]:
    """Base chains of other programs that drop what they do not know, and the names of all tables. Tables that iptables was
    asked about are passed over. nft is asked for chains first: asked for tables, nft 1.0.6 fetches every element."""
    try:
        chains = _listed(host.run(["nft", "-j", "list", "chains"], timeout=SECONDS).stdout, "chain")
        names = host.run(["nft", "list", "chains"], timeout=SECONDS).stdout
    except Unavailable:
        return [], ()
    except BallastError as error:
        unread.append(("tables of nftables", error.text))
        return [], ()
    tables = tuple(" ".join(match) for match in re.findall(r"^table (\S+) (\S+) \{", names, re.MULTILINE))
    found: list[Closed] = []
    for family, table in dict.fromkeys((str(one.get("family")), str(one.get("table"))) for one in chains):
        hooked = [one for one in chains if (one.get("family"), one.get("table")) == (family, table) and _is_filter(one)]
        if not hooked or _is_passed_over(family, table, rulesets):
            continue
        try:
            listed = host.run(["nft", "-j", "list", "table", family, table], timeout=SECONDS).stdout
            found.extend(closed_in_table(hooked, _listed(listed, "rule"), where=f"nftables, table {family} {table}"))
        except BallastError as error:
            unread.append((f"table {family} {table}", error.text))
    return found, tables


def _is_filter(chain: Mapping[str, Any]) -> bool:
    return chain.get("type") == "filter" and chain.get("hook") in (FORWARD, INPUT)


def _is_passed_over(family: str, table: str, rulesets: Rulesets) -> bool:
    if family not in ("ip", "ip6", "inet") or table == KUBE_PROXY_TABLE or table.startswith(MARK):
        return True
    return table in BUILT_IN and (restore.NFT, 6 if family == "ip6" else 4) in rulesets and family != "inet"


def _listed(text: str, kind: str) -> list[Mapping[str, Any]]:
    """All of a kind in the output of `nft -j list ...`. What is not of that form is none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return []
    items = document.get("nftables") if isinstance(document, dict) else None
    found = [one.get(kind) for one in items if isinstance(one, dict)] if isinstance(items, list) else []
    return [one for one in found if isinstance(one, dict)]


def closed_in_table(
    chains: Iterable[Mapping[str, Any]], rules: Sequence[Mapping[str, Any]], *, where: str
) -> Iterator[Closed]:
    """`chains` and `rules` as libnftables-json(5) has them."""
    for chain in chains:
        own = [_deciding(one.get("expr")) for one in rules if one.get("chain") == chain.get("name")]
        drops = any(len(one) == 1 and set(one[0]) & {"drop", "reject"} for one in own)
        if chain.get("policy") == "drop" or drops:
            why = "policy drop" if chain.get("policy") == "drop" else "a rule that drops the rest"
            lets = any(_is_dnat_match(one[:-1]) and "accept" in one[-1] for one in own if len(one) == 2)
            yield Closed(f"{where}: chain {chain.get('name')}, {why}", str(chain["hook"]), lets)


def _deciding(expressions: object) -> list[Mapping[str, Any]]:
    listed = expressions if isinstance(expressions, list) else []
    return [one for one in listed if isinstance(one, dict) and not set(one) & set(_IGNORED)]


def _is_dnat_match(statements: Sequence[Mapping[str, Any]]) -> bool:
    match = statements[0].get("match") if len(statements) == 1 else None
    if not isinstance(match, dict) or match.get("op") not in ("==", "in"):
        return False
    return match.get("left") == {"ct": {"key": "status"}} and match.get("right") == "dnat"


def tables_with_sets(host: Host) -> tuple[str, ...]:
    """Tables of other programs that have sets or maps. For nft from 1.1.3 on: older ones fetch every element for it."""
    try:
        found = [
            f"{one.get('family')} {one.get('table')}"
            for kind in ("set", "map")
            for one in _listed(host.run(["nft", "-j", "list", f"{kind}s"], timeout=SECONDS).stdout, kind)
            if one.get("table") != KUBE_PROXY_TABLE
        ]
    except BallastError:
        return ()
    return tuple(sorted(set(found)))


# Firewalls that load their rules anew


def read_firewalld(host: Host, tables: Sequence[str]) -> tuple[str, ...]:
    """What says that firewalld runs here and takes all rules away at a reload, which is its default."""
    running = "inet firewalld" in tables or (
        host.is_systemd()
        and host.run(["systemctl", "is-active", "firewalld"], timeout=SECONDS, check=False).stdout.strip() == "active"
    )
    if not running:
        return ()
    said = _FLUSH_ALL.search(_text(host, _FIREWALLD))
    if said is None:
        return ("firewalld runs, and FlushAllOnReload is not set, which means yes",)
    return (f"firewalld runs, and {_FIREWALLD} says {said[0].strip()}",) if said[1].lower() in ("yes", "true") else ()


def read_flushing_files(host: Host) -> tuple[str, ...]:
    """Files of an enabled nftables.service that begin with removing everybody's tables."""
    root = "/etc/systemd/system"
    wanted = [name for name in host.listdir(root) if name.endswith((".wants", ".requires"))]
    if not any(host.stat(f"{root}/{name}/nftables.service") for name in wanted):
        return ()
    return tuple(
        f"{path}: flush ruleset, with nftables.service enabled"
        for path in _NFTABLES_FILES
        if _FLUSH.search(_text(host, path))
    )


# Agents

CALICO, CALICO_NFTABLES, CILIUM, ANTREA = "Calico", "Calico in nftables", "Cilium", "Antrea"
KUBE_ROUTER, KUBE_ROUTER_PROXY, NODE_LOCAL_DNS = "kube-router", "the Service proxy of kube-router", "NodeLocal DNSCache"
_LINKS = {
    "cilium_host": CILIUM,
    "antrea-gw0": ANTREA,
    "kube-bridge": KUBE_ROUTER,
    "kube-dummy-if": KUBE_ROUTER_PROXY,
    "nodelocaldns": NODE_LOCAL_DNS,
}
_CHAINS = (("cali-", CALICO), ("CILIUM_", CILIUM), ("ANTREA-", ANTREA))  # how names of chains of iptables begin
_TABLES = {"ip calico": CALICO_NFTABLES, "ip6 calico": CALICO_NFTABLES}


def agents(rulesets: Rulesets, links: Links, tables: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """By agent, what it has left on the node."""
    found: dict[str, list[str]] = {}
    for name, _addresses in links:
        if name in _LINKS:
            found.setdefault(_LINKS[name], []).append(f"link {name}")
    for table in tables:
        if table in _TABLES:
            found.setdefault(_TABLES[table], []).append(f"nftables, table {table}")
    for (variant, family), ruleset in rulesets.items():
        for prefix, agent in _CHAINS:
            own = [chain.name for table in ruleset.tables for chain in table.chains if chain.name.startswith(prefix)]
            if own:
                chains = f"{len(own)} chains, as {own[0]}"
                found.setdefault(agent, []).append(f"iptables ({variant}), IPv{family}: {chains}")
    return {agent: tuple(traces) for agent, traces in found.items()}


# CNI


def read_portmaps(host: Host, unread: list[tuple[str, str]]) -> tuple[Portmap, ...]:
    found: list[Portmap] = []
    for name in host.listdir(_CNI):
        path = f"{_CNI}/{name}"
        if not name.endswith((".conf", ".conflist", ".json")):
            continue
        try:
            found.extend(parse_portmaps(_text(host, path), path=path))
        except (ValueError, RecursionError) as error:
            unread.append((path, shorten(str(error))))
        except BallastError as error:
            unread.append((path, error.text))
    return tuple(found)


def parse_portmaps(text: str, *, path: str) -> Iterator[Portmap]:
    """A CNI configuration, of one plugin or a list of them. ValueError where it is none."""
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("it is no object")
    plugins = document.get("plugins", [document])
    for plugin in plugins if isinstance(plugins, list) else []:
        if isinstance(plugin, dict) and plugin.get("type") == "portmap":
            yield Portmap(path, _word(plugin.get("externalSetMarkChain")), _word(plugin.get("backend")))


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def _text(host: Host, path: str) -> str:
    return (host.read(path) or b"").decode(errors="replace")
