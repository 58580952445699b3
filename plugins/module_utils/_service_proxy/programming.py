# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""Brings the Services of one family into the kernel: either what changed, or the whole table.

A change is committed as it is. If the kernel refuses it, the whole table is compared, since another program may have changed
what the operations build on. If the kernel refuses that too, the faulty Services are found by bisection; they stay as they
were in the kernel, and all others are programmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Optional, Protocol

from .._core.text.errors import BallastError
from .._rules.frontends import Key
from .._rules.model import Frontend
from .._rules.nftables.compile import Compiler
from .._rules.nftables.objects import Table
from .._rules.nftables.transaction import Operation, plan
from .family_rules import Desired, FamilyRules
from .ports import ServiceName
from .selection import select

Cluster = Mapping[ServiceName, Desired]


class Tables(Protocol):
    """The interface of `Kernel`. Methods raise BallastError."""

    def read(self, family: int) -> Optional[Table]: ...

    def commit(self, operations: Sequence[Operation]) -> None: ...

    def check(self, operations: Sequence[Operation]) -> None: ...


class Outcome(NamedTuple):
    operations: int
    full: bool = False  # the whole table was compared
    refused: Mapping[ServiceName, str] = {}  # Services that stay as they were, with the reason


class FamilyProgrammer:
    def __init__(self, family: int, tables: Tables) -> None:
        self.family = family
        self._tables = tables
        self._rules: Optional[FamilyRules] = None  # None: nothing has been programmed yet
        self._is_sure = False  # whether the kernel certainly has what `_rules` says

    def state_of(self, name: ServiceName) -> Desired:
        """The state of a Service that is in force."""
        return Desired() if self._rules is None else self._rules.state_of(name)

    @property
    def count(self) -> int:
        """The number of Services in force."""
        return 0 if self._rules is None else self._rules.count

    def frontends(self) -> list[Frontend]:
        """Those in force."""
        return [] if self._rules is None else self._rules.frontends()

    def frontends_at(self, destinations: AbstractSet[Key]) -> list[Frontend]:
        """Those in force of these destinations, whichever Services claim them."""
        return [] if self._rules is None else self._rules.frontends_at(destinations)

    def doubt(self) -> None:
        """Compare the whole table next time."""
        self._is_sure = False

    def repair(self) -> Outcome:
        """Compare the whole table with what was programmed last."""
        return Outcome(0) if self._rules is None else self._program_all(self._rules.compiler, {})

    def program(self, compiler: Compiler, changed: Cluster) -> Outcome:
        """Program the `changed` Services; all others stay as they are. A new `compiler` means that the node or the
        configuration has changed. BallastError on failure: nothing is lost, and the next call compares the whole table."""
        if self._rules is None or not self._is_sure:
            return self._program_all(compiler, changed)
        if compiler is self._rules.compiler and not changed:
            return Outcome(0)
        return self._program_changed(compiler, changed, self._rules)

    def _program_changed(self, compiler: Compiler, changed: Cluster, rules: FamilyRules) -> Outcome:
        before = {name: rules.state_of(name) for name in changed}
        if compiler is rules.compiler:
            operations = rules.change(changed)
        else:
            table = rules.table()
            rules = FamilyRules(compiler, {**rules.cluster, **changed})
            operations = plan(rules.table(), table)
        self._is_sure = False
        try:
            self._tables.commit(operations)
        except BallastError:
            self._rules = FamilyRules(compiler, {**rules.cluster, **before})
            return self._program_all(compiler, changed)
        self._rules, self._is_sure = rules, True
        return Outcome(len(operations))

    def _program_all(self, compiler: Compiler, changed: Cluster) -> Outcome:
        base = {} if self._rules is None else dict(self._rules.cluster)
        live = self._tables.read(self.family)
        rules = self._rules
        if rules is None or changed or compiler is not rules.compiler:
            rules = FamilyRules(compiler, {**base, **changed})
        operations = plan(rules.table(), live)
        try:
            self._tables.commit(operations)
        except BallastError as error:
            live = self._tables.read(self.family)  # part of it may have been committed
            return self._program_acceptable(compiler, base, changed, live, error)
        self._rules, self._is_sure = rules, True
        return Outcome(len(operations), full=True)

    def _program_acceptable(
        self, compiler: Compiler, base: Cluster, changed: Cluster, live: Optional[Table], error: BallastError
    ) -> Outcome:
        refusals: dict[ServiceName, str] = {}

        def operations_of(names: Iterable[ServiceName]) -> tuple[Operation, ...]:
            rules = FamilyRules(compiler, {**base, **{name: changed[name] for name in names}})
            return plan(rules.table(), live)

        def accepts(names: Sequence[ServiceName]) -> bool:
            try:
                self._tables.check(operations_of(names))
            except BallastError as refusal:
                refusals.update(dict.fromkeys(names[-1:], refusal.in_one_line))
                return False
            return True

        if not accepts(()):
            raise error
        chosen = select(list(changed), accepts)
        if len(chosen) == len(changed):
            raise error  # now it would be accepted
        operations = operations_of(chosen)
        self._tables.commit(operations)
        self._rules = FamilyRules(compiler, {**base, **{name: changed[name] for name in chosen}})
        self._is_sure = True
        refused = {name: refusals.get(name, error.in_one_line) for name in changed if name not in frozenset(chosen)}
        return Outcome(len(operations), full=True, refused=refused)
