# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a person reads of a node that did not come to its target: what was asked, what is there, what to do. Pure.

Each is a whole message with its id, see `steering_messages.py`. The words of a kubelet and of an API server are data, cut short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from .._core.errors import BallastError, last_lines, shorten
from .amount import NONE, Amount
from .facts import Balloon, Node, Outcome, Pod, told_limit
from .moves import RESIZES_SINCE, granted, left_to_limits, left_to_promise
from .steering_messages import MESSAGES

_NAMED = 5  # pods or nodes, of those that hold the room


def reverted(node: Node, balloon: Balloon, target: Amount) -> BallastError:
    requested = node.requested
    lacking = (requested - target).most(NONE)
    pods = sorted(node.pods, key=lambda pod: _weight(pod.requests, lacking), reverse=True)
    found = [
        *_words(balloon),
        f"pods request {requested}, and the target leaves them {target}",
        *_listed("largest: ", [_named(pod) for pod in pods]),
    ]
    return _text("balloon-reverted", found, node=node.name, asked=balloon.desired, size=granted(balloon))


def infeasible(node: Node, balloon: Balloon) -> BallastError:
    return _text("balloon-infeasible", _words(balloon), node=node.name, asked=balloon.desired, size=granted(balloon))


def rejected(node: str, asked: Amount, words: str) -> BallastError:
    return _text("balloon-rejected", [_short(words)], node=node, asked=asked)


def kubelet_old(node: Node) -> BallastError:
    version = ".".join(map(str, node.version))
    since = ".".join(map(str, RESIZES_SINCE))
    return _text(
        "balloon-kubelet-old", [f"version {version}, and {since} is the first"], node=node.name, version=version
    )


def would_preempt(node: Node) -> BallastError:
    return _text("balloon-would-preempt", [], node=node.name)


def blocked(
    node: Node,
    target: Amount,
    others: Sequence[Node],
    room: Amount,
    targets: Mapping[str, Amount],
    outcomes: Mapping[str, Outcome],
) -> BallastError:
    """`others`: all nodes of the host, as they count."""
    wanted = node.allocatable - node.balloon_for(target)
    left = left_to_promise(others, room).least(left_to_limits(others, room)).most(NONE)
    more = (wanted - node.open).most(NONE)
    lacking = (more - left).most(NONE)
    holders = []
    for other in others:
        beyond = (other.open - targets.get(other.name, NONE)).most(NONE)
        if other.name != node.name and beyond != NONE:
            holders.append((_weight(beyond, lacking), _holder(other, targets, outcomes)))
    holders.sort(reverse=True)
    found = _listed("", [text for _weight, text in holders]) or ["no node there has more than its target"]
    return _text("balloon-blocked", found, node=node.name, host=node.host, more=more, left=left)


def limit_refused(node: str, limit: Amount, words: str) -> BallastError:
    return _text("balloon-limit-refused", [_short(words)], node=node, limit=told_limit(limit))


def not_started(node: Node, seconds: float) -> BallastError:
    there = f"pod {node.balloon.name} has not started" if node.balloon else "no balloon pod"
    found = [there, *_words(node.balloon), *([] if node.ready else ["the node is not Ready"])]
    return _text("balloon-not-started", found, node=node.name, seconds=f"{seconds:.0f}")


def node_gone(node: str, seconds: float) -> BallastError:
    return _text("balloon-node-gone", [], node=node, seconds=f"{seconds:.0f}")


def node_unready(node: Node, balloon: Balloon, seconds: float) -> BallastError:
    found = [*_words(balloon), *_asked(balloon)]
    return _text("balloon-node-unready", found, node=node.name, seconds=f"{seconds:.0f}", size=balloon.allocated)


def unanswered(node: Node, balloon: Balloon, seconds: float) -> BallastError:
    found = [f"allocated: {balloon.allocated}"]
    return _text("balloon-unanswered", found, node=node.name, asked=balloon.desired, seconds=f"{seconds:.0f}")


def not_actuated(node: Node, balloon: Balloon, seconds: float) -> BallastError:
    found = [*_words(balloon), f"actual: {balloon.actual}"]
    return _text("balloon-not-actuated", found, node=node.name, asked=balloon.desired, seconds=f"{seconds:.0f}")


def not_put_back(node: str, asked: Amount, size: Amount, words: str) -> BallastError:
    return _text("balloon-not-put-back", [_short(words)], node=node, asked=asked, size=size)


def contended(node: str, tries: int, words: str) -> BallastError:
    return _text("balloon-contended", [_short(words)] if words else [], node=node, tries=tries)


def api_silent(node: str, asked: Amount, seconds: float) -> BallastError:
    return _text("balloon-api-silent", [], node=node, asked=asked, seconds=f"{seconds:.0f}")


def _text(id: str, found: Sequence[str], **fields: object) -> BallastError:
    return MESSAGES.error(id, found="; ".join(found), **fields)


def _short(words: str) -> str:
    return shorten(last_lines(words).replace("\n", " "))


def _words(balloon: Optional[Balloon]) -> list[str]:
    return [_short(balloon.message)] if balloon is not None and balloon.message else []


def _asked(balloon: Balloon) -> list[str]:
    return [] if balloon.desired == balloon.allocated else [f"asked for: {balloon.desired}"]


def _weight(amount: Amount, lacking: Amount) -> tuple[int, int]:
    """To sort by what is lacking; by both where nothing is."""
    if lacking == NONE:
        return amount.cpu, amount.memory
    return amount.cpu if lacking.cpu else 0, amount.memory if lacking.memory else 0


def _named(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name} {pod.requests}, priority {pod.priority}"


def _holder(node: Node, targets: Mapping[str, Amount], outcomes: Mapping[str, Outcome]) -> str:
    target = targets.get(node.name)
    if target is None:
        return f"{node.name} may promise {node.open}, and is not to be moved"
    outcome = outcomes.get(node.name)
    became = f", {outcome.outcome}" if outcome is not None else ""
    return f"{node.name} may promise {node.open}, with a target of {target}{became}"


def _listed(head: str, texts: Sequence[str]) -> list[str]:
    """One item: the first few, and a count of the others. None without any."""
    if not texts:
        return []
    more = len(texts) - _NAMED
    return [head + "; ".join([*texts[:_NAMED], *([f"and {more} more"] if more > 0 else [])])]
