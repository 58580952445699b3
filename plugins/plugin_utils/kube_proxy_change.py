# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The course of one node's change of kube-proxy: which call comes next, and what the outcome is. No I/O.

    look      kube_proxy_info                     the state before; a node that cannot be reached is not changed
    change    kube_proxy, present or previous     arms the watchdog, for `present`
    confirm   kube_proxy, confirmed               over a new connection, repeated until the watchdog has rolled back
    judge     kube_proxy_info, audit              three times, as rules follow the Services after a moment
    back      kube_proxy, previous                if it was confirmed and does not pass

`change_node` is a generator: it yields a `Call`, is sent its `Answer`, and returns a `Verdict`. A lost connection is an answer too. After a
lost change the node may be unchanged, changed, or still at work: `confirmed` resolves all three, as it waits for a working run, undoes
a killed one, and keeps a finished one.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, last_lines
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.change_messages import MESSAGES
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.request import (
    CONFIRMED as STATE_CONFIRMED,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.request import (
    INFO_SPEC,
    PRESENT,
    PREVIOUS,
    REQUIRED_IF,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.request import (
    SPEC as MODULE_SPEC,
)

CONFIRMED, UNCHANGED, WENT_BACK, FAILED = "confirmed", "unchanged", "went_back", "failed"
LOOK, CHANGE, CONFIRM, JUDGE, BACK = "look", "change", "confirm", "judge", "back"

SPEC: dict[str, Any] = {
    **MODULE_SPEC,
    "state": {"type": "str", "default": PRESENT, "choices": [PRESENT, PREVIOUS]},
    "confirm_within": {"type": "int", "default": 120},
}
REQUIRED = REQUIRED_IF

_TRIES = 3
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 2.0, 15.0
_READ_SECONDS = 300.0  # for a call that reads: the audit of a large node takes half a minute
_GOING_BACK_SECONDS = 60.0  # for the watchdog's rollback, after the time for the confirmation
_BACK_SECONDS = 120.0  # for attempts to reach a node that is to be rolled back
_MARGIN_SECONDS = 300.0  # for a change, besides the waits that its options limit
_KEYS: dict[str, dict[str, type]] = {
    LOOK: {"mode": str, "node_name": str, "armed": bool},
    CHANGE: {"mode": str, "node_name": str, "armed": bool, "changed": bool, "steps": list},
    CONFIRM: {"mode": str, "node_name": str, "armed": bool},
    JUDGE: {"mode": str, "node_name": str, "armed": bool, "in_order": bool, "differences": list},
    BACK: {"mode": str, "node_name": str, "armed": bool},
}
_PLAN_KEYS: dict[str, type] = {"changed": bool, "steps": list}
_WHAT = {LOOK: "the look", CHANGE: "the change", CONFIRM: "the confirmation", JUDGE: "the audit", BACK: "the rollback"}


@dataclass(frozen=True)
class Request:
    """`options` are the task's own, untyped; the other fields are derived from them."""

    options: Mapping[str, Any]
    state: str
    mode: str
    confirm_within: int
    longest: float  # seconds that a change may take
    check_mode: bool

    @classmethod
    def from_options(cls, options: Mapping[str, Any], typed: Mapping[str, Any], *, check_mode: bool) -> Request:
        """`typed` are the options with the types of SPEC. UserError for times that leave none for the confirmation."""
        if typed["confirm_within"] < 1:
            problem = f"confirm_within: {typed['confirm_within']} is not at least 1"
            raise MESSAGES.error("migrate-change-option", problem=problem)
        longest = typed["drain_seconds"] + typed["verify_seconds"] + _MARGIN_SECONDS
        mode = typed["mode"] or ""
        return cls(options, typed["state"], mode, typed["confirm_within"], longest, check_mode)


@dataclass(frozen=True)
class Call:
    """A module to run on the node after `pause` seconds; it counts as lost after `limit` seconds."""

    kind: str
    limit: float
    pause: float = 0.0
    reconnect: bool = False


@dataclass(frozen=True)
class Answer:
    """The reply: a result; the module's own refusal; or nothing that could be understood, with the reason."""

    at: float  # seconds of a monotonic clock
    result: Mapping[str, Any] = field(default_factory=dict)
    refusal: Optional[Reason] = None
    loss: str = ""

    @property
    def is_result(self) -> bool:
        return self.refusal is None and not self.loss

    @property
    def why(self) -> str:
        """Why there is no result; "" when there is one."""
        return self.refusal.line if self.refusal is not None else self.loss


@dataclass(frozen=True)
class Reason:
    """An error of the collection, as the verdict shows it."""

    id: str
    line: str
    text: str  # what, why, what to do

    @classmethod
    def of(cls, error: BallastError) -> Reason:
        return cls(error.id, error.in_one_line, str(error))


class OutOfTime(Exception):
    """Thrown into the generator when the task has used up its own time: no further call is possible."""


@dataclass
class Verdict:
    """What is known of the node and, at the end, its outcome."""

    outcome: str = FAILED
    node_name: str = ""
    before: str = ""  # mode
    mode: str = ""
    previous_mode: Optional[str] = None
    armed: bool = False
    confirmed: bool = False
    changed: bool = False
    in_order: Optional[bool] = None
    differences: list[str] = field(default_factory=list)
    plan: dict[str, Any] = field(default_factory=lambda: {"steps": []})
    reasons: list[Reason] = field(default_factory=list)
    fate: str = "nothing was changed"  # text on the node's state, for when it cannot be reached any more

    def learn(self, result: Mapping[str, Any]) -> None:
        """Take over what a result says about the node."""
        self.node_name, self.mode, self.armed = result["node_name"], result["mode"], result["armed"]
        if isinstance(result.get("previous_mode"), str):
            self.previous_mode = result["previous_mode"]

    def add(self, id: str, **fields: str) -> str:
        """Add the reason `id`. Returns FAILED, the outcome."""
        self.reasons.append(Reason.of(MESSAGES.error(id, **fields)))
        return FAILED

    def lost(self, what: str, why: str) -> str:
        """Add that there was no response to `what`, one of the kinds of `Call`. Returns FAILED, the outcome."""
        return self.add("migrate-node-lost", what=_WHAT[what], why=why, fate=self.fate)

    def as_result(self, *, began: float, seconds: float) -> dict[str, Any]:
        """The result of the task. `began` is Unix time."""
        result = {
            **self.plan,
            "changed": self.changed,
            "mode": self.mode,
            "previous_mode": self.previous_mode,
            "node_name": self.node_name,
            "outcome": self.outcome,
            "reasons": [reason.line for reason in self.reasons],
            "began": began,
            "seconds": seconds,
            "confirmed": self.confirmed,
            "in_order": self.in_order,
            "differences": self.differences,
        }
        if self.outcome in (CONFIRMED, UNCHANGED):
            return result
        text = "\n".join(reason.text for reason in self.reasons)
        return {**result, "failed": True, "msg": text, "id": self.reasons[-1].id}


Course = Generator[Call, Answer, Verdict]
Part = Generator[Call, Answer, str]  # of a course; returns the outcome
Asked = Generator[Call, Answer, Answer]


def arguments(call: Call, request: Request) -> tuple[str, dict[str, Any]]:
    """The module of a call and its options."""
    given = request.options
    reading = {name: value for name, value in given.items() if name in INFO_SPEC and name != "mode"}
    if call.kind in (LOOK, JUDGE):
        return "ballast.kube.kube_proxy_info", {**reading, "audit_rules": call.kind == JUDGE}
    if call.kind == CONFIRM:
        return "ballast.kube.kube_proxy", {**reading, "state": STATE_CONFIRMED}
    if call.kind == CHANGE and request.state == PRESENT:
        return "ballast.kube.kube_proxy", {**given, "state": PRESENT, "confirm_within": request.confirm_within}
    left_out = ("mode", "confirm_within")  # not for a rollback
    back = {name: value for name, value in given.items() if name not in left_out}
    return "ballast.kube.kube_proxy", {**back, "state": PREVIOUS}


def read_answer(call: Call, returned: object, *, at: float, check_mode: bool) -> Answer:
    """The answer in what a module returned, or Ansible in its place."""
    if not isinstance(returned, Mapping):
        return Answer(at, loss=f"not a result: {last_lines(repr(returned), limit=1)}")
    if returned.get("unreachable"):
        return Answer(at, loss=str(returned.get("msg") or "unreachable"))
    if returned.get("failed"):
        text, id = str(returned.get("msg") or "no message"), returned.get("id")
        if not isinstance(id, str) and "module_stdout" in returned:  # it ended without a result of its own
            printed = last_lines(f"{returned['module_stdout']}\n{returned.get('module_stderr', '')}", limit=1)
            return Answer(at, loss=f"{text} {printed}".strip())
        return Answer(at, refusal=Reason(id if isinstance(id, str) else "", text.splitlines()[0], text))
    keys = _PLAN_KEYS if check_mode and call.kind == CHANGE else _KEYS[call.kind]
    wrong = [name for name, kind in keys.items() if not isinstance(returned.get(name), kind)]
    if wrong:
        return Answer(at, loss=f"a result without {', '.join(wrong)}")
    return Answer(at, returned)


def problems_of(result: Mapping[str, Any], mode: str) -> list[str]:
    """Why a judged node does not pass; empty if it passes."""
    problems = [] if result["mode"] == mode else [f"mode {result['mode'] or 'unknown'} instead of {mode}"]
    if not result["in_order"]:
        problems.append(f"kube-proxy is not healthy: {result.get('reason') or 'no reason given'}")
    if result["armed"]:
        problems.append("the change still waits for its confirmation")
    return problems + [str(line) for line in result["differences"]]


def change_node(request: Request) -> Course:
    """The whole course. Returns a verdict whatever the answers are."""
    node = Verdict()
    try:
        node.outcome = yield from _course(request, node)
    except OutOfTime as error:
        node.outcome = node.add("migrate-node-lost", what="the task", why=str(error), fate=node.fate)
    return node


def _course(request: Request, node: Verdict) -> Part:
    look = yield from _ask_again(Call(LOOK, _READ_SECONDS), tries=_TRIES)
    if not look.is_result:
        return node.add("migrate-node-unread", why=look.why)
    node.learn(look.result)
    node.before = node.mode
    if request.check_mode:
        return (yield from _plan(request, node))
    if request.state == PREVIOUS:
        return (yield from _go_back(request, node))
    return (yield from _go_forward(request, node))


def _plan(request: Request, node: Verdict) -> Part:
    plan = yield Call(CHANGE, request.longest)
    if plan.refusal is not None:
        node.reasons.append(plan.refusal)
        return FAILED
    if plan.loss:
        return node.lost(CHANGE, plan.loss)
    _take_plan(node, plan)
    return UNCHANGED


def _go_forward(request: Request, node: Verdict) -> Part:
    after = f"the node's own watchdog rolls it back, {request.confirm_within} seconds after"
    node.fate = f"it is unknown whether it was changed; {after} the run on it has ended"
    was_armed = node.armed
    change = yield Call(CHANGE, request.longest)
    if change.refusal is not None:
        return (yield from _refused(request, node, change.refusal, was_armed))
    if change.is_result:
        _take_plan(node, change)
        node.learn(change.result)
        if not node.armed:
            node.confirmed = True
            return (yield from _judged(request, node))
        node.fate = f"{after} the change; if it received the confirmation, it stays in mode {node.mode}"
    answer = yield from _confirm(request, change)
    if not answer.is_result:
        return node.lost(CONFIRM, answer.why)
    node.learn(answer.result)
    if node.mode != request.mode:
        late = f"it was not confirmed within {request.confirm_within} seconds"
        node.add("migrate-went-back", mode=node.mode, why=f"during the change, {change.loss}" if change.loss else late)
        return WENT_BACK
    if change.loss and node.before == node.mode:
        return node.add("migrate-config-unknown", mode=node.mode)
    node.confirmed = node.changed = True
    return (yield from _judged(request, node))


def _go_back(request: Request, node: Verdict) -> Part:
    """Roll back; repeated after a lost connection, as a second run finishes what the first began."""
    node.fate = "it is unknown whether it has rolled back"
    change = yield from _ask_again(Call(CHANGE, request.longest), seconds=_BACK_SECONDS)
    if change.refusal is not None:
        return (yield from _refused(request, node, change.refusal, node.armed))
    if change.loss:
        return node.lost(CHANGE, change.loss)
    _take_plan(node, change)
    node.learn(change.result)
    node.changed = node.changed or node.mode != node.before  # the first of two runs may have changed it
    node.confirmed = True
    return (yield from _judged(request, node))


def _confirm(request: Request, change: Answer) -> Asked:
    """Repeat until the node answers that no change awaits confirmation: it was confirmed, or the watchdog has rolled back."""
    deadline = change.at + request.confirm_within + _GOING_BACK_SECONDS
    limit = request.longest if change.loss else _READ_SECONDS  # after a loss it waits for the run at work
    pause = 0.0
    while True:
        answer = yield Call(CONFIRM, limit, pause, reconnect=True)
        if answer.is_result and not answer.result["armed"]:
            return answer
        pause = min(pause + _PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        if answer.at + pause > deadline:
            return answer if not answer.is_result else Answer(answer.at, loss="it still waits for its confirmation")


def _judged(request: Request, node: Verdict) -> Part:
    """Roll back a node that this task has changed and that does not pass, but not an unchanged one."""
    mode = request.mode or node.mode
    is_new = node.changed and request.state == PRESENT
    node.fate = f"it is in mode {node.mode}{', confirmed' if is_new else ''}, and was not audited"
    problems: list[str] = []
    for number in range(_TRIES):
        pause = _PAUSE_SECONDS * number * 2
        answer = yield Call(JUDGE, _READ_SECONDS, pause, reconnect=number > 0 or (node.changed and not is_new))
        problems = [f"no usable response to {_WHAT[JUDGE]}: {answer.why}"]
        if answer.is_result:
            node.learn(answer.result)
            node.in_order, node.differences = answer.result["in_order"], [*map(str, answer.result["differences"])]
            problems = problems_of(answer.result, mode)
        if not problems:
            return CONFIRMED if node.changed else UNCHANGED
    shown = "; ".join(problems)
    if not is_new:
        return node.add("migrate-judgement", problems=shown, fate=f"it is in mode {node.mode or 'unknown'}")
    return (yield from _take_back(request, node, shown))


def _refused(request: Request, node: Verdict, refusal: Reason, was_armed: bool) -> Part:
    """The module has undone what it began; what it could not undo is rolled back here."""
    node.reasons.append(refusal)
    look = yield from _ask_again(Call(LOOK, _READ_SECONDS, reconnect=True), tries=_TRIES)
    if not look.is_result:
        return node.lost(LOOK, look.why)
    node.learn(look.result)
    if request.state == PREVIOUS or (node.mode, node.armed) == (node.before, was_armed):
        return FAILED
    return (yield from _take_back(request, node, refusal.line))


def _take_back(request: Request, node: Verdict, why: str) -> Part:
    node.fate = "it is unknown whether it has rolled back"
    expected = node.previous_mode or node.before
    back = yield from _ask_again(Call(BACK, request.longest, reconnect=True), seconds=_BACK_SECONDS)
    node.confirmed = False
    if back.loss:
        node.add("migrate-judgement", problems=why, fate=node.fate)
        return node.lost(BACK, back.loss)
    if back.refusal is None:
        node.learn(back.result)
    if back.refusal is not None or node.mode != expected:
        node.add("migrate-judgement", problems=why, fate="a rollback was requested")
        return node.add("migrate-no-way-back", why=back.why or f"it is in mode {node.mode or 'unknown'}")
    node.add("migrate-judgement", problems=why, fate=f"it was rolled back to {node.mode}")
    return WENT_BACK


def _ask_again(call: Call, *, tries: int = 0, seconds: float = 0.0) -> Asked:
    """Repeat a call until it is answered: this many times, or for these seconds after the first loss."""
    answer = yield call
    number, pause, deadline = 1, 0.0, answer.at + seconds
    while answer.loss:
        pause = min(pause + _PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        if number >= tries and answer.at + pause > deadline:
            break
        answer = yield Call(call.kind, call.limit, pause, reconnect=True)
        number += 1
    return answer


def _take_plan(node: Verdict, change: Answer) -> None:
    node.changed = bool(change.result["changed"])
    node.plan = {name: change.result[name] for name in ("steps", "diff", "findings") if name in change.result}
