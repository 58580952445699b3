# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Schedules of arrivals, leavings, ends, reloads and draining, against a model that is told only what the observer is told.

Several things happen in one turn of the loop or apart, as Hypothesis likes it. What holds:
- when a pull starts, no more are in flight than the limit allows, and at the runtime never more than are counted;
- the pull that starts is the one that the order in effect names;
- while a slot is free nobody is in the queue;
- one answer to each caller, of a pull with his key, and of the very pull that he began or joined;
- a pull is cancelled exactly when nobody is left who wants it;
- in the end nothing is remembered, and the limit's number of pulls can start again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import Phase
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.pulls import Draining, Full, Interrupted, Pulls
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.request import PullRequest
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.settings import Priority, Retry, Settings
from tests.unit.pulls.core.given import LISTENERS, Runtime, request
from tests.unit.pulls.core.virtual import VirtualLoop, end_the_rest, settle

AGEING = 8.0
RETRY = Retry(attempts=3, interval=2.0)
KEYS = [
    {"image": "a"},
    {"image": "b"},
    {"image": "c"},
    {"image": "d"},
    {"image": "a", "credentials": b"x"},
    {"image": "a", "handler": "kata"},
    {"image": "a", "annotations": (("k", "v"),)},
    {"image": "a", "runtime": "/run/other.sock"},
]
PRIORITY = Priority(annotation="rank", namespaces={"kube-system": 5}, ageing=AGEING)


class Failed(Exception):
    pass


@dataclass(eq=False)
class Model:
    """A pull as the observer's words let one imagine it. Its callers are told apart by the name of their pod."""

    key: object
    arrived: float
    callers: dict[str, PullRequest]
    rank: int
    queued: bool  # or tries again
    joinable: bool
    started: bool = False
    ended: bool = False
    error: BaseException | None = None


def rank(of: PullRequest) -> int:
    if "rank" in of.pod_annotations:
        return int(of.pod_annotations["rank"])
    return 5 if of.namespace == "kube-system" else 0


@dataclass
class Caller:
    of: PullRequest
    arrived: float
    task: asyncio.Task[bytes]
    left: bool = False


class Watch:
    """The observer that keeps the model and says at once what must not be."""

    def __init__(self, loop: VirtualLoop, of: Settings) -> None:
        self.loop = loop
        self.settings = of
        self.pulls: list[Model] = []  # in order of arrival, those that have not ended
        self.of_caller: dict[str, Model] = {}
        self.answers: dict[str, str] = {}
        self.wrong: list[str] = []

    @property
    def in_flight(self) -> list[Model]:
        return [pull for pull in self.pulls if pull.started]

    def expect(self, truth: bool, words: str) -> None:
        """Not an assertion: the code that calls us would have to bear it."""
        if not truth:
            self.wrong.append(words)

    def _to_join(self, of: PullRequest) -> list[Model]:
        return [pull for pull in self.pulls if pull.key == of.key and pull.callers and pull.joinable]

    def _new(self, of: PullRequest, *, queued: bool) -> Model:
        self.expect(not self.settings.join or not self._to_join(of), "there was a pull to join")
        model = Model(of.key, self.loop.time(), {of.pod: of}, rank(of), queued, self.settings.join)
        self.pulls.append(model)
        self.of_caller[of.pod] = model
        return model

    def on_queued(self, of: PullRequest) -> None:
        limit = self.settings.max_in_flight
        self.expect(limit != 0 and len(self.in_flight) >= limit, "it was queued while a slot was free")
        self._new(of, queued=self.settings.on_full == "block")

    def on_joined(self, of: PullRequest) -> None:
        self.expect(self.settings.join, "it joined though that is off")
        (model,) = self._to_join(of)
        model.callers[of.pod] = of
        model.rank = max(model.rank, rank(of))
        self.of_caller[of.pod] = model

    def on_started(self, of: PullRequest, waited: float) -> None:
        model = self.of_caller.get(of.pod)
        if model is None:  # at once, without waiting
            model = self._new(of, queued=True)
        self.expect(next(iter(model.callers)) == of.pod, "it was started for another than the first who is left")
        self.expect(waited == self.loop.time() - model.arrived, "the wait is another")
        if model.queued:
            self.expect(model is self._next(), "another was next")
        model.started = True
        limit = self.settings.max_in_flight
        self.expect(limit == 0 or len(self.in_flight) <= limit, "more than the limit are in flight")

    def _next(self) -> Model:
        waiting = [pull for pull in self.pulls if pull.queued and not pull.started]
        if self.settings.order == "fifo" or self.loop.time() - waiting[0].arrived >= AGEING:
            return waiting[0]
        return sorted(waiting, key=lambda pull: -pull.rank)[0]

    def on_ended(self, of: PullRequest, seconds: float, error: BaseException | None) -> None:
        (model,) = [pull for pull in self.pulls if pull is self.of_caller[of.pod]]
        self.expect(model.started, "it ended and had not started")
        self.expect(bool(model.callers) or isinstance(error, (asyncio.CancelledError, type(None))), "all had left")
        model.ended, model.error = True, error
        self.pulls.remove(model)

    def on_answered(self, of: PullRequest, outcome: str, waited: float) -> None:
        self.expect(of.pod not in self.answers, "a caller was answered twice")
        self.answers[of.pod] = outcome
        model = self.of_caller.get(of.pod)
        if model is None:
            self.expect(outcome == "refused", "he was answered and had asked for nothing")
            return
        del model.callers[of.pod]
        if not model.callers and not model.started and model in self.pulls:
            self.pulls.remove(model)


class Schedules(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.complaints: list[object] = []
        self.loop.set_exception_handler(lambda _loop, context: self.complaints.append(context))
        of = Settings(listeners=LISTENERS, max_in_flight=2, retry=RETRY, priority=PRIORITY)
        self.watch = Watch(self.loop, of)
        self.runtime = Runtime()
        self.callers: list[Caller] = []
        self.is_draining = False
        self.is_settled = True
        self.do(self._make(of))

    async def _make(self, of: Settings) -> None:
        self.pulls = Pulls(of, self.watch)

    def do(self, coroutine) -> None:
        asyncio.set_event_loop(None)
        self.loop.run_until_complete(coroutine)

    def then(self, settles: bool) -> None:
        """A turn of the loop at least happens between two runs of it; what a rule does together is in one turn."""
        self.is_settled = settles
        if settles:
            self.do(settle())

    def come(self, key: int, rank: int | None, is_system: bool, lingers: float) -> None:
        of = request(
            **KEYS[key],
            pod=f"p{len(self.callers)}",
            listener=f"n{len(self.callers) % 3}",
            namespace="kube-system" if is_system else "default",
            pod_annotations={} if rank is None else {"rank": str(rank)},
        )
        task = self.loop.create_task(self.pulls.pull(of, self.runtime.run(of, lingers=lingers)))
        self.callers.append(Caller(of, self.loop.time(), task))

    def leave(self, number: int) -> None:
        present = [caller for caller in self.callers if not caller.task.done() and not caller.left]
        if present:
            chosen = present[number % len(present)]
            chosen.left = chosen.task.cancel()

    def end(self, number: int, how: str) -> None:
        open_calls = [call for call in self.runtime.calls if not call.end.done()]
        if not open_calls:
            return
        call = open_calls[number % len(open_calls)]
        if how == "ok":
            call.end.set_result(call.of.pod.encode())
        elif how == "failed":
            call.end.set_exception(Failed(call.of.pod))
        else:
            call.end.set_exception(asyncio.CancelledError())

    arrivals = st.tuples(
        st.integers(0, len(KEYS) - 1),
        st.one_of(st.none(), st.integers(-1, 3)),
        st.booleans(),
        st.sampled_from([0.0, 0.0, 1.5]),
    )

    @rule(
        arrivals=st.lists(arrivals, max_size=5),
        leavers=st.lists(st.integers(0, 30), max_size=3),
        ends=st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["ok", "ok", "failed", "cut"])), max_size=3),
        order=st.permutations("ale"),
        settles=st.booleans(),
    )
    def happen(self, arrivals, leavers, ends, order, settles):
        """All in one turn of the loop."""
        for what in order:
            if what == "a":
                for arrival in arrivals:
                    self.come(*arrival)
            elif what == "l":
                for number in leavers:
                    self.leave(number)
            else:
                for number, how in ends:
                    self.end(number, how)
        self.then(settles)

    @rule(seconds=st.sampled_from([0.5, 2.0, 7.0]))
    def wait(self, seconds):
        self.do(asyncio.sleep(seconds))
        self.then(True)

    @rule(turns=st.integers(1, 4))
    def turn(self, turns):
        async def pass_on() -> None:
            for _turn in range(turns):
                await asyncio.sleep(0)

        self.do(pass_on())
        self.is_settled = False

    @rule(
        limit=st.integers(0, 4),
        join=st.sampled_from([True, True, False]),
        on_full=st.sampled_from(["block", "block", "retry"]),
        order=st.sampled_from(["fifo", "priority"]),
        settles=st.booleans(),
    )
    def reload(self, limit, join, on_full, order, settles):
        of = Settings(LISTENERS, limit, on_full=on_full, retry=RETRY, join=join, order=order, priority=PRIORITY)
        self.watch.settings = of
        for model in self.watch.pulls:
            if not model.started:
                model.queued = model.queued or on_full == "block"
                model.rank = max(rank(caller) for caller in model.callers.values())
        self.pulls.reload(of)
        self.then(settles)

    @precondition(lambda self: len(self.callers) > 25 and not self.is_draining)
    @rule(settles=st.booleans())
    def refuse(self, settles):
        self.is_draining = True
        for model in list(self.watch.pulls):
            if not model.started:
                self.watch.pulls.remove(model)
        self.pulls.refuse()
        self.then(settles)

    @invariant()
    def nothing_is_wrong(self):
        assert self.watch.wrong == []
        assert self.complaints == []
        assert len(self.runtime.calls) <= len(self.watch.in_flight)

    @invariant()
    def a_free_slot_has_nobody_waiting(self):
        state = self.pulls.snapshot()
        limit = state.max_in_flight
        in_the_queue = [row for row in state.queued if row.place]
        assert not in_the_queue or (limit != 0 and len(state.in_flight) >= limit)
        assert [row.place for row in in_the_queue] == list(range(1, len(in_the_queue) + 1))
        if in_the_queue:
            assert in_the_queue[0].request == next(iter(self.watch._next().callers.values()))

    @invariant()
    def the_snapshot_is_the_model(self):
        state = self.pulls.snapshot()
        for rows, models in [
            (state.in_flight, self.watch.in_flight),
            (state.queued, [pull for pull in self.watch.pulls if not pull.started]),
        ]:
            assert sorted(tuple(caller.pod for caller in row.callers) for row in rows) == sorted(
                tuple(model.callers) for model in models
            )

    @invariant()
    def a_pull_is_cancelled_exactly_when_nobody_wants_it(self):
        if self.is_settled:
            for call in (call for call in self.runtime.calls if not call.end.done() or call.end.cancelled()):
                expected = (
                    bool(self.watch.of_caller[call.of.pod].callers) if call.of.pod in self.watch.of_caller else False
                )
                assert call.cancelled == (not expected)

    @invariant()
    def each_caller_has_the_answer_of_his_pull(self):
        for caller in self.callers:
            if not caller.task.done():
                continue
            outcome = self.watch.answers.get(caller.of.pod)
            if caller.task.cancelled():
                assert caller.left
                assert outcome in ("cancelled", None)  # None: he left before he had asked
                continue
            error = caller.task.exception()
            model = self.watch.of_caller.get(caller.of.pod)
            if error is None:
                assert outcome == "succeeded"
                (began,) = [entry for entry in self.callers if entry.of.pod == caller.task.result().decode()]
                assert began.of.key == caller.of.key
                assert self.watch.of_caller[began.of.pod] is model
            elif isinstance(error, (Failed, Interrupted)):
                assert outcome == "failed"
                assert model.error is error
            else:
                assert outcome == "refused"
                assert isinstance(error, (Full, Draining) if self.is_draining else Full)

    @invariant()
    def nobody_tries_for_longer_than_his_attempts_take(self):
        if self.is_settled:
            longest = RETRY.attempts * RETRY.interval
            for model in self.watch.pulls:
                if not model.started and not model.queued:
                    arrived = [caller.arrived for caller in self.callers if caller.of.pod in model.callers]
                    assert self.loop.time() - max(arrived) <= longest

    def teardown(self):
        try:
            self.check_the_end()
        finally:
            self.do(end_the_rest())
            self.loop.close()

    def check_the_end(self):
        async def end_all() -> None:
            await settle()
            for _turn in range(1000):
                for number in range(len(self.runtime.calls)):
                    self.end(number, "ok")
                await asyncio.sleep(0.5)
                if all(caller.task.done() for caller in self.callers) and not self.runtime.calls:
                    return
            raise AssertionError("somebody waits for ever")

        self.do(end_all())
        self.do(settle())
        self.nothing_is_wrong()
        self.each_caller_has_the_answer_of_his_pull()
        assert self.watch.in_flight == []
        state = vars(self.pulls)
        assert not any(len(state[name]) for name in ("_queue", "_trying", "_in_flight", "_joinable"))
        if not self.is_draining:
            limit = self.watch.settings.max_in_flight or 5
            for number in range(limit):
                of = request(f"new{number}", pod=f"new{number}")
                self.loop.create_task(self.pulls.pull(of, self.runtime.run(of)))
            self.do(settle())
            assert len(self.runtime.calls) == limit


TestSchedules = Schedules.TestCase
# Shrinking takes minutes: add Phase.shrink to read a failure.
TestSchedules.settings = hypothesis_settings(
    max_examples=150, stateful_step_count=30, report_multiple_bugs=False, phases=[Phase.generate]
)
