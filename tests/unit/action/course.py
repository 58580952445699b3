# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A course of `kube_proxy_change` with a node in memory, and generated failures of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._ansible.typed import read_typed
from ansible_collections.ballast.kube.plugins.plugin_utils.kube_proxy_change import (
    CHANGE,
    CONFIRM,
    SPEC,
    Answer,
    Call,
    OutOfTime,
    Request,
    Verdict,
    arguments,
    change_node,
    read_answer,
)
from tests.bench.rollout_node import FATES, ConnectionLost, Faults, NoAnswer, SimulatedNode

WITHIN = 120
FAR = 10**6

FAULTS = st.builds(
    Faults,
    fates=st.lists(st.sampled_from(FATES), max_size=12).map(tuple),
    gone=st.tuples(st.floats(900, 1500), st.floats(0, 600)).map(lambda row: (row[0], row[0] + row[1])),
    bad_audits=st.integers(0, 5),
    slow=st.floats(0.1, 5.0),
)


@dataclass
class Run:
    """A course with its node; seconds pass as calls take them."""

    node: SimulatedNode
    now: float = 1000.0
    calls: list[Call] = field(default_factory=list)
    confirmed_after: Optional[float] = None
    was_stopped: bool = False

    def __call__(self, *, check: bool = False, stop_at: Optional[int] = None, **options: Any) -> Verdict:
        given_options = {"confirm_within": WITHIN, **(options or {"mode": "nftables"})}
        typed, problems = read_typed(SPEC, given_options)
        assert problems == []
        request = Request.from_options(given_options, typed, check_mode=check)
        course = change_node(request)
        changed = 0.0
        try:
            call = next(course)
            while True:
                if stop_at == len(self.calls):
                    self.was_stopped = True
                    call = course.throw(OutOfTime("timed out after 9 seconds"))
                    raise AssertionError(f"a course that is out of time asks for {call.kind}")
                self.calls.append(call)
                answer = self.ask(call, request)
                if call.kind == CHANGE:
                    changed = self.now
                if call.kind == CONFIRM and answer.is_result:
                    self.confirmed_after = self.now - changed
                call = course.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def ask(self, call: Call, request: Request) -> Answer:
        name, options = arguments(call, request)
        module = name.rpartition(".")[2]
        begun = self.now = self.now + call.pause
        self.node.tick(begun)
        self.now += self.node.seconds(module, options)
        try:
            returned = self.node.run(module, options, begun=begun, now=self.now, check=request.check_mode)
        except ConnectionLost as error:
            return Answer(self.now, loss=str(error))
        except NoAnswer:
            self.now = begun + call.limit
            return Answer(self.now, loss="no answer")
        return read_answer(call, returned, at=self.now, check_mode=request.check_mode)

    @property
    def kinds(self) -> list[str]:
        return [call.kind for call in self.calls]


def end_of(run: Run) -> tuple[str, bool]:
    """Where the node is when its watchdog has had all the time that it needs."""
    run.node.tick(run.now + FAR)
    return run.node.mode, run.node.is_armed
