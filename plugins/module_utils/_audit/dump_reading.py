# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules of a node from a dump, and which parts the dump lacks. Pure.

A kernel always has every part, even if it is empty; a dump only has what was saved. A table or family that is not in the
dump is unknown and must not count as missing in the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Optional

from .._rules.backend import NFT_FAMILIES, Backend
from .._rules.iptables.backend import Iptables
from .._rules.iptables.restore import LEGACY, NFT
from .._rules.ipvs.backend import Ipvs
from .._rules.ipvs.objects import IpvsRules
from .._rules.ipvs.parse import parse_sets
from .._rules.nftables.backend import Nftables
from .._rules.nftables.objects import Ruleset
from .._rules.node_addresses import FAMILIES, LINK, Links, parse_links
from .._rules.node_rules import ARRIVALS, EVERYTHING, REFUSALS, Missing, NodeRules
from .dump.reading import Dump, read_dump

_REFUSED = re.compile(r"(?m)^add KUBE-(?:6-)?LOAD-BALANCER-FW ")
_OF_SERVICE = re.compile(r"/|^cluster-ip-|^external-|^local-|^node-port-")  # kube-proxy's chains, and our own
_TABLES = ("nat", "filter")  # filled by kube-proxy on every node


class DumpReading:
    """A `NodeReading` of a dump."""

    def __init__(self, text: str, backend: Backend) -> None:
        self.dump = read_dump(text)
        self.backend = backend
        self.families = tuple(family for family in FAMILIES if is_saved(self.dump, family, backend))
        self._missing = {family: find_missing(self.dump, family, backend) for family in FAMILIES}
        self.missing = tuple(dict.fromkeys(part for parts in self._missing.values() for part in parts))

    @property
    def own_table(self) -> str:
        """The backend's nftables table; "" for another backend."""
        return self.backend.table if isinstance(self.backend, Nftables) else ""

    @property
    def links(self) -> Optional[Links]:
        """None if they were not saved."""
        return None if self.dump.links is None else parse_links(self.dump.links)

    def rules(self, family: int) -> Any:
        """The backend's rules, as it would read them from the kernel."""
        if isinstance(self.backend, Nftables):
            listed = self.dump.nftables or Ruleset()
            return listed.tables.get((NFT_FAMILIES[family], self.backend.table))
        if isinstance(self.backend, Ipvs):
            return self.dump.ipvs(self.backend.variant, family)
        if isinstance(self.backend, Iptables):
            return self.dump.tables(self.backend.variant, family)
        raise TypeError(f"no backend of this machine: {self.backend}")

    def node_rules(self, family: int) -> NodeRules:
        return NodeRules(
            nftables=self.ruleset(family),
            iptables={variant: tables for (variant, of), tables in self.dump.iptables.items() if of == family},
            ipvs=self._ipvs(family),
            sets=parse_sets(self.dump.sets or ""),
            missing=self._missing[family],
        )

    def ruleset(self, family: int) -> Ruleset:
        """The nftables tables of a family, without those that iptables shows."""
        shown = {(NFT_FAMILIES[family], table.name) for table in self.dump.tables(NFT, family).tables}
        listed = {} if self.dump.nftables is None else self.dump.nftables.tables
        return Ruleset(
            {
                key: table
                for key, table in listed.items()
                if key[0] in (NFT_FAMILIES[family], "inet") and key not in shown
            }
        )

    def _ipvs(self, family: int) -> Optional[IpvsRules]:
        if isinstance(self.backend, Ipvs):
            return self.dump.ipvs(self.backend.variant, family)
        return self.dump.ipvs(NFT, family) if self.dump.servers or LINK in dict(self.links or ()) else None


def is_saved(dump: Dump, family: int, backend: Backend) -> bool:
    """Whether the dump has any rules of this family."""
    if isinstance(backend, Nftables):
        name = NFT_FAMILIES[family]
        listed = {} if dump.nftables is None else dump.nftables.tables
        # Any other table of the family, or of inet, shows that the whole ruleset was listed.
        return any(of in (name, "inet") for of, _table in listed)
    return any(of == family for _variant, of in dump.iptables)


def find_missing(dump: Dump, family: int, backend: Backend) -> tuple[Missing, ...]:
    """What an audit of this backend needs and the dump lacks: one entry if the whole family is missing."""
    if not is_saved(dump, family, backend):
        return (_missing_family(family, backend),)
    return (
        *_missing_tables(dump, family, backend),
        *_missing_elements(dump, family, backend),
        *_missing_of_ipvs(dump, backend),
    )


def _missing_family(family: int, backend: Backend) -> Missing:
    if isinstance(backend, Nftables):
        return Missing(f"nftables tables of IPv{family}", "nft list ruleset")
    return Missing(f"iptables tables of IPv{family}", f"{_tool(family)}-save")


def _missing_tables(dump: Dump, family: int, backend: Backend) -> Iterator[Missing]:
    hidden = dump.hidden.get((NFT, family), ())
    if isinstance(backend, (Iptables, Ipvs)):
        saved = {*hidden, *(table.name for table in dump.tables(backend.variant, family).tables)}
        for table in _TABLES:
            if table not in saved:
                decides = _decided_by(table, dump, backend)
                yield Missing(f"iptables table {table}", f"{_tool(family)}-save -t {table}", decides)
    for table in hidden:
        key = (NFT_FAMILIES[family], table)
        if table in _TABLES and (dump.nftables is None or key not in dump.nftables.tables):
            decides = _decided_by(table, dump, backend)
            yield Missing(f"nftables table {' '.join(key)}", f"nft list table {' '.join(key)}", decides)
    if family in dump.legacy_present:
        yield Missing(f"iptables tables of the variant {LEGACY}", f"{_tool(family)}-legacy-save", REFUSALS)


def _missing_elements(dump: Dump, family: int, backend: Backend) -> Iterator[Missing]:
    """`nft -t` prints sets and maps without elements. If there are chains of Services, some of them must have elements."""
    if not isinstance(backend, Nftables) or dump.nftables is None:
        return
    key = (NFT_FAMILIES[family], backend.table)
    table = dump.nftables.tables.get(key)
    if table is None or not any(map(_OF_SERVICE.search, table.chains)):
        return
    if table.sets and not any(named_set.elements for named_set in table.sets.values()):
        yield Missing(f"elements of sets in table {' '.join(key)}", "nft list ruleset, without -t")


def _decided_by(table: str, dump: Dump, backend: Backend) -> str:
    """What a table decides. The filter table refuses what nat does not translate; in ipvs mode it also comes before
    translation, and refuses sources that a load balancer does not allow."""
    if table != "filter" or (isinstance(backend, Ipvs) and _REFUSED.search(dump.sets or "")):
        return EVERYTHING
    return REFUSALS


def _missing_of_ipvs(dump: Dump, backend: Backend) -> Iterator[Missing]:
    if isinstance(backend, Ipvs):
        for part, held, command, decides in (
            ("virtual servers", dump.servers, "ipvsadm-save -n", EVERYTHING),
            ("ipsets", dump.sets, "ipset save", EVERYTHING),
            ("addresses of the node", dump.links, "ip -j address", ARRIVALS),
        ):
            if held is None:
                yield Missing(part, command, decides)


def _tool(family: int) -> str:
    return "iptables" if family == 4 else "ip6tables"
