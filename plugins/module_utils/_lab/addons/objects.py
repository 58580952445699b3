# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects that several add-ons use, all in the namespace kube-system. Pure. Functions return objects by path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

NAMESPACE = "kube-system"
Objects = dict[str, dict[str, Any]]

_RBAC = "rbac.authorization.k8s.io"
_NAMESPACED = f"namespaces/{NAMESPACE}"


def service_account(name: str) -> Objects:
    return {
        f"/api/v1/{_NAMESPACED}/serviceaccounts/{name}": {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name},
        }
    }


def rules(rows: Sequence[tuple[str, Sequence[str], Sequence[str]]]) -> list[dict[str, Any]]:
    """The rules of a role, from rows of (API group, resources, verbs)."""
    return [{"apiGroups": [group], "resources": [*resources], "verbs": [*verbs]} for group, resources, verbs in rows]


def cluster_role(name: str, rules: Sequence[Mapping[str, Any]], labels: Optional[Mapping[str, str]] = None) -> Objects:
    return {f"/apis/{_RBAC}/v1/clusterroles/{name}": _role("ClusterRole", name, rules, labels)}


def role(name: str, rules: Sequence[Mapping[str, Any]]) -> Objects:
    return {f"/apis/{_RBAC}/v1/{_NAMESPACED}/roles/{name}": _role("Role", name, rules, None)}


def cluster_role_binding(name: str, account: str, bound: str) -> Objects:
    """A binding of the ClusterRole `bound` to the ServiceAccount `account`."""
    path = f"/apis/{_RBAC}/v1/clusterrolebindings/{name}"
    return {path: _binding("ClusterRoleBinding", name, account, "ClusterRole", bound)}


def role_binding(name: str, account: str, bound: str) -> Objects:
    """A binding of the Role `bound` to the ServiceAccount `account`."""
    path = f"/apis/{_RBAC}/v1/{_NAMESPACED}/rolebindings/{name}"
    return {path: _binding("RoleBinding", name, account, "Role", bound)}


def config_map(name: str, data: Mapping[str, str], labels: Mapping[str, str]) -> Objects:
    return {
        f"/api/v1/{_NAMESPACED}/configmaps/{name}": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": dict(labels)},
            "data": dict(data),
        }
    }


def deployment(name: str, labels: Mapping[str, str], pod: Mapping[str, Any], *, replicas: int = 1) -> Objects:
    """`labels` are those of its pods too; `pod` is their spec."""
    return {
        workload_path("deployments", name): {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "labels": dict(labels)},
            "spec": {"replicas": replicas, **_pods(labels, pod)},
        }
    }


def daemon_set(name: str, labels: Mapping[str, str], pod: Mapping[str, Any]) -> Objects:
    """`labels` are those of its pods too; `pod` is their spec."""
    return {
        workload_path("daemonsets", name): {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": name, "labels": dict(labels)},
            "spec": _pods(labels, pod),
        }
    }


def service(
    name: str, labels: Mapping[str, str], selector: Mapping[str, str], ports: Sequence[Mapping[str, Any]], **spec: Any
) -> Objects:
    """`spec` adds fields beside `selector` and `ports`."""
    return {
        f"/api/v1/{_NAMESPACED}/services/{name}": {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "labels": dict(labels)},
            "spec": {**spec, "selector": dict(selector), "ports": list(ports)},
        }
    }


def workload_path(resource: str, name: str) -> str:
    """The path of a Deployment or DaemonSet."""
    return f"/apis/apps/v1/{_NAMESPACED}/{resource}/{name}"


def needed_tolerations(lab: Mapping[str, Any]) -> list[dict[str, str]]:
    """Tolerations of the taints of the lab's nodes if every node has some, as an add-on runs in every lab."""
    if not all(node["taints"] for node in lab["nodes"]):
        return []
    taints = {(taint["key"], taint["effect"]) for node in lab["nodes"] for taint in node["taints"]}
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in sorted(taints)]


def _role(
    kind: str, name: str, rules: Sequence[Mapping[str, Any]], labels: Optional[Mapping[str, str]]
) -> dict[str, Any]:
    metadata = {"name": name, "labels": dict(labels)} if labels else {"name": name}
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [dict(rule) for rule in rules],
    }


def _binding(kind: str, name: str, account: str, role_kind: str, bound: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": role_kind, "name": bound},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    }


def _pods(labels: Mapping[str, str], pod: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "selector": {"matchLabels": dict(labels)},
        "template": {"metadata": {"labels": dict(labels)}, "spec": dict(pod)},
    }


def security_context(*capabilities: str) -> dict[str, Any]:
    """The security context of a container that only writes to its volumes and has only these capabilities."""
    added = {"add": list(capabilities)} if capabilities else {}
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {**added, "drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
