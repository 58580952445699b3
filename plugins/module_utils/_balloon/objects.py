# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What balloons are made of in the cluster: a DaemonSet, its PriorityClass, and the rights of the reconciler.

    found = read_objects(api, request)            # reads; refuses node-critical where it cannot be had
    steps = object_steps(request, found)          # pure; refuses what somebody else has made
    for step in steps: apply_step(api, step)      # or the first of them, and the rest after the balloons have moved

Steps are those of `_core/objects.py`, to be told and shown by `steps_told` and `steps_difference`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

from .._core import objects as core
from .._core.errors import BallastError
from .._core.kubeapi import Api
from .._core.objects import OURS, Object, ObjectStep, find_objects
from .amount import FLOOR
from .facts import CONTAINER, CRITICAL, LABEL
from .objects_messages import MESSAGES
from .pod_requests import mapping, text, whole
from .priority import (
    NODES,
    OWNER,
    VALUE,
    class_name,
    name_of,
    owner_steps,
    owners,
    require_node_critical,
    write_owner,
)
from .request import NODE_CRITICAL, PRESENT, Request

_WHERE = "a balloon pod"
_USER = 65535  # of the pause image, and nobody's
_LINUX = {"kubernetes.io/os": "linux"}
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True)
class Found:
    """`objects` by path, None for one that is not there. `nodes` are those that can have a balloon; `critical` are the
    names of those whose balloon pod has a critical priority, which is asked only where a node's policy names us."""

    objects: Mapping[str, Optional[Object]]
    nodes: tuple[Object, ...]
    critical: frozenset[str] = frozenset()


def read_objects(api: Api, request: Request) -> Found:
    """PeerError or Problems where node-critical is asked for and cannot be had. Changes nothing."""
    found = find_objects(api, wanted_objects(request))
    nodes = api.list(NODES, {"labelSelector": _selector(_LINUX)}).items
    wanted = _is_critical(request)
    if wanted:
        require_node_critical(api, nodes)
    # What keeps a critical balloon from preempting is of those that size nodes.
    asked = not wanted and request.names.size_nodes and any(OWNER in owners(node) for node in nodes)
    return Found(found, nodes, _critical(api, request.namespace) if asked else frozenset())


def object_steps(request: Request, found: Found) -> tuple[ObjectStep, ...]:
    """In order. The policy of nodes is there before the first critical balloon, and stays as long as a node has one: pods of
    a class that is no longer wanted keep it until they are deleted (the DaemonSet is OnDelete)."""
    present = request.state == PRESENT
    steps = core.object_steps(wanted_objects(request), found.objects, present=present, foreign=_foreign)
    if _is_critical(request):
        return (*owner_steps(found.nodes, present=True), *steps)
    if not request.names.size_nodes:
        return steps
    left = [node for node in found.nodes if not present or name_of(node) not in found.critical]
    return (*steps, *owner_steps(left, present=False))


def apply_step(api: Api, step: ObjectStep) -> None:
    """PeerError; `balloon-critical-dropped` where a Node does not keep its policy."""
    if step.kind == "Node":
        write_owner(api, step, present=OWNER in owners(step.after or {}))
    else:
        core.apply_step(api, step)


def wanted_objects(request: Request) -> dict[str, Object]:
    """By path, in the order of making. Pure."""
    namespace, name = request.namespace, request.names.name
    rules = f"{_RBAC}/namespaces/{namespace}"
    return {
        f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}": {
            **_head("scheduling.k8s.io/v1", "PriorityClass", name),
            "value": VALUE,
            "preemptionPolicy": "Never",
            "description": "Balloons, which take up room of a node that it must not give out, and harm no pod for it.",
        },
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}": {
            **_head("v1", "ServiceAccount", name, namespace),
            "automountServiceAccountToken": False,
        },
        f"{_RBAC}/clusterroles/{name}": {
            **_head("rbac.authorization.k8s.io/v1", "ClusterRole", name),
            "rules": [
                _rule("", "nodes", "get", "list", "watch", "patch"),  # its target as annotation; the startup taint
                _rule("", "pods", "get", "list", "watch"),  # what those of the node request
            ],
        },
        f"{rules}/roles/{name}": {
            **_head("rbac.authorization.k8s.io/v1", "Role", name, namespace),
            "rules": [
                _rule("", "pods/resize", "patch"),
                _rule("coordination.k8s.io", "leases", "get", "create", "update", "delete"),
            ],
        },
        f"{_RBAC}/clusterrolebindings/{name}": {
            **_head("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", name),
            **_binding("ClusterRole", name, namespace),
        },
        f"{rules}/rolebindings/{name}": {
            **_head("rbac.authorization.k8s.io/v1", "RoleBinding", name, namespace),
            **_binding("Role", name, namespace),
        },
        f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}": {
            **_head("apps/v1", "DaemonSet", name, namespace),
            "spec": _daemon_set(request),
        },
    }


def _daemon_set(request: Request) -> Object:
    """At floor size, and OnDelete: a pod is resized in place, and no change of the template undoes that.

    Burstable, with a memory request that is the limit, and no limit of CPU: such a pod can be resized under every policy of
    the CPU and the memory manager, and never gets swap (KEP-1287, k8s.io/kubernetes/pkg/kubelet/kuberuntime).
    """
    floor = FLOOR.as_quantities()
    container = {
        "name": CONTAINER,
        "image": request.image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": floor, "limits": {"memory": floor["memory"]}},
        "resizePolicy": [{"resourceName": name, "restartPolicy": "NotRequired"} for name in ("cpu", "memory")],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    spec = {
        "priorityClassName": class_name(request),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": dict(_LINUX),
        "tolerations": [{"operator": "Exists"}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
    if not request.names.size_nodes:
        required = {"nodeSelectorTerms": [_is_node(row.name) for row in request.nodes]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return {
        "selector": {"matchLabels": {request.names.label: "true"}},
        "updateStrategy": {"type": "OnDelete"},
        "template": {"metadata": {"labels": {**OURS, request.names.label: "true"}}, "spec": spec},
    }


def _is_node(name: str) -> Object:
    """A term for each node: the API takes one value of a field."""
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}


def _head(version: str, kind: str, name: str, namespace: str = "") -> Object:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **place, "labels": {**OURS}}}


def _rule(group: str, resource: str, *verbs: str) -> Object:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def _binding(kind: str, name: str, namespace: str) -> Object:
    return {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }


def _is_critical(request: Request) -> bool:
    return request.state == PRESENT and request.priority == NODE_CRITICAL


def _critical(api: Api, namespace: str) -> frozenset[str]:
    pods = api.list(f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": _selector({LABEL: "true"})}).items
    specs = [mapping(pod, "spec", _WHERE) for pod in pods]
    return frozenset(text(spec, "nodeName", _WHERE) for spec in specs if whole(spec, "priority", _WHERE) >= CRITICAL)


def _selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _foreign(kind: str, name: str) -> BallastError:
    return MESSAGES.error("balloon-object-foreign", kind=kind, name=name)
