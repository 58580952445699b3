# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From facts to actions, until each node has an outcome. No I/O, and no clock but the one it is told.

    steering = Steering(targets, grow_timeout=30.0)
    while not steering.finished:
        for action in steering.decide(fleet, now):
            carry it out; on a refusal steering.refused(action.node, text, again=...)
        wait for a change of facts, or until steering.wake

What becomes of a node:

                        +-- no kubelet, no balloon, in time ---> failed
                        +-- no resize in this version ---------> rejected
                        +-- no room, and nobody to give it ----> blocked
        at its target   |
    done <---------- waiting <------ settled, or a conflict -----+
                        |                                        |
                        +--- the next move (`moves.py`) ---> asked
                                                                 |
              rejected, or failed for a limit <--- refused ------+
              failed <---------- no answer of a kubelet in time -+
              put back: reverted <--- deferred for grow_timeout -+
              put back: infeasible <----------- infeasible ------+

What is asked counts from the moment on in which it is decided, whether it was seen or not: an action is under way until the
facts show another resourceVersion of the pod, or another limit. So two receivers never get the same room, and an action of
which nobody knows whether it was carried out can be repeated, since a PATCH with an old resourceVersion has no effect.

Nothing is kept between runs. What an earlier one left under way is judged as if it had been asked now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Optional, Union

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
    Fleet,
    Node,
    Outcome,
)
from .moves import (
    LIMIT,
    RESIZES_SINCE,
    Move,
    can_resize,
    granted,
    is_at_target,
    left_to_limits,
    left_to_promise,
    moves_of_host,
    next_move,
)

GROW, SHRINK, REVERT = "grow", "shrink", "revert"


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


class Steering:
    """`outcomes` of nodes that are through; `wake`: decide again at that time even if nothing changed, None for never."""

    def __init__(self, targets: Mapping[str, Amount], *, grow_timeout: float) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.wake: Optional[float] = None

    @property
    def finished(self) -> bool:
        raise NotImplementedError

    def decide(self, fleet: Fleet, now: float) -> tuple[Action, ...]:
        """What is to be done now. Call it after every change of facts, after a refusal, and at `wake`.

        `now` is of a clock that only goes forward. What is under way is not asked for twice. Facts must be as new as the end
        of the last run at least; after that they may be late, node by node.
        """
        raise NotImplementedError

    def refused(self, node: str, text: str, *, again: bool) -> None:
        """What was asked of this node was not done. `again`: it conflicted, or its fate is unknown; decide anew."""
        raise NotImplementedError
