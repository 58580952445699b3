# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes the reconciler keeps at a target, and which of them are to be moved now. Pure.

A node whose attempt did not end well waits: `first` seconds, then each time twice as long, up to `most`. It waits `first`
alone once there is room for what was reverted, or somebody gave the room that it was blocked for; and not at all when its
target, or its balloon, is another one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..amount import Amount
from ..facts import BLOCKED, DONE, REVERTED, STARTING, Fleet, Node, Outcome
from ..moves import is_at_target, next_moves
from .settings import Retry


@dataclass(frozen=True)
class Attempt:
    """The last one of a node that did not come to `target`; `times` counts those with one target and one balloon."""

    outcome: Outcome
    target: Amount
    balloon: str  # its uid
    at: float  # when it was over, by a clock that only goes forward
    times: int = 1


Attempts = Mapping[str, Attempt]


@dataclass(frozen=True)
class Known:
    """The target that a node was last seen with, and the uid that the Node had."""

    uid: str
    target: Amount


def kept_targets(fleet: Fleet, names: Collection[str], known: Mapping[str, Known]) -> dict[str, Amount]:
    """As annotated; of the nodes of `names`, or of all where that is empty.

    A Node that has registered anew since it was seen with a target has lost the annotation with the rest of the old object,
    and keeps the target. One whose annotation was taken away has none any more.
    """
    found = {}
    for node in fleet.nodes.values():
        before = known.get(node.name)
        target = before.target if node.target is None and before and before.uid != node.uid else node.target
        if target is not None and (not names or node.name in names):
            found[node.name] = target
    return found


def known_targets(fleet: Fleet, known: Mapping[str, Known]) -> dict[str, Known]:
    """What is to be remembered from now on: what is annotated, and what was, of nodes that are away or new."""
    found = {name: row for name, row in known.items() if name not in fleet.nodes or fleet.nodes[name].uid != row.uid}
    found.update({node.name: Known(node.uid, node.target) for node in fleet.nodes.values() if node.target is not None})
    return found


def at_target(fleet: Fleet, targets: Mapping[str, Amount]) -> frozenset[str]:
    return frozenset(name for name, target in targets.items() if is_at_target(fleet.nodes[name], target))


def to_move(
    fleet: Fleet, targets: Mapping[str, Amount], attempts: Attempts, now: float, retry: Retry
) -> dict[str, Amount]:
    """Nodes that are not at their target, have a balloon, and are due. One that is not Ready can do nothing."""
    dues = next_due(fleet, targets, attempts, retry)
    return {name: targets[name] for name, due in dues.items() if due <= now}


def next_due(fleet: Fleet, targets: Mapping[str, Amount], attempts: Attempts, retry: Retry) -> dict[str, float]:
    """Of each node that is not at its target and has a balloon: when it is due; 0 is at once."""
    return {name: _due_at(fleet, targets, attempts, name, retry) for name in _apart(fleet, targets)}


def noted(attempts: Attempts, outcome: Outcome, node: Node, target: Amount, now: float) -> dict[str, Attempt]:
    """The attempts with one more outcome. A node that is at its target has none."""
    others = {name: attempt for name, attempt in attempts.items() if name != node.name}
    if outcome.outcome == DONE:
        return others
    before = attempts.get(node.name)
    times = before.times + 1 if before and _is_of(before, node, target) else 1
    return {**others, node.name: Attempt(outcome, target, _uid(node), now, times)}


def still_true(fleet: Fleet, targets: Mapping[str, Amount], attempts: Attempts) -> dict[str, Attempt]:
    """Without those of nodes that came to their target, or have another target or balloon."""
    apart = _apart(fleet, targets, ready_only=False)
    return {
        name: attempt
        for name, attempt in attempts.items()
        if name in apart and _is_of(attempt, fleet.nodes[name], targets[name])
    }


def _apart(fleet: Fleet, targets: Mapping[str, Amount], *, ready_only: bool = True) -> dict[str, Amount]:
    found = {}
    for name, target in sorted(targets.items()):
        node = fleet.nodes[name]
        there = node.balloon is not None and node.balloon.state != STARTING
        if there and (node.ready or not ready_only) and not is_at_target(node, target):
            found[name] = target
    return found


def _due_at(fleet: Fleet, targets: Mapping[str, Amount], attempts: Attempts, name: str, retry: Retry) -> float:
    attempt, node, target = attempts.get(name), fleet.nodes[name], targets[name]
    if attempt is None or not _is_of(attempt, node, target):
        return 0.0
    longest = max(retry.first, retry.most)
    # 2 ** 30 seconds are longer than any wait.
    seconds = min(retry.first * 2.0 ** min(attempt.times - 1, 30), longest)
    return attempt.at + (retry.first if _has_room_now(fleet, targets, attempt, node) else seconds)


def _has_room_now(fleet: Fleet, targets: Mapping[str, Amount], attempt: Attempt, node: Node) -> bool:
    if attempt.outcome.outcome == REVERTED:
        left = node.allocatable - node.requested
        return node.balloon_for(attempt.target).fits_in(left)
    if attempt.outcome.outcome == BLOCKED:
        return any(move.node == node.name for move in next_moves(fleet, {node.name: targets[node.name]}, ()))
    return False


def _is_of(attempt: Attempt, node: Node, target: Amount) -> bool:
    return (attempt.target, attempt.balloon) == (target, _uid(node))


def _uid(node: Node) -> str:
    return node.balloon.uid if node.balloon else ""
