# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reconciler's work: look, resize nodes that are not at their target, look again after a change.

    look ---- all at their targets, or not due, or another holds the host's Lease ----------> wait for a change
      |                                                                                            |
      +-- not at target --> acquire the Lease --> list again --> resize --> release it ------------+

It remembers one thing that the cluster lacks: the targets of Nodes that are away, as a kubelet that registers again writes no
annotation. After a kill, the next reconciler reads everything else from the cluster. While another holds a host's Lease, the
reconciler waits, and reads what was written before it acts there. While the API server does not answer, it waits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Callable, Optional, Protocol

from ..._agent.log import Log
from ..._core.engine.events import Event, Progress
from ..._core.host.host import Host
from ..._core.kube.client import Refused
from ..._core.kube.informer import backoff
from ..._core.text.errors import BallastError
from ..cluster.cluster import Cluster
from ..cluster.facts import Fleet, Outcome
from ..cluster.lease import Leases
from ..resize.executor import execute_resizes
from ..resize.limits import Limits, read_limits
from ..resize.scheduler import ResizeScheduler
from ..sizing.resources import Resources
from .choice import (
    Attempts,
    Known,
    at_target,
    due_targets,
    keep_current,
    kept_targets,
    known_targets,
    next_due,
    note_outcome,
)
from .metrics import View
from .settings import Settings
from .status import NodeNote, Notes

_DENIED_SECONDS = 5.0  # until the next try for another's Lease
_PACE_SECONDS = 0.5  # between two looks, to gather changes that come together
_LEAST_SECONDS = 1.0  # the shortest wait
_LONGEST_SHOWN = 20  # problems
_UNAUTHORIZED = 401  # the server does not know the client, as when a token has run out


class Counts(Protocol):
    """Counters of events, for metrics."""

    def count_outcome(self, outcome: str) -> None:
        """A node's resize has ended."""

    def count_error(self, id: str) -> None:
        """The reconciler itself has failed, with a message of this id."""

    def count_denied(self) -> None:
        """A host is skipped, as another client holds its Lease."""

    def note_success(self, now: float) -> None:
        """A pass found all nodes at their targets. `now` is Unix time."""


class Uncounted:
    """Counts nothing, when metrics are off."""

    def count_outcome(self, outcome: str) -> None:
        pass

    def count_error(self, id: str) -> None:
        pass

    def count_denied(self) -> None:
        pass

    def note_success(self, now: float) -> None:
        pass


class LogSink:
    """Writes progress to the log."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def emit(self, event: Event) -> None:
        """The first word of the subject names the field that has the rest: `node n1` is logged as node=n1."""
        kind, _blank, name = event.subject.partition(" ")
        self._log.event(event.kind, **{kind: name}, text=event.text)


class Stopped(Exception):
    """The reconciler must end, or start again with other settings."""


class WatchfulCluster(Cluster):
    """A cluster whose waits raise `Stopped` when the reconciler must stop: during a wait nothing is half done. It never writes
    back a target: an annotation that was changed meanwhile stays changed."""

    until = staticmethod(lambda: False)

    def wait(self, seconds: float) -> bool:
        if self.until():
            raise Stopped
        changed = super().wait(seconds)
        if self.until():
            raise Stopped
        return changed

    def annotate(self, name: str, target: Optional[Resources]) -> None:
        node = self.fleet().nodes.get(name)
        if node is not None and node.target is not None:  # otherwise `restore` writes both at once
            self.untaint(name)

    def restore(self, name: str, target: Resources) -> None:
        """Annotate a Node that registered again, and lost its annotation."""
        super().annotate(name, target)


@dataclass(frozen=True)
class Parts:
    """The parts that the reconciler uses."""

    cluster: WatchfulCluster
    leases: Leases
    limits: Optional[Limits]
    host: Host
    log: Log
    counts: Counts


class Reconciler:
    """`run` has one thread; any thread may call `view`, `notes` and `calls`."""

    def __init__(self, settings: Settings, parts: Parts, known: Mapping[str, Known]) -> None:
        """`known`: the targets that an earlier reconciler has seen."""
        self._settings = settings
        self._parts = parts
        self._names = frozenset(row.name for row in settings.nodes)
        self._attempts: Attempts = {}
        self._known = known
        self._limit_of: Mapping[str, Resources] = {}
        self._denied: dict[str, float] = {}  # hosts with another Lease holder: when to try again
        self._moving = False
        self._said: frozenset[str] = frozenset()  # problems that are logged already
        self._problems: tuple[str, ...] = ()
        self._failures = 0  # consecutive failures
        self._success: Optional[float] = None

    # Called in the working thread.

    def run(self) -> None:
        """Run until a wait raises `Stopped`. Returns when the kubeconfig must be read again."""
        while True:
            error = self._try(self._look)
            if isinstance(error, Refused) and error.status == _UNAUTHORIZED:
                return
            self._parts.cluster.wait(self._idle())
            self._parts.host.sleep(_PACE_SECONDS)

    def _try(self, work: Callable[[], None]) -> Optional[BallastError]:
        try:
            work()
        except BallastError as error:
            self._failures += 1
            self._parts.counts.count_error(error.id)
            self._tell([error])
            return error
        self._failures = 0
        return None

    def _look(self) -> None:
        cluster, now = self._parts.cluster, self._parts.host.monotonic()
        if cluster.lost is not None:
            raise cluster.lost[1]
        observation = cluster.observe()
        self._known = known_targets(observation.fleet, self._known)
        self._limit_of = self._read_limits(observation.fleet)
        view = self.view()
        self._attempts = keep_current(view.fleet, view.targets, self._attempts)
        due = due_targets(view.fleet, view.targets, self._attempts, now, self._settings.retry)
        hosts = {view.fleet.nodes[name].host for name in due}
        self._denied = {host: again for host, again in self._denied.items() if host in hosts}
        self._move({host for host in hosts if self._denied.get(host, now) <= now})
        self._tell(observation.problems)
        view = self.view()
        for name in sorted(view.reached):
            node = view.fleet.nodes[name]
            if node.target is None:
                cluster.restore(name, view.targets[name])
            elif node.unsized:
                cluster.untaint(name)
        if view.targets.keys() == view.reached:
            self._success = self._parts.host.monotonic()
            self._parts.counts.note_success(self._parts.host.now())

    def _move(self, hosts: Collection[str]) -> None:
        """Resize what is due on those of these hosts whose Leases can be acquired."""
        if not hosts:
            return
        leases = self._parts.leases
        try:
            held = leases.acquire(hosts) & set(hosts)
            self._note_denied(set(hosts) - held, held)
            if held:
                self._moving = True
                self._move_held(held)
        finally:
            self._moving = False
            leases.release()

    def _move_held(self, hosts: Collection[str]) -> None:
        """List again first: the previous holder may have resized balloons, and the watch may be late."""
        parts = self._parts
        parts.cluster.load()
        view, now = self.view(), parts.host.monotonic()
        due = due_targets(view.fleet, view.targets, self._attempts, now, self._settings.retry)
        targets = {name: target for name, target in due.items() if view.fleet.nodes[name].host in hosts}
        if not targets:
            return
        scheduler = ResizeScheduler(targets, grow_timeout=self._settings.grow_timeout)
        progress = Progress(LogSink(parts.log), feature="balloons")
        outcomes = execute_resizes(
            scheduler, parts.cluster, parts.limits, parts.leases, parts.host, progress, patience=_DENIED_SECONDS
        )
        self._limit_of = self._read_limits(parts.cluster.fleet())
        for outcome in outcomes.values():
            self._note(outcome, targets[outcome.node])

    def _note(self, outcome: Outcome, target: Resources) -> None:
        self._parts.counts.count_outcome(outcome.outcome)
        node = self._parts.cluster.fleet().nodes.get(outcome.node)
        if node is not None:
            self._attempts = note_outcome(self._attempts, outcome, node, target, self._parts.host.monotonic())

    def _note_denied(self, hosts: Collection[str], held: Collection[str]) -> None:
        again = self._parts.host.monotonic() + _DENIED_SECONDS
        for host in sorted(hosts):
            if host not in self._denied:
                self._parts.counts.count_denied()
                self._parts.log.event("denied", host=host, holder=self._parts.leases.holder_of(host))
            self._denied[host] = again
        for host in held:
            self._denied.pop(host, None)

    def _read_limits(self, fleet: Fleet) -> Mapping[str, Resources]:
        return read_limits(self._parts.limits, sorted(self._names), fleet)

    def _idle(self) -> float:
        """Seconds until the next look if nothing changes."""
        if self._failures:
            return backoff(self._failures)
        now, view = self._parts.host.monotonic(), self.view()
        dues = next_due(view.fleet, view.targets, self._attempts, self._settings.retry)
        times = [max(due, self._denied.get(view.fleet.nodes[name].host, due)) - now for name, due in dues.items()]
        return max(min([self._settings.interval, *times]), _LEAST_SECONDS)

    def _tell(self, problems: Collection[BallastError]) -> None:
        """Log new problems."""
        by_text = {problem.in_one_line: problem for problem in problems}
        for text, problem in by_text.items():
            if text not in self._said:
                self._parts.log.event("problem", id=problem.id, text=text)
        self._said = frozenset(by_text)
        self._problems = tuple(by_text)[:_LONGEST_SHOWN]

    # Called in any thread.

    def view(self) -> View:
        """The fleet as last seen, with limits, and the targets that are kept."""
        fleet = self._parts.cluster.fleet().with_limits(self._limit_of)
        targets = kept_targets(fleet, self._names, self._known)
        return View(fleet, targets, at_target(fleet, targets))

    def notes(self, *, before: int) -> Notes:
        """`before` is the number of API calls of earlier reconcilers."""
        now, view, attempts = self._parts.host.monotonic(), self.view(), self._attempts
        away = self._parts.cluster.lost
        lost = [] if away is None else [away[1].in_one_line]
        dues = next_due(view.fleet, view.targets, attempts, self._settings.retry)
        nodes = {
            name: NodeNote(
                outcome=attempt.outcome.outcome,
                text=attempt.outcome.text,
                seconds_left=max(dues[name] - now, 0.0) if name in dues else None,
            )
            for name, attempt in attempts.items()
        }
        return Notes(
            nodes=nodes,
            problems=tuple(dict.fromkeys([*lost, *self._problems])),
            moving=self._moving,
            seconds_since_success=None if self._success is None else now - self._success,
            api_calls=before + self.calls,
        )

    @property
    def known(self) -> Mapping[str, Known]:
        """Targets that the next reconciler must know."""
        return self._known

    @property
    def calls(self) -> int:
        """Number of requests to the API server."""
        return sum(self._parts.cluster.calls.values()) + sum(self._parts.leases.calls.values())
