# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Carries out what a `ResizeScheduler` decides, until each of its nodes has an outcome.

One thread decides; a bounded number of other threads act, at most one per node. Conflicts and temporary failures of the API
server are reported to the scheduler, which decides again. A host is changed only while this run holds its Lease.
"""

from __future__ import annotations

import queue
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple, Optional, Union

from ..._core.engine.events import Progress
from ..._core.host.host import Host
from ..._core.kube.client import is_temporary
from ..._core.kube.informer import backoff
from ..._core.text.errors import BallastError
from ..cluster.cluster import Cluster
from ..cluster.facts import ASKED, DEFERRED, DONE, FAILED, INFEASIBLE, SETTLED, Fleet, Node, Outcome, format_limit
from ..cluster.lease import Leases
from ..cluster.lease_holder import LeaseHolder
from ..cluster.messages import MESSAGES
from ..sizing.resources import Resources
from .limits import Limits
from .scheduler import REVERT, Resize, ResizeScheduler, SetLimit

PATIENCE_SECONDS = 90.0  # to wait for another run's Lease: longer than an abandoned one is valid
# How long the API server may not answer, or refuse temporarily, before the remaining work is left to another run.
_GIVE_UP_SECONDS = 120.0
_PACE_SECONDS = 0.01  # between two decisions, so that simultaneous events are handled together
_IDLE_SECONDS = 1.0
_PUT_BACK_ATTEMPTS = 3


class _WriteTarget(NamedTuple):
    """The node is at its target, which is to be written to the Node object."""

    node: str
    target: Resources


_Task = Union[Resize, SetLimit, _WriteTarget]


class _Ended(NamedTuple):
    task: _Task
    error: Optional[BallastError] = None
    begun: bool = True  # False when the Lease was lost, or another task of the node ran
    limit: Optional[Resources] = None  # the present limit
    crash: Optional[BaseException] = None  # a defect of this program


def execute_resizes(
    scheduler: ResizeScheduler,
    cluster: Cluster,
    limits: Optional[Limits],
    leases: Leases,
    host: Host,
    progress: Progress,
    *,
    parallel: int = 16,
    patience: float = PATIENCE_SECONDS,
) -> Mapping[str, Outcome]:
    """The outcome of each node of the scheduler. `cluster` must be entered: it follows the API.

    Gives up the nodes of a host that another run holds for longer than `patience` seconds. When interrupted, or when it raises, it
    ends the actions under way, reverts growth that waits for capacity, and releases its Leases. PeerError when the API server is
    away for too long, HostError when a limit cannot be read.
    """
    lease_holder = LeaseHolder(leases, host, progress, read_again=cluster.load, patience=patience)
    executor = ResizeExecutor(scheduler, cluster, limits, lease_holder, host, progress)
    with ThreadPoolExecutor(parallel) as pool:
        try:
            return executor.run(pool)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            executor.put_back()
            raise
        finally:
            leases.release()


class ResizeExecutor:
    def __init__(
        self,
        scheduler: ResizeScheduler,
        cluster: Cluster,
        limits: Optional[Limits],
        lease_holder: LeaseHolder,
        host: Host,
        progress: Progress,
    ) -> None:
        self._scheduler = scheduler
        self._cluster = cluster
        self._limits = limits
        self._lease_holder = lease_holder
        self._host = host
        self._progress = progress
        self._fleet = cluster.fleet()
        self._limit_of: dict[str, Resources] = {}
        self._flying: set[str] = set()  # nodes with a task under way
        self._ended: queue.SimpleQueue[_Ended] = queue.SimpleQueue()
        self._again: list[tuple[float, _WriteTarget]] = []  # when to retry failed writes
        self._trouble: dict[str, tuple[float, int]] = {}  # temporary failures by node: since when, and how many
        self._recorded: dict[str, Outcome] = {}  # final outcomes, also written to the Node if necessary
        self._last_news: dict[str, tuple[str, str]] = {}
        self._paused_since: Optional[float] = None

    def run(self, pool: ThreadPoolExecutor) -> Mapping[str, Outcome]:
        """The outcomes by node, sorted, when each node has one and it is recorded."""
        if self._limits is not None:
            names = [name for name in self._scheduler.targets if name in self._fleet.nodes]
            self._limit_of = dict(zip(names, pool.map(self._limits.read, names)))
        while True:
            self._give_up(self._lease_holder.tend(self._hosts()))
            self._collect(pool)
            self._fleet = self._look()
            if not self._is_paused():
                for action in self._scheduler.decide(self._fleet, self._host.monotonic()):
                    self._begin(pool, action)
                self._conclude(pool)
            self._tell()
            if self._scheduler.finished and len(self._recorded) == len(self._scheduler.outcomes):
                return dict(sorted(self._recorded.items()))
            self._cluster.wait(self._idle())
            self._host.sleep(_PACE_SECONDS)

    def put_back(self) -> None:
        """Revert growth that waits for capacity. If the server refuses, the reconciler does it later."""
        for name in sorted(self._scheduler.targets.keys() - self._recorded.keys()):
            for _attempt in range(_PUT_BACK_ATTEMPTS):
                node = self._cluster.fleet().nodes.get(name)
                back = None if node is None else _undo_growth(node)
                if node is None or back is None or not self._lease_holder.may_act(node.host):
                    break
                try:
                    self._cluster.resize(back)
                    self._progress.undone(f"node {name}", "the balloon keeps its previous size")
                    break
                except BallastError as error:
                    if error.id == "core-no-answer":
                        return
                    if error.id != "balloon-changed":
                        break

    # Observing.

    def _look(self) -> Fleet:
        """The present fleet, with limits; PeerError when the API was not followed for too long."""
        lost = self._cluster.lost
        if lost is not None and lost[0] > _GIVE_UP_SECONDS:
            raise MESSAGES.error("balloon-api-lost", seconds=round(lost[0]), found=lost[1].in_one_line)
        return self._cluster.fleet().with_limits(self._limit_of)

    def _hosts(self) -> set[str]:
        """Hosts with unfinished nodes."""
        names = self._scheduler.targets.keys() - self._recorded.keys()
        return {self._fleet.nodes[name].host for name in names if name in self._fleet.nodes}

    def _is_paused(self) -> bool:
        now = self._host.monotonic()
        if not self._lease_holder.is_paused(self._hosts()):
            self._paused_since = None
            return False
        if self._paused_since is None:
            self._paused_since = now
        if now - self._paused_since > _GIVE_UP_SECONDS:
            raise MESSAGES.error("balloon-api-lost", seconds=round(_GIVE_UP_SECONDS), found="Leases cannot be renewed")
        return True

    def _idle(self) -> float:
        """Seconds until the next decision if nothing changes."""
        now = self._host.monotonic()
        dues = [at for at, _record in self._again]
        if self._scheduler.wake is not None:
            dues.append(self._scheduler.wake)
        return max(0.0, min([_IDLE_SECONDS, *(due - now for due in dues)]))

    # Acting.

    def _give_up(self, hosts: Collection[str]) -> None:
        """Refuse decided actions and waiting writes for nodes of these hosts; `_begin` refuses later ones."""
        for name in self._scheduler.targets if hosts else ():
            node = self._fleet.nodes.get(name)
            if node is not None and node.host in hosts and name not in self._flying:
                self._scheduler.note_refusal(name, self._lease_holder.given_up[node.host], again=False)

    def _begin(self, pool: ThreadPoolExecutor, task: _Task) -> None:
        node = self._fleet.nodes.get(task.node)
        name = "" if node is None else node.host
        if name in self._lease_holder.given_up:
            self._refuse(task, self._lease_holder.given_up[name])
        elif not self._lease_holder.may_act(name) or task.node in self._flying:
            self._judge(_Ended(task, begun=False))
        else:
            self._flying.add(task.node)
            if not isinstance(task, _WriteTarget):
                self._progress.started(f"node {task.node}", _describe(task))
            pool.submit(self._do, task, name)

    def _refuse(self, task: _Task, text: str) -> None:
        if isinstance(task, _WriteTarget):
            self._record(task, text)
        else:
            self._scheduler.note_refusal(task.node, text, again=False)

    def _do(self, task: _Task, host: str) -> None:
        """Runs in a thread of the pool."""
        try:
            self._ended.put(self._carry_out(task, host))
        except BallastError as error:
            self._ended.put(_Ended(task, error))
        except BaseException as error:
            self._ended.put(_Ended(task, crash=error))
        finally:
            self._cluster.ring()

    def _carry_out(self, task: _Task, host: str) -> _Ended:
        if not self._lease_holder.may_act(host):
            return _Ended(task, begun=False)
        if isinstance(task, Resize):
            self._cluster.resize(task)
        elif isinstance(task, _WriteTarget):
            self._cluster.annotate(task.node, task.target)
        elif self._limits is not None:
            self._limits.write(task.node, task.limit)
            return _Ended(task, limit=self._limits.read(task.node))
        return _Ended(task)

    def _collect(self, pool: ThreadPoolExecutor) -> None:
        """Take the results of tasks that have ended, and repeat writes that are due."""
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
        text = "it could not be started" if error is None else error.in_one_line
        if isinstance(task, _WriteTarget):
            since, times = self._trouble.get(task.node, (self._host.monotonic(), 0))
            self._trouble[task.node] = (since, times + 1)
            if again and self._host.monotonic() - since < _GIVE_UP_SECONDS:
                self._again.append((self._host.monotonic() + backoff(times), task))
            else:
                self._record(task, "" if error is None else text)
        elif error is not None or again:
            self._scheduler.note_refusal(task.node, text, again=again)

    def _record(self, task: _WriteTarget, trouble: str) -> None:
        outcome = self._scheduler.outcomes[task.node]
        if trouble:
            outcome = replace(
                outcome, outcome=FAILED, why=MESSAGES.error("balloon-untold", node=task.node, found=trouble)
            )
        self._recorded[task.node] = outcome

    def _conclude(self, pool: ThreadPoolExecutor) -> None:
        """Record new outcomes; the target of a node that reached it is written to its Node first."""
        waiting = {record.node for _at, record in self._again}
        for name, outcome in self._scheduler.outcomes.items():
            if name in self._recorded or name in waiting or name in self._flying:
                continue
            if outcome.outcome == DONE and name in self._fleet.nodes:
                self._begin(pool, _WriteTarget(name, self._scheduler.targets[name]))
            else:
                self._recorded[name] = outcome

    # Reporting.

    def _tell(self) -> None:
        """Report the news of each node."""
        tell = {DONE: self._progress.done, "waiting": self._progress.waiting}
        for name in self._scheduler.targets:
            news = self._news_of(name)
            if news is not None and self._last_news.get(name) != news:
                self._last_news[name] = news
                kind, text = news
                tell.get(kind, self._progress.failed)(f"node {name}", text)

    def _news_of(self, name: str) -> Optional[tuple[str, str]]:
        """An outcome or "waiting", and its text; None when there is nothing to report."""
        outcome = self._recorded.get(name)
        if outcome is not None:
            return outcome.outcome, f"balloon {outcome.after}" if outcome.why is None else outcome.why.text
        node = self._fleet.nodes.get(name)
        balloon = node.balloon if node is not None else None
        if balloon is None or balloon.state in (SETTLED, ASKED):
            return None
        words = ": ".join(word for word in (balloon.state, balloon.waiting, balloon.message) if word)
        return "waiting", f"the balloon is {words}"


def _is_worth_another_try(error: BallastError) -> bool:
    return error.id == "balloon-changed" or is_temporary(error)


def _undo_growth(node: Node) -> Optional[Resize]:
    """Revert a balloon whose growth was requested but not granted. A resource that was to shrink may already have done so."""
    own = node.balloon
    if own is None or own.state not in (ASKED, DEFERRED, INFEASIBLE) or own.desired.fits_in(own.allocated):
        return None
    size = own.allocated if own.state == INFEASIBLE else own.desired.least(own.allocated)
    return Resize(node.name, own.namespace, own.name, own.resource_version, size, REVERT)


def _describe(task: Union[Resize, SetLimit]) -> str:
    if isinstance(task, SetLimit):
        return f"limit to {format_limit(task.limit)}"
    return f"{task.why} the balloon to {task.size}"
