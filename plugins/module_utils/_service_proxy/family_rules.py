# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""The rules of one family, by Service: turns changed Services into operations on the table.

What a Service has in the table depends only on this Service, the node and the configuration (`_rules/nftables/compile.py`),
with two exceptions. A destination that several Services claim belongs to one of them (`claims.py`). And some objects are
shared between Services: chains per number of endpoints, sets of source ranges, cluster IPs, pods that may pick themselves.
Shared objects are counted; they are added with their first Service and removed with their last.

So a change is compiled from the changed Services, before and after, into two small tables whose difference is the
transaction. Of each Service only its ports and endpoints are kept in memory: its rules are in the kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple, Optional

from .._rules.backend import SERVICE_PROXY_TABLE
from .._rules.frontends import Key, claims_of
from .._rules.model import Frontend, ServicePort
from .._rules.nftables import layout
from .._rules.nftables.compile import Compiler, Part
from .._rules.nftables.objects import Chain, Element, Set, Table
from .._rules.nftables.transaction import Operation, plan
from .claims import Claims
from .ports import ServiceName

Ports = tuple[ServicePort, ...]


class Desired(NamedTuple):
    """The desired state of a Service in one family; without ports it is gone."""

    created: float = 0.0
    ports: Ports = ()


class _Served(NamedTuple):
    ports: Ports
    frontends: tuple[Frontend, ...]
    created: float = 0.0


_NOTHING = _Served((), ())
_COUNTED_SETS = (layout.CLUSTER_IPS, layout.HAIRPIN)
_CHAIN, _SET = "chain", "set"
_Shared = tuple[object, ...]  # ("chain", name), ("set", name), or (name of a set, key)


class FamilyRules:
    """The content of one family's table. `change` assumes that the kernel accepts the result: after a refusal, create a new
    FamilyRules."""

    def __init__(self, compiler: Compiler, cluster: Mapping[ServiceName, Desired] = MappingProxyType({})) -> None:
        self.compiler = compiler
        self._declared = {each.name: each for each in compiler.sets()}
        self._claims = Claims()
        self._served: dict[ServiceName, _Served] = {}
        self._holders: Counter[_Shared] = Counter()
        # The compiled initial Services, until the first call of `table` or `change`: a start compiles 10,000 Services only
        # once.
        self._compiled: Optional[Part] = None
        if cluster:
            _nothing, self._compiled = self._replace_parts(cluster)

    def table(self) -> Table:
        """The whole table, as service_rules compiles it."""
        part, self._compiled = self._compiled, None
        return self.compiler.table(part or self._compile_all(), SERVICE_PROXY_TABLE, owner=layout.SERVICE_PROXY)

    @property
    def count(self) -> int:
        """The number of Services with rules."""
        return len(self._served)

    @property
    def cluster(self) -> dict[ServiceName, Desired]:
        return {name: Desired(served.created, served.ports) for name, served in self._served.items()}

    def state_of(self, name: ServiceName) -> Desired:
        """The state of a Service in this table; an empty one if it has none."""
        served = self._served.get(name, _NOTHING)
        return Desired(served.created, served.ports)

    def frontends(self) -> list[Frontend]:
        """Of all destinations."""
        return [frontend for served in self._served.values() for frontend in served.frontends]

    def frontends_at(self, destinations: AbstractSet[Key]) -> list[Frontend]:
        """Of these destinations, whichever Services claim them."""
        owners = {self._claims.owners[key] for key in destinations if key in self._claims.owners}
        return [each for name in owners for each in self._served[name].frontends if each.key in destinations]

    def change(self, changed: Mapping[ServiceName, Desired]) -> tuple[Operation, ...]:
        """The operations that bring the Services to `changed`."""
        self._compiled = None
        before, after = self._replace_parts(changed)
        return plan(self._as_table(after, before), self._as_table(before, after))

    def _replace_parts(self, changed: Mapping[ServiceName, Desired]) -> tuple[Part, Part]:
        """What the affected Services have in the table, before and after."""
        before, after = Part(), Part()
        tally: Counter[_Shared] = Counter()
        there: dict[_Shared, object] = {}  # values of shared objects, before and after
        then: dict[_Shared, object] = {}
        for name, old, new in self._replace(changed):
            self._take(self._compile(old), before, tally, there, -1)
            self._take(self._compile(new), after, tally, then, 1)
            if new.ports:
                self._served[name] = new
            else:
                self._served.pop(name, None)
        for shared, more in tally.items():
            held = self._holders[shared]
            if held:
                _put(before, shared, there.get(shared, then.get(shared)))
            if held + more:
                _put(after, shared, then.get(shared, there.get(shared)))
                self._holders[shared] = held + more
            else:
                del self._holders[shared]
        return before, after

    def _replace(self, changed: Mapping[ServiceName, Desired]) -> Iterable[tuple[ServiceName, _Served, _Served]]:
        """Each affected Service, with what it has and what it will have."""
        touched: dict[ServiceName, Desired] = {}
        claims = {}
        for name, desired in changed.items():
            claims[name] = claims_of(desired.ports)
            before = claims_of(self.state_of(name).ports)
            affected = self._claims.replace(name, desired.created, before.keys(), claims[name].keys())
            touched[name] = desired
            for other in affected:
                touched.setdefault(other, self.state_of(other))
        for name, desired in touched.items():
            own = claims.get(name) or claims_of(desired.ports)
            frontends = tuple(
                frontend
                for key, (_port, frontend) in own.items()
                if frontend is not None and self._claims.owners[key] == name
            )
            old, new = self._served.get(name, _NOTHING), _Served(desired.ports, frontends, desired.created)
            if old != new:
                yield name, old, new

    def _compile(self, served: _Served) -> Part:
        part = Part()
        self.compiler.add_services(part, served.ports, served.frontends)
        return part

    def _compile_all(self) -> Part:
        part = Part()
        self.compiler.add_services(
            part,
            (port for served in self._served.values() for port in served.ports),
            (frontend for served in self._served.values() for frontend in served.frontends),
        )
        return part

    def _take(self, part: Part, into: Part, tally: Counter[_Shared], values: dict[_Shared, object], count: int) -> None:
        for name, elements in part.elements.items():
            if name in _COUNTED_SETS:
                for key, element in elements.items():
                    tally[name, key] += count
                    values[name, key] = element
            elif name not in part.sets:
                into.elements.setdefault(name, {}).update(elements)
        for name, chain in part.chains.items():
            tally[_CHAIN, name] += count
            values[_CHAIN, name] = chain
        for name, declared in part.sets.items():
            tally[_SET, name] += count
            values[_SET, name] = replace(declared, elements=part.elements.get(name, {}))

    def _as_table(self, part: Part, other: Part) -> Table:
        """A table of `part`, with those of the permanent sets that either part changes."""
        sets = {
            name: replace(self._declared[name], elements=part.elements.get(name, {}))
            for name in {**part.elements, **other.elements}
        }
        return Table(self.compiler.family.name, SERVICE_PROXY_TABLE, part.chains, {**part.sets, **sets})


def _put(part: Part, shared: _Shared, value: object) -> None:
    if isinstance(value, Chain):
        part.chains[value.name] = value
    elif isinstance(value, Set):
        part.sets[value.name] = value
    elif isinstance(value, Element):
        part.elements.setdefault(str(shared[0]), {})[value.key] = value
