# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reconciler's work: look, move what is apart from its target, look again when something changes.

    look ---- all at their targets, or waiting for their time, or the host is another's ----> wait for a change
      |                                                                                            |
      +-- apart --> take the host's Lease --> read anew --> carry out --> give it back ------------+

It keeps one thing that is not in the cluster: the targets of Nodes that are away, which a kubelet that registers anew does not
write again. All else the next one finds there after a kill. Whoever else holds a host's
Lease has the right of way; what that one wrote is read before anything is done there. While the API server is away it waits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Callable, Optional, Protocol

from ..._core.agent.log import Log
from ..._core.errors import BallastError
from ..._core.events import Event, Progress
from ..._core.host import Host
from ..._core.kubeapi import Refused
from ..amount import Amount
from ..carry import carry_out
from ..cluster import Cluster
from ..facts import Fleet, Outcome
from ..following import backoff
from ..lease import Leases
from ..limits import Limits, read_limits
from ..steering import Steering
from .choice import Attempts, Known, at_target, kept_targets, known_targets, next_due, noted, still_true, to_move
from .metrics import View
from .settings import Settings
from .status import NodeNote, Notes

_DENIED_SECONDS = 5.0  # until another's Lease is asked for again
_PACE_SECONDS = 0.5  # between two looks: what comes at once is gathered
_LEAST_SECONDS = 1.0  # of a wait for a time that has come
_LONGEST_SHOWN = 20  # problems
_UNAUTHORIZED = 401  # the server does not know the client, as when a token has run out


class Counts(Protocol):
    """Told of what happens, for metrics."""

    def ended(self, outcome: str) -> None: ...

    def failed(self, id: str) -> None: ...

    def denied(self) -> None: ...

    def succeeded(self, now: float) -> None: ...


class Uncounted:
    """Where nobody asks for metrics."""

    def ended(self, outcome: str) -> None:
        pass

    def failed(self, id: str) -> None:
        pass

    def denied(self) -> None:
        pass

    def succeeded(self, now: float) -> None:
        pass


class LogSink:
    """Progress to the log: an event for each thing that is told."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def emit(self, event: Event) -> None:
        kind, _blank, name = event.subject.partition(" ")
        self._log.event(event.kind, **{kind: name}, text=event.text)


class Stopped(Exception):
    """It is to end, or to begin anew with other settings."""


class WatchfulCluster(Cluster):
    """One whose waits end with `Stopped` when it is time to: wherever one waits, nothing is half done. And whose Nodes say
    what their targets are: one that was changed meanwhile is not written back."""

    until = staticmethod(lambda: False)

    def wait(self, seconds: float) -> bool:
        if self.until():
            raise Stopped
        changed = super().wait(seconds)
        if self.until():
            raise Stopped
        return changed

    def annotate(self, name: str, target: Optional[Amount]) -> None:
        node = self.fleet().nodes.get(name)
        if node is not None and node.target is not None:  # else `restore` writes both at once
            self.untaint(name)

    def restore(self, name: str, target: Amount) -> None:
        """To a Node that registered anew, and has lost its annotation."""
        super().annotate(name, target)


@dataclass(frozen=True)
class Parts:
    """What the reconciler works with."""

    cluster: WatchfulCluster
    leases: Leases
    limits: Optional[Limits]
    host: Host
    log: Log
    counts: Counts


class Reconciler:
    """`run` in one thread; `view`, `notes` and `calls` from any."""

    def __init__(self, settings: Settings, parts: Parts, known: Mapping[str, Known]) -> None:
        """`known`: the targets that one before it has seen."""
        self._settings = settings
        self._parts = parts
        self._names = frozenset(row.name for row in settings.nodes)
        self._attempts: Attempts = {}
        self._known = known
        self._limit_of: Mapping[str, Amount] = {}
        self._denied: dict[str, float] = {}  # hosts of others: when to ask again
        self._moving = False
        self._said: frozenset[str] = frozenset()  # problems that the log has
        self._problems: tuple[str, ...] = ()
        self._failures = 0  # in a row
        self._success: Optional[float] = None

    # For the thread that works.

    def run(self) -> None:
        """Until `Stopped` comes from a wait. Returns when the kubeconfig is to be read anew."""
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
            self._parts.counts.failed(error.id)
            self._tell([error])
            return error
        self._failures = 0
        return None

    def _look(self) -> None:
        cluster, now = self._parts.cluster, self._parts.host.monotonic()
        if cluster.lost is not None:
            raise cluster.lost[1]
        reading = cluster.reading()
        self._known = known_targets(reading.fleet, self._known)
        self._limit_of = self._read_limits(reading.fleet)
        view = self.view()
        self._attempts = still_true(view.fleet, view.targets, self._attempts)
        due = to_move(view.fleet, view.targets, self._attempts, now, self._settings.retry)
        hosts = {view.fleet.nodes[name].host for name in due}
        self._denied = {host: again for host, again in self._denied.items() if host in hosts}
        self._move({host for host in hosts if self._denied.get(host, now) <= now})
        self._tell(reading.problems)
        view = self.view()
        for name in sorted(view.reached):
            node = view.fleet.nodes[name]
            if node.target is None:
                cluster.restore(name, view.targets[name])
            elif node.unsized:
                cluster.untaint(name)
        if view.targets.keys() == view.reached:
            self._success = self._parts.host.monotonic()
            self._parts.counts.succeeded(self._parts.host.now())

    def _move(self, hosts: Collection[str]) -> None:
        """What is due on these hosts, as far as they are ours."""
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
        """Who held the Leases before may have moved balloons since; what a watch has told so far may be older than that."""
        parts = self._parts
        parts.cluster.load()
        view, now = self.view(), parts.host.monotonic()
        due = to_move(view.fleet, view.targets, self._attempts, now, self._settings.retry)
        targets = {name: target for name, target in due.items() if view.fleet.nodes[name].host in hosts}
        if not targets:
            return
        steering = Steering(targets, grow_timeout=self._settings.grow_timeout)
        progress = Progress(LogSink(parts.log), feature="balloons")
        outcomes = carry_out(
            steering, parts.cluster, parts.limits, parts.leases, parts.host, progress, patience=_DENIED_SECONDS
        )
        self._limit_of = self._read_limits(parts.cluster.fleet())
        for outcome in outcomes.values():
            self._note(outcome, targets[outcome.node])

    def _note(self, outcome: Outcome, target: Amount) -> None:
        self._parts.counts.ended(outcome.outcome)
        node = self._parts.cluster.fleet().nodes.get(outcome.node)
        if node is not None:
            self._attempts = noted(self._attempts, outcome, node, target, self._parts.host.monotonic())

    def _note_denied(self, hosts: Collection[str], held: Collection[str]) -> None:
        again = self._parts.host.monotonic() + _DENIED_SECONDS
        for host in sorted(hosts):
            if host not in self._denied:
                self._parts.counts.denied()
                self._parts.log.event("denied", host=host, holder=self._parts.leases.holder_of(host))
            self._denied[host] = again
        for host in held:
            self._denied.pop(host, None)

    def _read_limits(self, fleet: Fleet) -> Mapping[str, Amount]:
        return read_limits(self._parts.limits, sorted(self._names), fleet)

    def _idle(self) -> float:
        """Seconds until something is due, if nothing changes before."""
        if self._failures:
            return backoff(self._failures)
        now, view = self._parts.host.monotonic(), self.view()
        dues = next_due(view.fleet, view.targets, self._attempts, self._settings.retry)
        times = [max(due, self._denied.get(view.fleet.nodes[name].host, due)) - now for name, due in dues.items()]
        return max(min([self._settings.interval, *times]), _LEAST_SECONDS)

    def _tell(self, problems: Collection[BallastError]) -> None:
        """To the log what is new."""
        told = {problem.in_one_line: problem for problem in problems}
        for text, problem in told.items():
            if text not in self._said:
                self._parts.log.event("problem", id=problem.id, text=text)
        self._said = frozenset(told)
        self._problems = tuple(told)[:_LONGEST_SHOWN]

    # For who asks.

    def view(self) -> View:
        fleet = self._parts.cluster.fleet().with_limits(self._limit_of)
        targets = kept_targets(fleet, self._names, self._known)
        return View(fleet, targets, at_target(fleet, targets))

    def notes(self, *, before: int) -> Notes:
        """`before` is the number of API calls that others made before this one."""
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
        return self._known

    @property
    def calls(self) -> int:
        """Requests to the API server."""
        return sum(self._parts.cluster.calls.values()) + sum(self._parts.leases.calls.values())
