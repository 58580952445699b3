# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The priority of balloons, which must never preempt a pod.

`never-preempt`: our PriorityClass with preemptionPolicy Never. The scheduler preempts nothing for it. It is below
2,000,000,000, the priority from which a kubelet kills other pods when a pod grows (k8s.io/kubernetes/pkg/kubelet/preemption).

`node-critical`: system-node-critical, which no pod preempts. Since Kubernetes 1.37 such a pod grows without preemption under two
conditions (KEP-5836): the kubelet has the feature gate, and so leaves preemption to the scheduler; and the Node's
spec.podPreemptionPolicy.disableResizePreemption has an entry, so that the scheduler does not preempt either. An API server
without the gate silently drops that field, so its answer to the write is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..._core.kube.client import Api
from ..._core.kube.kubelet_api import read_kubelet_text
from ..._core.kube.objects import MANAGER, Object, ObjectStep
from ..._core.text.errors import BallastError, PeerError
from ..._core.text.json_text import mapping_in, parse_object
from ..cluster.messages import MESSAGES as CLUSTER
from ..request import NODE_CRITICAL, BalloonsRequest
from ..sizing.pod_requests import mapping, text
from .objects_messages import MESSAGES

VALUE = 1_000_000_000  # value of our PriorityClass: HighestUserDefinablePriority
GATE = "InPlacePodVerticalScalingSchedulerPreemption"
OWNER = "balloons.ballast.dev"  # our entry in the field, in the form of a label key
NODES = "/api/v1/nodes"
_ATTEMPTS = 5
_PARALLEL = 16
_NAMES_SHOWN = 5
_WHERE = "a Node"
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)


def class_name(request: BalloonsRequest) -> str:
    """The name of the PriorityClass of its balloons."""
    return "system-node-critical" if request.priority == NODE_CRITICAL else request.names.name


def owners(node: Mapping[str, Any]) -> tuple[str, ...]:
    """The entries of a Node's disableResizePreemption. PeerError when it has another form."""
    policy = mapping(mapping(node, "spec", _WHERE), "podPreemptionPolicy", _WHERE)
    names = policy.get("disableResizePreemption")
    if names is None:
        return ()
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise CLUSTER.error("balloon-object", where=_WHERE, found="disableResizePreemption is not a list of names")
    return tuple(names)


def name_of(node: Mapping[str, Any]) -> str:
    """The name of the Node. PeerError when it cannot be part of a path."""
    name = text(mapping(node, "metadata", _WHERE), "name", _WHERE)
    if not _NAME.fullmatch(name):
        raise CLUSTER.error("balloon-object", where=_WHERE, found="its name is not a valid Node name")
    return name


def owner_steps(nodes: Iterable[Object], *, present: bool) -> tuple[ObjectStep, ...]:
    """The steps that add our entry to the policy of each node, or remove it."""
    return tuple(
        ObjectStep(
            f"{NODES}/{name_of(node)}", "Node", before=_policy(owners(node)), after=_policy(_with(node, present))
        )
        for node in nodes
        if (OWNER in owners(node)) is not present
    )


def write_owner(api: Api, step: ObjectStep, *, present: bool) -> None:
    """PeerError `balloon-critical-dropped` when the API server does not keep what was written."""
    for _attempt in range(_ATTEMPTS):
        node = api.get(step.path)
        try:
            written = owners(api.patch(step.path, _patch(node, present), params=MANAGER))
        except PeerError as error:
            if error.id != "core-api-conflict":
                raise
            continue
        if present and OWNER not in written:
            raise _dropped_error(step.path.rpartition("/")[2])
        return
    raise MESSAGES.error("balloon-critical-conflict", node=step.path.rpartition("/")[2], attempts=_ATTEMPTS)


def node_critical_problems(api: Api, nodes: Sequence[Object]) -> list[BallastError]:
    """Why nodes cannot use node-critical. Changes nothing: the write is a dry run."""
    with ThreadPoolExecutor(_PARALLEL) as pool:
        without = [reason for reason in pool.map(lambda node: _no_gate(api, node), nodes) if reason]
        dropped = [name for name in pool.map(lambda node: _drops(api, node), nodes) if name]
    problems: list[BallastError] = []
    if without:
        problems.append(MESSAGES.error("balloon-critical-gate", found=_list_some(without, "\n"), gate=GATE))
    if dropped:
        problems.append(_dropped_error(_list_some(dropped, ", ")))
    return problems


def _configz(api: Api, node: Object) -> Mapping[str, Any]:
    return parse_object(read_kubelet_text(api, node, "/configz")) or {}


def _no_gate(api: Api, node: Object) -> str:
    """Why the kubelet is not known to have the gate enabled, "" if it is. Up to 1.37 it is off by default."""
    name = name_of(node)
    try:
        config = _configz(api, node)
    except PeerError as error:
        return f"{name}: {error.in_one_line}"
    gate = mapping_in(config, "kubeletconfig", "featureGates").get(GATE)
    return "" if gate is True else f"{name}: {'not named' if gate is None else 'off'} in its configuration"


def _drops(api: Api, node: Object) -> str:
    """The node's name if the API server would drop our entry there, else ""."""
    if OWNER in owners(node):
        return ""
    name = name_of(node)
    body = {"spec": _patch(node, True)["spec"]}  # without its resourceVersion: a dry run overwrites nothing
    answer = api.patch(f"{NODES}/{name}", body, params={**MANAGER, "dryRun": "All"})
    return "" if OWNER in owners(answer) else name


def _patch(node: Object, present: bool) -> Object:
    """A merge patch. It replaces the whole list; `metadata.resourceVersion` protects the entries of others."""
    version = text(mapping(node, "metadata", _WHERE), "resourceVersion", _WHERE)
    names = _with(node, present)
    policy = {"disableResizePreemption": list(names)} if names else None
    return {"metadata": {"resourceVersion": version}, "spec": {"podPreemptionPolicy": policy}}


def _with(node: Object, present: bool) -> tuple[str, ...]:
    others = tuple(owner for owner in owners(node) if owner != OWNER)
    return (*others, OWNER) if present else others


def _policy(names: Sequence[str]) -> Object:
    return {"spec": {"podPreemptionPolicy": {"disableResizePreemption": list(names)}}}


def _dropped_error(names: str) -> BallastError:
    return MESSAGES.error("balloon-critical-dropped", found=names, gate=GATE)


def _list_some(rows: Sequence[str], between: str) -> str:
    left_out = len(rows) - _NAMES_SHOWN
    return between.join([*rows[:_NAMES_SHOWN], *([f"and {left_out} more"] if left_out > 0 else [])])
