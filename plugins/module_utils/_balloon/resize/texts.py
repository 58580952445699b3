# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors for nodes that did not reach their target: what was requested, what was found, what to do. Pure.

`messages.py` has the texts. Messages of a kubelet or an API server are untrusted data, and are shortened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from ..._core.text.errors import BallastError, last_lines, shorten
from ..cluster.facts import Balloon, Node, Outcome, Pod, format_limit
from ..sizing.resources import NONE, Resources
from .messages import MESSAGES
from .resize_steps import RESIZES_SINCE, granted_size, left_to_limits, left_to_promise

_NAMED = 5  # pods or nodes that hold the capacity and are named


def reverted_error(node: Node, balloon: Balloon, target: Resources) -> BallastError:
    requested = node.requested
    lacking = (requested - target).most(NONE)
    pods = sorted(node.pods, key=lambda pod: _weight(pod.requests, lacking), reverse=True)
    details = [
        *_words(balloon),
        f"pods request {requested}, and the target leaves them {target}",
        *_list_some("largest: ", [_describe_pod(pod) for pod in pods]),
    ]
    return _error("balloon-reverted", details, node=node.name, asked=balloon.desired, size=granted_size(balloon))


def infeasible_error(node: Node, balloon: Balloon) -> BallastError:
    return _error(
        "balloon-infeasible", _words(balloon), node=node.name, asked=balloon.desired, size=granted_size(balloon)
    )


def rejected_error(node: str, requested: Resources, words: str) -> BallastError:
    """`words` are those of the refusal, as in the errors below."""
    return _error("balloon-rejected", [_one_line(words)], node=node, asked=requested)


def kubelet_old_error(node: Node) -> BallastError:
    version = ".".join(map(str, node.version))
    since = ".".join(map(str, RESIZES_SINCE))
    return _error(
        "balloon-kubelet-old", [f"version {version}; {since} is the first that does"], node=node.name, version=version
    )


def would_preempt_error(node: Node) -> BallastError:
    return _error("balloon-would-preempt", [], node=node.name)


def blocked_error(
    node: Node,
    target: Resources,
    others: Sequence[Node],
    unreserved: Resources,
    targets: Mapping[str, Resources],
    outcomes: Mapping[str, Outcome],
) -> BallastError:
    """`others`: all nodes of the host, as the host counts them."""
    goal = node.allocatable - node.balloon_for(target)
    left = left_to_promise(others, unreserved).least(left_to_limits(others, unreserved)).most(NONE)
    more = (goal - node.schedulable).most(NONE)
    lacking = (more - left).most(NONE)
    holders = []
    for other in others:
        beyond = (other.schedulable - targets.get(other.name, NONE)).most(NONE)
        if other.name != node.name and beyond != NONE:
            holders.append((_weight(beyond, lacking), _describe_holder(other, targets, outcomes)))
    holders.sort(reverse=True)
    details = _list_some("", [text for _weight, text in holders]) or ["no node on this host exceeds its target"]
    return _error("balloon-blocked", details, node=node.name, host=node.host, more=more, left=left)


def limit_refused_error(node: str, limit: Resources, words: str) -> BallastError:
    return _error("balloon-limit-refused", [_one_line(words)], node=node, limit=format_limit(limit))


def not_started_error(node: Node, seconds: float) -> BallastError:
    """`seconds` is how long was waited, as in the errors below."""
    there = f"pod {node.balloon.name} has not started" if node.balloon else "no balloon pod"
    details = [there, *_words(node.balloon), *([] if node.ready else ["the node is not Ready"])]
    return _error("balloon-not-started", details, node=node.name, seconds=f"{seconds:.0f}")


def cannot_start_error(node: Node, balloon: Balloon) -> BallastError:
    fields = {"node": node.name, "namespace": balloon.namespace, "pod": balloon.name, "reason": balloon.waiting}
    return _error("balloon-cannot-start", _words(balloon), **fields)


def node_gone_error(node: str, seconds: float) -> BallastError:
    return _error("balloon-node-gone", [], node=node, seconds=f"{seconds:.0f}")


def node_unready_error(node: Node, balloon: Balloon, seconds: float) -> BallastError:
    details = [*_words(balloon), *_unanswered_request(balloon)]
    return _error("balloon-node-unready", details, node=node.name, seconds=f"{seconds:.0f}", size=balloon.allocated)


def unanswered_error(node: Node, balloon: Balloon, seconds: float) -> BallastError:
    details = [f"allocated: {balloon.allocated}"]
    return _error("balloon-unanswered", details, node=node.name, asked=balloon.desired, seconds=f"{seconds:.0f}")


def not_actuated_error(node: Node, balloon: Balloon, seconds: float) -> BallastError:
    details = [*_words(balloon), f"actual: {balloon.actual}"]
    return _error("balloon-not-actuated", details, node=node.name, asked=balloon.desired, seconds=f"{seconds:.0f}")


def not_put_back_error(node: str, requested: Resources, size: Resources, words: str) -> BallastError:
    return _error("balloon-not-put-back", [_one_line(words)], node=node, asked=requested, size=size)


def contended_error(node: str, tries: int, words: str) -> BallastError:
    return _error("balloon-contended", [_one_line(words)] if words else [], node=node, tries=tries)


def api_silent_error(node: str, requested: Resources, seconds: float) -> BallastError:
    return _error("balloon-api-silent", [], node=node, asked=requested, seconds=f"{seconds:.0f}")


def _error(id: str, details: Sequence[str], **fields: object) -> BallastError:
    return MESSAGES.error(id, found="; ".join(details), **fields)


def _one_line(words: str) -> str:
    """The text of an error of this project in one line; foreign parts were shortened when it was made."""
    return words.replace("\n", " ")


def _words(balloon: Optional[Balloon]) -> list[str]:
    """The kubelet's message about the balloon."""
    return [_one_line(shorten(last_lines(balloon.message)))] if balloon is not None and balloon.message else []


def _unanswered_request(balloon: Balloon) -> list[str]:
    return [] if balloon.desired == balloon.allocated else [f"requested: {balloon.desired}"]


def _weight(amount: Resources, lacking: Resources) -> tuple[int, int]:
    """A sort key: the resources that are lacking, or both if none is."""
    if lacking == NONE:
        return amount.cpu, amount.memory
    return amount.cpu if lacking.cpu else 0, amount.memory if lacking.memory else 0


def _describe_pod(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name} {pod.requests}, priority {pod.priority}"


def _describe_holder(node: Node, targets: Mapping[str, Resources], outcomes: Mapping[str, Outcome]) -> str:
    target = targets.get(node.name)
    if target is None:
        return f"{node.name} has {node.schedulable} schedulable and stays unchanged"
    outcome = outcomes.get(node.name)
    became = f", {outcome.outcome}" if outcome is not None else ""
    return f"{node.name} has {node.schedulable} schedulable, with a target of {target}{became}"


def _list_some(head: str, texts: Sequence[str]) -> list[str]:
    """One item: the first few texts, and a count of the others. Empty without texts."""
    if not texts:
        return []
    more = len(texts) - _NAMED
    return [head + "; ".join([*texts[:_NAMED], *([f"and {more} more"] if more > 0 else [])])]
