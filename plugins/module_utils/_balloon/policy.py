# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The admission policy that confines the reconciler's ServiceAccount where RBAC cannot. Pure.

RBAC grants verbs on whole resources: a right to patch Nodes covers their labels and taints, and `create` cannot use
resourceNames. The policy confines each write of that one user:

    nodes          may change the target's annotation and remove the startup taint, and nothing else
    pods/resize    only of pods that the balloons' DaemonSet made
    leases         only those whose name begins with ballast-balloon-

It is made before the rights, and fails closed. It compares fields by iterating over the object, so it also covers fields
that later Kubernetes versions add. Source: KEP-3488; GA in 1.30.
"""

from __future__ import annotations

import json

from .._core.kube.objects import OURS, Object
from .cluster.facts import NAME, TAINT, Names

_GROUP = "admissionregistration.k8s.io"
_ADMISSION = f"/apis/{_GROUP}/v1"
KINDS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
# Fields that the API server itself changes in every update, and the annotations, which are compared one by one.
_WRITTEN = ["annotations", "managedFields", "resourceVersion", "generation"]


def policy_objects(names: Names, namespace: str) -> dict[str, Object]:
    """The policy and its binding, by path."""
    user = f"system:serviceaccount:{namespace}:{names.name}"
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                _rule("", "nodes", "UPDATE"),
                _rule("", "pods/resize", "UPDATE"),
                _rule("coordination.k8s.io", "leases", "CREATE", "UPDATE", "DELETE"),
            ]
        },
        "matchConditions": [{"name": "is-the-reconciler", "expression": f"request.userInfo.username == {_text(user)}"}],
        "validations": [
            _validation(
                "nodes", _node(names), f"of a Node it may change annotation {names.target} and remove taint {TAINT}"
            ),
            _validation("pods", _pod(names), f"it may resize pods of DaemonSet {names.name} alone"),
            _validation(
                "leases",
                # A new Lease has no old object, and perhaps no name in the request.
                f"(oldObject == null ? object : oldObject).metadata.name.startsWith({_text(NAME + '-')})",
                f"it may write Leases whose name begins with {NAME}-",
            ),
        ],
    }
    binding = {"policyName": names.name, "validationActions": ["Deny"]}
    return {
        f"{_ADMISSION}/{resource}/{names.name}": {
            "apiVersion": f"{_GROUP}/v1",
            "kind": kind,
            "metadata": {"name": names.name, "labels": {**OURS}},
            "spec": spec,
        }
        for (kind, resource), spec in zip(KINDS.items(), (policy, binding))
    }


def _node(names: Names) -> str:
    top = _same("object", "oldObject", ["metadata", "spec"])
    metadata = _same("object.metadata", "oldObject.metadata", _WRITTEN)
    annotations = _same(_annotations("object"), _annotations("oldObject"), [names.target])
    spec = _same("object.spec", "oldObject.spec", ["taints"])
    old, new = _taints("oldObject"), _taints("object")
    # Balloons that do not size nodes leave the startup taint alone.
    left = f"{new} == {old}.filter(t, t.key != {_text(TAINT)})"
    taints = f"({new} == {old} || {left})" if names.size_nodes else f"{new} == {old}"
    return f"{top} && {metadata} && {annotations} && {spec} && {taints}"


def _pod(names: Names) -> str:
    by = f"o.kind == 'DaemonSet' && o.name == {_text(names.name)} && has(o.controller) && o.controller"
    label = f"has(oldObject.metadata.labels) && {_text(names.label)} in oldObject.metadata.labels"
    owner = f"has(oldObject.metadata.ownerReferences) && oldObject.metadata.ownerReferences.exists(o, {by})"
    return f"{label} && {owner}"


def _same(new: str, old: str, apart_from: list[str]) -> str:
    """CEL: both have the same keys and values, except for the keys `apart_from`."""
    but = json.dumps(apart_from)
    new, old = f"dyn({new})", f"dyn({old})"
    kept = f"{old}.all(k, k in {but} || k in {new})"
    return f"{new}.all(k, k in {but} || (k in {old} && {new}[k] == {old}[k])) && {kept}"


def _annotations(of: str) -> str:
    return f"(has({of}.metadata.annotations) ? dyn({of}.metadata.annotations) : dyn({{}}))"


def _taints(of: str) -> str:
    return f"(has({of}.spec.taints) ? dyn({of}.spec.taints) : dyn([]))"


def _validation(resource: str, expression: str, message: str) -> Object:
    whole = f"request.resource.resource != {_text(resource)} || ({expression})"
    return {"expression": whole, "message": f"ballast.kube: {message}", "reason": "Forbidden"}


def _rule(group: str, resource: str, *operations: str) -> Object:
    return {"apiGroups": [group], "apiVersions": ["v1"], "operations": list(operations), "resources": [resource]}


def _text(text: str) -> str:
    return json.dumps(text)
