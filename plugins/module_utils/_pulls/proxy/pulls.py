# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The limit on pulls in flight: which callers wait, join, leave and retry. Uses asyncio; independent of gRPC.

A pull is its own task, not a caller's. It is taken from the queue, counted and started in one synchronous step, so a slot is never
granted to a caller that has left. The slot becomes free when the task has ended, successfully or not. Callers only wait for the end
of their pull.

With `on_full: retry` there is no queue: each caller retries at its own times. It still shares a pull with callers of the same
image: the first of them to get a slot gets it for all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Callable, Generic, Optional, Protocol, TypeVar, cast

from .queue import Queue, priority_of
from .request import PullKey, PullRequest
from .settings import Settings

T = TypeVar("T")  # what a pull at the runtime returns


class Full(Exception):
    """With `on_full: retry`: no slot was free at any attempt."""


class Draining(Exception):
    """The proxy is stopping, and begins no more pulls."""


class Interrupted(Exception):
    """The pull at the runtime was cancelled because its channel was closed, not because its callers had left."""


class Observer(Protocol):
    """Methods are called at each event, in order, and must not raise. Seconds are measured with the event loop's clock."""

    def on_queued(self, request: PullRequest) -> None:
        """No slot was free: the caller waits, or retries later."""

    def on_joined(self, request: PullRequest) -> None:
        """A caller joined a pull that waits or is in flight."""

    def on_started(self, request: PullRequest, waited: float) -> None:
        """A pull begins at the runtime, `waited` seconds after its first request. `request` is that of the first caller that has not
        left."""

    def on_ended(self, request: PullRequest, seconds: float, error: Optional[BaseException]) -> None:
        """The pull of `request` has ended at the runtime. asyncio.CancelledError: all its callers had left."""

    def on_answered(self, request: PullRequest, outcome: str, waited: float) -> None:
        """A caller has its outcome: "succeeded", "failed", "refused" (Full, Draining) or "cancelled" (it left). `waited` is the
        time until its pull began, or until the outcome if it never began; 0 if it had begun before the caller joined."""


@dataclass(frozen=True)
class PullState:
    """`callers` are in order of arrival; empty while an abandoned pull is being cancelled. `seconds` are the time in flight, or
    waiting. `place` in the queue counts from 1; it is 0 for pulls outside the queue: in flight, or retrying."""

    request: PullRequest
    callers: tuple[PullRequest, ...]
    seconds: float
    place: int


@dataclass(frozen=True)
class Snapshot:
    """All pulls at one moment."""

    max_in_flight: int
    in_flight: tuple[PullState, ...]
    queued: tuple[PullState, ...]  # in the order in which they would start now, followed by those that retry


@dataclass(eq=False)
class _Caller:
    request: PullRequest
    arrived: float


@dataclass(eq=False)
class _Pull(Generic[T]):
    """Waits until it is `started`, and is in flight until it is `done`."""

    run: Callable[[], Awaitable[T]]
    request: PullRequest
    arrived: float
    done: asyncio.Future[None]  # never fails, so it may stay unread: the outcome is in `answer` and `error`
    callers: dict[_Caller, None] = field(default_factory=dict)  # in order of arrival
    started: Optional[float] = None
    task: Optional[asyncio.Task[T]] = None
    answer: Optional[T] = None
    error: Optional[BaseException] = None
    trace: Optional[TracebackType] = None

    def conclude(self, error: Optional[BaseException]) -> None:
        self.error = error
        self.trace = error.__traceback__ if error else None
        self.done.set_result(None)

    def result(self) -> T:
        if self.error is not None:
            # All callers get the same exception, which would otherwise collect the frames of all.
            raise self.error.with_traceback(self.trace)
        return cast(T, self.answer)


class Pulls(Generic[T]):
    """All pulls of the host. Created in a running event loop, and used only in its thread."""

    def __init__(self, settings: Settings, observer: Observer) -> None:
        self._loop = asyncio.get_running_loop()
        self._settings = settings
        self._observer = observer
        self._queue: Queue[_Pull[T]] = _queue(settings)
        self._trying: dict[_Pull[T], None] = {}  # with on_full: retry
        self._in_flight: dict[_Pull[T], float] = {}  # with the time when it began
        self._joinable: dict[PullKey, _Pull[T]] = {}
        self._draining = False

    async def pull(self, request: PullRequest, run: Callable[[], Awaitable[T]]) -> T:
        """The result of `run`, of this caller or of the caller whose pull it joined.

        `run` performs the pull at the runtime and returns or raises when it has ended there; then its slot is free. It is
        cancelled when the last caller leaves; a caller leaves when this coroutine is cancelled.
        Raises what `run` raised, for all callers that joined, or Full, Draining, Interrupted.
        """
        caller = _Caller(request, self._loop.time())
        pull: Optional[_Pull[T]] = None
        outcome = "cancelled"
        try:
            pull = self._admit(caller, run)
            await self._wait_for_end(pull, caller)
            answer = pull.result()
            outcome = "succeeded"
            return answer
        except (Full, Draining):
            outcome = "refused"
            raise
        except Exception:
            outcome = "failed"
            raise
        finally:
            began = None if pull is None else self._leave(pull, caller)
            waited = (self._loop.time() if began is None else began) - caller.arrived
            self._observer.on_answered(request, outcome, max(0.0, waited))

    def reload(self, settings: Settings) -> None:
        """Apply limit, order and priorities at once, also to waiting callers, and `retry` at their next attempt.

        A raised limit starts waiting pulls at once. Under a lowered limit, pulls in flight continue, and none begins until there are
        fewer. When `on_full` becomes block, pulls that retry enter the queue in order of arrival; when it becomes retry, the queue
        remains. Callers that have joined a pull stay joined when `join` becomes false.
        """
        # In order of arrival: no pull enters the queue while others retry.
        kept = [*self._queue, *(self._trying if settings.on_full == "block" else ())]
        self._settings = settings
        self._queue = _queue(settings)
        for pull in kept:
            self._trying.pop(pull, None)
            self._enqueue(pull)
        self._advance()

    def refuse(self) -> None:
        """Give Draining to queued and new pulls. Pulls in flight continue."""
        self._draining = True
        waiting = [*self._queue, *self._trying]
        self._queue = _queue(self._settings)
        self._trying = {}
        for pull in waiting:
            self._forget(pull)
            pull.conclude(_draining())

    async def wait_until_drained(self) -> None:
        """Wait until no pull is in flight."""
        while self._in_flight:
            await asyncio.wait([pull.done for pull in self._in_flight])

    def snapshot(self) -> Snapshot:
        now = self._loop.time()
        in_flight = [_state(pull, now - started) for pull, started in self._in_flight.items()]
        queued = [
            _state(pull, now - pull.arrived, place=place)
            for place, pull in enumerate(self._queue.in_order(now), start=1)
        ]
        trying = [_state(pull, now - pull.arrived) for pull in self._trying]
        return Snapshot(self._settings.max_in_flight, tuple(in_flight), tuple(queued + trying))

    def _admit(self, caller: _Caller, run: Callable[[], Awaitable[T]]) -> _Pull[T]:
        if self._draining:
            raise _draining()
        pull = self._joinable.get(caller.request.key) if self._settings.join else None
        if pull is None:
            return self._begin(caller, run)
        pull.callers[caller] = None
        self._observer.on_joined(caller.request)
        self._queue.raise_to(pull, self._priority(caller))
        self._try(pull)
        return pull

    def _begin(self, caller: _Caller, run: Callable[[], Awaitable[T]]) -> _Pull[T]:
        pull = _Pull(run, caller.request, caller.arrived, self._loop.create_future(), {caller: None})
        if self._settings.join:
            self._joinable[caller.request.key] = pull
        if self._settings.on_full == "block":
            self._enqueue(pull)
            self._advance()
        else:
            self._trying[pull] = None
            self._try(pull)
        if pull.started is None:
            self._observer.on_queued(caller.request)
        return pull

    async def _wait_for_end(self, pull: _Pull[T], caller: _Caller) -> None:
        tried = 1
        while pull in self._trying:
            if tried > self._settings.retry.attempts:
                raise _full(len(self._in_flight), tried, self._loop.time() - caller.arrived)
            await asyncio.wait([pull.done], timeout=self._settings.retry.interval)
            self._try(pull)
            tried += 1
        await asyncio.wait([pull.done])

    def _leave(self, pull: _Pull[T], caller: _Caller) -> Optional[float]:
        """When the pull had begun; None if it had not."""
        del pull.callers[caller]
        if pull.done.done():
            return pull.started
        if pull.callers:
            if pull.started is None:
                pull.request = next(iter(pull.callers)).request
            return pull.started
        self._forget(pull)
        self._queue.remove(pull)
        self._trying.pop(pull, None)
        if pull.task is not None:
            pull.task.cancel()
        return pull.started

    def _has_room(self) -> bool:
        limit = self._settings.max_in_flight
        return limit == 0 or len(self._in_flight) < limit

    def _advance(self) -> None:
        """Called whenever a slot becomes free or the queue grows, so the queue is empty while a slot is free."""
        while self._queue and self._has_room():
            self._start(self._queue.pop(self._loop.time()))

    def _try(self, pull: _Pull[T]) -> None:
        if pull in self._trying and self._has_room():
            del self._trying[pull]
            self._start(pull)

    def _enqueue(self, pull: _Pull[T]) -> None:
        priority = max(self._priority(caller) for caller in pull.callers)
        self._queue.put(pull, arrived=pull.arrived, priority=priority)

    def _start(self, pull: _Pull[T]) -> None:
        pull.started = self._in_flight[pull] = self._loop.time()
        self._observer.on_started(pull.request, pull.started - pull.arrived)
        pull.task = self._loop.create_task(_perform(pull.run))
        # A callback, because a task that is cancelled before its first step never enters its coroutine.
        pull.task.add_done_callback(partial(self._end, pull))

    def _end(self, pull: _Pull[T], task: asyncio.Task[T]) -> None:
        started = self._in_flight.pop(pull)
        self._forget(pull)
        error = _error(task, is_left=not pull.callers)
        if error is None:
            pull.answer = task.result()
        self._observer.on_ended(pull.request, self._loop.time() - started, error)
        pull.conclude(error)
        self._advance()

    def _forget(self, pull: _Pull[T]) -> None:
        """Let no further caller join it."""
        if self._joinable.get(pull.request.key) is pull:
            del self._joinable[pull.request.key]

    def _priority(self, caller: _Caller) -> int:
        return priority_of(caller.request, self._settings.priority)


async def _perform(run: Callable[[], Awaitable[T]]) -> T:
    return await run()


def _queue(settings: Settings) -> Queue[_Pull[T]]:
    return Queue(by_priority=settings.order == "priority", ageing=settings.priority.ageing)


def _error(task: asyncio.Task[T], *, is_left: bool) -> Optional[BaseException]:
    """Why the task failed; None if it succeeded. If all callers had left, any failure counts as the cancellation."""
    if task.cancelled():
        return (
            asyncio.CancelledError() if is_left else Interrupted("the connection to the container runtime was closed")
        )
    error = task.exception()
    return asyncio.CancelledError() if error is not None and is_left else error


def _state(pull: _Pull[T], seconds: float, *, place: int = 0) -> PullState:
    return PullState(pull.request, tuple(caller.request for caller in pull.callers), seconds, place)


def _full(in_flight: int, tried: int, seconds: float) -> Full:
    times = f"{tried} times" if tried > 1 else "once"
    # The error's name in the draft of the enhancement, at the start as in the kubelet's own errors.
    return Full(
        f"TooManyPullingInParallelErr: {in_flight} image pulls are in flight on this host; tried {times} in {seconds:.1f} s"
    )


def _draining() -> Draining:
    return Draining("the pull proxy is stopping and accepts no new pulls")
