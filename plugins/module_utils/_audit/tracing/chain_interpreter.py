# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs one base chain of nftables and the chains it calls, for all states that a packet may be in.

A rule sends each state to its next statement, to the next rule (no match), back to the caller of the chain, or out of the
base chain. All outcomes of a random choice, and both answers to a question that cannot be decided, are followed; equal
states are merged. A single packet never exceeds a `limit`. Source: nft_do_chain in nf_tables_core.c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Optional, TypeVar, Union

from ..._rules.nftables.expressions import (
    ACCEPT,
    ANY_BIT,
    CONTINUE,
    EQUAL,
    GOTO,
    JUMP,
    RETURN,
    UNEQUAL,
    AnonymousMap,
    AnonymousSet,
    Constant,
    Counter,
    Ct,
    Expression,
    Fib,
    Key,
    Limit,
    Log,
    Mangle,
    MapLookup,
    Match,
    Meta,
    Named,
    Nat,
    Notrack,
    Payload,
    Reject,
    SetUpdate,
    Statement,
    Target,
    Unknown,
    Verdict,
    Vmap,
)
from ..._rules.nftables.expressions import DROP as NFT_DROP
from ..._rules.nftables.messages import MESSAGES
from ..._rules.nftables.objects import Chain, Rule, Table
from ..._rules.nftables.render import render_statement
from ..._rules.nftables.vocabulary import parts_of
from ..._rules.packet import DROP, REJECT
from . import nft_values
from .hook_view import HookView
from .lookup import CATCH_ALL, Indexes
from .nft_matches import LINKS_IN, LINKS_OUT, has_route_back, is_by_link, is_for_own_source, question_of
from .nft_texts import Absent, link_problem, problem_of, show_element, show_expression, show_rule
from .nft_unknown import ALWAYS, HARMLESS, MAYBE, NEVER, effect_of
from .nft_values import is_any
from .outcome import Outcome
from .packet_state import Exits, NotKnown, Question, State, assume, because, distinct, with_changes
from .targets import endpoints_of

_DEPTH_LIMIT = 64  # chains that jump to chains; the kernel allows 16
_ELEMENTS_LIMIT = 256  # of a map whose key is not known; each is followed
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class _At:
    """The chains that led here, and whether only packets with one particular source get here."""

    chains: tuple[str, ...]
    own_source: bool = False


class ChainInterpreter:
    def __init__(self, table: Table, view: HookView, indexes: Indexes, outcome: Outcome) -> None:
        self._table = table
        self._view = view
        self._indexes = indexes
        self._outcome = outcome
        self._exits = Exits()

    def base(self, chain: Chain, states: Sequence[State]) -> Exits:
        """Run a base chain and its policy."""
        rest = self._chain(chain, _At((chain.name,)), list(states))
        if chain.base is not None and chain.base.policy == "drop":
            line = f"{self.place(_At((chain.name,)))}: policy drop"
            self._outcome.end(DROP, rest, line)
        else:
            self._exits.accepted += rest
        return self._exits

    def _chain(self, chain: Chain, at: _At, states: list[State]) -> list[State]:
        """The states that return to the caller."""
        returned: list[State] = []
        live = states
        for rule in chain.rules:
            if not live:
                break
            live = distinct(self._rule(rule, at, live, returned))
        return live + returned

    def _rule(self, rule: Rule, at: _At, states: list[State], returned: list[State]) -> list[State]:
        """The states that continue with the next rule."""
        self.count(len(states), at)
        return _Step(self, rule, at, returned).run(states)

    def place(self, at: _At) -> str:
        return f"{self._table.family} {self._table.name} {at.chains[-1]}"

    def count(self, steps: int, at: _At) -> None:
        """Count steps. Raises `rules-nft-trace-budget` once the packet has taken too many."""
        if not self._outcome.take_steps(steps):
            raise MESSAGES.error("rules-nft-trace-budget", place=self.place(at), limit=self._outcome.limit)

    def line(self, rule: Rule, at: _At) -> str:
        place = self.place(at)
        return self._outcome.lines.of(rule, place, lambda: f"{place}: {show_rule(rule)}")

    # Interface for the statements of a rule

    def call(self, name: str, at: _At, states: list[State], *, own_source: bool, line: str) -> list[State]:
        """The states that return from the called chain."""
        chain = self._table.chains.get(name)
        if chain is None:
            raise Absent(f"chain {name}")
        if len(at.chains) > _DEPTH_LIMIT:
            raise NotKnown(f"chains more than {_DEPTH_LIMIT} deep")
        if name in at.chains:
            raise MESSAGES.error("rules-nft-trace-loop", place=self.place(at), rule=line)
        below = _At((*at.chains, name), at.own_source or own_source)
        back = self._chain(chain, below, [because(state, line) for state in states])
        # A chain that did nothing to a packet does not explain its verdict.
        return [with_changes(state, why=state.why[:-1]) if state.why[-1] == line else state for state in back]

    @property
    def view(self) -> HookView:
        return self._view

    @property
    def outcome(self) -> Outcome:
        return self._outcome

    @property
    def exits(self) -> Exits:
        return self._exits

    def values(self, expression: Expression, state: State, at: _At) -> list[Optional[Key]]:
        self.count(nft_values.choices(expression), at)
        return _require_known(expression, lambda: nft_values.values(self._view, expression, state))

    def flags(self, expression: Expression, state: State) -> Optional[set[str]]:
        return _require_known(expression, lambda: nft_values.flags(self._view, expression, state))

    def target(self, to: Union[Named, AnonymousMap, AnonymousSet], left: Expression, key: Key) -> Optional[Target]:
        """The value of a key in a map; in a set, the element that matches."""
        if not isinstance(to, Named):
            return self._indexes.anonymous(to, left, key)
        named_set = self._table.sets.get(to.name)
        if named_set is None:
            raise Absent(f"@{to.name}")
        return self._indexes.find_named(named_set, key)

    def elements(self, to: Union[Named, AnonymousMap]) -> Sequence[tuple[Key, Optional[Target]]]:
        """The elements of a map; that for all other keys comes last."""
        if isinstance(to, Named):
            named_map = self._table.sets.get(to.name)
            if named_map is None:
                raise Absent(f"@{to.name}")
            pairs = [(element.key, element.target) for element in named_map.elements.values()]
        else:
            pairs = [*to.elements]
        return sorted(pairs, key=lambda pair: pair[0] == CATCH_ALL)

    def timeout_of(self, update: SetUpdate) -> int:
        """Seconds, of the element or else of its set. Raises Absent if the table lacks the set."""
        named_set = self._table.sets.get(update.name)
        if named_set is None:
            raise Absent(f"@{update.name}")
        return update.timeout_seconds or named_set.timeout_seconds

    @property
    def family(self) -> str:
        return "ip" if self._view.packet.family == 4 else "ip6"


class _Step:
    """The execution of one rule."""

    def __init__(self, interpreter: ChainInterpreter, rule: Rule, at: _At, returned: list[State]) -> None:
        self._interpreter = interpreter
        self._rule = rule
        self._at = at
        self._returned = returned
        self._next_rule: list[State] = []

    @property
    def _line(self) -> str:
        return self._interpreter.line(self._rule, self._at)

    @property
    def _place(self) -> str:
        return self._interpreter.place(self._at)

    @property
    def _own_source(self) -> bool:
        return any(is_for_own_source(statement) for statement in self._rule.statements)

    def run(self, states: list[State]) -> list[State]:
        """The states that continue with the next rule."""
        live = states
        for statement in self._rule.statements:
            if not live:
                break
            try:
                live = self._statement(statement, live)
            except NotKnown as error:
                self._interpreter.outcome.end_unknown(live, problem_of(error, self._rule, self._place))
                live = []
        return self._next_rule + live

    def _statement(self, statement: Statement, states: list[State]) -> list[State]:
        """The states that continue with the next statement."""
        if isinstance(statement, Match):
            return self._match(statement, states)
        if isinstance(statement, Verdict):
            return self._verdict(statement, states)
        if isinstance(statement, Vmap):
            return self._vmap(statement, states)
        if isinstance(statement, Nat):
            return self._nat(statement, states)
        if isinstance(statement, Mangle):
            return [changed for state in states for changed in self._mangle(statement, state)]
        if isinstance(statement, (Counter, Log)):
            return states
        return self._rarely(statement, states)

    def _rarely(self, statement: Statement, states: list[State]) -> list[State]:
        if isinstance(statement, Reject):
            self._interpreter.outcome.end(REJECT, states, self._line)
            return []
        if isinstance(statement, SetUpdate):
            seconds = self._interpreter.timeout_of(statement)
            return [with_changes(because(state, self._line), affinity_seconds=seconds) for state in states]
        if isinstance(statement, Notrack):
            view = self._interpreter.view
            # A packet that already has a connection keeps it.
            return [state if view.has_connection(state) else with_changes(state, untracked=True) for state in states]
        if isinstance(statement, Limit):
            if statement.over:
                self._next_rule += states
                return []
            return states
        if isinstance(statement, Unknown):
            return self._unknown(statement, states)
        raise NotKnown(render_statement(statement))

    def _unknown(self, unknown: Unknown, states: list[State]) -> list[State]:
        effect = effect_of(unknown.text, self._interpreter.view)
        if effect in (ALWAYS, HARMLESS):
            return states
        if effect == NEVER:
            self._next_rule += states
            return []
        if effect != MAYBE:
            raise NotKnown(unknown.text)
        matched: list[State] = []
        for state in states:
            self._ask(Question(unknown.text), state, unknown.text, matched, self._next_rule)
        return matched

    # Conditions

    def _match(self, match: Match, states: list[State]) -> list[State]:
        matched, others = self._split(match, states)
        self._next_rule += others
        return matched

    def _split(self, match: Match, states: list[State]) -> tuple[list[State], list[State]]:
        """The states that match, and those that do not; a state may be in both."""
        matched: list[State] = []
        others: list[State] = []
        for state in states:
            try:
                outcomes = self._outcomes(match, state)
            except Absent:
                raise
            except NotKnown as error:
                question, positive = question_of(match, state, self._interpreter.view.packet.source)
                yes, no = (matched, others) if positive else (others, matched)
                self._ask(question, state, error.args[0], yes, no)
                continue
            if True in outcomes:
                matched.append(state)
            if False in outcomes:
                others.append(state)
        return matched, others

    def _ask(self, question: Question, state: State, construct: str, yes: list[State], no: list[State]) -> None:
        """Adds the state with each answer that earlier ones do not exclude."""
        rule, place = self._rule, self._place
        self._interpreter.outcome.explain(
            question,
            lambda: link_problem(rule, place) if question.link_to else problem_of(NotKnown(construct), rule, place),
        )
        for answers, answered in zip((yes, no), assume(state, question)):
            if answered is not None:
                answers.append(answered)

    def _outcomes(self, match: Match, state: State) -> set[bool]:
        if match.operator == ANY_BIT:
            flags = self._interpreter.flags(match.left, state)
            if isinstance(match.right, Named):
                raise NotKnown(render_statement(match))
            return {flags is not None and any(part in flags for key in match.right.keys for part in key)}
        if isinstance(match.left, Fib) and match.left.result != "type":
            return {has_route_back(match)}
        if match.left in (*LINKS_IN, *LINKS_OUT) and isinstance(match.right, AnonymousSet):
            return {is_by_link(match, match.right, self._interpreter.view, state)}
        outcomes: set[bool] = set()
        for key in self._interpreter.values(match.left, state, self._at):
            if key is None:
                outcomes.add(False)
            elif is_any(key):
                raise NotKnown(render_statement(match))
            else:
                outcomes.add(self._compare(match, key))
        return outcomes

    def _compare(self, match: Match, key: Key) -> bool:
        view = self._interpreter.view
        if view.other_source and self._own_source and match.operator == EQUAL and is_for_own_source(match):
            return False
        if match.operator in (EQUAL, UNEQUAL):
            return (self._interpreter.target(match.right, match.left, key) is not None) == (match.operator == EQUAL)
        if isinstance(match.right, Named) or len(match.right.keys) != 1:
            raise NotKnown(render_statement(match))
        left, right = key[0], match.right.keys[0][0]
        if not (left.isdecimal() and right.isdecimal()):
            raise NotKnown(render_statement(match))
        if match.operator.endswith("=") and int(left) == int(right):
            return True
        return int(left) < int(right) if match.operator.startswith("<") else int(left) > int(right)

    def _vmap(self, vmap: Vmap, states: list[State]) -> list[State]:
        """A state whose key is not in the map continues with the next rule."""
        live: list[State] = []
        for state in states:
            if any(key is not None and is_any(key) for key in self._interpreter.values(vmap.key, state, self._at)):
                live += self._each_element(vmap, state)
                continue
            # Equal verdicts of different random choices count once.
            for verdict, key in self._draw(vmap.key, vmap.to, state):
                if verdict is None:
                    self._next_rule.append(state)
                elif isinstance(verdict, Verdict):
                    live += self._verdict(verdict, [state], show_element(key, verdict))
        return live

    def _each_element(self, vmap: Vmap, state: State) -> list[State]:
        """Follows each element whose key the state may have, as rules one after the other: no two have the same key."""
        elements = self._interpreter.elements(vmap.to)
        if len(elements) > _ELEMENTS_LIMIT:
            raise NotKnown(show_expression(vmap.key))
        live: list[State] = []
        left = [state]
        for key, verdict in elements:
            matched, others = left, []
            for part, constant in zip(parts_of(vmap.key), () if key == CATCH_ALL else key):
                matched, missed = self._split(Match(part, AnonymousSet.of(constant), EQUAL), matched)
                others += missed
            left = distinct(others)
            if isinstance(verdict, Verdict):
                live += self._verdict(verdict, matched, show_element(key, verdict))
        self._next_rule += left
        return live

    def _draw(
        self, expression: Expression, to: Union[Named, AnonymousMap], state: State
    ) -> list[tuple[Optional[Target], Key]]:
        """Each different value that the map may return, with a key that has it; None if a key is not in the map."""
        drawn: dict[Optional[Target], Key] = {}
        for key in self._interpreter.values(expression, state, self._at):
            if key is not None and is_any(key):
                raise NotKnown(show_expression(expression))
            drawn.setdefault(None if key is None else self._interpreter.target(to, expression, key), key or ())
        return list(drawn.items())

    # Verdicts

    def _verdict(self, verdict: Verdict, states: list[State], element: str = "") -> list[State]:
        """`element` is the text of the map element with the verdict, if there is one."""
        if verdict.kind == CONTINUE:
            return states
        if verdict.kind == ACCEPT:
            self._interpreter.exits.accepted.extend(states)
        elif verdict.kind == NFT_DROP:
            self._interpreter.outcome.end(DROP, states, self._line + element)
        elif verdict.kind == RETURN:
            self._returned += states
        else:
            line = self._line + element
            back = self._interpreter.call(verdict.target, self._at, states, own_source=self._own_source, line=line)
            if verdict.kind == GOTO:  # the called chain returns to our caller
                self._returned += back
            elif verdict.kind == JUMP:
                self._next_rule += back
        return []

    def _nat(self, nat: Nat, states: list[State]) -> list[State]:
        """A translation ends the base chain, as accept does."""
        if nat.family not in ("", self._interpreter.family):
            self._next_rule += states
            return []
        for state in states:
            self._interpreter.exits.bound += self._translate(nat, state)
        return []

    def _translate(self, nat: Nat, state: State) -> list[State]:
        after = because(state, self._line)
        if nat.kind in ("masquerade", "snat"):
            own = self._own_source or self._at.own_source or state.own_mark
            return [with_changes(after, masqueraded=True, own_masquerade=own)]
        translated = []
        for target in self._targets(nat, state):
            try:
                ends = endpoints_of(target, state.destination, state.port)
            except NotKnown as error:
                raise NotKnown(render_statement(nat)) from error
            for address, port in ends:
                translated.append(with_changes(after, destination=address, port=port, translated=True))
        return translated

    def _targets(self, nat: Nat, state: State) -> list[Key]:
        """Address and port of each possible translation. Either may be a range, or "" to keep the packet's."""
        port = nat.port.key[0] if isinstance(nat.port, Constant) else ""
        if (nat.port is not None and not port) or not isinstance(nat.address, (Constant, MapLookup, type(None))):
            raise NotKnown(render_statement(nat))
        if nat.kind == "redirect":
            return [(self._interpreter.view.redirect_address(state), port)]
        if nat.address is None:
            return [("", port)]
        if isinstance(nat.address, Constant):
            return [(nat.address.key[0], port)]
        targets: list[Key] = []
        if isinstance(nat.address, MapLookup):
            for target, _key in self._draw(nat.address.key, nat.address.to, state):
                if target is None:
                    self._next_rule.append(state)
                elif not isinstance(target, Verdict):
                    targets.append((*target, port) if len(target) == 1 else target)
        return targets

    def _mangle(self, mangle: Mangle, state: State) -> list[State]:
        if isinstance(mangle.target, Payload) and mangle.target.field == "dscp":
            return [state]
        if mangle.target not in (Meta("mark"), Ct("mark")):
            raise NotKnown(render_statement(mangle))
        changed = []
        for key in self._values_of(mangle.value, state):
            if key is None:
                self._next_rule.append(state)
            elif is_any(key) or len(key) != 1 or not key[0].isdecimal():
                raise NotKnown(render_statement(mangle))
            else:
                changed.append(self._mark(mangle, state, int(key[0])))
        return changed

    def _values_of(self, value: Expression, state: State) -> list[Optional[Key]]:
        if not isinstance(value, MapLookup):
            return self._interpreter.values(value, state, self._at)
        targets = [target for target, _key in self._draw(value.key, value.to, state)]
        return [None if target is None or isinstance(target, Verdict) else target for target in targets]

    def _mark(self, mangle: Mangle, state: State, mark: int) -> State:
        if mangle.target == Ct("mark"):
            return with_changes(state, ct_mark=mark) if self._interpreter.view.has_connection(state) else state
        if mark == state.mark:
            return state
        # A cleared mark does not reveal which rule set it.
        own = (self._own_source or self._at.own_source) if mark & ~state.mark else state.own_mark
        return with_changes(because(state, self._line), mark=mark, own_mark=own)


def _require_known(expression: Expression, ask: Callable[[], _Answer]) -> _Answer:
    try:
        return ask()
    except NotKnown as error:
        raise NotKnown(show_expression(expression)) from error
