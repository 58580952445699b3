# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects of balloons in the cluster: a DaemonSet, its PriorityClass, and the rights of the reconciler.

    request = locate(request, api)                # chooses the namespace
    state = read_objects(api, request)            # reads the objects, and node-critical problems
    steps = object_steps(request, state)          # pure; raises those problems, and refuses objects of others
    for step in steps: apply_step(api, step)      # or the first ones, and the rest after the resizes

Steps are those of `_core/kube/objects.py`, reported by `steps_as_result` and `steps_diff`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Optional

from ..._core.kube import objects as core
from ..._core.kube.client import Api, Refused
from ..._core.kube.objects import OURS, Object, ObjectStep, find_objects
from ..._core.text.errors import BallastError, Problems
from ..cluster.facts import CONTAINER, CRITICAL, LABEL, Names
from ..policy import KINDS, policy_objects
from ..request import NAMESPACE, NODE_CRITICAL, PRESENT, BalloonsRequest
from ..sizing.pod_requests import mapping, text, whole
from ..sizing.resources import FLOOR
from .objects_messages import MESSAGES
from .priority import NODES, OWNER, VALUE, class_name, name_of, node_critical_problems, owner_steps, owners, write_owner
from .sandbox_image import choose_image, image_of

_WHERE = "a balloon pod"
_KUBE_PROXY = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy"
_USER = 65535  # the user of the pause image; no other process runs as it
_LINUX = {"kubernetes.io/os": "linux"}
_GROUP = "rbac.authorization.k8s.io"
_RBAC = f"/apis/{_GROUP}/v1"
# Restricts the pods of the namespace: https://kubernetes.io/docs/concepts/security/pod-security-standards/
_SECURITY = {"pod-security.kubernetes.io/enforce": "restricted"}


@dataclass(frozen=True)
class ObjectsState:
    """`objects` by path, None for an absent one. `nodes` are those that can have a balloon. `critical` names those whose balloon pod
    has a critical priority; it is only read when a node's policy has our entry."""

    objects: Mapping[str, Optional[Object]]
    nodes: tuple[Object, ...]
    critical: frozenset[str] = frozenset()
    problems: tuple[BallastError, ...] = ()  # why the cluster cannot do what is requested
    image: str = ""  # of the balloons


def read_objects(api: Api, request: BalloonsRequest) -> ObjectsState:
    """Read the objects, and check that the cluster can do what is requested. Changes nothing."""
    existing = find_objects(api, build_objects(request))
    nodes = api.list(NODES, {"labelSelector": _selector(_LINUX)}).items
    critical = _is_critical(request)
    problems = node_critical_problems(api, nodes) if critical else ()
    # Only balloons that size nodes write the policy of a Node.
    owned = not critical and request.names.size_nodes and any(OWNER in owners(node) for node in nodes)
    return ObjectsState(
        existing,
        nodes,
        _critical_nodes(api, request.namespace) if owned else frozenset(),
        tuple(problems),
        image=request.image or _sandbox_image(api, request, existing, nodes),
    )


def object_steps(request: BalloonsRequest, state: ObjectsState) -> tuple[ObjectStep, ...]:
    """The steps in order; raises the problems of the state. A node gets the policy before its critical balloon, and keeps it while the
    balloon exists: pods keep their priority class until they are deleted (the DaemonSet is OnDelete)."""
    Problems.raise_if(state.problems)
    present = request.state == PRESENT
    desired = build_objects(replace(request, image=state.image))
    steps = core.object_steps(desired, state.objects, present=present, foreign=_foreign)
    if _is_critical(request):
        return (*owner_steps(state.nodes, present=True), *steps)
    if not request.names.size_nodes:
        return steps
    left = [node for node in state.nodes if not present or name_of(node) not in state.critical]
    return (*steps, *owner_steps(left, present=False))


def apply_step(api: Api, step: ObjectStep) -> None:
    """PeerError `balloon-critical-dropped` when a Node does not keep its policy, `balloon-policy-unserved` when the server cannot
    confine the reconciler."""
    if step.kind == "Node":
        write_owner(api, step, present=OWNER in owners(step.after or {}))
        return
    try:
        core.apply_step(api, step)
    except Refused as error:
        if step.kind in KINDS and step.before is None and error.status == 404:
            raise MESSAGES.error("balloon-policy-unserved", found=error.found) from error
        raise


def locate(request: BalloonsRequest, api: Api) -> BalloonsRequest:
    """The request with a namespace: the requested one, else that of existing balloons, else the default.

    UserError `balloon-elsewhere` when existing balloons are in another namespace than the requested one.
    """
    existing = namespace_of(api, request.names)
    if existing and request.namespace and existing != request.namespace:
        raise MESSAGES.error("balloon-elsewhere", name=request.names.name, there=existing, namespace=request.namespace)
    return replace(request, namespace=request.namespace or existing or request.names.namespace)


def namespace_of(api: Api, names: Names) -> str:
    """The namespace of balloons of this name, from the binding of their reconciler's rights; "" without balloons."""
    binding = api.find(f"{_RBAC}/clusterrolebindings/{names.name}")
    subjects = binding.get("subjects") if binding is not None and core.is_ours(binding) else None
    for subject in subjects if isinstance(subjects, list) else []:
        namespace = subject.get("namespace") if isinstance(subject, Mapping) else None
        if isinstance(namespace, str) and NAMESPACE.fullmatch(namespace):
            return namespace
    return ""


def build_objects(request: BalloonsRequest) -> dict[str, Object]:
    """The objects by path, in the order of creation. Pure."""
    namespace, name = request.namespace, request.names.name
    rules = f"{_RBAC}/namespaces/{namespace}"
    return {
        **_own_namespace(request),
        f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}": {
            **_head("scheduling.k8s.io/v1", "PriorityClass", name),
            "value": VALUE,
            "preemptionPolicy": "Never",
            "description": "Balloons: they reserve capacity that the node must not offer, and never preempt a pod.",
        },
        # The policy that confines the rights is created before them.
        **policy_objects(request.names, namespace),
        f"{_RBAC}/clusterroles/{name}": {
            **_head(f"{_GROUP}/v1", "ClusterRole", name),
            "rules": [
                _rule("", "nodes", "get", "list", "watch", "patch"),  # the target as annotation, and the startup taint
                _rule("", "pods", "list", "watch"),  # what the node's pods request
                # This binding names the balloons' namespace.
                {**_rule(_GROUP, "clusterrolebindings", "get"), "resourceNames": [name]},
            ],
        },
        # Created before the objects in the namespace and removed after them, so that an interrupted removal can find them.
        f"{_RBAC}/clusterrolebindings/{name}": {
            **_head(f"{_GROUP}/v1", "ClusterRoleBinding", name),
            **_binding("ClusterRole", name, namespace),
        },
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}": {
            **_head("v1", "ServiceAccount", name, namespace),
            "automountServiceAccountToken": False,
        },
        f"{rules}/roles/{name}": {
            **_head(f"{_GROUP}/v1", "Role", name, namespace),
            "rules": [
                _rule("", "pods", "get"),
                _rule("", "pods/resize", "patch"),
                _rule("coordination.k8s.io", "leases", "get", "create", "update", "delete"),
            ],
        },
        f"{rules}/rolebindings/{name}": {
            **_head(f"{_GROUP}/v1", "RoleBinding", name, namespace),
            **_binding("Role", name, namespace),
        },
        f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}": {
            **_head("apps/v1", "DaemonSet", name, namespace),
            "spec": _daemon_set(request),
        },
    }


def _own_namespace(request: BalloonsRequest) -> dict[str, Object]:
    """Empty for a namespace that the user requested: the user made it, and keeps it."""
    namespace = request.names.namespace
    if request.namespace != namespace:
        return {}
    head = _head("v1", "Namespace", namespace)
    return {
        f"/api/v1/namespaces/{namespace}": {**head, "metadata": {**head["metadata"], "labels": {**OURS, **_SECURITY}}}
    }


def _daemon_set(request: BalloonsRequest) -> Object:
    """At floor size, and OnDelete: pods are resized in place, and no change of the template undoes that.

    Burstable, with a memory limit equal to the request and no CPU limit: such a pod can be resized under every policy of the CPU
    and memory managers, and never gets swap (KEP-1287, k8s.io/kubernetes/pkg/kubelet/kuberuntime).
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
    """A node selector term for one node, as the API accepts only one value for a field."""
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}


def _head(version: str, kind: str, name: str, namespace: str = "") -> Object:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **place, "labels": {**OURS}}}


def _rule(group: str, resource: str, *verbs: str) -> Object:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def _binding(kind: str, name: str, namespace: str) -> Object:
    return {
        "roleRef": {"apiGroup": _GROUP, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }


def _sandbox_image(
    api: Api, request: BalloonsRequest, existing: Mapping[str, Optional[Object]], nodes: Sequence[Object]
) -> str:
    """The sandbox image of the nodes on which the DaemonSet has pods."""
    named = {row.name for row in request.nodes}
    chosen = [node for node in nodes if request.names.size_nodes or name_of(node) in named]
    present = next((manifest for path, manifest in existing.items() if "/daemonsets/" in path and manifest), {})
    try:
        kube_proxy = api.find(_KUBE_PROXY) or {}
    except Refused:
        kube_proxy = {}  # without the right to read it, only the well-known repositories count
    return choose_image(chosen, image_of(present), image_of(kube_proxy))


def _is_critical(request: BalloonsRequest) -> bool:
    return request.state == PRESENT and request.priority == NODE_CRITICAL


def _critical_nodes(api: Api, namespace: str) -> frozenset[str]:
    pods = api.list(f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": _selector({LABEL: "true"})}).items
    specs = [mapping(pod, "spec", _WHERE) for pod in pods]
    return frozenset(text(spec, "nodeName", _WHERE) for spec in specs if whole(spec, "priority", _WHERE) >= CRITICAL)


def _selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _foreign(kind: str, name: str) -> BallastError:
    return MESSAGES.error("balloon-object-foreign", kind=kind, name=name)
