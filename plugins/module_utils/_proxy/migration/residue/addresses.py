# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the mode ipvs has left: virtual servers, the link that holds their addresses, sets. Pure.

A virtual server is of a Service when its address is on the link, or a set of kube-proxy's has it (ipvs/plan.py). Others are
another program's and stay: nothing is flushed. Order: a virtual server is told by the link and the sets, so it goes first;
a set goes when no rule looks into it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ...auditing.findings import some
from ...iptables.objects import MatchSet, Tables, Unknown
from ...iptables.text import rule_text
from ...ipvs.objects import SET_NAMES, IpvsRules
from ...ipvs.plan import IP, IPSET, IPVSADM, Operation, own, plan
from ...leftovers import Leftovers
from ...model import IPVS
from ...surroundings import LINK
from .artefact import KEPT, REMOVED, Artefact, Found, Stage

_TOLD_BY_IT = "by it the virtual servers of Services are told from others, and they could not be looked at"


@dataclass(frozen=True)
class IpvsReading:
    """By family; of its sets, `rules` has those with addresses and ports of Services."""

    rules: Mapping[int, IpvsRules]
    sets: tuple[str, ...] = ()  # names of all sets
    unlisted: int = 0  # virtual servers that could not be listed, as there is no ipvsadm

    @property
    def link(self) -> bool:
        return any(rules.link for rules in self.rules.values())


def left_of_ipvs(reading: IpvsReading, mode: str, users: Mapping[str, str]) -> Found:
    """`users`: sets that rules which stay look into, and such a rule."""
    if mode == IPVS:
        return Found()
    parts = [*_servers(reading), *_link(reading), *_sets(reading, users)]
    return Found(
        tuple(one for part in parts for one in part.artefacts), tuple(one for part in parts for one in part.stages)
    )


def _servers(reading: IpvsReading) -> Iterator[Found]:
    if reading.unlisted:
        why = "ipvsadm is not on this machine, so that they can be neither told apart nor removed"
        yield Found((Artefact("virtual server", f"{reading.unlisted} in /proc/net/ip_vs", KEPT, why),))
        return
    for family, rules in reading.rules.items():
        mine = own(rules).servers
        if mine:
            gone = [one for one in plan(None, rules) if isinstance(one, Operation) and one.tool == IPVSADM]
            title = f"IPv{family}: {some(one.text for one in mine)}"
            why = f"they are of Services: their addresses are on {LINK} or in sets of kube-proxy's"
            yield Found(
                (Artefact("virtual server", title, REMOVED, why),),
                (Stage(f"virtual servers of IPv{family}", tuple(gone)),),
            )
    for one in foreign_servers(reading):
        yield Found((Artefact("virtual server", one, KEPT, f"another program's: neither {LINK} nor a set has it"),))


def foreign_servers(reading: IpvsReading) -> list[str]:
    """One that is chosen by a mark is in the listing of both families."""
    found: dict[str, None] = {}
    for rules in reading.rules.values():
        mine = own(rules).server_by_key
        found.update({one.text: None for one in rules.servers if one.key not in mine})
    return list(found)


def _link(reading: IpvsReading) -> Iterator[Found]:
    if not reading.link:
        return
    if reading.unlisted:
        yield Found((Artefact("link", LINK, KEPT, _TOLD_BY_IT),))
        return
    operation = Operation("remove link", LINK, IP, f"link delete {LINK}")
    why = "only the mode ipvs binds addresses of Services; its addresses go with it"
    yield Found((Artefact("link", LINK, REMOVED, why),), (Stage(f"the link {LINK}", (operation,)),))


def _sets(reading: IpvsReading, users: Mapping[str, str]) -> Iterator[Found]:
    gone = []
    for name in reading.sets:
        if name not in SET_NAMES:
            if name.startswith("KUBE-"):
                why = "another program's: kube-proxy has no set of that name (kube-router has KUBE-SRC- and KUBE-DST-)"
                yield Found((Artefact("set", name, KEPT, why),))
        elif reading.unlisted:
            yield Found((Artefact("set", name, KEPT, _TOLD_BY_IT),))
        elif name in users:
            yield Found((Artefact("set", name, KEPT, f"a rule that stays looks into it: {users[name]}"),))
        else:
            gone.append(Operation("remove set", name, IPSET, f"destroy {name}"))
            yield Found((Artefact("set", name, REMOVED, "only the mode ipvs looks into it"),))
    if gone:
        yield Found((), (Stage("sets", tuple(gone)),))


def users_of_sets(tables: Iterable[tuple[Tables, Leftovers]]) -> dict[str, str]:
    """Sets of kube-proxy's names that rules which stay look into, each with one such rule."""
    found: dict[str, str] = {}
    for rules, left in tables:
        emptied = {(one.table, one.chain) for one in left.chains if not one.rules}
        gone = {(one.table, one.chain, rule) for one in left.chains for rule in one.rules}
        for table in rules.tables:
            for chain in table.chains:
                if (table.name, chain.name) in emptied:
                    continue
                for rule in chain.rules:
                    for name in _sets_of(rule.matches):
                        if (table.name, chain.name, rule) not in gone:
                            found.setdefault(name, f"-A {chain.name} {rule_text(rule)}")
    return found


def _sets_of(matches: Iterable[object]) -> Iterator[str]:
    for one in matches:
        if isinstance(one, MatchSet) and one.name in SET_NAMES:
            yield one.name
        elif isinstance(one, Unknown):
            yield from (word for word in one.text.split() if word in SET_NAMES)
