# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The priority of balloons, and what it takes that none of them ever preempts.

`never-preempt`: a class of our own with preemptionPolicy Never. It is below 2,000,000,000, from where on a kubelet kills pods
for one that grows (k8s.io/kubernetes/pkg/kubelet/preemption), and the scheduler preempts nothing for it.

`node-critical`: system-node-critical, which no pod preempts. From Kubernetes 1.37 on, a pod of it grows without harm to
others where two things hold (KEP-5836): the kubelet has the gate, and so leaves preemption to the scheduler; and the Node's
spec.podPreemptionPolicy.disableResizePreemption names somebody, so that the scheduler does not preempt either. An API
server without the gate drops that field in silence, so that what counts is what it answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .._core.errors import BallastError, PeerError, Problems
from .._core.kubeapi import Api
from .._core.objects import MANAGER, Object, ObjectStep
from .cluster_messages import MESSAGES as CLUSTER
from .objects_messages import MESSAGES
from .pod_requests import mapping, text
from .request import NODE_CRITICAL, Request

VALUE = 1_000_000_000  # of our class: HighestUserDefinablePriority
GATE = "InPlacePodVerticalScalingSchedulerPreemption"
OWNER = "balloons.ballast.dev"  # what the field names for us; it has the form of a label's key
NODES = "/api/v1/nodes"
_ATTEMPTS = 5
_PARALLEL = 16
_NAMES_SHOWN = 5
_WHERE = "a Node"
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)


def class_name(request: Request) -> str:
    """Of the PriorityClass of its balloons."""
    return "system-node-critical" if request.priority == NODE_CRITICAL else request.names.name


def owners(node: Mapping[str, Any]) -> tuple[str, ...]:
    """Who has asked that no resize on this Node preempts. PeerError where that is of another form."""
    policy = mapping(mapping(node, "spec", _WHERE), "podPreemptionPolicy", _WHERE)
    found = policy.get("disableResizePreemption")
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise CLUSTER.error("balloon-object", where=_WHERE, found="disableResizePreemption is no list of names")
    return tuple(found)


def name_of(node: Mapping[str, Any]) -> str:
    """PeerError where it has no name that fits a path."""
    name = text(mapping(node, "metadata", _WHERE), "name", _WHERE)
    if not _NAME.fullmatch(name):
        raise CLUSTER.error("balloon-object", where=_WHERE, found="its name is none of a Node")
    return name


def owner_steps(nodes: Iterable[Object], *, present: bool) -> tuple[ObjectStep, ...]:
    """What makes the policy of each node name us, or no more."""
    return tuple(
        ObjectStep(
            f"{NODES}/{name_of(node)}", "Node", before=_policy(owners(node)), after=_policy(_with(node, present))
        )
        for node in nodes
        if (OWNER in owners(node)) is not present
    )


def write_owner(api: Api, step: ObjectStep, *, present: bool) -> None:
    """PeerError `balloon-critical-dropped` where the API server does not keep what was written."""
    for _attempt in range(_ATTEMPTS):
        node = api.get(step.path)
        try:
            written = owners(api.patch(step.path, _patch(node, present), params=MANAGER))
        except PeerError as error:
            if error.id != "core-api-conflict":
                raise
            continue
        if present and OWNER not in written:
            raise _dropped(step.path.rpartition("/")[2])
        return
    raise MESSAGES.error("balloon-critical-conflict", node=step.path.rpartition("/")[2], attempts=_ATTEMPTS)


def require_node_critical(api: Api, nodes: Sequence[Object]) -> None:
    """Refuse it where one of the nodes cannot have it, with every reason. Nothing is changed: the write is a dry run."""
    with ThreadPoolExecutor(_PARALLEL) as pool:
        without = [reason for reason in pool.map(lambda node: _no_gate(api, name_of(node)), nodes) if reason]
        dropped = [name for name in pool.map(lambda node: _drops(api, node), nodes) if name]
    problems: list[BallastError] = []
    if without:
        problems.append(MESSAGES.error("balloon-critical-gate", found=_some(without, "\n"), gate=GATE))
    if dropped:
        problems.append(_dropped(_some(dropped, ", ")))
    Problems.raise_if(problems)


def _no_gate(api: Api, name: str) -> str:
    """Why the kubelet is not known to have the gate, "" where it has. Its default is off up to 1.37."""
    try:
        config = api.get(f"{NODES}/{name}/proxy/configz").get("kubeletconfig")
    except PeerError as error:
        return f"{name}: {error.in_one_line}"
    gates = config.get("featureGates") if isinstance(config, Mapping) else None
    found = gates.get(GATE) if isinstance(gates, Mapping) else None
    return "" if found is True else f"{name}: {'not named' if found is None else 'off'} in its configuration"


def _drops(api: Api, node: Object) -> str:
    """The name of the node if the API server would not keep our name there, else ""."""
    if OWNER in owners(node):
        return ""
    name = name_of(node)
    body = {"spec": _patch(node, True)["spec"]}  # without its resourceVersion: nothing is written that could be lost
    answer = api.patch(f"{NODES}/{name}", body, params={**MANAGER, "dryRun": "All"})
    return "" if OWNER in owners(answer) else name


def _patch(node: Object, present: bool) -> Object:
    """Merge patch. `metadata.resourceVersion` guards the names of others in the list, which is replaced as a whole."""
    version = text(mapping(node, "metadata", _WHERE), "resourceVersion", _WHERE)
    names = _with(node, present)
    policy = {"disableResizePreemption": list(names)} if names else None
    return {"metadata": {"resourceVersion": version}, "spec": {"podPreemptionPolicy": policy}}


def _with(node: Object, present: bool) -> tuple[str, ...]:
    others = tuple(one for one in owners(node) if one != OWNER)
    return (*others, OWNER) if present else others


def _policy(names: Sequence[str]) -> Object:
    return {"spec": {"podPreemptionPolicy": {"disableResizePreemption": list(names)}}}


def _dropped(names: str) -> BallastError:
    return MESSAGES.error("balloon-critical-dropped", found=names, gate=GATE)


def _some(rows: Sequence[str], between: str) -> str:
    left_out = len(rows) - _NAMES_SHOWN
    return between.join([*rows[:_NAMES_SHOWN], *([f"and {left_out} more"] if left_out > 0 else [])])
