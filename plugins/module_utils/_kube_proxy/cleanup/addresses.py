# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the mode ipvs has left: virtual servers, the link with their addresses, and sets. Pure.

A virtual server belongs to a Service when its address is on the link or in one of kube-proxy's sets (ipvs/plan.py). The
others are another program's and are kept: nothing is flushed. Order: virtual servers first, as the link and the sets
identify them; a set only when no rule uses it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..._audit.findings import list_some
from ..._audit.stale_chains import StaleChains
from ..._rules.iptables.objects import MatchSet, Tables, Unknown
from ..._rules.iptables.text import rule_text
from ..._rules.ipvs.objects import SET_NAMES, IpvsRules
from ..._rules.ipvs.plan import IP, IPSET, IPVSADM, Operation, plan, select_own
from ..._rules.model import IPVS
from ..._rules.node_addresses import LINK
from .artefact import KEPT, REMOVED, Artefact, CleanupPart, Stage

_IDENTIFIES = "by it the virtual servers of Services are told from others, and they could not be looked at"


@dataclass(frozen=True)
class IpvsReading:
    """By family; of its sets, `rules` has those with addresses and ports of Services."""

    rules: Mapping[int, IpvsRules]
    sets: tuple[str, ...] = ()  # all names
    unlisted: int = 0  # virtual servers that could not be listed, as there is no ipvsadm

    @property
    def link(self) -> bool:
        return any(rules.link for rules in self.rules.values())


def left_of_ipvs(reading: IpvsReading, mode: str, users: Mapping[str, str]) -> CleanupPart:
    """`users`: sets that a kept rule uses, each with such a rule."""
    if mode == IPVS:
        return CleanupPart()
    parts = [*_servers(reading), *_link(reading), *_sets(reading, users)]
    return CleanupPart(
        tuple(artefact for part in parts for artefact in part.artefacts),
        tuple(stage for part in parts for stage in part.stages),
    )


def _servers(reading: IpvsReading) -> Iterator[CleanupPart]:
    if reading.unlisted:
        why = "ipvsadm is not on this machine, so that they can be neither told apart nor removed"
        yield CleanupPart((Artefact("virtual server", f"{reading.unlisted} in /proc/net/ip_vs", KEPT, why),))
        return
    for family, rules in reading.rules.items():
        mine = select_own(rules).servers
        if mine:
            gone = [step for step in plan(None, rules) if isinstance(step, Operation) and step.tool == IPVSADM]
            title = f"IPv{family}: {list_some(server.text for server in mine)}"
            why = f"they are of Services: their addresses are on {LINK} or in sets of kube-proxy's"
            yield CleanupPart(
                (Artefact("virtual server", title, REMOVED, why),),
                (Stage(f"virtual servers of IPv{family}", tuple(gone)),),
            )
    for server in foreign_servers(reading):
        yield CleanupPart(
            (Artefact("virtual server", server, KEPT, f"another program's: neither {LINK} nor a set has it"),)
        )


def foreign_servers(reading: IpvsReading) -> list[str]:
    """Texts of other programs' virtual servers, once each: both families list those that a mark selects."""
    texts: dict[str, None] = {}
    for rules in reading.rules.values():
        mine = select_own(rules).server_by_key
        texts.update({server.text: None for server in rules.servers if server.key not in mine})
    return list(texts)


def _link(reading: IpvsReading) -> Iterator[CleanupPart]:
    if not reading.link:
        return
    if reading.unlisted:
        yield CleanupPart((Artefact("link", LINK, KEPT, _IDENTIFIES),))
        return
    operation = Operation("remove link", LINK, IP, f"link delete {LINK}")
    why = "only the mode ipvs binds addresses of Services; its addresses go with it"
    yield CleanupPart((Artefact("link", LINK, REMOVED, why),), (Stage(f"the link {LINK}", (operation,)),))


def _sets(reading: IpvsReading, users: Mapping[str, str]) -> Iterator[CleanupPart]:
    gone = []
    for name in reading.sets:
        if name not in SET_NAMES:
            if name.startswith("KUBE-"):
                why = "another program's: kube-proxy has no set of that name (kube-router has KUBE-SRC- and KUBE-DST-)"
                yield CleanupPart((Artefact("set", name, KEPT, why),))
        elif reading.unlisted:
            yield CleanupPart((Artefact("set", name, KEPT, _IDENTIFIES),))
        elif name in users:
            yield CleanupPart((Artefact("set", name, KEPT, f"a rule that stays looks into it: {users[name]}"),))
        else:
            gone.append(Operation("remove set", name, IPSET, f"destroy {name}"))
            yield CleanupPart((Artefact("set", name, REMOVED, "only the mode ipvs looks into it"),))
    if gone:
        yield CleanupPart((), (Stage("sets", tuple(gone)),))


def users_of_sets(tables: Iterable[tuple[Tables, StaleChains]]) -> dict[str, str]:
    """Sets with names of kube-proxy's that kept rules use, each with one such rule."""
    users: dict[str, str] = {}
    for rules, left in tables:
        emptied = {(removal.table, removal.chain) for removal in left.chains if not removal.rules}
        gone = {(removal.table, removal.chain, rule) for removal in left.chains for rule in removal.rules}
        for table in rules.tables:
            for chain in table.chains:
                if (table.name, chain.name) in emptied:
                    continue
                for rule in chain.rules:
                    for name in _sets_of(rule.matches):
                        if (table.name, chain.name, rule) not in gone:
                            users.setdefault(name, f"-A {chain.name} {rule_text(rule)}")
    return users


def _sets_of(matches: Iterable[object]) -> Iterator[str]:
    for match in matches:
        if isinstance(match, MatchSet) and match.name in SET_NAMES:
            yield match.name
        elif isinstance(match, Unknown):
            yield from (word for word in match.text.split() if word in SET_NAMES)
