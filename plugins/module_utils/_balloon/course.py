# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One node on its way to its target: what was asked of it, what the facts say of that, how long one waits. Pure.

The machine that it is, is drawn in `steering.py`, which has all nodes of a host in view.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Optional, Union

from .._core.errors import BallastError
from . import steering_texts as texts
from .amount import NONE, Amount
from .facts import (
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
from .moves import LIMIT, Move, can_resize, granted, is_at_target, may_preempt, next_move

GROW, SHRINK, REVERT = "grow", "shrink", "revert"

# Seconds. A pod's start includes the pull of its image.
START_SECONDS = 120.0
# For a kubelet to be Ready, to answer, and to have its runtime do it; and for a PATCH to be seen.
ANSWER_SECONDS = 60.0
# For a limit: a virtual machine gives memory back as fast as it can, and whoever sets it has a limit of his own.
LIMIT_SECONDS = 900.0
# Before the same is asked again of an API server that refused or was silent; doubled each time up to the most.
_PAUSE_SECONDS, _MOST_PAUSE_SECONDS = 1.0, 8.0
# A node takes up to five, and each conflict one more. Who changes it as often as this works against us.
_MOST_TURNS = 30

_PENDING = (DEFERRED, INFEASIBLE)  # asked for, and not to be had yet

# Where a node stands after a look at it.
FREE = "free"  # its next move may begin
BUSY = "busy"  # something is under way, or awaited
REPEAT = "repeat"  # what was asked may be asked again
OVER = "over"


@dataclass(frozen=True)
class Resize:
    """`resource_version` goes with the PATCH, so that it has no effect on a pod that is not as it was seen."""

    node: str
    namespace: str
    pod: str
    resource_version: str
    size: Amount
    why: str  # GROW, SHRINK or REVERT


@dataclass(frozen=True)
class SetLimit:
    node: str
    limit: Amount


Action = Union[Resize, SetLimit]


@dataclass
class _Ask:
    action: Action
    at: float
    again: bool = False  # it was refused, or its fate is unknown
    words: str = ""
    retry_at: Optional[float] = None


@dataclass(frozen=True)
class _Ending:
    """The outcome of a node whose balloon is being put back to `size`."""

    outcome: str
    why: BallastError
    asked: Amount
    size: Amount
    since: float


class Course:
    """`phase` and `wake` are those of the last look. `node` is as last seen; None was never seen."""

    def __init__(self, name: str, target: Amount, *, grow_timeout: float) -> None:
        self.name = name
        self.target = target
        self.phase = BUSY
        self.wake: Optional[float] = None
        self.node: Optional[Node] = None
        self.outcome: Optional[Outcome] = None
        self._grow_timeout = grow_timeout
        self._before: Optional[Amount] = None
        self._ask: Optional[_Ask] = None
        self._last_asked: Optional[Amount] = None
        self._ending: Optional[_Ending] = None
        self._unsettled: Optional[Amount] = None  # a balloon's desired size, since `_unsettled_since`
        self._unsettled_since = 0.0
        self._waits_since: Optional[float] = None
        self._gone_since: Optional[float] = None
        self._turns = 0
        self._pauses = 0

    def counted(self) -> Optional[Node]:
        """The node as it may be already or become of itself: with what was asked, as long as nobody knows what became of it."""
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
        """Judge the facts; None for `node`: the cluster does not have it. Returns what puts its balloon back, if that is due."""
        self.wake = None
        self.node = node or self.node
        if self._before is None and self.node is not None:
            self._before = _allocated(self.node)
        if self.outcome is not None:
            return None
        self.phase = BUSY
        if node is None:
            self._await_node(now)
            return None
        self._gone_since = None
        if self._ask is not None and not self._answered(self._ask, node, now):
            return None
        self._ask = None
        if self._turns > _MOST_TURNS:
            self._finish(FAILED, texts.contended(self.name, self._turns, ""))
            return None
        if self._ending is not None:
            self._end(self._ending, node, now)
            return None
        return self._judge(node, now)

    def ask(self, action: Action, now: float) -> Action:
        self._ask = _Ask(action, now)
        self._last_asked = action.size if isinstance(action, Resize) else None
        self._turns += 1
        self.phase = BUSY
        self._wake_at(now + _answer_seconds(action))
        return action

    def repeat(self, now: float) -> list[Action]:
        """What was asked, once more; nothing where nothing was."""
        if self._ask is None:
            return []
        self._pauses += 1
        return [self.ask(self._ask.action, now)]

    def begin(self, move: Move, now: float) -> Action:
        if move.what == LIMIT:
            return self.ask(SetLimit(self.name, move.after), now)
        if self.node is None or self.node.balloon is None:
            raise ValueError(f"{self.name} has no balloon to resize")
        balloon = self.node.balloon
        why = SHRINK if move.after.fits_in(move.before) else GROW
        return self.ask(_resize(self.name, balloon, move.after, why if balloon.state not in _PENDING else REVERT), now)

    def refused(self, words: str, *, again: bool) -> None:
        ask, self._ask = self._ask, None
        if ask is None or self.outcome is not None:
            self._ask = ask
            return
        if again:
            self._ask = replace(ask, again=True, words=words, retry_at=None)
        elif isinstance(ask.action, SetLimit):
            self._finish(FAILED, texts.limit_refused(self.name, ask.action.limit, words))
        elif self._ending is not None:
            ending = self._ending
            self._finish(FAILED, texts.not_put_back(self.name, ending.asked, ending.size, words))
        else:
            self._finish(REJECTED, texts.rejected(self.name, ask.action.size, words))

    def block(self, why: BallastError) -> None:
        """The others leave no room for it."""
        self._finish(BLOCKED, why)

    def _answered(self, ask: _Ask, node: Node, now: float) -> bool:
        """Whether the facts say what became of it: a pod that is another now either has that size, or will never get it by that."""
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
                self._ending = None  # it may have been granted meanwhile
            return True
        if ask.again:
            self._pause(ask, now)
        elif now >= ask.at + _answer_seconds(action):
            asked = action.limit if isinstance(action, SetLimit) else action.size
            self._finish(FAILED, texts.api_silent(self.name, asked, now - ask.at))
        else:
            self._wake_at(ask.at + _answer_seconds(action))
        return False

    def _pause(self, ask: _Ask, now: float) -> None:
        if self._turns > _MOST_TURNS:
            self._finish(FAILED, texts.contended(self.name, self._turns, ask.words))
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
            self._finish(FAILED, texts.node_gone(self.name, ANSWER_SECONDS))
        else:
            self._wake_at(self._gone_since + ANSWER_SECONDS)

    def _judge(self, node: Node, now: float) -> Optional[Resize]:
        balloon = node.balloon
        if balloon is None or balloon.state == STARTING:
            if self._waited(START_SECONDS, now):
                self._finish(FAILED, texts.not_started(node, START_SECONDS))
            return None
        if is_at_target(node, self.target):
            self._finish(DONE, None)
        elif not can_resize(node):
            self._finish(REJECTED, texts.kubelet_old(node))
        elif next_move(node, self.target) is not None:
            self._waits_since = self._unsettled = None
            self.phase = FREE
        elif balloon.state == SETTLED and may_preempt(node, self.target):
            self._finish(REJECTED, texts.would_preempt(node))
        elif balloon.state != SETTLED:
            return self._wait_for_kubelet(node, balloon, now)
        elif self._waited(ANSWER_SECONDS, now):
            self._finish(FAILED, texts.node_unready(node, balloon, ANSWER_SECONDS))
        return None

    def _waited(self, seconds: float, now: float) -> bool:
        """Whether this node could not begin for so long."""
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
            return self._put_back(INFEASIBLE_OUTCOME, texts.infeasible(node, balloon), balloon, now)
        seconds = self._grow_timeout if balloon.state == DEFERRED else ANSWER_SECONDS
        if now < self._unsettled_since + seconds:
            self._wake_at(self._unsettled_since + seconds)
            return None
        if not node.ready:
            return self._put_back(FAILED, texts.node_unready(node, balloon, seconds), balloon, now)
        if balloon.state == DEFERRED:
            text = texts.reverted(node, balloon, self.target)
            return self._put_back(REVERTED, text, balloon, now)
        if balloon.state == ASKED:
            return self._put_back(FAILED, texts.unanswered(node, balloon, seconds), balloon, now)
        self._finish(FAILED, texts.not_actuated(node, balloon, seconds))
        return None

    def _put_back(self, outcome: str, why: BallastError, balloon: Balloon, now: float) -> Optional[Resize]:
        """What was to shrink and was not answered stays asked: see `granted`."""
        size = granted(balloon)
        if size == balloon.desired:
            self._finish(outcome, why)
            return None
        self._ending = _Ending(outcome, why, balloon.desired, size, now)
        return _resize(self.name, balloon, size, REVERT)

    def _end(self, ending: _Ending, node: Node, now: float) -> None:
        """A grant that came late makes this a shrink, which always succeeds, but takes its time."""
        balloon = node.balloon
        under_way = balloon is not None and balloon.desired == ending.size and balloon.state not in (SETTLED, STARTING)
        if under_way and now < ending.since + ANSWER_SECONDS:
            self._wake_at(ending.since + ANSWER_SECONDS)
        else:
            self._finish(ending.outcome, ending.why)

    def _finish(self, outcome: str, why: Optional[BallastError]) -> None:
        after = _allocated(self.node)
        self.phase = OVER
        self.wake = None
        self.outcome = Outcome(self.name, outcome, after if self._before is None else self._before, after, why)

    def _wake_at(self, time: float) -> None:
        self.wake = time if self.wake is None else min(self.wake, time)


def _allocated(node: Optional[Node]) -> Amount:
    return NONE if node is None or node.balloon is None else node.balloon.allocated


def _answer_seconds(action: Action) -> float:
    return LIMIT_SECONDS if isinstance(action, SetLimit) else ANSWER_SECONDS


def _resize(node: str, balloon: Balloon, size: Amount, why: str) -> Resize:
    return Resize(node, balloon.namespace, balloon.name, balloon.resource_version, size, why)
