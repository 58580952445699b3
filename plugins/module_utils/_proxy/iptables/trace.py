# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A packet through iptables rules, as the kernel would take it.

An arriving packet passes PREROUTING, then INPUT or, when its destination is not this node's, FORWARD and POSTROUTING. One
that the node sends passes OUTPUT and POSTROUTING, and when it is for the node itself it comes back over the loopback link
through PREROUTING and INPUT; the nat table is then done with it. In each hook tables come in the order raw, mangle, nat,
filter, security (source nat last). The end of a table's chain by ACCEPT is not the end of the packet's way; DROP is.

Where lots are drawn, and where a rule asks for the link that a packet leaves by, which nobody told us, both ways are gone.
A state is what of a packet the rules so far have changed; equal states are one, so that the work grows with the rules and
not with the ways through them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Optional, Union

from ..packet import DNAT, DROP, PASS, REJECT, Answer, Packet, Surroundings, endpoint_text
from .messages import MESSAGES
from .objects import (
    AddressType,
    Chain,
    ConnectionState,
    Destination,
    DestinationPort,
    Dnat,
    Goto,
    InInterface,
    IpvsService,
    Jump,
    Mark,
    Masquerade,
    Match,
    MatchSet,
    OutInterface,
    PhysicalIn,
    Protocol,
    Recent,
    Reject,
    Rule,
    SetMark,
    Source,
    Statistic,
    Tables,
    Unknown,
    Verdict,
)
from .text import match_text, rule_text

_RULES_LIMIT = 200_000  # rules that one packet may pass, in all branches together
_DEPTH_LIMIT = 64  # chains that jump to chains; nf_tables allows 16
_CERTAIN = 1 << 31  # of Statistic.chance

ARRIVE = (("raw", "PREROUTING"), ("mangle", "PREROUTING"), ("nat", "PREROUTING"))
TO_NODE = (("mangle", "INPUT"), ("filter", "INPUT"), ("security", "INPUT"), ("nat", "INPUT"))
THROUGH = (("mangle", "FORWARD"), ("filter", "FORWARD"), ("security", "FORWARD"))
SEND = (("raw", "OUTPUT"), ("mangle", "OUTPUT"), ("nat", "OUTPUT"), ("filter", "OUTPUT"), ("security", "OUTPUT"))
LEAVE = (("mangle", "POSTROUTING"), ("nat", "POSTROUTING"))
# Over the loopback link: both halves of NAT are settled by then.
LOOPED = (*ARRIVE[:2], *TO_NODE[:3])
_LOOPBACK_LINK = "lo"

_KEPT = "the packet's own"
_MASQUERADED = "the node's"
_HAIRPIN = "the node's, as it is the packet's own endpoint"
_STAYS = "the packet's own, as it does not leave the node"

Decide = Callable[[Union[MatchSet, IpvsService], "State"], bool]


@dataclass(frozen=True)
class State:
    """What the rules so far have made of the packet."""

    destination: str
    port: int
    mark: int = 0
    rewritten: bool = False
    masqueraded: bool = False
    # Whether the mark that was set last came from a rule for the packet's own source address alone: hairpin.
    own_mark: bool = False
    affinity_seconds: int = 0
    looped: bool = False
    why: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class _At:
    """Where states are: a table in a hook, and the chains that led there."""

    table: str
    hook: str
    chains: tuple[str, ...]
    by_own_source: bool = False  # the last jump was made because of the packet's own source address


def trace(rules: Tables, packet: Packet, surroundings: Surroundings) -> Answer:
    """Raises rules-iptables-unknown where the packet comes to what is not known here, rules-iptables-undecided where its
    fate hangs on more than the endpoint drawn, and rules-iptables-chain, -loop, -deep, -budget for rules that no kernel holds."""
    walk = Walk(rules, packet, surroundings)
    start = State(packet.destination, packet.port)
    if packet.node_local:
        sent = walk.through((*SEND, *LEAVE), [start])
        back = [replace(one, looped=True) for one in sent if surroundings.is_local(one.destination)]
        out = [one for one in sent if not surroundings.is_local(one.destination)]
        return walk.answer([*out, *walk.through(LOOPED, back)])
    arrived = walk.through(ARRIVE, [start])
    here = [one for one in arrived if surroundings.is_local(one.destination)]
    onward = [one for one in arrived if not surroundings.is_local(one.destination)]
    return walk.answer([*walk.through(TO_NODE, here), *walk.through((*THROUGH, *LEAVE), onward)])


class Walk:
    """One packet's way. `through` takes states through chains of the kernel and answers those that go on; `answer` sums up
    them and those that ended before. `decide` says whether a match on ipsets or virtual servers holds, not negated."""

    def __init__(
        self, rules: Tables, packet: Packet, surroundings: Surroundings, *, decide: Optional[Decide] = None
    ) -> None:
        self._rules = rules
        self._packet = packet
        self._surroundings = surroundings
        self._decide = decide
        self._source = ipaddress.ip_address(packet.source)
        self._passed = 0
        self._ended: list[tuple[str, State]] = []

    def through(self, hooks: Iterable[tuple[str, str]], states: Sequence[State]) -> list[State]:
        for table, hook in hooks:
            chain = self._rules.chain(table, hook)
            if chain is not None:
                states = self._base(chain, _At(table, hook, (hook,)), states)
        return list(states)

    def end(self, fate: str, states: Iterable[State], because: str) -> None:
        """The states go no further; also those that something other than a rule ends, as ip_vs does."""
        self._ended.extend((fate, _told(one, because)) for one in states)

    def _base(self, chain: Chain, at: _At, states: Sequence[State]) -> list[State]:
        accepted: list[State] = []
        fell = self._chain(chain, at, states, accepted)
        if chain.policy == "DROP":
            self.end(DROP, fell, f"{at.table}: policy of {at.hook}")
            return accepted
        return _distinct([*accepted, *fell])

    def _chain(self, chain: Chain, at: _At, states: Sequence[State], accepted: list[State]) -> list[State]:
        """The states that come back from the chain; those that ACCEPT ends go to `accepted`."""
        returned: list[State] = []
        for group in _by_destination(states):
            on = group
            for rule in chain.candidates(group[0].destination, group[0].port):
                if not on:
                    break
                on = self._rule(rule, at, on, accepted, returned)
            returned.extend(on)
        return _distinct(returned)

    def _rule(
        self, rule: Rule, at: _At, states: Sequence[State], accepted: list[State], returned: list[State]
    ) -> list[State]:
        """The states that go on to the next rule."""
        self._passed += len(states)
        if self._passed > _RULES_LIMIT:
            raise MESSAGES.error("rules-iptables-budget", limit=_RULES_LIMIT)
        on: list[State] = []
        matched: list[State] = []
        for one in states:
            holds, after = self._matches(rule, at, one)
            if holds is not True:
                on.append(after)
            if holds is not False:
                matched.append(after)
        if matched:
            on.extend(self._target(rule, at, matched, accepted, returned))
        return _distinct(on)

    def _matches(self, rule: Rule, at: _At, state: State) -> tuple[Optional[bool], State]:
        """Whether the rule matches (None: it may or may not), and the state after that was asked."""
        holds: Optional[bool] = True
        for match in rule.matches:
            if isinstance(match, Recent) and match.command == "rcheck":
                # Nobody has been seen before this first packet; but the rule says for how long one will be.
                return False, replace(state, affinity_seconds=match.seconds)
            one = None if self._is_unknown(match) else self._holds(match, at, state)
            if one is False:
                return False, state
            if one is None:
                holds = None
        # It ends nothing without a target, so it may ask what it likes.
        unknown = [match_text(match) for match in rule.matches if self._is_unknown(match)]
        if isinstance(rule.target, Unknown):
            unknown.append(rule.target.text)
        if unknown and rule.target is not None:
            raise _unknown(unknown[0], rule, at)
        return holds, state

    def _is_unknown(self, match: Match) -> bool:
        return isinstance(match, Unknown) or (isinstance(match, (MatchSet, IpvsService)) and self._decide is None)

    def _holds(self, match: Match, at: _At, state: State) -> Optional[bool]:
        if isinstance(match, Destination):
            return _inside(state.destination, match.network) != match.negated
        if isinstance(match, Source):
            return (self._source in _network(match.network)) != match.negated
        if isinstance(match, Protocol):
            return (self._packet.protocol.lower() == match.name) != match.negated
        if isinstance(match, DestinationPort):
            return (state.port == match.port) != match.negated
        if isinstance(match, Mark):
            return (state.mark & match.mask == match.value) != match.negated
        if isinstance(match, ConnectionState):
            return bool(_connection_states(state, at) & set(match.states)) != match.negated
        if isinstance(match, AddressType):
            address = self._packet.source if match.side == "src" else state.destination
            return self._surroundings.is_local(address) != match.negated
        if isinstance(match, (InInterface, OutInterface)):
            name = self._interface(match, at, state)
            return None if name is None else _is_named(name, match.name) != match.negated
        return self._holds_rarely(match, state)

    def _holds_rarely(self, match: Match, state: State) -> Optional[bool]:
        if isinstance(match, Statistic):
            certain = {0: match.negated, _CERTAIN: not match.negated}
            return certain.get(match.chance)
        if self._decide is not None and isinstance(match, MatchSet):
            return self._decide(match, state) != match.negated
        if self._decide is not None and isinstance(match, IpvsService):
            return self._decide(match, state)
        # Nobody told us whether the link is a port of a bridge. What is left, Recent (set) and Accounting, always matches.
        return None if isinstance(match, PhysicalIn) else True

    def _interface(self, match: Union[InInterface, OutInterface], at: _At, state: State) -> Optional[str]:
        """The link's name, "" where the hook knows none, None where we do not know it."""
        if isinstance(match, InInterface):
            if self._packet.node_local:
                return _LOOPBACK_LINK if state.looped else ""
            return self._packet.inbound_interface
        if at.hook in ("PREROUTING", "INPUT"):
            return ""
        return _LOOPBACK_LINK if self._surroundings.is_local(state.destination) else None

    def _target(
        self, rule: Rule, at: _At, states: Sequence[State], accepted: list[State], returned: list[State]
    ) -> list[State]:
        """Do what the rule says; the states that go on to the next rule."""
        target = rule.target
        if target is None:
            return list(states)
        if isinstance(target, (Jump, Goto)):
            return self._jump(rule, target, at, states, accepted, returned)
        line = f"{at.table}: -A {at.chains[-1]} {rule_text(rule)}"
        if isinstance(target, SetMark):
            return [_marked(one, target, at, line) for one in states]
        if isinstance(target, Verdict) and target.name == "RETURN":
            returned.extend(states)
        elif isinstance(target, Verdict) and target.name == "ACCEPT":
            accepted.extend(states)
        elif isinstance(target, (Verdict, Reject)):
            fate = REJECT if isinstance(target, Reject) else DROP
            self.end(fate, states, line)
        elif isinstance(target, Masquerade):
            accepted.extend(replace(_told(one, line), masqueraded=True) for one in states)
        elif isinstance(target, Dnat):
            accepted.extend(
                replace(_told(one, line), destination=target.address, port=target.port or one.port, rewritten=True)
                for one in states
            )
        return []

    def _jump(
        self,
        rule: Rule,
        target: Union[Jump, Goto],
        at: _At,
        states: Sequence[State],
        accepted: list[State],
        returned: list[State],
    ) -> list[State]:
        chain = self._rules.chain(at.table, target.chain)
        if chain is None:
            raise MESSAGES.error("rules-iptables-chain", table=at.table, chain=target.chain)
        if target.chain in at.chains:
            raise MESSAGES.error("rules-iptables-loop", table=at.table, chain=target.chain)
        if len(at.chains) > _DEPTH_LIMIT:
            raise MESSAGES.error("rules-iptables-deep", table=at.table, chain=target.chain, limit=_DEPTH_LIMIT)
        line = f"{at.table}: -A {at.chains[-1]} {rule_text(rule)}"
        below = _At(at.table, at.hook, (*at.chains, target.chain), self._is_for_own_source(rule))
        back = self._chain(chain, below, [_told(one, line) for one in states], accepted)
        # A chain that only looked at a packet has no part in what becomes of it.
        back = [replace(one, why=one.why[:-1]) if one.why[-1] == line else one for one in back]
        if isinstance(target, Goto):
            returned.extend(back)
            return []
        return back

    def _is_for_own_source(self, rule: Rule) -> bool:
        return any(
            isinstance(match, Source) and not match.negated and _network(match.network).num_addresses == 1
            for match in rule.matches
        )

    def answer(self, passed: Sequence[State]) -> Answer:
        fates = [*self._ended, *((DNAT if one.rewritten else PASS, one) for one in passed)]
        verdicts = sorted({verdict for verdict, _state in fates})
        why = tuple(dict.fromkeys(line for _verdict, state in fates for line in state.why))
        if len(verdicts) != 1:
            raise _undecided("verdict", verdicts, why)
        if verdicts != [DNAT]:
            return Answer(verdicts[0], why=why)
        sources: dict[str, str] = {}
        for one in passed:
            endpoint, source = endpoint_text(one.destination, one.port), self._source_seen(one)
            if sources.setdefault(endpoint, source) != source:
                raise _undecided(f"the source that {endpoint} sees", [sources[endpoint], source], why)
        kept_or_not = {source for source in sources.values() if source not in (_HAIRPIN, _STAYS)}
        return Answer(
            DNAT,
            endpoints=tuple(sorted(sources)),
            masquerade=kept_or_not == {_MASQUERADED},
            hairpin=tuple(sorted(endpoint for endpoint, source in sources.items() if source == _HAIRPIN)),
            affinity_seconds=max(one.affinity_seconds for one in passed),
            why=why,
        )

    def _source_seen(self, state: State) -> str:
        """What the endpoint sees as the source."""
        if not self._packet.node_local and self._surroundings.is_local(state.destination):
            return _STAYS
        if not state.masqueraded:
            return _KEPT
        return _HAIRPIN if state.own_mark else _MASQUERADED


def _marked(state: State, target: SetMark, at: _At, line: str) -> State:
    mark = (state.mark & ~target.mask) ^ target.value
    if mark == state.mark:
        return state
    # A mark that is cleared says nothing of who set it.
    own = at.by_own_source if mark & ~state.mark else state.own_mark
    return replace(_told(state, line), mark=mark, own_mark=own)


def _told(state: State, line: str) -> State:
    return replace(state, why=(*state.why, line))


def _connection_states(state: State, at: _At) -> set[str]:
    """Of a connection's first packet. Before conntrack has seen it, xt_conntrack calls it invalid."""
    if at.table == "raw" and not state.looped:
        return {"INVALID"}
    found = {"NEW"}
    if state.rewritten:
        found.add("DNAT")
    if state.masqueraded:
        found.add("SNAT")
    return found


def _by_destination(states: Sequence[State]) -> list[list[State]]:
    groups: dict[tuple[str, int], list[State]] = {}
    for one in states:
        groups.setdefault((one.destination, one.port), []).append(one)
    return list(groups.values())


def _distinct(states: Sequence[State]) -> list[State]:
    return list(dict.fromkeys(states)) if len(states) > 1 else list(states)


@lru_cache(maxsize=65536)
def _network(text: str) -> Union[ipaddress.IPv4Network, ipaddress.IPv6Network]:
    return ipaddress.ip_network(text)


@lru_cache(maxsize=65536)
def _inside(address: str, network: str) -> bool:
    return ipaddress.ip_address(address) in _network(network)


def _is_named(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("+") else name == pattern


def _unknown(part: str, rule: Rule, at: _At) -> Exception:
    line = f"-A {at.chains[-1]} {rule_text(rule)}"
    return MESSAGES.error("rules-iptables-unknown", part=part, table=at.table, rule=line)


def _undecided(by: str, values: Sequence[str], why: Sequence[str]) -> Exception:
    first, second = values[:2]
    return MESSAGES.error("rules-iptables-undecided", by=by, first=first, second=second, rules="; ".join(why))
