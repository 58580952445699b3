# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads what matters to a change of mode about other programs on a node: firewalls, rules in kube-proxy's chains, traces of
network agents, CNI configurations. Only the functions `read_...` and `tables_with_sets` use the host."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._audit.kernel_reading import read_iptables
from ..._audit.stale_chains import is_by_kube_proxy
from ..._core.host.host import KERNEL_LIMIT, Host
from ..._core.host.names import MARK
from ..._core.text.errors import BallastError, Unavailable, shorten
from ..._core.text.json_text import parse_json
from ..._rules.backend import KUBE_PROXY_TABLE, NFT_FAMILIES
from ..._rules.iptables import restore
from ..._rules.iptables.names import LAYOUT as IPTABLES_LAYOUT
from ..._rules.iptables.objects import (
    BUILT_IN,
    ConnectionState,
    Goto,
    Jump,
    Layout,
    Reject,
    Rule,
    Tables,
    Verdict,
)
from ..._rules.iptables.text import rule_text
from ..._rules.ipvs.iptables import LAYOUT as IPVS_LAYOUT
from ..._rules.model import IPTABLES, IPVS, NFTABLES
from ..._rules.nftables.json_form import parse_json as parse_ruleset
from ..._rules.nftables.objects import Ruleset, Table
from ..._rules.node_addresses import Links
from ..._rules.node_rules import NodeRules

SECONDS = 60
FORWARD, INPUT = "forward", "input"
LAYOUTS: Mapping[str, Layout] = {IPTABLES: IPTABLES_LAYOUT, IPVS: IPVS_LAYOUT, NFTABLES: Layout(frozenset())}
_EITHER = Layout(IPTABLES_LAYOUT.chains | IPVS_LAYOUT.chains, IPTABLES_LAYOUT.prefixes)
_CNI = "/etc/cni/net.d"
_NFTABLES_FILES = ("/etc/nftables.conf", "/etc/sysconfig/nftables.conf")  # of Debian and Fedora
_CONNTRACK_PRIORITY = -200
_FLUSH = re.compile(r"^\s*flush\s+ruleset\b", re.MULTILINE)
_FIREWALLD = "/etc/firewalld/firewalld.conf"
_FLUSH_ALL = re.compile(r"^\s*FlushAllOnReload\s*=\s*(\w+)", re.MULTILINE)
_IGNORED = ("counter", "log", "comment")  # statements that decide nothing

Rulesets = Mapping[tuple[str, int], Tables]  # iptables rules by (variant, family)


@dataclass(frozen=True)
class Closed:
    """A base chain that drops everything that none of its rules accepts."""

    where: str  # for the operator
    hook: str  # FORWARD or INPUT
    lets_services_pass: bool  # it has a rule that accepts every translated connection
    insert: str  # the command that inserts a rule into it, without the rule itself

    @property
    def is_nft(self) -> bool:
        return self.insert.startswith("nft ")


@dataclass(frozen=True)
class KubeChainRule:
    """A rule of another program that jumps to a chain of kube-proxy, or is in one."""

    table: str
    kube_chain: str
    inside: bool  # the rule is in that chain
    shown: str


@dataclass(frozen=True)
class Portmap:
    path: str
    mark_chain: str  # externalSetMarkChain; "" if not set
    backend: str  # "" if not set


# iptables


def read_rulesets(host: Host, unread: list[tuple[str, str]]) -> dict[tuple[str, int], Tables]:
    """By (variant, family). What cannot be read is added to `unread`."""
    try:
        return read_iptables(host, unread)
    except BallastError as error:
        unread.append(("iptables", error.text))
        return {}


def closed_in_iptables(rulesets: Rulesets) -> Iterator[Closed]:
    for (variant, family), tables in rulesets.items():
        for hook in (FORWARD, INPUT):
            chain = tables.chain("filter", hook.upper())
            if chain is None or not (chain.policy == "DROP" or any(_drops_all(rule) for rule in chain.rules)):
                continue
            why = "policy DROP" if chain.policy == "DROP" else "a rule that drops everything else"
            where = f"iptables ({variant}), IPv{family}: chain {chain.name}, {why}"
            insert = f"{'iptables' if family == 4 else 'ip6tables'}-{variant} -I {chain.name}"
            yield Closed(where, hook, any(_accepts_translated(rule) for rule in chain.rules), insert)


def _drops_all(rule: Rule) -> bool:
    return not rule.matches and (isinstance(rule.target, Reject) or rule.target == Verdict("DROP"))


def _accepts_translated(rule: Rule) -> bool:
    return rule.matches == (ConnectionState(("DNAT",)),) and rule.target == Verdict("ACCEPT")


def kube_chain_rules(rulesets: Rulesets) -> Iterator[KubeChainRule]:
    """Such rules in the chains of modes iptables and ipvs. A rule equal to one of kube-proxy's counts as kube-proxy's."""
    for (variant, family), tables in rulesets.items():
        own = restore.select_own(tables, _EITHER)
        for table in tables.tables:
            for chain in table.chains:
                mine = _EITHER.owns(table.name, chain.name)
                known = own.chain(table.name, chain.name)
                for rule in chain.rules:
                    shown = f"iptables ({variant}), IPv{family}: -t {table.name} -A {chain.name} {rule_text(rule)}"
                    target = rule.target.chain if isinstance(rule.target, (Jump, Goto)) else ""
                    if mine and not is_by_kube_proxy(table.name, chain.name, rule):
                        yield KubeChainRule(table.name, chain.name, True, shown)
                    elif not mine and _EITHER.owns(table.name, target) and (known is None or rule not in known.rules):
                        yield KubeChainRule(table.name, target, False, shown)


# nftables


@dataclass(frozen=True)
class NftReading:
    names: tuple[str, ...] = ()  # of all tables
    closed: tuple[Closed, ...] = ()  # base chains of other programs
    translating: Ruleset = Ruleset()  # tables of other programs that may translate


def read_nftables(host: Host, rulesets: Rulesets, unread: list[tuple[str, str]]) -> NftReading:
    """Read nftables, without tables that iptables shows. Lists chains first, because to list tables nft 1.0.6 fetches every
    element."""
    try:
        chains = _list(host.run(["nft", "-j", "list", "chains"], timeout=SECONDS, limit=KERNEL_LIMIT).stdout, "chain")
        names = host.run(["nft", "list", "chains"], timeout=SECONDS, limit=KERNEL_LIMIT).stdout
    except Unavailable:
        return NftReading()
    except BallastError as error:
        unread.append(("tables of nftables", error.text))
        return NftReading()
    tables = tuple(" ".join(match) for match in re.findall(r"^table (\S+) (\S+) \{", names, re.MULTILINE))
    closed: list[Closed] = []
    translating: dict[tuple[str, str], Table] = {}
    for family, table in dict.fromkeys((str(chain.get("family")), str(chain.get("table"))) for chain in chains):
        of_table = [chain for chain in chains if (chain.get("family"), chain.get("table")) == (family, table)]
        hooked = [chain for chain in of_table if _is_filter(chain)]
        translates = any(map(_may_translate, of_table))
        if not (hooked or translates) or _is_skipped(family, table, rulesets):
            continue
        try:
            listed = host.run(["nft", "-j", "list", "table", family, table], timeout=SECONDS, limit=KERNEL_LIMIT).stdout
            closed.extend(closed_in_table(hooked, _list(listed, "rule"), table=f"{family} {table}"))
            translating.update(parse_ruleset(listed).tables if translates else {})
        except BallastError as error:
            unread.append((f"table {family} {table}", error.text))
    return NftReading(tables, tuple(closed), Ruleset(translating))


def select_translating(ruleset: Ruleset, rulesets: Rulesets) -> dict[int, NodeRules]:
    """By family, the rules that may translate packets or exclude them from conntrack."""
    return {
        of: NodeRules(
            Ruleset({key: table for key, table in ruleset.tables.items() if key[0] in (name, "inet")}),
            {variant: tables for (variant, family), tables in rulesets.items() if family == of},
        )
        for of, name in NFT_FAMILIES.items()
    }


def _may_translate(chain: Mapping[str, Any]) -> bool:
    """Whether packets to Services pass the chain before translation and it may translate them or bypass conntrack."""
    priority = chain.get("prio")
    is_raw = isinstance(priority, int) and priority < _CONNTRACK_PRIORITY
    return chain.get("hook") in ("prerouting", "output") and (chain.get("type") == "nat" or is_raw)


def _is_filter(chain: Mapping[str, Any]) -> bool:
    return chain.get("type") == "filter" and chain.get("hook") in (FORWARD, INPUT)


def _is_skipped(family: str, table: str, rulesets: Rulesets) -> bool:
    if family not in ("ip", "ip6", "inet") or table == KUBE_PROXY_TABLE or table.startswith(MARK):
        return True
    return table in BUILT_IN and (restore.NFT, 6 if family == "ip6" else 4) in rulesets and family != "inet"


def _list(text: str, kind: str) -> list[Mapping[str, Any]]:
    """All objects of a kind in the output of `nft -j list ...`; empty for any other text."""
    try:
        document = parse_json(text)
    except ValueError:
        return []
    items = document.get("nftables") if isinstance(document, dict) else None
    objects = [item.get(kind) for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return [item for item in objects if isinstance(item, dict)]


def closed_in_table(
    chains: Iterable[Mapping[str, Any]], rules: Sequence[Mapping[str, Any]], *, table: str
) -> Iterator[Closed]:
    """`chains` and `rules` are in the form of libnftables-json(5)."""
    for chain in chains:
        own = [_deciding(rule.get("expr")) for rule in rules if rule.get("chain") == chain.get("name")]
        drops = any(len(statements) == 1 and set(statements[0]) & {"drop", "reject"} for statements in own)
        if chain.get("policy") == "drop" or drops:
            why = "policy drop" if chain.get("policy") == "drop" else "a rule that drops everything else"
            lets = any(
                _is_dnat_match(statements[:-1]) and "accept" in statements[-1]
                for statements in own
                if len(statements) == 2
            )
            name = chain.get("name")
            where = f"nftables, table {table}: chain {name}, {why}"
            yield Closed(where, str(chain["hook"]), lets, f"nft insert rule {table} {name}")


def _deciding(expressions: object) -> list[Mapping[str, Any]]:
    listed = expressions if isinstance(expressions, list) else []
    return [expression for expression in listed if isinstance(expression, dict) and not set(expression) & set(_IGNORED)]


def _is_dnat_match(statements: Sequence[Mapping[str, Any]]) -> bool:
    match = statements[0].get("match") if len(statements) == 1 else None
    if not isinstance(match, dict) or match.get("op") not in ("==", "in"):
        return False
    return match.get("left") == {"ct": {"key": "status"}} and match.get("right") == "dnat"


def tables_with_sets(host: Host) -> tuple[str, ...]:
    """Tables of other programs that have sets or maps. Requires nft 1.1.3 or later: older ones fetch every element."""
    try:
        names = [
            f"{row.get('family')} {row.get('table')}"
            for kind in ("set", "map")
            for row in _list(
                host.run(["nft", "-j", "list", f"{kind}s"], timeout=SECONDS, limit=KERNEL_LIMIT).stdout, kind
            )
            if row.get("table") != KUBE_PROXY_TABLE
        ]
    except BallastError:
        return ()
    return tuple(sorted(set(names)))


# Firewalls that reload their rules


def read_firewalld(host: Host, tables: Sequence[str]) -> tuple[str, ...]:
    """Why firewalld is expected to run and to flush all rules on reload, which is its default; empty if it is not."""
    running = "inet firewalld" in tables or (
        host.is_systemd()
        and host.run(["systemctl", "is-active", "firewalld"], timeout=SECONDS, check=False).stdout.strip() == "active"
    )
    if not running:
        return ()
    match = _FLUSH_ALL.search(_text(host, _FIREWALLD))
    if match is None:
        return ("firewalld runs, and FlushAllOnReload is not set; its default is yes",)
    return (f"firewalld runs, and {_FIREWALLD} has {match[0].strip()}",) if match[1].lower() in ("yes", "true") else ()


def read_flushing_files(host: Host) -> tuple[str, ...]:
    """Files of an enabled nftables.service that flush the tables of all programs."""
    root = "/etc/systemd/system"
    enabled = [name for name in host.listdir(root) if name.endswith((".wants", ".requires"))]
    if not any(host.stat(f"{root}/{name}/nftables.service") for name in enabled):
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
_CHAINS = (("cali-", CALICO), ("CILIUM_", CILIUM), ("ANTREA-", ANTREA))  # prefixes of the names of iptables chains
_TABLES = {"ip calico": CALICO_NFTABLES, "ip6 calico": CALICO_NFTABLES}


def agents(rulesets: Rulesets, links: Links, tables: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The traces on the node of each agent."""
    traces_of: dict[str, list[str]] = {}
    for name, _addresses in links:
        if name in _LINKS:
            traces_of.setdefault(_LINKS[name], []).append(f"link {name}")
    for table in tables:
        if table in _TABLES:
            traces_of.setdefault(_TABLES[table], []).append(f"nftables, table {table}")
    for (variant, family), ruleset in rulesets.items():
        for prefix, agent in _CHAINS:
            own = [chain.name for table in ruleset.tables for chain in table.chains if chain.name.startswith(prefix)]
            if own:
                chains = f"{len(own)} chains, as {own[0]}"
                traces_of.setdefault(agent, []).append(f"iptables ({variant}), IPv{family}: {chains}")
    return {agent: tuple(traces) for agent, traces in traces_of.items()}


# CNI


def read_portmaps(host: Host, unread: list[tuple[str, str]]) -> tuple[Portmap, ...]:
    """The portmap plugins in the CNI configurations of this node. Files that cannot be read are added to `unread`."""
    portmaps: list[Portmap] = []
    for name in host.listdir(_CNI):
        path = f"{_CNI}/{name}"
        if not name.endswith((".conf", ".conflist", ".json")):
            continue
        try:
            portmaps.extend(parse_portmaps(_text(host, path), path=path))
        except BallastError as error:
            unread.append((path, error.in_one_line))
        except (ValueError, RecursionError) as error:
            unread.append((path, shorten(str(error))))
    return tuple(portmaps)


def parse_portmaps(text: str, *, path: str) -> Iterator[Portmap]:
    """The portmap plugins in a CNI configuration of one plugin or a list. ValueError if it is not one."""
    document = parse_json(text)
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
