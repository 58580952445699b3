# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Carries out what a `Steering` decides, until each of its nodes has an outcome.

One thread decides; what it decides is done by a bounded number of others, for each node one thing at a time. What conflicts,
and what the API server does not answer or has no time for, goes back to the steering, which decides anew and when. A host is
touched only while its Lease is ours.
"""

from __future__ import annotations

import queue
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple, Optional, Union

from .._core.errors import BallastError
from .._core.events import Progress
from .._core.host import Host
from .amount import Amount
from .cluster import Cluster, is_temporary
from .cluster_messages import MESSAGES
from .facts import ASKED, DEFERRED, DONE, FAILED, INFEASIBLE, SETTLED, Fleet, Node, Outcome, told_limit
from .following import backoff
from .holding import Holding
from .lease import Leases
from .limits import Limits
from .steering import REVERT, Resize, SetLimit, Steering

PATIENCE_SECONDS = 90.0  # with another's Lease: longer than one holds that nobody renews
# How long the API server may be away, or refuse for the moment, before the rest is left to another run.
_GIVE_UP_SECONDS = 120.0
_PACE_SECONDS = 0.01  # between two decisions, in which what comes at once is gathered
_IDLE_SECONDS = 1.0
_PUT_BACK_ATTEMPTS = 3


class _Record(NamedTuple):
    """The node is at its target: to be written to its Node."""

    node: str
    target: Amount


_Task = Union[Resize, SetLimit, _Record]


class _Ended(NamedTuple):
    task: _Task
    error: Optional[BallastError] = None
    begun: bool = True  # False where the Lease was not ours, or something else was done for the node
    limit: Optional[Amount] = None  # as it is now
    crash: Optional[BaseException] = None  # a fault of ours


def carry_out(
    steering: Steering,
    cluster: Cluster,
    limits: Optional[Limits],
    leases: Leases,
    host: Host,
    progress: Progress,
    *,
    parallel: int = 16,
    patience: float = PATIENCE_SECONDS,
) -> Mapping[str, Outcome]:
    """The outcome of each node that the steering has a target for. `cluster` is one that is followed.

    `patience` is for a host that another run holds; then its nodes are given up. Interrupted, or when it raises, it ends
    what it has begun, takes growth back that waits for room, and gives its Leases back. PeerError where the API server is
    away for longer than one waits, HostError where a limit cannot be read.
    """
    holding = Holding(leases, host, progress, read_anew=cluster.load, patience=patience)
    carrier = _Carrier(steering, cluster, limits, holding, host, progress)
    with ThreadPoolExecutor(parallel) as pool:
        try:
            return carrier.run(pool)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            carrier.put_back()
            raise
        finally:
            leases.release()


class _Carrier:
    def __init__(
        self,
        steering: Steering,
        cluster: Cluster,
        limits: Optional[Limits],
        holding: Holding,
        host: Host,
        progress: Progress,
    ) -> None:
        self._steering = steering
        self._cluster = cluster
        self._limits = limits
        self._holding = holding
        self._host = host
        self._progress = progress
        self._fleet = cluster.fleet()
        self._limit_of: dict[str, Amount] = {}
        self._flying: set[str] = set()  # nodes for which a thread does something
        self._ended: queue.SimpleQueue[_Ended] = queue.SimpleQueue()
        self._again: list[tuple[float, _Record]] = []  # when to try those that could not be written
        self._trouble: dict[str, tuple[float, int]] = {}  # by node: since when, and how many times
        self._recorded: dict[str, Outcome] = {}  # what is through, and written where it has to be
        self._told: dict[str, tuple[str, str]] = {}
        self._paused_since: Optional[float] = None

    def run(self, pool: ThreadPoolExecutor) -> Mapping[str, Outcome]:
        if self._limits is not None:
            names = [name for name in self._steering.targets if name in self._fleet.nodes]
            self._limit_of = dict(zip(names, pool.map(self._limits.read, names)))
        while True:
            self._give_up(self._holding.tend(self._hosts()))
            self._collect(pool)
            self._fleet = self._look()
            if not self._is_paused():
                for action in self._steering.decide(self._fleet, self._host.monotonic()):
                    self._begin(pool, action)
                self._conclude(pool)
            self._tell()
            if self._steering.finished and len(self._recorded) == len(self._steering.outcomes):
                return dict(sorted(self._recorded.items()))
            self._cluster.wait(self._idle())
            self._host.sleep(_PACE_SECONDS)

    def put_back(self) -> None:
        """Growth that waits for room, to what it has. What the server refuses is left, and the reconciler's."""
        for name in sorted(self._steering.targets.keys() - self._recorded.keys()):
            for _attempt in range(_PUT_BACK_ATTEMPTS):
                node = self._cluster.fleet().nodes.get(name)
                back = None if node is None else _taken_back(node)
                if node is None or back is None or not self._holding.may_act(node.host):
                    break
                try:
                    self._cluster.resize(back)
                    self._progress.undone(f"node {name}", "the balloon is to have what it had")
                    break
                except BallastError as error:
                    if error.id == "core-no-answer":
                        return
                    if error.id != "balloon-changed":
                        break

    # What is there.

    def _look(self) -> Fleet:
        """Now, with limits; PeerError where that is too old."""
        lost = self._cluster.lost
        if lost is not None and lost[0] > _GIVE_UP_SECONDS:
            raise MESSAGES.error("balloon-api-lost", seconds=round(lost[0]), found=lost[1].in_one_line)
        return self._cluster.fleet().with_limits(self._limit_of)

    def _hosts(self) -> set[str]:
        """Those with nodes that are not through."""
        names = self._steering.targets.keys() - self._recorded.keys()
        return {self._fleet.nodes[name].host for name in names if name in self._fleet.nodes}

    def _is_paused(self) -> bool:
        now = self._host.monotonic()
        if not self._holding.paused(self._hosts()):
            self._paused_since = None
            return False
        if self._paused_since is None:
            self._paused_since = now
        if now - self._paused_since > _GIVE_UP_SECONDS:
            raise MESSAGES.error("balloon-api-lost", seconds=round(_GIVE_UP_SECONDS), found="Leases cannot be renewed")
        return True

    def _idle(self) -> float:
        """Seconds until something is to be done even if nothing changes."""
        now = self._host.monotonic()
        dues = [at for at, _record in self._again]
        if self._steering.wake is not None:
            dues.append(self._steering.wake)
        return max(0.0, min([_IDLE_SECONDS, *(due - now for due in dues)]))

    # What is done.

    def _give_up(self, hosts: Collection[str]) -> None:
        """What is decided for these hosts' nodes and waits is refused; the rest is when it is decided."""
        for name in self._steering.targets if hosts else ():
            node = self._fleet.nodes.get(name)
            if node is not None and node.host in hosts and name not in self._flying:
                self._steering.refused(name, self._holding.given_up[node.host], again=False)

    def _begin(self, pool: ThreadPoolExecutor, task: _Task) -> None:
        node = self._fleet.nodes.get(task.node)
        name = "" if node is None else node.host
        if name in self._holding.given_up:
            self._refuse(task, self._holding.given_up[name])
        elif not self._holding.may_act(name) or task.node in self._flying:
            self._judge(_Ended(task, begun=False))
        else:
            self._flying.add(task.node)
            if not isinstance(task, _Record):
                self._progress.started(f"node {task.node}", _told(task))
            pool.submit(self._do, task, name)

    def _refuse(self, task: _Task, text: str) -> None:
        if isinstance(task, _Record):
            self._record(task, text)
        else:
            self._steering.refused(task.node, text, again=False)

    def _do(self, task: _Task, host: str) -> None:
        """In a thread."""
        try:
            self._ended.put(self._done(task, host))
        except BallastError as error:
            self._ended.put(_Ended(task, error))
        except BaseException as error:
            self._ended.put(_Ended(task, crash=error))
        finally:
            self._cluster.ring()

    def _done(self, task: _Task, host: str) -> _Ended:
        if not self._holding.may_act(host):
            return _Ended(task, begun=False)
        if isinstance(task, Resize):
            self._cluster.resize(task)
        elif isinstance(task, _Record):
            self._cluster.annotate(task.node, task.target)
        elif self._limits is not None:
            self._limits.write(task.node, task.limit)
            return _Ended(task, limit=self._limits.read(task.node))
        return _Ended(task)

    def _collect(self, pool: ThreadPoolExecutor) -> None:
        """What has ended, and what is due again."""
        while not self._ended.empty():
            ended = self._ended.get()
            if ended.crash is not None:
                raise ended.crash
            self._flying.discard(ended.task.node)
            if ended.limit is not None:
                self._limit_of[ended.task.node] = ended.limit
            self._judge(ended)
        now = self._host.monotonic()
        due = [record for at, record in self._again if at <= now]
        self._again = [row for row in self._again if row[0] > now]
        for record in due:
            self._begin(pool, record)

    def _judge(self, ended: _Ended) -> None:
        task, error = ended.task, ended.error
        again = not ended.begun or (error is not None and _is_worth_another_try(error))
        text = "it could not be begun" if error is None else error.in_one_line
        if isinstance(task, _Record):
            since, times = self._trouble.get(task.node, (self._host.monotonic(), 0))
            self._trouble[task.node] = (since, times + 1)
            if again and self._host.monotonic() - since < _GIVE_UP_SECONDS:
                self._again.append((self._host.monotonic() + backoff(times), task))
            else:
                self._record(task, "" if error is None else text)
        elif error is not None or again:
            self._steering.refused(task.node, text, again=again)

    def _record(self, task: _Record, trouble: str) -> None:
        outcome = self._steering.outcomes[task.node]
        if trouble:
            outcome = replace(
                outcome, outcome=FAILED, why=MESSAGES.error("balloon-untold", node=task.node, found=trouble)
            )
        self._recorded[task.node] = outcome

    def _conclude(self, pool: ThreadPoolExecutor) -> None:
        """Of nodes that have an outcome now, those at their target are to be told so."""
        waiting = {record.node for _at, record in self._again}
        for name, outcome in self._steering.outcomes.items():
            if name in self._recorded or name in waiting or name in self._flying:
                continue
            if outcome.outcome == DONE and name in self._fleet.nodes:
                self._begin(pool, _Record(name, self._steering.targets[name]))
            else:
                self._recorded[name] = outcome

    # What is told.

    def _tell(self) -> None:
        """What is new of each node."""
        tell = {DONE: self._progress.done, "waiting": self._progress.waiting}
        for name in self._steering.targets:
            told = self._to_tell(name)
            if told is not None and self._told.get(name) != told:
                self._told[name] = told
                kind, text = told
                tell.get(kind, self._progress.failed)(f"node {name}", text)

    def _to_tell(self, name: str) -> Optional[tuple[str, str]]:
        """An outcome or "waiting", and its text; None where there is nothing to tell."""
        outcome = self._recorded.get(name)
        if outcome is not None:
            return outcome.outcome, f"balloon {outcome.after}" if outcome.why is None else outcome.why.text
        node = self._fleet.nodes.get(name)
        balloon = node.balloon if node is not None else None
        if balloon is None or balloon.state in (SETTLED, ASKED):
            return None
        return "waiting", f"the balloon is {balloon.state}{': ' if balloon.message else ''}{balloon.message}"


def _is_worth_another_try(error: BallastError) -> bool:
    return error.id == "balloon-changed" or is_temporary(error)


def _taken_back(node: Node) -> Optional[Resize]:
    """For a balloon that was asked to grow and has not grown. What it was to give at the same time it may have given already."""
    own = node.balloon
    if own is None or own.state not in (ASKED, DEFERRED, INFEASIBLE) or own.desired.fits_in(own.allocated):
        return None
    size = own.allocated if own.state == INFEASIBLE else own.desired.least(own.allocated)
    return Resize(node.name, own.namespace, own.name, own.resource_version, size, REVERT)


def _told(task: Union[Resize, SetLimit]) -> str:
    if isinstance(task, SetLimit):
        return f"limit to {told_limit(task.limit)}"
    return f"{task.why} the balloon to {task.size}"
