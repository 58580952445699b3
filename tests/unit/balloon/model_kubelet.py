# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kubelets, an API server and limits in memory, a step at a time, so that a test may put the steps in any order.

The truth is here, beside what the API tells of it. A kubelet reads the pod's spec (`sees`), grants it or not (`acts`), has its
runtime do it (`actuates`) and writes what became of it (`reports`), each in its own time: a status is late, and a size that
was asked for and taken back may be granted still.

What it leaves out: the scheduler (pods come wherever the kubelet takes them in, which is sooner), and preemption (a balloon's
priority allows none).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import (
    ACTUATING,
    ASKED,
    DEFERRED,
    FAILING,
    INFEASIBLE,
    SETTLED,
    STARTING,
    WORKLOAD,
    Balloon,
    Fleet,
    Node,
    Pod,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.scheduler import Action, Resize
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import (
    FLOOR,
    NONE,
    Resources,
    total,
)

OK, CONFLICT, REJECTED = "ok", "conflict", "rejected"


@dataclass
class Written:
    """A balloon pod as the API server has it. `allocated` is None until the kubelet has written a status."""

    name: str
    spec: Resources = FLOOR
    version: int = 0
    generation: int = 1
    allocated: Resources | None = None
    actual: Resources = NONE
    pending: str = ""  # DEFERRED or INFEASIBLE
    failing: bool = False
    observed: int = 0  # generation


@dataclass
class Kubelet:
    """A machine's node with all that is true of it."""

    host: str
    capacity: Resources
    allocatable: Resources
    version: tuple[int, int] = (1, 37)
    workloads: list[Resources] = field(default_factory=list)
    written: Written | None = None
    limit: Resources | None = None
    ready: bool = True
    alive: bool = True
    registered: bool = True
    # Of its own:
    seen: tuple[int, Resources] | None = None  # generation and size
    allocated: Resources | None = None
    actual: Resources = NONE
    pending: str = ""
    acted: int = 0  # generation
    runtime: bool = True  # does as it is told
    most: Resources | None = None  # a size above this is infeasible

    @property
    def overhead(self) -> Resources:
        return self.capacity - self.allocatable

    def has_room_for(self, size: Resources) -> bool:
        return (total(self.workloads) + size).fits_in(self.allocatable)

    def sees(self) -> None:
        if self.alive and self.written is not None:
            self.seen = (self.written.generation, self.written.spec)

    def acts(self) -> None:
        """`canResizePod` of the allocation manager: what is more must fit beside what the others have."""
        if not self.alive or self.seen is None:
            return
        self.acted, size = self.seen
        if self.allocated is None:
            if self.has_room_for(size):
                self.allocated = self.actual = size
            return
        if self.most is not None and not size.fits_in(self.most):
            self.pending = INFEASIBLE
            return
        left = self.allocatable - total(self.workloads)
        grows = [(size.cpu, self.allocated.cpu, left.cpu), (size.memory, self.allocated.memory, left.memory)]
        if any(wanted > had and wanted > room for wanted, had, room in grows):
            self.pending = DEFERRED
            return
        self.pending = ""
        self.allocated = size

    def actuates(self) -> None:
        if self.alive and self.runtime and self.allocated is not None:
            self.actual = self.allocated

    def reports(self) -> None:
        written = self.written
        if not self.alive or written is None or self.allocated is None:
            return
        before = replace(written)
        written.allocated, written.actual, written.pending = self.allocated, self.actual, self.pending
        written.failing = self.actual != self.allocated and not self.runtime
        written.observed = self.acted
        if written != before:
            written.version += 1

    def works(self) -> None:
        """All of it, at once."""
        for _round in range(2):
            self.sees()
            self.acts()
            self.actuates()
            self.reports()

    def dies(self) -> None:
        """Its checkpoint stays: what it has allocated and what the runtime has."""
        self.alive = False
        self.seen = None
        self.pending = ""

    def starts(self, *, wiped: bool) -> None:
        """With its root-dir wiped it takes in the pod as its spec says, as far as that fits."""
        self.alive = self.ready = True
        if wiped and self.written is not None:
            fits = self.has_room_for(self.written.spec)
            self.sees()
            self.acted = self.written.generation
            self.allocated = self.actual = self.written.spec if fits else None
            if not fits:
                self.loses_balloon()

    def loses_balloon(self) -> None:
        self.written = self.seen = self.allocated = None
        self.actual = NONE
        self.pending, self.acted = "", 0

    def takes(self, pod: Resources) -> None:
        if self.alive and self.registered and self.has_room_for(pod + (self.allocated or NONE)):
            self.workloads.append(pod)


@dataclass
class World:
    kubelets: dict[str, Kubelet]
    reserve: dict[str, Resources]
    capacities: dict[str, Resources]
    rejects: bool = False
    limits_fail: bool = False
    pods_made: int = 0
    versions: int = 0

    def room(self, host: str) -> Resources:
        return self.capacities[host] - self.reserve[host]

    def make_balloon(self, name: str, size: Resources = FLOOR) -> None:
        self.pods_made += 1
        self.kubelets[name].written = Written(f"balloon-{self.pods_made}", size)

    def settle(self, name: str, size: Resources) -> None:
        """A balloon that has had this size for long."""
        self.make_balloon(name, size)
        self.kubelets[name].works()

    def facts(self, name: str) -> Node | None:
        """As `reading.py` has it."""
        kubelet = self.kubelets[name]
        if not kubelet.registered:
            return None
        pods = tuple(Pod("default", f"w{n}", size, WORKLOAD) for n, size in enumerate(kubelet.workloads))
        return Node(
            name,
            kubelet.host,
            kubelet.capacity,
            kubelet.allocatable,
            kubelet.version,
            kubelet.ready,
            pods,
            balloon=_balloon(kubelet.written, kubelet.version),
            limit=kubelet.limit,
        )

    def fleet(self) -> Fleet:
        found = {name: self.facts(name) for name in self.kubelets}
        return Fleet({name: node for name, node in found.items() if node}, self.capacities, self.reserve)

    def patch(self, action: Resize) -> str:
        written = self.kubelets[action.node].written
        if written is None or written.name != action.pod or _version(written) != action.resource_version:
            return CONFLICT
        if self.rejects:
            return REJECTED
        written.spec = action.size
        written.generation += 1
        written.version += 1
        return OK

    def do(self, action: Action) -> str:
        if isinstance(action, Resize):
            return self.patch(action)
        if self.limits_fail:
            return REJECTED
        self.kubelets[action.node].limit = action.limit
        return OK


def _version(written: Written) -> str:
    return f"{written.name}.{written.version}"


def _balloon(written: Written | None, version: tuple[int, int]) -> Balloon | None:
    if written is None:
        return None
    return Balloon(
        "kube-system",
        written.name,
        written.name,
        _version(written),
        desired=written.spec,
        allocated=written.allocated or NONE,
        actual=written.actual,
        state=_state(written, says_generation=version >= (1, 34)),
    )


def _state(written: Written, *, says_generation: bool) -> str:
    """Before 1.34 a kubelet does not say of which generation its word is."""
    if written.allocated is None:
        return STARTING
    late = says_generation and written.observed < written.generation
    if written.allocated != written.spec:
        return ASKED if late or not written.pending else written.pending
    if written.actual != written.allocated:
        return FAILING if written.failing else ACTUATING
    return ASKED if written.pending or late else SETTLED
