# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A packet through tables of nftables, as the kernel would take it.

    from a link:    prerouting, then by the destination it has now: input, or forward and postrouting
    from the node:  output, postrouting; to the node itself it comes back over lo: prerouting, input

The chains of all tables at a hook run by priority. An accept ends one base chain, a drop ends the packet's way. Nat chains
are asked for a new connection only, at dstnat (-100) or srcnat (100) whatever their own priority, which orders them among
themselves; the first that translates ends the asking. Source: nf_nat_core.c (nf_nat_inet_fn) and nf_nat_proto.c.

What nobody told us of a packet (the link it leaves by, its source port) is taken both ways, and it is an error when that
matters. A dynamic set has the elements that were listed, and `affinity_seconds` is from the set that remembers the packet.
Tables of families arp, bridge and netdev and the hook ingress are not passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..._core.errors import BallastError
from ..packet import DNAT, PASS, Answer, Packet, Surroundings, endpoint_text
from .lookup import Indexes
from .messages import MESSAGES
from .moment import Moment, State
from .objects import Chain, Hook, Ruleset, Table
from .walk import Outcome, Walk, distinct

# NF_IP_PRI_NAT_DST and NF_IP_PRI_NAT_SRC.
_NAT_PRIORITIES = {"prerouting": -100, "output": -100, "postrouting": 100, "input": 100}
_HOOKS = (*_NAT_PRIORITIES, "forward")
_FAMILIES = {4: ("ip", "inet"), 6: ("ip6", "inet")}


def trace(ruleset: Ruleset, packet: Packet, surroundings: Surroundings) -> Answer:
    """For many packets of one ruleset, use a Tracer."""
    return Tracer(ruleset, surroundings).answer(packet)


@dataclass(frozen=True)
class _Base:
    hook: Hook
    table: Table
    chain: Chain

    @property
    def is_nat(self) -> bool:
        return self.hook.type == "nat"

    @property
    def priority(self) -> int:
        """Where it runs among all chains of its hook."""
        return _NAT_PRIORITIES.get(self.hook.hook, self.hook.priority) if self.is_nat else self.hook.priority

    @property
    def order(self) -> tuple[int, bool, int, str, str]:
        """The kernel leaves open which of two with one priority is first; names make it the same one each time."""
        return (self.priority, self.is_nat, self.hook.priority, self.table.name, self.chain.name)


class Tracer:
    """A ruleset with its base chains in order, and its sets indexed once."""

    def __init__(self, ruleset: Ruleset, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.indexes = Indexes()
        bases = [
            _Base(chain.base, table, chain)
            for table in ruleset.tables.values()
            if "dormant" not in table.flags
            for chain in table.chains.values()
            if chain.base is not None
        ]
        bases.sort(key=lambda base: base.order)
        self._bases = {
            (family, hook): [base for base in bases if base.hook.hook == hook and base.table.family in names]
            for family, names in _FAMILIES.items()
            for hook in _HOOKS
        }

    def answer(self, packet: Packet) -> Answer:
        """Raises HostError `rules-nft-trace-...` where the rules leave it open."""
        return _Way(self, packet).answer()

    def bases(self, hook: str, packet: Packet) -> Sequence[_Base]:
        return self._bases[packet.family, hook]


class _Way:
    """Of one packet, in all the states that it may be in."""

    def __init__(self, tracer: Tracer, packet: Packet) -> None:
        self._tracer = tracer
        self._packet = packet
        self._outcome = Outcome()

    def answer(self) -> Answer:
        start = [State(self._packet.destination, self._packet.port)]
        if self._packet.node_local:
            here, passed = self._by_locality(self._hook("postrouting", self._hook("output", start)))
            looped = [replace(state, looped=True) for state in here]
            passed += self._hook("input", self._hook("prerouting", looped))
        else:
            here, elsewhere = self._by_locality(self._hook("prerouting", start))
            passed = self._hook("input", here) + self._hook("postrouting", self._hook("forward", elsewhere))
        return self._answer(passed)

    def _hook(self, name: str, states: Sequence[State]) -> list[State]:
        """The states that are let through."""
        live = list(states)
        bound: list[State] = []  # not asked about by further nat chains
        for base in self._tracer.bases(name, self._packet):
            moment = Moment(self._packet, self._tracer.surroundings, name, base.priority)
            walk = Walk(base.table, moment, self._tracer.indexes, self._outcome)
            if not base.is_nat:
                live, bound = live + bound, []
                live = distinct(walk.base(base.chain, live).accepted)
                continue
            # What comes back over loopback was asked about when it was sent.
            asked = [state for state in live if not state.looped]
            exits = walk.base(base.chain, asked)
            live = [state for state in live if state.looped] + distinct(exits.accepted)
            bound += distinct(exits.bound)
        return live + bound

    def _by_locality(self, states: Sequence[State]) -> tuple[list[State], list[State]]:
        here = [state for state in states if self._is_here(state)]
        return here, [state for state in states if not self._is_here(state)]

    def _is_here(self, state: State) -> bool:
        return self._tracer.surroundings.is_local(state.destination)

    def _answer(self, passed: Sequence[State]) -> Answer:
        fates = [*self._outcome.ended, *((DNAT if state.translated else PASS, state) for state in passed)]
        why = tuple(dict.fromkeys(line for _verdict, state in fates for line in state.why))
        outcomes = sorted({_shown(verdict, state) for verdict, state in fates})
        verdicts = {verdict for verdict, _state in fates}
        if len(verdicts) != 1:
            raise _undecided(outcomes, why)
        verdict = verdicts.pop()
        if verdict != DNAT:
            return Answer(verdict, why=why)
        # What arrives for the node itself does not leave it, so nobody puts another source in it.
        leaving = [state for state in passed if self._packet.node_local or not self._is_here(state)]
        others = {state.masqueraded for state in leaving if not state.own_masquerade}
        ways = {(_endpoint(state), state.masqueraded, state.own_masquerade) for state in leaving}
        if len(others) > 1 or len(ways) != len({endpoint for endpoint, *_masquerade in ways}):
            raise _undecided(outcomes, why)
        return Answer(
            DNAT,
            endpoints=tuple(sorted({_endpoint(state) for state in passed})),
            masquerade=others == {True},
            hairpin=tuple(sorted({_endpoint(state) for state in leaving if state.own_masquerade})),
            affinity_seconds=max(state.affinity_seconds for state in passed),
            why=why,
        )


def _endpoint(state: State) -> str:
    return endpoint_text(state.destination, state.port)


def _shown(verdict: str, state: State) -> str:
    if verdict != DNAT:
        return verdict
    return f"{verdict} to {_endpoint(state)}{' masqueraded' if state.masqueraded else ''}"


def _undecided(outcomes: Sequence[str], why: Sequence[str]) -> BallastError:
    return MESSAGES.error("rules-nft-trace-undecided", outcomes="; ".join(outcomes), rules="; ".join(why))
