# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads a node for a clean-up.

Nothing here loads a module. If a tool is missing, it has made nothing, unless /proc shows otherwise: an artefact then says
what could not be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..._audit.kernel_reading import read_iptables
from ..._audit.stale_chains import find_stale_chains
from ..._core.host.host import KERNEL_LIMIT, Host
from ..._core.text.errors import CommandFailed, Unavailable
from ..._rules.backend import NFT_FAMILIES
from ..._rules.iptables import restore
from ..._rules.iptables.objects import BUILT_IN, Jump, Tables
from ..._rules.ipvs.apply import CONNECTIONS
from ..._rules.ipvs.objects import SET_NAMES
from ..._rules.ipvs.parse import parse as parse_ipvs
from ..._rules.model import IPVS, NFTABLES
from ..._rules.node_addresses import LINK, families
from ..drain_record import count_open, read_draining
from ..modes import rules_of
from .addresses import IpvsReading
from .artefact import KEPT, Artefact
from .rules import RulesKey

_SECONDS = 60
_LEGACY_TABLES = {4: "/proc/net/ip_tables_names", 6: "/proc/net/ip6_tables_names"}
_MODULES = "/proc/modules"
_LINKS = "/proc/net/dev"
_HINTS = (("mangle", "KUBE-IPTABLES-HINT"), ("mangle", "KUBE-KUBELET-CANARY"))


@dataclass(frozen=True)
class Reading:
    tables: Mapping[RulesKey, Tables]
    variant: str  # written by kube-proxy in the mode in use; "" for nftables and ballast, and without iptables
    undecided: bool  # whether the variant is unknown
    nft_tables: tuple[tuple[str, str], ...]  # in the families ip and ip6
    ipvs: IpvsReading
    modules: tuple[str, ...]
    unseen: tuple[Artefact, ...]  # what the kernel has but no tool on this machine shows


def read(host: Host, mode: str) -> Reading:
    modules = tuple(
        line.split()[0] for line in (host.read(_MODULES) or b"").decode(errors="replace").splitlines() if line.strip()
    )
    unseen: list[Artefact] = []
    unread: list[tuple[str, str]] = []
    tables = read_iptables(host, unread)
    unseen += [Artefact("chain", what, KEPT, f"they cannot be read: {problem}") for what, problem in unread]
    chains = _nft_chains(host, modules, mode, unseen)
    unseen += _not_read_by_iptables(host, tables, {place.partition("IPv")[2][:1] for place, _why in unread}, chains)
    variant, undecided = _variant(host, tables, mode)
    if not undecided:
        tables = {key: _as_written(host, key, rules, mode, variant) for key, rules in tables.items()}
    of_services = dict.fromkeys((family, table) for family, table, _chain in chains if family in NFT_FAMILIES.values())
    return Reading(
        tables, variant, undecided, tuple(of_services), _ipvs(host, mode, modules, unseen), modules, tuple(unseen)
    )


def _as_written(host: Host, key: RulesKey, tables: Tables, mode: str, variant: str) -> Tables:
    """Read again if individual rules of a chain are deleted: iptables matches those by their original text."""
    mixed = find_stale_chains(tables, mode, in_use=key[0] == variant).mixed
    return restore.read(host, family=key[1], variant=key[0], as_written=mixed) if mixed else tables


def _variant(host: Host, tables: Mapping[RulesKey, Tables], mode: str) -> tuple[str, bool]:
    """The variant that kube-proxy writes, and whether it is undecided. It is the only one with its jumps. If both have them,
    one is stale, and kube-proxy follows the kubelet's chain (iptables-wrappers in its image) or the machine's iptables;
    undecided if these differ."""
    if rules_of(mode) == NFTABLES or not tables:
        return "", False
    programs = {variant for (variant, _family), rules in tables.items() if _has_jumps(rules)}
    if len(programs) == 1:
        return programs.pop(), False
    here = restore.variant_in_use(host)
    marked = {variant for (variant, _family), rules in tables.items() if any(rules.chain(*hint) for hint in _HINTS)}
    return here, bool(programs) and bool(marked) and here not in marked


def _has_jumps(tables: Tables) -> bool:
    chain = tables.chain("nat", "PREROUTING")
    return chain is not None and any(
        isinstance(rule.target, Jump) and rule.target.chain == "KUBE-SERVICES" for rule in chain.rules
    )


# --- nftables


def _nft_chains(
    host: Host, modules: tuple[str, ...], mode: str, unseen: list[Artefact]
) -> tuple[tuple[str, str, str], ...]:
    """(family, table, chain), with chain "" for a table without chains. To list chains, nft does not fetch elements
    first."""
    try:
        listed = host.run(["nft", "list", "chains"], timeout=_SECONDS, limit=KERNEL_LIMIT).stdout
    except (Unavailable, CommandFailed) as error:
        if mode != NFTABLES and "nf_tables" in modules:
            why = f"not checked, although the kernel has nf_tables loaded: {error.text}"
            unseen.append(Artefact("table", "nftables ip kube-proxy, ip6 kube-proxy", KEPT, why))
        return ()
    chains: list[tuple[str, str, str]] = []
    family = table = ""
    for line in listed.splitlines():
        words = line.split()
        if len(words) == 4 and words[0] == "table" and words[3] == "{":
            family, table = words[1:3]
            chains.append((family, table, ""))
        elif len(words) >= 3 and words[0] == "chain":
            chains.append((family, table, words[1]))
    return tuple(chains)


def _not_read_by_iptables(
    host: Host, tables: Mapping[RulesKey, Tables], unread: set[str], chains: tuple[tuple[str, str, str], ...]
) -> list[Artefact]:
    """Rules that the kernel has in a variant that no tool on this machine shows."""
    artefacts = []
    for family in families(host):
        if str(family) in unread:
            continue
        place, tool = f"IPv{family}", "iptables" if family == 4 else "ip6tables"
        names = (host.read(_LEGACY_TABLES[family]) or b"").decode(errors="replace").split()
        if (restore.LEGACY, family) not in tables and names:
            why = f"not checked: this node lacks {tool}-legacy-save, and the kernel has its tables {', '.join(names)}"
            artefacts.append(Artefact("chain", f"iptables ({restore.LEGACY}) {place}", KEPT, why))
        of_kube = [
            chain
            for of, table, chain in chains
            if of == NFT_FAMILIES[family] and table in BUILT_IN and chain.startswith("KUBE-")
        ]
        if (restore.NFT, family) not in tables and of_kube:
            why = f"not checked: this node lacks {tool}-nft-save, and nft shows chains such as {of_kube[0]}"
            artefacts.append(Artefact("chain", f"iptables ({restore.NFT}) {place}", KEPT, why))
    return artefacts


# --- ipvs


def _ipvs(host: Host, mode: str, modules: tuple[str, ...], unseen: list[Artefact]) -> IpvsReading:
    if mode == IPVS:
        return IpvsReading({})
    links = _links(host, unseen)
    names = _set_names(host, modules, unseen)
    saved = "".join(
        host.run(["ipset", "save", name], timeout=_SECONDS, limit=KERNEL_LIMIT).stdout
        for name in names
        if name in SET_NAMES
    )
    connections = (host.read(CONNECTIONS, limit=KERNEL_LIMIT) or b"").decode(errors="replace")
    unlisted, servers = 0, ""
    if connections:
        try:
            servers = host.run(["ipvsadm", "-S", "-n"], timeout=_SECONDS, limit=KERNEL_LIMIT).stdout
        except Unavailable:
            unlisted = sum(line.startswith(("TCP ", "UDP ", "SCTP ", "FWM ")) for line in connections.splitlines())
    rules = {
        family: parse_ipvs(tables=Tables(family), servers=servers, sets=saved, links=links)
        for family in (4, 6)  # a kernel without IPv6 has no virtual servers for it either
    }
    return IpvsReading(rules, names, unlisted, count_open(host), read_draining(host), host.now())


def _links(host: Host, unseen: list[Artefact]) -> str:
    try:
        return host.run(["ip", "-j", "address", "show"], timeout=_SECONDS, limit=KERNEL_LIMIT).stdout
    except Unavailable as error:
        if f"{LINK}:" in (host.read(_LINKS) or b"").decode(errors="replace").split():
            unseen.append(Artefact("link", LINK, KEPT, error.text))
        return "[]"


def _set_names(host: Host, modules: tuple[str, ...], unseen: list[Artefact]) -> tuple[str, ...]:
    try:
        return tuple(sorted(host.run(["ipset", "list", "-n"], timeout=_SECONDS, limit=KERNEL_LIMIT).stdout.split()))
    except (Unavailable, CommandFailed) as error:
        if "ip_set" in modules:
            why = f"not checked, although the kernel has ip_set loaded: {error.text}"
            unseen.append(Artefact("set", "KUBE-*", KEPT, why))
        return ()
