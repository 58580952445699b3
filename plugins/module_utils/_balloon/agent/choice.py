# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes the reconciler keeps at a target, and which of them to resize now. Pure.

After a failed attempt a node waits `first` seconds, then twice as long each time, up to `most`. It waits only `first` once a
reverted or blocked resize has capacity, and not at all when its target or its balloon has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..cluster.facts import BLOCKED, DONE, REVERTED, STARTING, Fleet, Node, Outcome
from ..resize.resize_steps import is_at_target, next_steps
from ..sizing.resources import Resources
from .settings import Retry


@dataclass(frozen=True)
class Attempt:
    """The last attempt of a node that did not reach `target`; `times` counts those with the same target and balloon."""

    outcome: Outcome
    target: Resources
    balloon: str  # its uid
    at: float  # when it ended, by a monotonic clock
    times: int = 1


Attempts = Mapping[str, Attempt]


@dataclass(frozen=True)
class Known:
    """The target of a node when last seen, and the uid that the Node had."""

    uid: str
    target: Resources


def kept_targets(fleet: Fleet, names: Collection[str], known: Mapping[str, Known]) -> dict[str, Resources]:
    """The annotated targets of the nodes in `names`, or of all nodes if that is empty.

    A Node that registered again after it had a target lost the annotation with the old object, and keeps the target. A Node
    whose annotation was removed has no target.
    """
    kept = {}
    for node in fleet.nodes.values():
        before = known.get(node.name)
        target = before.target if node.target is None and before and before.uid != node.uid else node.target
        if target is not None and (not names or node.name in names):
            kept[node.name] = target
    return kept


def known_targets(fleet: Fleet, known: Mapping[str, Known]) -> dict[str, Known]:
    """What to remember: the annotated targets, and the former ones of nodes that are away or registered again."""
    rows = {name: row for name, row in known.items() if name not in fleet.nodes or fleet.nodes[name].uid != row.uid}
    rows.update({node.name: Known(node.uid, node.target) for node in fleet.nodes.values() if node.target is not None})
    return rows


def at_target(fleet: Fleet, targets: Mapping[str, Resources]) -> frozenset[str]:
    """Names of those nodes that have their target, with no resize under way. The fleet must have each of them."""
    return frozenset(name for name, target in targets.items() if is_at_target(fleet.nodes[name], target))


def due_targets(
    fleet: Fleet, targets: Mapping[str, Resources], attempts: Attempts, now: float, retry: Retry
) -> dict[str, Resources]:
    """Ready nodes that are not at their target, have a balloon, and are due."""
    dues = next_due(fleet, targets, attempts, retry)
    return {name: targets[name] for name, due in dues.items() if due <= now}


def next_due(fleet: Fleet, targets: Mapping[str, Resources], attempts: Attempts, retry: Retry) -> dict[str, float]:
    """When each Ready node with a balloon that is not at its target is due, by the clock of `Attempt.at`; 0 is at once."""
    return {name: _due_at(fleet, targets, attempts, name, retry) for name in _apart(fleet, targets)}


def note_outcome(attempts: Attempts, outcome: Outcome, node: Node, target: Resources, now: float) -> dict[str, Attempt]:
    """The attempts with this outcome. A node at its target has no attempt."""
    others = {name: attempt for name, attempt in attempts.items() if name != node.name}
    if outcome.outcome == DONE:
        return others
    before = attempts.get(node.name)
    times = before.times + 1 if before and _is_of(before, node, target) else 1
    return {**others, node.name: Attempt(outcome, target, _uid(node), now, times)}


def keep_current(fleet: Fleet, targets: Mapping[str, Resources], attempts: Attempts) -> dict[str, Attempt]:
    """Without the attempts of nodes that reached their target, or have another target or balloon."""
    apart = _apart(fleet, targets, ready_only=False)
    return {
        name: attempt
        for name, attempt in attempts.items()
        if name in apart and _is_of(attempt, fleet.nodes[name], targets[name])
    }


def _apart(fleet: Fleet, targets: Mapping[str, Resources], *, ready_only: bool = True) -> dict[str, Resources]:
    apart = {}
    for name, target in sorted(targets.items()):
        node = fleet.nodes[name]
        there = node.balloon is not None and node.balloon.state != STARTING
        if there and (node.ready or not ready_only) and not is_at_target(node, target):
            apart[name] = target
    return apart


def _due_at(fleet: Fleet, targets: Mapping[str, Resources], attempts: Attempts, name: str, retry: Retry) -> float:
    attempt, node, target = attempts.get(name), fleet.nodes[name], targets[name]
    if attempt is None or not _is_of(attempt, node, target):
        return 0.0
    longest = max(retry.first, retry.most)
    # 2 ** 30 seconds exceed any wait.
    seconds = min(retry.first * 2.0 ** min(attempt.times - 1, 30), longest)
    return attempt.at + (retry.first if _has_room_now(fleet, targets, attempt, node) else seconds)


def _has_room_now(fleet: Fleet, targets: Mapping[str, Resources], attempt: Attempt, node: Node) -> bool:
    if attempt.outcome.outcome == REVERTED:
        left = node.allocatable - node.requested
        return node.balloon_for(attempt.target).fits_in(left)
    if attempt.outcome.outcome == BLOCKED:
        return any(step.node == node.name for step in next_steps(fleet, {node.name: targets[node.name]}, ()))
    return False


def _is_of(attempt: Attempt, node: Node, target: Resources) -> bool:
    return (attempt.target, attempt.balloon) == (target, _uid(node))


def _uid(node: Node) -> str:
    return node.balloon.uid if node.balloon else ""
