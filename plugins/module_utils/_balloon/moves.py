# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What may be moved next, so that a host never promises what it has not. Pure.

What holds, for every host and each resource, whatever succeeds, fails or is broken off:

    I1  sum(open) <= capacity - reserve
    I2  sum(limit - overhead) <= capacity - reserve    where nodes have limits
    I3  open <= limit - overhead                       of each node that has a limit

Where it does not hold, as on a host whose balloons are at their floor still, no move makes it worse.

A node is moved in up to four steps, and each begins when what the one before made is there:

    1  its balloon grows             in each resource in which it is too small
    2  its limit is lowered          by what that gave
    3  its limit is raised           when the host has room
    4  its balloon shrinks           when the host has room

1 and 2 give, and may begin at any time; 3 and 4 take. Those that take begin together only if there is room for all of
them, so that it does not matter which succeed. A node that gives one resource and takes the other gives first: so two
nodes that trade never wait for each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Optional

from .amount import FLOOR, NONE, Amount, total
from .facts import ACTUATING, ASKED, CRITICAL, DEFERRED, INFEASIBLE, SETTLED, STARTING, Balloon, Fleet, Node

BALLOON, LIMIT = "balloon", "limit"
# Pods are resized in place by default from this kubelet on (KEP-1287).
RESIZES_SINCE = (1, 33)
# A limit is what a kernel can keep: whole pages, of up to 64 KiB, and a CPU quota of at least 1 ms in 100 ms.
_PAGE = 2**16
_LEAST_CPU = 10


@dataclass(frozen=True)
class Move:
    """`before` and `after` are sizes of the balloon, or limits."""

    node: str
    what: str  # BALLOON or LIMIT
    before: Amount
    after: Amount


def left_to_promise(nodes: Iterable[Node], room: Amount) -> Amount:
    """I1 of the nodes of one host: negative in a resource that is oversold."""
    return room - total(node.open for node in nodes)


def left_to_limits(nodes: Collection[Node], room: Amount) -> Amount:
    """I2 of the nodes of one host. One without a limit counts by what it may promise; without any limit this is I1."""
    return room - total(node.left_by_limit for node in nodes)


def within_limit(node: Node) -> bool:
    """I3, but for the part of a page by which `limit_for` is lower."""
    return node.open.fits_in(node.left_by_limit + Amount(0, _PAGE - 1))


def holds(fleet: Fleet, host: str) -> bool:
    """I1, I2 and I3."""
    nodes, room = fleet.of_host(host), fleet.room(host)
    sums = (left_to_promise(nodes, room), left_to_limits(nodes, room))
    return all(NONE.fits_in(left) for left in sums) and all(map(within_limit, nodes))


def limit_for(node: Node, target: Amount) -> Amount:
    """Rounded down: up, all of them together might be more than the host has. Of memory alone where it is so now."""
    whole = target + node.overhead
    memory_alone = node.limit is not None and not node.limit.cpu
    return Amount(0 if memory_alone else max(whole.cpu, _LEAST_CPU), whole.memory - whole.memory % _PAGE)


def can_resize(node: Node) -> bool:
    return node.version >= RESIZES_SINCE


def may_preempt(node: Node, target: Amount) -> bool:
    """Whether the growth of this balloon could cost pods their place: it is critical, and its Node does not forbid that a
    resize preempts, which one that has registered anew was not told yet (KEP-5836)."""
    balloon = node.balloon
    if balloon is None or balloon.priority < CRITICAL or node.forbids_preemption:
        return False
    return not node.balloon_for(target).fits_in(granted(balloon))


def granted(balloon: Balloon) -> Amount:
    """The size from which its next move starts, and to which a resize that cannot be is put back.

    What is asked for and less than is allocated, a kubelet may grant at any time, unless it has said that it never will: it
    counts as granted. To ask for more again before the kubelet has answered would leave in doubt what the node has.
    """
    if balloon.state == INFEASIBLE:
        return balloon.allocated
    return balloon.desired.least(balloon.allocated) if balloon.state in (ASKED, DEFERRED) else balloon.desired


def is_at_target(node: Node, target: Amount) -> bool:
    """Nothing is left to move, and nothing is under way."""
    balloon = node.balloon
    return (
        balloon is not None
        and balloon.state == SETTLED
        and balloon.desired == node.balloon_for(target)
        and node.limit in (None, limit_for(node, target))
    )


def next_move(node: Node, target: Amount) -> Optional[Move]:
    """The next step of this node, the room of its host aside. None where it is at its target, or must be waited for.

    What it must be waited for: its kubelet, a balloon that is not there yet, an answer to a resize. What was asked and is
    not granted, and is not what this target takes, is put back first.
    """
    balloon = node.balloon
    if balloon is None or balloon.state in (STARTING, ASKED, ACTUATING) or not (node.ready and can_resize(node)):
        return None
    size, wanted = granted(balloon), node.balloon_for(target)
    larger = size.most(wanted)
    if balloon.state in (DEFERRED, INFEASIBLE):
        return None if balloon.desired in (larger, size) else _resize(node, balloon.desired, size)
    if larger != size:
        return None if may_preempt(node, target) else _resize(node, size, larger)
    limit = _next_limit(node, target)
    if limit is not None:
        return limit if balloon.state == SETTLED else None
    return _resize(node, size, wanted) if wanted != size else None


def _resize(node: Node, before: Amount, after: Amount) -> Move:
    return Move(node.name, BALLOON, before, after)


def _next_limit(node: Node, target: Amount) -> Optional[Move]:
    """Lowered in one resource before it is raised in the other."""
    if node.limit is None:
        return None
    limit = limit_for(node, target)
    for after in (node.limit.least(limit), limit):
        if after != node.limit:
            return Move(node.name, LIMIT, node.limit, after)
    return None


@dataclass(frozen=True)
class _Taken:
    """What a move takes of the host's room, at most: `promise` of I1, `limit` of I2. A raised limit counts as used at once."""

    promise: Amount
    limit: Amount


def _taken(node: Node, target: Amount, move: Move) -> _Taken:
    if move.what == LIMIT:
        more = (move.after - move.before).most(NONE)
        # Raised for a balloon that could not shrink then, it would only keep others from theirs.
        wanted = (node.allocatable - node.balloon_for(target) - node.open).most(NONE) if more != NONE else NONE
        return _Taken(wanted, more)
    more = (node.allocatable - move.after - node.open).most(NONE)
    return _Taken(more, more if node.limit is None else NONE)


def moves_of_host(
    nodes: Sequence[Node], room: Amount, targets: Mapping[str, Amount], given_up: Collection[str]
) -> list[Move]:
    """As `next_moves`, of the nodes of one host. Those that give come first; room goes to the others in their order."""
    moves: list[Move] = []
    takes: list[tuple[Move, _Taken]] = []
    for node in nodes:
        target = None if node.name in given_up else targets.get(node.name)
        move = None if target is None else next_move(node, target)
        if target is not None and move is not None:
            taken = _taken(node, target, move)
            if taken == _Taken(NONE, NONE):
                moves.append(move)
            else:
                takes.append((move, taken))
    if not takes:
        return moves
    promise = left_to_promise(nodes, room).most(NONE)
    limits = left_to_limits(nodes, room).most(NONE)
    for move, taken in takes:
        if taken.promise.fits_in(promise) and taken.limit.fits_in(limits):
            promise, limits = promise - taken.promise, limits - taken.limit
            moves.append(move)
    return moves


def has_room_for(before: Node, nodes: Collection[Node], room: Amount) -> bool:
    """Whether it is no oversale that one of the host's `nodes` counts more than it did as `before`."""
    after = next(node for node in nodes if node.name == before.name)
    promise = _is_covered(after.open - before.open, left_to_promise(nodes, room))
    return promise and _is_covered(after.left_by_limit - before.left_by_limit, left_to_limits(nodes, room))


def _is_covered(more: Amount, left: Amount) -> bool:
    """In each resource, nothing more, or nothing lacking."""
    return more.least(NONE - left).fits_in(NONE)


def next_moves(fleet: Fleet, targets: Mapping[str, Amount], given_up: Collection[str]) -> tuple[Move, ...]:
    """What may begin now, all of it at once and in any order. Empty where everything is at its target or waited for."""
    moves: list[Move] = []
    for host, nodes in fleet.by_host.items():
        moves += moves_of_host(nodes, fleet.room(host), targets, given_up)
    return tuple(moves)


def planned(fleet: Fleet, targets: Mapping[str, Amount]) -> tuple[Move, ...]:
    """All moves, in order, as if each succeeded, and each node were ready and had its balloon.

    Those of nodes too old to resize, or without room in the end, are left out.
    """
    fleet = replace(
        fleet, nodes={name: _as_if_settled(node) if name in targets else node for name, node in fleet.nodes.items()}
    )
    moves: list[Move] = []
    while True:
        begun = next_moves(fleet, targets, ())
        if not begun:
            return tuple(moves)
        moves += begun
        fleet = replace(fleet, nodes={**fleet.nodes, **{move.node: _moved(fleet, move) for move in begun}})


def _as_if_settled(node: Node) -> Node:
    balloon = node.balloon
    if balloon is None or balloon.state == STARTING:
        return replace(node, ready=True, balloon=_settled(Balloon("", "", "", "", FLOOR, FLOOR, FLOOR, SETTLED), FLOOR))
    return replace(node, ready=True, balloon=_settled(balloon, granted(balloon)))


def _moved(fleet: Fleet, move: Move) -> Node:
    node = fleet.nodes[move.node]
    if move.what == LIMIT:
        return replace(node, limit=move.after)
    if node.balloon is None:
        raise ValueError(f"{node.name} has no balloon to resize")
    return replace(node, balloon=_settled(node.balloon, move.after))


def _settled(balloon: Balloon, size: Amount) -> Balloon:
    return replace(balloon, desired=size, allocated=size, actual=size, state=SETTLED)
