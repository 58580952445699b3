# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes that have left a lab: their certificates stay valid until they expire, so an admission policy refuses their writes.

A client certificate cannot be revoked. But a kubelet that cannot write cannot register its Node again, and without a Node no
pod is scheduled whose Secrets the kubelet could read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from .._control_plane.pki.identities import BOOTSTRAP, DEPARTED, LAB_NODES
from .._control_plane.record import Record
from .._control_plane.rights import LABELS, refusal_error
from .._core.host.host import Host
from .._core.kube.client import Refused

_GROUP = "admissionregistration.k8s.io"
_POLICY = f"/apis/{_GROUP}/v1/validatingadmissionpolicies/{DEPARTED}"
_BINDING = f"/apis/{_GROUP}/v1/validatingadmissionpolicybindings/{DEPARTED}"
_NAMES = "ballast.local/nodes"  # annotation of the policy


def refuse(host: Host, record: Record, name: str) -> None:
    """Refuse all writes with this node's credentials. Does nothing where the API server serves no such policies."""
    _write(host, record, {*_read_refused(host, record), name})


def admit(host: Host, record: Record, name: str) -> None:
    """Let a node join, even if it has left before."""
    refused = _read_refused(host, record)
    if name in refused:
        _write(host, record, refused - {name})


def _read_refused(host: Host, record: Record) -> frozenset[str]:
    try:
        policy = record.api(host, LAB_NODES).get(_POLICY)
    except Refused:
        return frozenset()
    return frozenset(policy["metadata"].get("annotations", {}).get(_NAMES, "").split())


def _write(host: Host, record: Record, names: Iterable[str]) -> None:
    node_names = sorted(names)
    users = json.dumps([f"system:node:{name}" for name in node_names])
    rule = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": ["*/*"],
    }
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "has-left", "expression": f"request.userInfo.username in {users}"}],
        "validations": [
            {
                "expression": "false",
                "message": "ballast.kube: this node was removed from the lab",
                "reason": "Forbidden",
            }
        ],
    }
    objects: list[tuple[str, str, dict[str, Any], dict[str, str]]] = [
        (_POLICY, "ValidatingAdmissionPolicy", policy, {_NAMES: " ".join(node_names)}),
        (_BINDING, "ValidatingAdmissionPolicyBinding", {"policyName": DEPARTED, "validationActions": ["Deny"]}, {}),
    ]
    for path, kind, spec, notes in objects:
        metadata = {"name": DEPARTED, "labels": LABELS, "annotations": notes}
        body = {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": metadata, "spec": spec}
        try:
            record.api(host, BOOTSTRAP).apply(path, body)
        except Refused as error:
            if error.status == 404:
                return
            raise refusal_error(record, "PATCH", path, error) from error
