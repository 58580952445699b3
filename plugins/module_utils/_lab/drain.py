# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes of a lab that are drained while their programs are replaced.

The journal records them, and whether they took pods before, so that a later run finishes what a killed one began.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Optional

from .._control_plane.pki.identities import LAB_NODES
from .._control_plane.record import Record, load_record
from .._control_plane.rights import ensure_rights
from .._core.engine.context import Context
from .._core.engine.engine import Finding, ResourceEngine
from .._core.engine.events import PROGRESS_LOG
from .._core.engine.journal import Journal, journal_path
from .._core.engine.kinds import Kind
from .._core.engine.plan import ABSENT, Resource, Value
from .._core.host.host import Host
from .._core.kube.client import Api, Refused
from .nodes import change_node, drain_node, node_path

DRAIN_DIR = "drain"  # in LAB_DIR
_PODS = "/api/v1/pods"
_KUBE_PROXY = "k8s-app=kube-proxy"
_DRAINED: Value = {"pods": 0}

SPEC: dict[str, Any] = {
    "state_dir": {"type": "path", "required": True},
    **PROGRESS_LOG,
    "plane_dir": {"type": "path", "required": True},
    "kubectl": {"type": "path", "required": True},
    "nodes": {"type": "list", "elements": "str", "required": True},
}


@dataclass(frozen=True)
class DrainRequest:
    state_dir: str
    plane_dir: str
    kubectl: str
    nodes: tuple[str, ...]  # to be drained; other nodes in the journal are uncordoned

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> DrainRequest:
        return cls(
            state_dir=params["state_dir"].rstrip("/"),
            plane_dir=params["plane_dir"].rstrip("/"),
            kubectl=params["kubectl"],
            nodes=tuple(params["nodes"]),
        )


class DrainKind:
    """`{pods}`: how many pods a drain would still move from a cordoned node; ABSENT for a node that takes pods. The target is
    `NAME PLANE_DIR`."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        name, plane_dir = target.split(" ")
        record = load_record(ctx.host, plane_dir)
        node = _find_node(ctx.host, record, name) if record else None
        if record is None or node is None or not node.get("spec", {}).get("unschedulable"):
            return ABSENT
        pods = _list_pods(ctx.host, record, name)
        return {"pods": sum(_is_moved(pod) for pod in pods)}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        """Drain the node. Undoing the drain of a node that was cordoned before does not bring its pods back."""
        name, plane_dir = target.split(" ")
        record = load_record(ctx.host, plane_dir)
        if record is not None and after == _DRAINED:
            ensure_rights(ctx.host, record, LAB_NODES)
            drain_node(ctx, record, name)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        """Uncordon the node. First recreate a kube-proxy pod: a drain leaves it, so it still runs the node's former image."""
        name, plane_dir = target.split(" ")
        record = load_record(ctx.host, plane_dir)
        if record is None:
            return
        ensure_rights(ctx.host, record, LAB_NODES)
        node = _find_node(ctx.host, record, name)
        if node is None:
            return
        api = record.api(ctx.host, LAB_NODES)
        for pod in _list_pods(ctx.host, record, name, labelSelector=_KUBE_PROXY):
            change_node(name, partial(_evict, api, pod["metadata"]))
        change_node(name, lambda: api.patch(node_path(name), {"spec": {"unschedulable": None}}))
        kubelet = node.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", "")
        ctx.progress.done(f"node {name}", f"is schedulable again, with Kubernetes {kubelet.removeprefix('v')}")


class DrainEngine(ResourceEngine[DrainRequest]):
    name = "drain"
    kinds: Mapping[str, Kind] = {"drain": DrainKind()}

    def wanted(self, ctx: Context[DrainRequest]) -> list[Resource]:
        desired = ctx.desired
        return [
            Resource(
                "drain", f"{name} {desired.plane_dir}", _DRAINED, title=f"drain of node {name}", group=f"node {name}"
            )
            for name in desired.nodes
        ]

    def verify(self, ctx: Context[DrainRequest]) -> list[Finding]:
        """Nothing: a drain ends when the node's pods are gone, and pods that tolerate a cordoned node may return."""
        return []


ENGINE = DrainEngine()


def read_drained(host: Host, lab_dir: str) -> list[str]:
    """Nodes drained by a run that is at work or did not finish."""
    journal = Journal(journal_path(os.path.join(lab_dir, DRAIN_DIR)), host=host, kinds=ENGINE.kinds)
    return [record.target.split(" ")[0] for record in journal.recorded]


def _find_node(host: Host, record: Record, name: str) -> Optional[dict[str, Any]]:
    """The Node; None when it does not exist. PeerError when the API does not answer, so that a drain is not forgotten then."""
    try:
        return record.api(host, LAB_NODES).find(node_path(name))
    except Refused as error:
        if error.status != 403:
            raise
        return None  # the identity has no rights yet, so no node was drained yet


def _evict(api: Api, pod: Mapping[str, Any]) -> None:
    own = {"name": pod["name"], "namespace": pod["namespace"]}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": own}
    try:
        api.create(f"/api/v1/namespaces/{own['namespace']}/pods/{own['name']}/eviction", body)
    except Refused as error:
        if error.status != 404:  # it was deleted meanwhile
            raise


def _list_pods(host: Host, record: Record, node: str, **selectors: str) -> list[dict[str, Any]]:
    params = {"fieldSelector": f"spec.nodeName={node}", **selectors}
    return [dict(pod) for pod in record.api(host, LAB_NODES).list(_PODS, params).items]


def _is_moved(pod: Mapping[str, Any]) -> bool:
    """Whether a drain moves the pod: `kubectl drain --ignore-daemonsets` leaves those of DaemonSets, and ended ones do not count."""
    owners = [owner["kind"] for owner in pod["metadata"].get("ownerReferences", ())]
    return "DaemonSet" not in owners and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
