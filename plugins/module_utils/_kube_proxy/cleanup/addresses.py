# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What mode ipvs has left: virtual servers, the link with their addresses, and sets. Pure.

A virtual server belongs to a Service if its address is on the link or in one of kube-proxy's sets (ipvs/plan.py). All others
belong to other programs and are kept: nothing is flushed. Order: virtual servers first, because the link and the sets
identify them; a set only when no rule uses it any more.

A virtual server with open connections is kept, because removing it would cut them, until the deadline that the change of
mode has recorded (../ipvs_connections.py) or until the connections have ended. The link stays with it, with only its
address.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Optional

from ..._audit.findings import list_some
from ..._audit.stale_chains import StaleChains
from ..._rules.iptables.objects import MatchSet, Tables, Unknown
from ..._rules.iptables.text import rule_text
from ..._rules.ipvs.objects import SET_NAMES, IpvsRules, VirtualServer
from ..._rules.ipvs.parse import Key, parse_servers
from ..._rules.ipvs.plan import IP, IPSET, IPVSADM, Operation, select_own
from ..._rules.ipvs.text import definition, real_definition, service, with_length
from ..._rules.model import IPVS
from ..._rules.node_addresses import LINK
from ..drain_record import Draining, show_time
from .artefact import KEPT, REMOVED, Artefact, CleanupPart, IpvsConnections, Stage

_IDENTIFIES = "it identifies the virtual servers of Services, which could not be read"
_FORCED = "cut_connections is set"


@dataclass(frozen=True)
class IpvsReading:
    """By family. `rules` only includes the sets that have addresses and ports of Services."""

    rules: Mapping[int, IpvsRules]
    sets: tuple[str, ...] = ()  # names of all sets
    unlisted: int = 0  # virtual servers that could not be listed without ipvsadm
    connections: Mapping[Key, int] = field(default_factory=dict)  # number of open ones, by virtual server
    draining: Optional[Draining] = None  # the record of a change of mode
    now: float = 0.0  # seconds since the epoch

    @property
    def link(self) -> bool:
        """Whether kube-ipvs0 exists."""
        return any(rules.link for rules in self.rules.values())

    @cached_property
    def own(self) -> Mapping[Key, VirtualServer]:
        """The virtual servers of Services."""
        recorded = frozenset[Key]() if self.draining is None else self.draining.own_keys
        return {
            server.key: server
            for rules in self.rules.values()
            for chosen in (select_own(rules).server_by_key,)
            for server in rules.servers
            if server.key in chosen or server.key in recorded
        }

    def open_of(self, servers: Iterable[VirtualServer]) -> int:
        """The number of open connections through these virtual servers."""
        return sum(self.connections.get(server.key, 0) for server in servers)


def staying_servers(reading: IpvsReading, *, cut: bool) -> tuple[VirtualServer, ...]:
    """The virtual servers of Services that are kept for their connections; none if `cut`."""
    if cut:
        return ()
    return tuple(server for server in reading.own.values() if reading.connections.get(server.key))


def plan_connections(reading: IpvsReading, staying: tuple[VirtualServer, ...]) -> IpvsConnections:
    """What happens to open connections. The new record names what stays, which is later the only way to identify it, because
    the sets are gone. It keeps the weights from before the change, which a rollback restores."""
    cut = reading.open_of(server for server in reading.own.values() if server not in staying)
    if not staying:
        return IpvsConnections(cut)
    draining = reading.draining or Draining(reading.now, None)
    recorded = {server.key: block for block in draining.own for server in parse_servers(block)}
    own = tuple(recorded.get(server.key) or "\n".join(_definition(server)) for server in staying)
    until = show_time(draining.until)
    return IpvsConnections(cut, reading.open_of(staying), until, replace(draining, own=own, others=()))


def _definition(server: VirtualServer) -> Iterator[str]:
    yield f"-A {definition(server)}"
    for real in server.real_servers:
        yield f"-a {real_definition(server, real)}"


def left_of_ipvs(
    reading: IpvsReading, mode: str, users: Mapping[str, str], staying: tuple[VirtualServer, ...] = ()
) -> CleanupPart:
    """`users` are sets that a kept rule uses, each with such a rule. `staying` is the result of `staying_servers`."""
    if mode == IPVS:
        return CleanupPart()
    parts = [*_servers(reading, staying), *_link(reading, staying), *_sets(reading, users)]
    return CleanupPart(
        tuple(artefact for part in parts for artefact in part.artefacts),
        tuple(stage for part in parts for stage in part.stages),
    )


def _servers(reading: IpvsReading, staying: tuple[VirtualServer, ...]) -> Iterator[CleanupPart]:
    if reading.unlisted:
        why = "this node lacks ipvsadm, so they can be neither identified nor removed"
        yield CleanupPart((Artefact("virtual server", f"{reading.unlisted} in /proc/net/ip_vs", KEPT, why),))
        return
    for family, rules in reading.rules.items():
        mine = [server for server in rules.servers if server.key in reading.own]
        for server in (server for server in mine if server in staying):
            yield CleanupPart((Artefact("virtual server", server.text, KEPT, _why_kept(reading, server)),))
        gone = [server for server in mine if server not in staying]
        if gone:
            yield CleanupPart(
                tuple(_gone_servers(reading, family, gone)),
                (Stage(f"virtual servers of IPv{family}", tuple(_removal(server) for server in gone)),),
            )
    for text in foreign_servers(reading):
        yield CleanupPart(
            (
                Artefact(
                    "virtual server", text, KEPT, f"another program's: its address is neither on {LINK} nor in a set"
                ),
            )
        )


def _gone_servers(reading: IpvsReading, family: int, gone: list[VirtualServer]) -> Iterator[Artefact]:
    """The removed virtual servers. Those whose connections are cut are reported separately."""
    busy = [server for server in gone if reading.connections.get(server.key)]
    idle = [server for server in gone if server not in busy]
    if idle:
        why = f"they belong to Services: their addresses are on {LINK} or in kube-proxy's sets"
        yield Artefact("virtual server", f"IPv{family}: {list_some(server.text for server in idle)}", REMOVED, why)
    if busy:
        target = f"IPv{family}: {list_some(server.text for server in busy)}: cuts {reading.open_of(busy)} connections"
        until = show_time(reading.draining.until) if reading.draining else ""
        over = until and reading.draining is not None and reading.draining.is_over(reading.now)
        yield Artefact("virtual server", target, REMOVED, f"the deadline {until} has passed" if over else _FORCED)


def _removal(server: VirtualServer) -> Operation:
    return Operation("remove virtual server", server.text, IPVSADM, f"-D {service(server)}")


def _why_kept(reading: IpvsReading, server: VirtualServer) -> str:
    until = show_time(reading.draining.until) if reading.draining else ""
    end = f"until {until}" if until else "until they have ended, as the journal has no deadline"
    return f"{reading.open_of([server])} connections are open: it stays {end}; cut_connections removes it now"


def foreign_servers(reading: IpvsReading) -> list[str]:
    """Other programs' virtual servers as text, without duplicates: both families list those selected by a mark."""
    texts: dict[str, None] = {}
    for rules in reading.rules.values():
        texts.update({server.text: None for server in rules.servers if server.key not in reading.own})
    return list(texts)


def _link(reading: IpvsReading, staying: tuple[VirtualServer, ...]) -> Iterator[CleanupPart]:
    if not reading.link:
        return
    if reading.unlisted:
        yield CleanupPart((Artefact("link", LINK, KEPT, _IDENTIFIES),))
        return
    if staying:
        yield _addresses(reading, {server.address for server in staying})
        return
    operation = Operation("remove link", LINK, IP, f"link delete {LINK}")
    why = "only mode ipvs binds Service addresses; its addresses are removed with it"
    yield CleanupPart((Artefact("link", LINK, REMOVED, why),), (Stage(f"the interface {LINK}", (operation,)),))


def _addresses(reading: IpvsReading, needed: Collection[str]) -> CleanupPart:
    """The addresses on the link to remove. The link stays, with the addresses of virtual servers that stay."""
    kept = Artefact("link", LINK, KEPT, "virtual servers with open connections need its addresses")
    bound = [address for rules in reading.rules.values() for address in rules.addresses]
    gone = [address for address in bound if address not in needed]
    if not gone:
        return CleanupPart((kept,))
    why = "no remaining virtual server uses them"
    operations = tuple(
        Operation("unbind address", address, IP, f"address delete {with_length(address)} dev {LINK}")
        for address in gone
    )
    removed = Artefact("address", f"on {LINK}: {list_some(gone)}", REMOVED, why)
    return CleanupPart((kept, removed), (Stage(f"addresses of {LINK}", operations),))


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
            yield CleanupPart((Artefact("set", name, KEPT, f"a remaining rule uses it: {users[name]}"),))
        else:
            gone.append(Operation("remove set", name, IPSET, f"destroy {name}"))
            yield CleanupPart((Artefact("set", name, REMOVED, "only mode ipvs uses it"),))
    if gone:
        yield CleanupPart((), (Stage("sets", tuple(gone)),))


def users_of_sets(tables: Iterable[tuple[Tables, StaleChains]]) -> dict[str, str]:
    """Sets with names of kube-proxy that kept rules use, each with one such rule."""
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
