# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Traces packets through all rules of a node as its kernel does, whichever programs wrote them.

    from a link:    prerouting, then depending on the translated destination: input, or forward and postrouting
    from the node:  output, postrouting; to the node itself it returns over lo: prerouting, input

An accept ends one base chain; a drop ends the packet's path. Nat chains see only the first packet of a connection that
conntrack tracks, and the first translation skips the other nat chains of its hook. ip_vs is in input and output (ipvs.py).
base_chains.py has the order. Source: nf_nat_core.c (nf_nat_inet_fn) and nf_nat_proto.c.

If the order of chains at equal priority is unknown and changes the answer, each of them is tried as the first. Unknown
properties of a packet (outgoing link, source port) are followed both ways. A dynamic set has the elements that were listed;
`affinity_seconds` comes from the set that remembers the packet. Tables of families arp, bridge and netdev and the hook
ingress are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Optional, Union

from ..._core.text.errors import BallastError
from ..._rules.ipvs.messages import MESSAGES as IPVS_MESSAGES
from ..._rules.node_rules import NodeRules
from ..._rules.packet import EITHER, REJECT, UNKNOWN, Answer, Packet, Surroundings
from .base_chains import NAT_PRIORITIES, Chains, Group, IpVsStep, NatChains, hook_groups
from .bridges import find_bridges
from .hook_view import HookView
from .lookup import Indexes
from .outcome import Lines, Outcome
from .packet_state import Exits, NotKnown, State, distinct, with_changes
from .unsaved import limit_answer

if TYPE_CHECKING:
    from .ipvs import Ipvs

_ORDERS_LIMIT = 24  # the most orders of chains at equal priority that are tried for one packet
AnyParty = Union[Chains, NatChains, IpVsStep]
_Orders = Mapping[Group, int]  # for each group, the index of the party that runs first


def trace(rules: NodeRules, packet: Packet, surroundings: Surroundings) -> Answer:
    """Trace one packet. For many packets through the same rules, use a Tracer."""
    return Tracer(rules, surroundings).answer(packet)


class Tracer:
    """The rules of one IP family: its base chains in order, and indexes that are built on first use."""

    def __init__(self, rules: NodeRules, surroundings: Surroundings) -> None:
        self._rules = rules
        self._groups: dict[int, Mapping[str, tuple[Group, ...]]] = {}
        self._indexes = Indexes()
        self.lines = Lines()
        self.bridges = find_bridges(rules)
        self.surroundings = surroundings
        self.ip_vs: Optional[Ipvs] = None
        if rules.ipvs is not None:
            from .ipvs import Ipvs, WithLink

            self.ip_vs = Ipvs(rules.ipvs)
            self.surroundings = WithLink(surroundings.interfaces, surroundings.routes, rules.ipvs.bound)

    def groups(self, family: int) -> Mapping[str, tuple[Group, ...]]:
        if family not in self._groups:
            self._groups[family] = hook_groups(self._rules, self._indexes, family)
        return self._groups[family]

    def answer(self, packet: Packet) -> Answer:
        """Never raises because of rules: if a packet cannot be followed, the answer is UNKNOWN."""
        try:
            answer = self._answer(packet)
        except BallastError as error:
            answer = Answer(UNKNOWN, problem=error)
        return limit_answer(answer, packet, self._rules.missing, self.surroundings)

    def _answer(self, packet: Packet) -> Answer:
        path = _PacketPath(self, packet, {})
        answer = path.answer()
        if not path.contested:
            return answer
        answers = {answer: None}
        pending: list[_Orders] = [{group: first} for group in path.contested for first in range(1, len(group.parties))]
        groups = dict.fromkeys(path.contested)
        for orders in pending:
            other = _PacketPath(self, packet, orders)
            answers.setdefault(other.answer(), None)
            for group in other.contested:
                groups.setdefault(group, None)
                further = [{**orders, group: first} for first in range(1, len(group.parties))]
                new = [candidate for candidate in further if candidate not in pending]
                pending += new[: max(0, _ORDERS_LIMIT - len(pending))]
        if len(answers) == 1:
            return answer
        unknown = next((way for way in answers if way.verdict == UNKNOWN), None)
        return unknown or Answer(EITHER, ways=tuple(answers), why=tuple(group.order for group in groups))


class _PacketPath:
    """The path of one packet, in all its possible states. `orders` has, for a group, the party that runs first if it is not
    the first one listed."""

    def __init__(self, tracer: Tracer, packet: Packet, orders: _Orders) -> None:
        self._tracer = tracer
        self._packet = packet
        self._groups = tracer.groups(packet.family)
        self._orders = orders
        self._outcome = Outcome(tracer.lines)
        self._resent: list[State] = []  # states that ip_vs has taken
        self._other_source = False
        self.contested: dict[Group, None] = {}  # groups whose order matters and is not given in `orders`

    def answer(self) -> Answer:
        start = [State(self._packet.destination, self._packet.port)]
        passed = self._send(start) if self._packet.node_local else self._receive(start)
        return self._outcome.answer(passed, self._packet)

    def _receive(self, start: list[State]) -> list[State]:
        here, elsewhere = self._by_locality(self._hook("prerouting", start))
        delivered = self._hook("input", here)
        return delivered + self._leave(self._hook("forward", elsewhere) + self._resend())

    def _send(self, start: list[State]) -> list[State]:
        sent = self._hook("output", start)
        here, passed = self._by_locality(self._leave(sent + self._resend()))
        looped = [with_changes(state, looped=True) for state in here]
        return passed + self._hook("input", self._hook("prerouting", looped))

    def _resend(self) -> list[State]:
        resent = [with_changes(state, scheduled=True) for state in self._resent]
        self._resent = []
        return self._hook("output", resent)

    def _leave(self, states: list[State]) -> list[State]:
        left = self._hook("postrouting", states)
        to_itself = [state for state in left if state.own_masquerade and state.destination == self._packet.source]
        if all(state.own_mark for state in to_itself):
            return left
        # A packet that is masqueraded whatever its source is not masqueraded because it is a hairpin: try another source.
        outcome, self._outcome, self._other_source = self._outcome, Outcome(self._tracer.lines), True
        others = {(state.destination, state.port) for state in self._hook("postrouting", states) if state.masqueraded}
        self._outcome, self._other_source = outcome, False
        return [
            with_changes(state, own_masquerade=False)
            if state in to_itself and (state.destination, state.port) in others and not state.own_mark
            else state
            for state in left
        ]

    def _by_locality(self, states: Sequence[State]) -> tuple[list[State], list[State]]:
        is_local = self._tracer.surroundings.is_local
        here = [state for state in states if is_local(state.destination)]
        return here, [state for state in states if not is_local(state.destination)]

    # Hooks

    def _hook(self, name: str, states: list[State]) -> list[State]:
        """The states that pass the hook."""
        live = states
        for group in self._groups[name]:
            if not live:
                break
            exits = self._group(group, live, self._outcome, nat=False)
            live = exits.accepted
            self._resent += exits.bound  # taken by ip_vs
        return live

    def _group(self, group: Group, states: list[State], outcome: Outcome, *, nat: bool) -> Exits:
        if len(group.parties) == 1:
            return self._party(group.parties[0], group, states, outcome, nat=nat)
        first = self._orders.get(group, 0)
        order = [group.parties[first], *group.parties[:first], *group.parties[first + 1 :]]
        turns = []
        live, bound = states, []
        for party in order:
            if not live:
                break
            before = live
            exits, did = self._turn(party, group, before, outcome, nat=nat)
            turns.append((did, exits.accepted))
            live = exits.accepted
            bound += exits.bound
        may_matter = group not in self._orders and outcome is self._outcome and not self._other_source
        if may_matter and self._order_matters(group, order, states, turns, nat=nat):
            self.contested.setdefault(group, None)
        return Exits(live, bound)

    def _turn(
        self, party: AnyParty, group: Group, states: list[State], outcome: Outcome, *, nat: bool
    ) -> tuple[Exits, bool]:
        """The states that a party lets pass, and whether it did anything."""
        ended = len(outcome.ended)
        exits = self._party(party, group, states, outcome, nat=nat)
        return exits, len(outcome.ended) > ended or bool(exits.bound) or exits.accepted != states

    def _order_matters(
        self,
        group: Group,
        order: Sequence[AnyParty],
        states: list[State],
        turns: Sequence[tuple[bool, list[State]]],
        *,
        nat: bool,
    ) -> bool:
        """Whether more than one party does something, in this order or another."""
        acted = [place for place, (did, _after) in enumerate(turns) if did]
        if len(acted) != 1:
            return bool(acted)
        (actor,) = acted
        scratch = Outcome(self._tracer.lines)
        after = turns[actor][1]
        return any(
            self._turn(party, group, states if place > actor else after, scratch, nat=nat)[1]
            for place, party in enumerate(order)
            if place != actor and (place > actor or after)
        )

    def _party(self, party: AnyParty, group: Group, states: list[State], outcome: Outcome, *, nat: bool) -> Exits:
        if isinstance(party, NatChains):
            return Exits(self._nat(party, states, outcome))
        if isinstance(party, IpVsStep):
            return self._schedule(states, outcome)
        priority = NAT_PRIORITIES[group.hook] if nat else group.priority
        view = HookView(
            self._packet, self._tracer.surroundings, group.hook, priority, self._other_source, self._tracer.bridges
        )
        live = states
        bound: list[State] = []
        for entry in party.entries:
            if not live:
                break
            exits = entry.run(view, live, outcome)
            live = distinct(exits.accepted)
            bound += exits.bound
        return Exits(live, distinct(bound)) if nat else Exits(distinct(live + bound))

    def _nat(self, chains: NatChains, states: list[State], outcome: Outcome) -> list[State]:
        hook = chains.groups[0].hook
        # Packets that return over loopback passed the nat chains when they were sent; those of ip_vs when they came in.
        decided = [state for state in states if _is_decided(state, hook)]
        live = [state for state in states if not _is_decided(state, hook)] if decided else states
        bound: list[State] = []
        for group in chains.groups:
            if not live:
                break
            exits = self._group(group, live, outcome, nat=True)
            live = exits.accepted
            bound += exits.bound
        return decided + live + bound

    def _schedule(self, states: list[State], outcome: Outcome) -> Exits:
        """Hand states to ip_vs; those that it takes are `bound`."""
        exits = Exits()
        ip_vs = self._tracer.ip_vs
        for state in states:
            try:
                server = None if ip_vs is None or state.looped or state.scheduled else ip_vs.server(self._packet, state)
                if ip_vs is None or server is None:
                    exits.accepted.append(state)
                    continue
                chosen = ip_vs.schedule(server, state)
            except NotKnown as error:
                outcome.end_unknown([state], IPVS_MESSAGES.error("rules-ipvs-unknown", what=error.args[0]))
                continue
            if not chosen:
                outcome.end(REJECT, [state], f"ip_vs: {server.text} has no real server")
            here, elsewhere = self._by_locality(chosen)
            exits.accepted += here
            exits.bound += elsewhere
        return exits


def _is_decided(state: State, hook: str) -> bool:
    return state.looped or state.untracked or (state.scheduled and hook == "output")
