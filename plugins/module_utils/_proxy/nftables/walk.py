# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One base chain and what it calls, for all states that a packet may be in.

The states of a rule go one of four ways: to its next statement, to the next rule (it does not match), back to the caller
of the chain, or out of the base chain. Lots are drawn in every way; equal states are one. A packet alone is below every
`limit`. Source: nft_do_chain in nf_tables_core.c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Optional, TypeVar, Union

from ..._core.errors import BallastError
from ..packet import DROP, REJECT
from .expressions import (
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
    Key,
    Limit,
    Log,
    Mangle,
    MapLookup,
    Match,
    Meta,
    Named,
    Nat,
    Reject,
    SetUpdate,
    Statement,
    Target,
    Unknown,
    Verdict,
    Vmap,
)
from .expressions import DROP as NFT_DROP
from .lookup import Indexes
from .messages import MESSAGES
from .moment import Moment, NotKnown, State, is_about_own_source, is_any
from .objects import Chain, Rule, Table
from .render import render_expression, render_rule, render_statement

STEPS_LIMIT = 300_000  # rules and lots that one packet may pass, in all states together: some seconds

_Answer = TypeVar("_Answer")


class _Absent(Exception):
    """A chain or set that a rule names and the table has not."""


@dataclass
class Outcome:
    """What one packet's way has come to so far."""

    ended: list[tuple[str, State]] = field(default_factory=list)  # DROP or REJECT
    steps: int = 0
    lines: dict[tuple[int, str], str] = field(default_factory=dict)  # rules as told, by identity and place


@dataclass
class Exits:
    """The states that are done with a base chain."""

    accepted: list[State] = field(default_factory=list)
    bound: list[State] = field(default_factory=list)  # given an address: later nat chains of this hook are not asked


@dataclass(frozen=True)
class _At:
    """A chain, the chains on the way to it, and whether that way is only for packets of one source."""

    chains: tuple[str, ...]
    own_source: bool = False


class Walk:
    def __init__(self, table: Table, moment: Moment, indexes: Indexes, outcome: Outcome) -> None:
        self._table = table
        self._moment = moment
        self._indexes = indexes
        self._outcome = outcome
        self._exits = Exits()

    def base(self, chain: Chain, states: Sequence[State]) -> Exits:
        """Runs a base chain, its policy at its end."""
        rest = self._chain(chain, _At((chain.name,)), list(states))
        if chain.base is not None and chain.base.policy == "drop":
            line = f"{self._place(_At((chain.name,)))}: policy drop"
            self._outcome.ended += [(DROP, _because(state, line)) for state in rest]
        else:
            self._exits.accepted += rest
        return self._exits

    def _chain(self, chain: Chain, at: _At, states: list[State]) -> list[State]:
        """The states that go back to the caller."""
        returned: list[State] = []
        live = states
        for rule in chain.rules:
            if not live:
                break
            live = distinct(self._rule(rule, at, live, returned))
        return live + returned

    def _rule(self, rule: Rule, at: _At, states: list[State], returned: list[State]) -> list[State]:
        """The states that go on with the next rule."""
        step = _Step(self, rule, at, returned)
        try:
            self.count(len(states), at)
            return step.run(states)
        except NotKnown as error:
            raise MESSAGES.error(
                "rules-nft-trace-unknown", construct=error.args[0], place=self._place(at), rule=_text(rule)
            ) from error
        except _Absent as error:
            raise MESSAGES.error(
                "rules-nft-trace-absent", name=error.args[0], place=self._place(at), rule=_text(rule)
            ) from error

    def _place(self, at: _At) -> str:
        return f"{self._table.family} {self._table.name} {at.chains[-1]}"

    def count(self, steps: int, at: _At) -> None:
        self._outcome.steps += steps
        if self._outcome.steps > STEPS_LIMIT:
            raise MESSAGES.error("rules-nft-trace-budget", place=self._place(at), limit=STEPS_LIMIT)

    def line(self, rule: Rule, at: _At) -> str:
        place = self._place(at)
        key = (id(rule), place)
        if key not in self._outcome.lines:
            self._outcome.lines[key] = f"{place}: {_text(rule)}"
        return self._outcome.lines[key]

    # For the statements of a rule

    def called(self, name: str, at: _At, states: list[State], *, own_source: bool, line: str) -> list[State]:
        """The states that come back from a chain."""
        chain = self._table.chains.get(name)
        if chain is None:
            raise _Absent(f"chain {name}")
        if name in at.chains:
            raise MESSAGES.error("rules-nft-trace-loop", place=self._place(at), rule=line)
        below = _At((*at.chains, name), at.own_source or own_source)
        back = self._chain(chain, below, [_because(state, line) for state in states])
        # A chain that only looked at a packet has no part in what becomes of it.
        return [replace(state, why=state.why[:-1]) if state.why[-1] == line else state for state in back]

    def accept(self, states: list[State]) -> None:
        self._exits.accepted += states

    def bind(self, states: list[State]) -> None:
        self._exits.bound += states

    def end(self, verdict: str, states: list[State], line: str) -> None:
        self._outcome.ended += [(verdict, _because(state, line)) for state in states]

    def values(self, expression: Expression, state: State, at: _At) -> list[Optional[Key]]:
        self.count(self._moment.lots(expression), at)
        return _known(expression, lambda: self._moment.values(expression, state))

    def flags(self, expression: Expression, state: State) -> Optional[set[str]]:
        return _known(expression, lambda: self._moment.flags(expression, state))

    def target(self, to: Union[Named, AnonymousMap, AnonymousSet], left: Expression, key: Key) -> Optional[Target]:
        """What a map has for a key, or a set: then that is the key that it is found by."""
        if not isinstance(to, Named):
            return self._indexes.anonymous(to, left, key)
        found = self._table.sets.get(to.name)
        if found is None:
            raise _Absent(f"@{to.name}")
        return self._indexes.named(found, key)

    def timeout_of(self, update: SetUpdate) -> int:
        found = self._table.sets.get(update.name)
        if found is None:
            raise _Absent(f"@{update.name}")
        return update.timeout_seconds or found.timeout_seconds

    @property
    def family(self) -> str:
        return "ip" if self._moment.packet.family == 4 else "ip6"

    def is_own(self, address: str) -> bool:
        return self._moment.surroundings.is_local(address)


class _Step:
    """One rule."""

    def __init__(self, walk: Walk, rule: Rule, at: _At, returned: list[State]) -> None:
        self._walk = walk
        self._rule = rule
        self._at = at
        self._returned = returned
        self._next_rule: list[State] = []
        self._own_source = any(_is_about_own_source(one) for one in rule.statements)

    @property
    def _line(self) -> str:
        return self._walk.line(self._rule, self._at)

    def run(self, states: list[State]) -> list[State]:
        live = states
        for statement in self._rule.statements:
            if not live:
                break
            live = self._statement(statement, live)
        return self._next_rule + live

    def _statement(self, statement: Statement, states: list[State]) -> list[State]:
        """The states that go on with the next statement."""
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
        if isinstance(statement, Reject):
            self._walk.end(REJECT, states, self._line)
            return []
        if isinstance(statement, SetUpdate):
            seconds = self._walk.timeout_of(statement)
            return [replace(_because(state, self._line), affinity_seconds=seconds) for state in states]
        if isinstance(statement, Limit):
            if statement.over:
                self._next_rule += states
                return []
            return states
        if isinstance(statement, (Counter, Log)):
            return states
        raise NotKnown(statement.text)

    # Conditions

    def _match(self, match: Match, states: list[State]) -> list[State]:
        matched = []
        for state in states:
            outcomes = self._outcomes(match, state)
            if True in outcomes:
                matched.append(state)
            if False in outcomes:
                self._next_rule.append(state)
        return matched

    def _outcomes(self, match: Match, state: State) -> set[bool]:
        if match.operator == ANY_BIT:
            flags = self._walk.flags(match.left, state)
            if isinstance(match.right, Named):
                raise NotKnown(render_statement(match))
            return {flags is not None and any(part in flags for key in match.right.keys for part in key)}
        outcomes: set[bool] = set()
        for key in self._walk.values(match.left, state, self._at):
            if key is None:
                outcomes.add(False)
            elif is_any(key):
                outcomes |= {True, False}
            else:
                outcomes.add(self._compares(match, key))
        return outcomes

    def _compares(self, match: Match, key: Key) -> bool:
        if match.operator in (EQUAL, UNEQUAL):
            return (self._walk.target(match.right, match.left, key) is not None) == (match.operator == EQUAL)
        if isinstance(match.right, Named) or len(match.right.keys) != 1:
            raise NotKnown(render_statement(match))
        left, right = key[0], match.right.keys[0][0]
        if not (left.isdecimal() and right.isdecimal()):
            raise NotKnown(render_statement(match))
        if match.operator.endswith("=") and int(left) == int(right):
            return True
        return int(left) < int(right) if match.operator.startswith("<") else int(left) > int(right)

    def _vmap(self, vmap: Vmap, states: list[State]) -> list[State]:
        """What is looked up in vain goes on with the next rule."""
        live: list[State] = []
        for state in states:
            # A verdict is given once to all lots that have it.
            for verdict, key in self._drawn(vmap.key, vmap.to, state):
                if verdict is None:
                    self._next_rule.append(state)
                elif isinstance(verdict, Verdict):
                    element = f" {{ {' . '.join(key)} : {render_statement(verdict)} }}"
                    live += self._verdict(verdict, [state], element)
        return live

    def _drawn(
        self, expression: Expression, to: Union[Named, AnonymousMap], state: State
    ) -> list[tuple[Optional[Target], Key]]:
        """Each different value of a map that may be drawn, with a key that has it; None where a key has none."""
        found: dict[Optional[Target], Key] = {}
        for key in self._walk.values(expression, state, self._at):
            if key is not None and is_any(key):
                raise NotKnown(_shown(expression))
            found.setdefault(None if key is None else self._walk.target(to, expression, key), key or ())
        return list(found.items())

    # Verdicts

    def _verdict(self, verdict: Verdict, states: list[State], element: str = "") -> list[State]:
        """`element` is that of a map which the verdict is from."""
        if verdict.kind == CONTINUE:
            return states
        if verdict.kind == ACCEPT:
            self._walk.accept(states)
        elif verdict.kind == NFT_DROP:
            self._walk.end(DROP, states, self._line + element)
        elif verdict.kind == RETURN:
            self._returned += states
        else:
            line = self._line + element
            back = self._walk.called(verdict.target, self._at, states, own_source=self._own_source, line=line)
            if verdict.kind == GOTO:  # the chain called comes back to our caller
                self._returned += back
            elif verdict.kind == JUMP:
                self._next_rule += back
        return []

    def _nat(self, nat: Nat, states: list[State]) -> list[State]:
        """A translation ends the base chain as an accept does."""
        if nat.family not in ("", self._walk.family):
            self._next_rule += states
            return []
        for state in states:
            if nat.kind == "dnat" and nat.address is not None:
                self._walk.bind([_because(to, self._line) for to in self._translated(nat, nat.address, state)])
            elif nat.kind == "masquerade" or self._is_to_node(nat):
                own = self._own_source or self._at.own_source or state.own_mark
                told = _because(state, self._line)
                self._walk.bind([replace(told, masqueraded=True, own_masquerade=own)])
            else:
                raise NotKnown(render_statement(nat))
        return []

    def _is_to_node(self, nat: Nat) -> bool:
        """`snat to` an address of the node is masquerading by another name."""
        return nat.kind == "snat" and isinstance(nat.address, Constant) and self._walk.is_own(nat.address.key[0])

    def _translated(self, nat: Nat, address: Expression, state: State) -> list[State]:
        targets: list[Key] = []
        if isinstance(address, Constant):
            targets = [address.key]
        elif isinstance(address, MapLookup):
            for target, _key in self._drawn(address.key, address.to, state):
                if target is None:
                    self._next_rule.append(state)
                elif not isinstance(target, Verdict):
                    targets.append(target)
        port = nat.port.key if isinstance(nat.port, Constant) else ()
        found = []
        for target in targets:
            whole = (*target, *port)
            is_range = "-" in whole[0] or "/" in whole[0]
            if is_range or len(whole) > 2 or not all(part.isdecimal() for part in whole[1:]):
                raise NotKnown(render_statement(nat))
            to_port = int(whole[1]) if len(whole) == 2 else state.port
            found.append(replace(state, destination=whole[0], port=to_port, translated=True))
        return found

    def _mangle(self, mangle: Mangle, state: State) -> list[State]:
        if mangle.target not in (Meta("mark"), Ct("mark")):
            raise NotKnown(render_statement(mangle))
        changed = []
        for key in self._assigned(mangle.value, state):
            if key is None:
                self._next_rule.append(state)
            elif is_any(key) or len(key) != 1 or not key[0].isdecimal():
                raise NotKnown(render_statement(mangle))
            else:
                changed.append(self._marked(mangle, state, int(key[0])))
        return changed

    def _assigned(self, value: Expression, state: State) -> list[Optional[Key]]:
        if not isinstance(value, MapLookup):
            return self._walk.values(value, state, self._at)
        targets = [target for target, _key in self._drawn(value.key, value.to, state)]
        return [None if target is None or isinstance(target, Verdict) else target for target in targets]

    def _marked(self, mangle: Mangle, state: State, mark: int) -> State:
        if mangle.target == Ct("mark"):
            return replace(state, ct_mark=mark)
        if mark == state.mark:
            return state
        # A mark that is cleared says nothing of who set it.
        own = (self._own_source or self._at.own_source) if mark & ~state.mark else state.own_mark
        return replace(_because(state, self._line), mark=mark, own_mark=own)


def _is_about_own_source(statement: Statement) -> bool:
    if not isinstance(statement, Match) or statement.operator != EQUAL:
        return False
    is_one = isinstance(statement.right, AnonymousSet) and len(statement.right.keys) == 1
    alone = isinstance(statement.right, AnonymousSet) and is_one and not set("/-") & set(statement.right.keys[0][0])
    return is_about_own_source(statement.left, alone=alone)


def _known(expression: Expression, ask: Callable[[], _Answer]) -> _Answer:
    try:
        return ask()
    except NotKnown as error:
        raise NotKnown(_shown(expression)) from error


def _shown(expression: Expression) -> str:
    return expression.text if isinstance(expression, Unknown) else render_expression(expression)


def _text(rule: Rule) -> str:
    try:
        return render_rule(rule)
    except BallastError:  # another program's rule, with a comment that we would not write
        return f"rule with handle {rule.handle}"


def _because(state: State, line: str) -> State:
    return replace(state, why=(*state.why, line))


def distinct(states: list[State]) -> list[State]:
    return list(dict.fromkeys(states)) if len(states) > 1 else states
