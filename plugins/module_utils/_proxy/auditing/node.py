# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of a node besides rules stands in the way of Services: leftovers, kernel settings, stale connections. Pure."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ..backends import Backend, Settings
from ..iptables.backend import Iptables
from ..iptables.objects import Tables
from ..ipvs.backend import Ipvs
from ..ipvs.objects import SET_NAMES
from ..leftovers import leftovers
from ..model import FamilyView, ServicePort
from ..nftables.backend import Nftables
from ..packet import Surroundings, endpoint_text
from ..surroundings import LINK
from .facts import Facts
from .findings import AuditFinding, finding, some

_NAMES = {Nftables: "nftables", Iptables: "iptables", Ipvs: "ipvs"}


def residue(facts: Facts, backend: Backend) -> Iterator[AuditFinding]:
    """What a backend that is not in use has left, one finding for each kind of thing and family."""
    name = _NAMES[type(backend)]
    for (variant, family), tables in facts.iptables.items():
        left = _left_in_iptables(tables, backend, variant)
        if left:
            what = f"iptables ({variant}) has {some(left)}"
            other = "iptables or ipvs" if isinstance(backend, Nftables) else _other(backend, variant)
            yield finding("rules-audit-residue", family=family, other=other, backend=name, what=what)
    if not isinstance(backend, Nftables):
        for table_family, table in facts.service_tables:
            what = f"the nftables table {table_family} {table}"
            family = 6 if table_family == "ip6" else 4
            yield finding("rules-audit-residue", family=family, other="nftables", backend=name, what=what)
    if not isinstance(backend, Ipvs):
        sets = [one for one in facts.sets if one in SET_NAMES]
        for what in (
            f"the link {LINK}" if facts.link else "",
            f"{len(facts.virtual_servers)} virtual servers: {some(facts.virtual_servers)}"
            if facts.link and facts.virtual_servers
            else "",
            f"ipsets: {some(sets)}" if sets else "",
        ):
            if what:
                yield finding("rules-audit-residue", other="ipvs", backend=name, what=what)


def _other(backend: Backend, variant: str) -> str:
    in_use = backend.variant if isinstance(backend, (Iptables, Ipvs)) else ""
    if variant != in_use:
        return f"iptables or ipvs in the variant {variant}"
    return "ipvs" if isinstance(backend, Iptables) else "iptables"


def _left_in_iptables(tables: Tables, backend: Backend, variant: str) -> Sequence[str]:
    """Chains with rules; an empty one does nothing."""
    in_use = isinstance(backend, (Iptables, Ipvs)) and variant == backend.variant
    found = leftovers(tables, _NAMES[type(backend)], in_use=in_use)
    full = {(table.name, chain.name) for table in tables.tables for chain in table.chains if chain.rules}
    return [f"{one.table} {one.chain}" for one in found.chains if (one.table, one.chain) in full]


def settings(facts: Facts, wanted: Settings) -> Iterator[AuditFinding]:
    for name, value in wanted:
        if name in facts.settings and facts.settings[name] != value:
            there = facts.settings[name]
            shown = "the kernel has no such setting" if there is None else f"{name} = {there}"
            yield finding("rules-audit-setting", name=name, wanted=value, value=shown)


def connections(facts: Facts, view: FamilyView, surroundings: Surroundings) -> Iterator[AuditFinding]:
    """UDP connections that conntrack keeps at an endpoint which does not serve any more, or at none.

    Where no endpoint serves, they stay, and TCP and SCTP end by themselves. Source: reference of kube-proxy 1.6.
    """
    if facts.connections is None:
        return
    by_key = {(one.address, one.port): one for one in view.frontends if one.protocol == "UDP"}
    serving: dict[int, frozenset[str]] = {}
    stale: Counter[tuple[str, str, int, str]] = Counter()
    for one in facts.connections:
        if ipaddress.ip_address(one.destination).version != view.family:
            continue
        frontend = by_key.get((one.destination, one.port))
        if frontend is None and surroundings.is_local(one.destination):
            frontend = by_key.get(("", one.port))
        if frontend is None:
            continue
        key = id(frontend.service)
        if key not in serving:
            serving[key] = _serving(frontend.service)
        if serving[key] and one.target not in serving[key]:
            stale[frontend.service.title, one.destination, one.port, one.target] += 1
    for (service, address, port, target), count in sorted(stale.items()):
        yield finding(
            "rules-audit-conntrack",
            family=view.family,
            service=service,
            destination=endpoint_text(address, port),
            count=count,
            target=target,
            address=address,
            port=port,
        )


def _serving(service: ServicePort) -> frozenset[str]:
    return frozenset(one.address for one in service.endpoints if one.serving)


def unseen(facts: Facts, views: Mapping[int, FamilyView]) -> Iterator[AuditFinding]:
    """What of the node could not be looked at."""
    has_udp = any(one.protocol == "UDP" for view in views.values() for one in view.services)
    if facts.connections_problem and has_udp:
        yield finding("rules-audit-conntrack-unseen", problem=facts.connections_problem)
    for what, problem in facts.unread:
        yield finding("rules-audit-foreign-unread", what=what, problem=problem)
