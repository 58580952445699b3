# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The resize of one node to its target: what was requested, what the facts show, how long it waits. Pure.

`scheduler.py`, which sees all nodes of a host, has the drawing of the state machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Optional, Union

from ..._core.text.errors import BallastError
from ..cluster.facts import (
    ASKED,
    BLOCKED,
    DEFERRED,
    DONE,
    FAILED,
    INFEASIBLE,
    INFEASIBLE_OUTCOME,
    REJECTED,
    REVERTED,
    SETTLED,
    STARTING,
    Balloon,
    Node,
    Outcome,
)
from ..sizing.resources import NONE, Resources
from . import texts
from .resize_steps import LIMIT, ResizeStep, can_resize, granted_size, is_at_target, may_preempt, next_step

GROW, SHRINK, REVERT = "grow", "shrink", "revert"

# Seconds until a pod has started, including the pull of its image.
START_SECONDS = 120.0
# For a pod that cannot start: a kubelet retries a pull after 10 s. Reasons in _FINAL, which no retry changes, get no time.
RETRY_SECONDS = 15.0
_FINAL = ("InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError")
# For a kubelet to become Ready, to answer, and to have its runtime apply the size; and for a PATCH to appear in a watch.
ANSWER_SECONDS = 60.0
# For a limit: a virtual machine returns memory as fast as it can. Writing a limit has a shorter timeout of its own.
LIMIT_SECONDS = 900.0
# Before a request is repeated to an API server that refused or did not answer; doubled each time, up to the maximum.
_PAUSE_SECONDS, _MOST_PAUSE_SECONDS = 1.0, 8.0
# A node takes up to five turns, and each conflict adds one. After so many, another writer works against this run.
_MOST_TURNS = 30

_PENDING = (DEFERRED, INFEASIBLE)  # requested, and not granted yet

# Phases of a node.
FREE = "free"  # its next step may begin
BUSY = "busy"  # an action is under way, or awaited
REPEAT = "repeat"  # the last action may be repeated
OVER = "over"


@dataclass(frozen=True)
class Resize:
    """The PATCH carries `resource_version`, so that it has no effect on a pod that has changed since."""

    node: str
    namespace: str
    pod: str
    resource_version: str
    size: Resources
    why: str  # GROW, SHRINK or REVERT


@dataclass(frozen=True)
class SetLimit:
    node: str
    limit: Resources


Action = Union[Resize, SetLimit]


@dataclass
class _Ask:
    action: Action
    at: float
    again: bool = False  # the request was refused, or its result is unknown
    words: str = ""
    retry_at: Optional[float] = None


@dataclass(frozen=True)
class _Ending:
    """The final outcome of a node whose balloon is being reverted to `size`."""

    outcome: str
    why: BallastError
    requested: Resources
    size: Resources
    since: float


class NodeResize:
    """`phase` and `wake` are from the last look. `node` is as last seen, None if it was never seen."""

    def __init__(self, name: str, target: Resources, *, grow_timeout: float) -> None:
        self.name = name
        self.target = target
        self.phase = BUSY
        self.wake: Optional[float] = None
        self.node: Optional[Node] = None
        self.outcome: Optional[Outcome] = None
        self._grow_timeout = grow_timeout
        self._before: Optional[Resources] = None
        self._ask: Optional[_Ask] = None
        self._last_asked: Optional[Resources] = None
        self._ending: Optional[_Ending] = None
        self._unsettled: Optional[Resources] = None  # a balloon's desired size, since `_unsettled_since`
        self._unsettled_since = 0.0
        self._waits_since: Optional[float] = None
        self._gone_since: Optional[float] = None
        self._turns = 0
        self._pauses = 0

    def as_counted(self) -> Optional[Node]:
        """The node as its host must count it: including the action under way, as long as its result is unknown."""
        if self.node is None or self._ask is None:
            return self.node
        action = self._ask.action
        if isinstance(action, SetLimit):
            return replace(self.node, limit=(self.node.limit or NONE).most(action.limit))
        balloon = self.node.balloon
        if balloon is None or balloon.resource_version != action.resource_version:
            return self.node
        return replace(self.node, balloon=replace(balloon, desired=action.size, state=ASKED))

    def look(self, node: Optional[Node], now: float) -> Optional[Resize]:
        """Judge the facts; `node` is None when the cluster lacks it. Returns the action that reverts its balloon, if that is due."""
        self.wake = None
        self.node = node or self.node
        if self._before is None and self.node is not None:
            self._before = _allocated_size(self.node)
        if self.outcome is not None:
            return None
        self.phase = BUSY
        if node is None:
            self._await_node(now)
            return None
        self._gone_since = None
        if self._ask is not None and not self._check_answer(self._ask, node, now):
            return None
        self._ask = None
        if self._turns > _MOST_TURNS:
            self._finish(FAILED, texts.contended_error(self.name, self._turns, ""))
            return None
        if self._ending is not None:
            self._end(self._ending, node, now)
            return None
        return self._judge(node, now)

    def ask(self, action: Action, now: float) -> Action:
        """Record that the action is under way from now on, in place of the last one, and return it."""
        self._ask = _Ask(action, now)
        self._last_asked = action.size if isinstance(action, Resize) else None
        self._turns += 1
        self.phase = BUSY
        self._wake_at(now + _answer_seconds(action))
        return action

    def repeat(self, now: float) -> list[Action]:
        """The last action again; empty when there was none."""
        if self._ask is None:
            return []
        self._pauses += 1
        return [self.ask(self._ask.action, now)]

    def begin(self, step: ResizeStep, now: float) -> Action:
        """The action that starts a step. ValueError for a step of a balloon that the node lacks."""
        if step.what == LIMIT:
            return self.ask(SetLimit(self.name, step.after), now)
        if self.node is None or self.node.balloon is None:
            raise ValueError(f"{self.name} has no balloon to resize")
        balloon = self.node.balloon
        why = SHRINK if step.after.fits_in(step.before) else GROW
        return self.ask(_resize(self.name, balloon, step.after, why if balloon.state not in _PENDING else REVERT), now)

    def note_refusal(self, words: str, *, again: bool) -> None:
        """The action under way was not done. `again`: decide it once more after a pause; else the resize ends with
        `words`."""
        ask, self._ask = self._ask, None
        if ask is None or self.outcome is not None:
            self._ask = ask
            return
        if again:
            self._ask = replace(ask, again=True, words=words, retry_at=None)
        elif isinstance(ask.action, SetLimit):
            self._finish(FAILED, texts.limit_refused_error(self.name, ask.action.limit, words))
        elif self._ending is not None:
            ending = self._ending
            self._finish(FAILED, texts.not_put_back_error(self.name, ending.requested, ending.size, words))
        else:
            self._finish(REJECTED, texts.rejected_error(self.name, ask.action.size, words))

    def block(self, why: BallastError) -> None:
        """Finish as blocked: the other nodes leave no capacity for this one."""
        self._finish(BLOCKED, why)

    def _check_answer(self, ask: _Ask, node: Node, now: float) -> bool:
        """Whether the facts show the result: a pod with another version has that size, or this action can no longer give it."""
        action = ask.action
        if isinstance(action, SetLimit):
            known, done = node.limit == action.limit, True
        else:
            balloon = node.balloon
            known = balloon is None or balloon.resource_version != action.resource_version
            done = balloon is None or balloon.desired == action.size
        if known:
            self._pauses = 0
            if not done:
                self._ending = None  # the resize may have been granted meanwhile
            return True
        if ask.again:
            self._pause(ask, now)
        elif now >= ask.at + _answer_seconds(action):
            size = action.limit if isinstance(action, SetLimit) else action.size
            self._finish(FAILED, texts.api_silent_error(self.name, size, now - ask.at))
        else:
            self._wake_at(ask.at + _answer_seconds(action))
        return False

    def _pause(self, ask: _Ask, now: float) -> None:
        if self._turns > _MOST_TURNS:
            self._finish(FAILED, texts.contended_error(self.name, self._turns, ask.words))
            return
        if ask.retry_at is None:
            ask.retry_at = now + min(_PAUSE_SECONDS * 2**self._pauses, _MOST_PAUSE_SECONDS)
        if now >= ask.retry_at:
            self.phase = REPEAT
        else:
            self._wake_at(ask.retry_at)

    def _await_node(self, now: float) -> None:
        if self._gone_since is None:
            self._gone_since = now
            self._turns += 1
        if now >= self._gone_since + ANSWER_SECONDS:
            self._finish(FAILED, texts.node_gone_error(self.name, ANSWER_SECONDS))
        else:
            self._wake_at(self._gone_since + ANSWER_SECONDS)

    def _judge(self, node: Node, now: float) -> Optional[Resize]:
        balloon = node.balloon
        if balloon is None or balloon.state == STARTING:
            if balloon is not None and balloon.waiting:
                if self._has_waited(0.0 if balloon.waiting in _FINAL else RETRY_SECONDS, now):
                    self._finish(FAILED, texts.cannot_start_error(node, balloon))
            elif self._has_waited(START_SECONDS, now):
                self._finish(FAILED, texts.not_started_error(node, START_SECONDS))
            return None
        if is_at_target(node, self.target):
            self._finish(DONE, None)
        elif not can_resize(node):
            self._finish(REJECTED, texts.kubelet_old_error(node))
        elif next_step(node, self.target) is not None:
            self._waits_since = self._unsettled = None
            self.phase = FREE
        elif balloon.state == SETTLED and may_preempt(node, self.target):
            self._finish(REJECTED, texts.would_preempt_error(node))
        elif balloon.state != SETTLED:
            return self._wait_for_kubelet(node, balloon, now)
        elif self._has_waited(ANSWER_SECONDS, now):
            self._finish(FAILED, texts.node_unready_error(node, balloon, ANSWER_SECONDS))
        return None

    def _has_waited(self, seconds: float, now: float) -> bool:
        """Whether this node has been unable to begin for this time."""
        self._unsettled = None
        if self._waits_since is None:
            self._waits_since = now
            self._turns += 1
        self._wake_at(self._waits_since + seconds)
        return now >= self._waits_since + seconds

    def _wait_for_kubelet(self, node: Node, balloon: Balloon, now: float) -> Optional[Resize]:
        self._waits_since = None
        if self._unsettled != balloon.desired:
            self._unsettled, self._unsettled_since = balloon.desired, now
            self._turns += balloon.desired != self._last_asked
        if balloon.state == INFEASIBLE:
            return self._put_back(INFEASIBLE_OUTCOME, texts.infeasible_error(node, balloon), balloon, now)
        seconds = self._grow_timeout if balloon.state == DEFERRED else ANSWER_SECONDS
        if now < self._unsettled_since + seconds:
            self._wake_at(self._unsettled_since + seconds)
            return None
        if not node.ready:
            return self._put_back(FAILED, texts.node_unready_error(node, balloon, seconds), balloon, now)
        if balloon.state == DEFERRED:
            text = texts.reverted_error(node, balloon, self.target)
            return self._put_back(REVERTED, text, balloon, now)
        if balloon.state == ASKED:
            return self._put_back(FAILED, texts.unanswered_error(node, balloon, seconds), balloon, now)
        self._finish(FAILED, texts.not_actuated_error(node, balloon, seconds))
        return None

    def _put_back(self, outcome: str, why: BallastError, balloon: Balloon, now: float) -> Optional[Resize]:
        """Revert the balloon. A shrink without an answer stays requested: see `granted_size`."""
        size = granted_size(balloon)
        if size == balloon.desired:
            self._finish(outcome, why)
            return None
        self._ending = _Ending(outcome, why, balloon.desired, size, now)
        return _resize(self.name, balloon, size, REVERT)

    def _end(self, ending: _Ending, node: Node, now: float) -> None:
        """Finish once the revert has ended. After a late grant it is a shrink, which always succeeds, but takes time."""
        balloon = node.balloon
        under_way = balloon is not None and balloon.desired == ending.size and balloon.state not in (SETTLED, STARTING)
        if under_way and now < ending.since + ANSWER_SECONDS:
            self._wake_at(ending.since + ANSWER_SECONDS)
        else:
            self._finish(ending.outcome, ending.why)

    def _finish(self, outcome: str, why: Optional[BallastError]) -> None:
        after = _allocated_size(self.node)
        self.phase = OVER
        self.wake = None
        self.outcome = Outcome(self.name, outcome, after if self._before is None else self._before, after, why)

    def _wake_at(self, time: float) -> None:
        self.wake = time if self.wake is None else min(self.wake, time)


def _allocated_size(node: Optional[Node]) -> Resources:
    return NONE if node is None or node.balloon is None else node.balloon.allocated


def _answer_seconds(action: Action) -> float:
    return LIMIT_SECONDS if isinstance(action, SetLimit) else ANSWER_SECONDS


def _resize(node: str, balloon: Balloon, size: Resources, why: str) -> Resize:
    return Resize(node, balloon.namespace, balloon.name, balloon.resource_version, size, why)
