# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs one built-in chain of iptables and the chains it calls, for all states that a packet may be in.

ACCEPT ends only the chain of one table; DROP ends the packet's path. All random choices, and both answers to a question that
cannot be decided, are followed. Equal states are merged, so that the work grows with the rules and not with the paths
through them. Source: ip_tables.c (ipt_do_table).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Optional, Union

from ..._core.text.errors import BallastError
from ..._rules.addresses import as_address
from ..._rules.iptables.messages import MESSAGES
from ..._rules.iptables.objects import (
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
from ..._rules.iptables.text import match_text, rule_text
from ..._rules.ipvs.messages import MESSAGES as IPVS_MESSAGES
from ..._rules.packet import DROP, REJECT
from .hook_view import HookView
from .ipsets import IpSets, SetNotKnown
from .iptables_matches import DRAWN, Holds, holds
from .iptables_targets import ConnectionMark, DnatRange, Effect, NoEffect, Redirect, Untrack, effect_of
from .ipvs import Ipvs
from .messages import MESSAGES as TRACE_MESSAGES
from .outcome import Outcome
from .packet_state import Exits, NotKnown, Question, State, assume, because, distinct, with_changes
from .targets import endpoints_of

_DEPTH_LIMIT = 64  # nested calls of chains; nf_tables allows 16
_CERTAIN = 1 << 31  # the value of Statistic.chance that always matches


@dataclass(frozen=True)
class _At:
    """The chains that led here, and whether only packets with one particular source get here."""

    chains: tuple[str, ...]
    by_own_source: bool = False


class TableInterpreter:
    """Interprets one table for one packet in one hook. `sets` and `ipvs` evaluate matches on ipsets and virtual servers."""

    def __init__(
        self,
        rules: Tables,
        table: str,
        view: HookView,
        outcome: Outcome,
        sets: IpSets,
        ipvs: Optional[Ipvs],
        *,
        label: str,
    ) -> None:
        self._rules = rules
        self._table = table
        self._view = view
        self._outcome = outcome
        self._sets = sets
        self._ipvs = ipvs
        self._label = label
        self._source = as_address(view.packet.source)
        self._exits = Exits()

    def base(self, chain: Chain, states: Sequence[State]) -> Exits:
        """Run a built-in chain and its policy."""
        fell = self._chain(chain, _At((chain.name,)), states)
        if chain.policy == "DROP":
            self._outcome.end(DROP, fell, f"{self._label}: policy of {chain.name}")
        else:
            self._exits.accepted += fell
        return self._exits

    def _chain(self, chain: Chain, at: _At, states: Sequence[State]) -> list[State]:
        """The states that return from the chain."""
        returned: list[State] = []
        for group in _by_destination(states):
            on = group
            for rule in chain.candidates(group[0].destination, group[0].port):
                if not on:
                    break
                on = self._rule(rule, at, on, returned)
            returned.extend(on)
        return distinct(returned)

    def _rule(self, rule: Rule, at: _At, states: Sequence[State], returned: list[State]) -> list[State]:
        """The states that continue with the next rule."""
        if not self._outcome.take_steps(len(states)):
            raise MESSAGES.error("rules-iptables-budget", limit=self._outcome.limit)
        on: list[State] = []
        matched: list[State] = []
        for state in states:
            self._split(rule, at, state, matched, on)
        if matched:
            on.extend(self._target(rule, at, matched, returned))
        return distinct(on)

    # Matches

    def _split(self, rule: Rule, at: _At, state: State, matched: list[State], on: list[State]) -> None:
        """Put the state among those that match, those that do not, or both."""
        drawn = False
        open_matches: list[tuple[Match, Optional[NotKnown]]] = []
        for match in rule.matches:
            if isinstance(match, Recent) and match.command == "rcheck":
                # The first packet's source has not been seen before, so the rule does not match; but it has the affinity
                # timeout.
                seen = with_changes(state, affinity_seconds=match.seconds) if self._table == "nat" else state
                on.append(seen)
                return
            reason: Optional[NotKnown] = None
            try:
                result = self._holds(match, state)
            except NotKnown as error:
                result, reason = None, error
            if result is False:
                on.append(state)
                return
            if result is None:
                open_matches.append((match, reason))
            drawn = drawn or result == DRAWN
        if drawn:
            on.append(state)
        if not open_matches or rule.target is None:
            matched.append(state)
            return
        self._ask(rule, at, state, open_matches, matched, on)

    def _ask(
        self,
        rule: Rule,
        at: _At,
        state: State,
        open_matches: Sequence[tuple[Match, Optional[NotKnown]]],
        matched: list[State],
        on: list[State],
    ) -> None:
        question, positive = _question([match for match, _reason in open_matches], state, self._view.packet.source)
        self._outcome.explain(question, lambda: self._open_problem(*open_matches[0], rule, at))
        yes, no = assume(state, question)
        matching, other = (yes, no) if positive else (no, yes)
        if matching is not None:
            matched.append(matching)
        if other is not None:
            on.append(other)

    def _open_problem(self, match: Match, reason: Optional[NotKnown], rule: Rule, at: _At) -> BallastError:
        if isinstance(match, (InInterface, OutInterface)):
            line = f"-A {at.chains[-1]} {rule_text(rule)}"
            return TRACE_MESSAGES.error("rules-trace-link", place=f"table {self._label}", rule=line)
        return self._problem(match_text(match), reason, rule, at)

    def _problem(self, part: str, reason: Optional[NotKnown], rule: Rule, at: _At) -> BallastError:
        line = f"-A {at.chains[-1]} {rule_text(rule)}"
        if isinstance(reason, SetNotKnown):
            return MESSAGES.error("rules-iptables-ipset", what=reason.args[0], table=self._label, rule=line)
        if reason is not None and reason.args:
            return IPVS_MESSAGES.error("rules-ipvs-unknown", what=reason.args[0])
        return MESSAGES.error("rules-iptables-unknown", part=part, table=self._label, rule=line)

    def _holds(self, match: Match, state: State) -> Holds:
        if isinstance(match, Destination):
            return _inside(state.destination, match.network) != match.negated
        if isinstance(match, Source):
            if self._view.other_source and not match.negated and _is_one_address(match):
                return False
            return (self._source in _network(match.network)) != match.negated
        if isinstance(match, Protocol):
            return (match.name in (self._view.packet.protocol.lower(), "all")) != match.negated
        if isinstance(match, DestinationPort):
            return (state.port == match.port) != match.negated
        if isinstance(match, Mark):
            return (state.mark & match.mask == match.value) != match.negated
        if isinstance(match, ConnectionState):
            return bool(self._connection_states(state) & set(match.states)) != match.negated
        if isinstance(match, AddressType):
            address = self._view.packet.source if match.side == "src" else state.destination
            return self._view.surroundings.is_local(address) != match.negated
        return self._holds_rarely(match, state)

    def _holds_rarely(self, match: Match, state: State) -> Holds:
        if isinstance(match, InInterface):
            arrives = self._view.arrives_by(match.name, state, rest="+")
            return None if arrives is None else arrives != match.negated
        if isinstance(match, OutInterface):
            leaves = self._view.leaves_by(match.name, state, rest="+")
            return None if leaves is None else leaves != match.negated
        if isinstance(match, Statistic):
            certain = {0: match.negated, _CERTAIN: not match.negated}
            return certain.get(match.chance, DRAWN)
        if isinstance(match, MatchSet):
            return self._sets.is_in(match, self._view, state) != match.negated
        if isinstance(match, IpvsService):
            return None if self._ipvs is None else self._ipvs.is_served(match, self._view, state)
        if isinstance(match, Unknown):
            return holds(match.text, self._view, state)
        # It is unknown whether the link is a port of a bridge. The other matches, Recent (set) and Accounting, always match.
        return None if isinstance(match, PhysicalIn) else True

    def _connection_states(self, state: State) -> set[str]:
        states = {self._view.connection_state(state).upper()}
        if state.translated:
            states.add("DNAT")
        if state.masqueraded:
            states.add("SNAT")
        return states

    # Targets

    def _target(self, rule: Rule, at: _At, states: Sequence[State], returned: list[State]) -> list[State]:
        """Apply the target; returns the states that continue with the next rule."""
        target = rule.target
        if target is None:
            return list(states)
        if isinstance(target, (Jump, Goto)):
            return self._jump(rule, target, at, states, returned)
        if isinstance(target, Verdict) and target.name == "RETURN":
            returned.extend(states)
            return []
        if isinstance(target, Verdict) and target.name == "ACCEPT":
            self._exits.accepted.extend(states)
            return []
        line = self._line(rule, at)
        if isinstance(target, Verdict):
            self._outcome.end(DROP, states, line)
            return []
        if isinstance(target, Dnat):
            self._exits.bound += [
                with_changes(
                    because(state, line), destination=target.address, port=target.port or state.port, translated=True
                )
                for state in states
            ]
            return []
        effect = effect_of(target.text) if isinstance(target, Unknown) else target
        if effect is None:
            part = rule_text(rule).rpartition(" -j ")[2]
            self._outcome.end_unknown(states, self._problem(f"-j {part}", None, rule, at))
            return []
        return self._apply(effect, rule, at, states, line)

    def _apply(self, effect: Effect, rule: Rule, at: _At, states: Sequence[State], line: str) -> list[State]:
        if isinstance(effect, NoEffect):
            return list(states)
        if isinstance(effect, SetMark):
            return [self._set_mark(state, effect, rule, at, line) for state in states]
        if isinstance(effect, Masquerade):
            own = at.by_own_source or self._is_for_own_source(rule)
            self._exits.bound += [
                with_changes(because(state, line), masqueraded=True, own_masquerade=own or state.own_mark)
                for state in states
            ]
        elif isinstance(effect, Reject):
            self._outcome.end(REJECT, states, line)
        elif isinstance(effect, (Redirect, DnatRange)):
            self._translate(effect, rule, at, states, line)
        elif isinstance(effect, ConnectionMark):
            return [self._mark_connection(state, effect, line) for state in states]
        elif isinstance(effect, Untrack):
            # A packet that already has a connection keeps it.
            return [
                state if self._view.has_connection(state) else with_changes(state, untracked=True) for state in states
            ]
        return []

    def _translate(
        self, effect: Union[Redirect, DnatRange], rule: Rule, at: _At, states: Sequence[State], line: str
    ) -> None:
        for state in states:
            try:
                address = self._view.redirect_address(state) if isinstance(effect, Redirect) else effect.addresses
                ends = endpoints_of((address, effect.ports), state.destination, state.port)
            except NotKnown:
                problem = self._problem(rule_text(rule).rpartition(" -j ")[2], None, rule, at)
                self._outcome.end_unknown([state], problem)
                continue
            self._exits.bound += [
                with_changes(because(state, line), destination=to, port=port, translated=True) for to, port in ends
            ]

    def _set_mark(self, state: State, target: SetMark, rule: Rule, at: _At, line: str) -> State:
        mark = (state.mark & ~target.mask) ^ target.value
        if mark == state.mark:
            return state
        # A cleared mark does not reveal which rule set it.
        own = (at.by_own_source or self._is_for_own_source(rule)) if mark & ~state.mark else state.own_mark
        return with_changes(because(state, line), mark=mark, own_mark=own)

    def _mark_connection(self, state: State, target: ConnectionMark, line: str) -> State:
        if not self._view.has_connection(state):
            return state
        if target.operation == "restore":
            mark = (state.mark & ~target.packet_mask) ^ (state.ct_mark & target.mask)
            return state if mark == state.mark else with_changes(because(state, line), mark=mark)
        copied = state.mark & target.packet_mask if target.operation == "save" else target.value
        return with_changes(state, ct_mark=(state.ct_mark & ~target.mask) ^ copied)

    def _jump(
        self, rule: Rule, target: Union[Jump, Goto], at: _At, states: Sequence[State], returned: list[State]
    ) -> list[State]:
        chain = self._rules.chain(self._table, target.chain)
        if chain is None:
            raise MESSAGES.error("rules-iptables-chain", table=self._table, chain=target.chain)
        if target.chain in at.chains:
            raise MESSAGES.error("rules-iptables-loop", table=self._table, chain=target.chain)
        if len(at.chains) > _DEPTH_LIMIT:
            raise MESSAGES.error("rules-iptables-deep", table=self._table, chain=target.chain, limit=_DEPTH_LIMIT)
        line = self._line(rule, at)
        below = _At((*at.chains, target.chain), self._is_for_own_source(rule))
        back = self._chain(chain, below, [because(state, line) for state in states])
        # A chain that did nothing to a packet does not explain its verdict.
        back = [with_changes(state, why=state.why[:-1]) if state.why[-1] == line else state for state in back]
        if isinstance(target, Goto):
            returned.extend(back)
            return []
        return back

    def _line(self, rule: Rule, at: _At) -> str:
        place = f"{self._label}: -A {at.chains[-1]}"
        return self._outcome.lines.of(rule, place, lambda: f"{place} {rule_text(rule)}")

    def _is_for_own_source(self, rule: Rule) -> bool:
        """Whether only packets with one source match; or, through a set for hairpins, those whose source is also the
        destination."""
        return any(
            _is_one_address(match)
            if isinstance(match, Source)
            else isinstance(match, MatchSet) and "src" in match.sides
            for match in rule.matches
            if isinstance(match, (Source, MatchSet)) and not match.negated
        )


def _question(matches: Sequence[Match], state: State, source: str) -> tuple[Question, bool]:
    """What matches that cannot be decided ask, and the answer by which they match. `source`: of the packet."""
    match = matches[0]
    if len(matches) > 1:
        return Question(" ".join(match_text(each) for each in matches), state.destination), True
    if isinstance(match, (InInterface, OutInterface)):
        name = match.name
        flag, to = ("-i", source) if isinstance(match, InInterface) else ("-o", state.destination)
        return Question(f"{flag} {name}", to, "" if name.endswith("+") else name), not match.negated
    if isinstance(match, (MatchSet, PhysicalIn)):
        return Question(match_text(replace(match, negated=False))), not match.negated
    return Question(match_text(match)), True


def _by_destination(states: Sequence[State]) -> list[list[State]]:
    if len(states) == 1:
        return [list(states)]
    groups: dict[tuple[str, int], list[State]] = {}
    for state in states:
        groups.setdefault((state.destination, state.port), []).append(state)
    return list(groups.values())


@lru_cache(maxsize=65536)
def _network(text: str) -> Union[ipaddress.IPv4Network, ipaddress.IPv6Network]:
    return ipaddress.ip_network(text)


@lru_cache(maxsize=65536)
def _inside(address: str, network: str) -> bool:
    return as_address(address) in _network(network)


def _is_one_address(match: Source) -> bool:
    return _network(match.network).num_addresses == 1


def is_named(name: str, pattern: str) -> bool:
    """Whether the name of a link matches a rule's pattern, in which a trailing `+` stands for any suffix."""
    return name.startswith(pattern[:-1]) if pattern.endswith("+") else name == pattern
