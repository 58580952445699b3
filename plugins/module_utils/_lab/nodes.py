# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Node objects of a lab: labels and taints as the topology says, and a drain before a node leaves.

A kubelet registers its own Node, and only when it starts; so a node that leaves is drained and deleted here first, and
its instance is removed afterwards.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .._core.engine import Finding, ResourceEngine
from .._core.errors import PeerError, shorten
from .._core.events import Progress
from .._core.host import Host, Response
from .._core.kinds import Kind, fields
from .._core.plan import ABSENT, Resource, Value
from .._plane.record import Record, load_record
from .messages import MESSAGES

_DRAIN_SECONDS = 60
# A pod whose kubelet is dead never ends; 15 seconds after its deletion it is not waited for.
_DRAIN_FLAGS = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--skip-wait-for-delete-timeout=15")

SPEC: dict[str, Any] = {
    "state_dir": {"type": "path", "required": True},
    "events": {"type": "path"},
    "plane_dir": {"type": "path", "required": True},
    "kubectl": {"type": "path", "required": True},
    "nodes": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "labels": {"type": "dict"},
            "taints": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "key": {"type": "str", "required": True, "no_log": False},
                    "value": {"type": "str"},
                    "effect": {"type": "str", "required": True},
                },
            },
        },
    },
}


@dataclass(frozen=True)
class Node:
    name: str
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]


@dataclass(frozen=True)
class Desired:
    state_dir: str
    plane_dir: str
    kubectl: str
    nodes: tuple[Node, ...]

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Desired:
        return cls(
            state_dir=params["state_dir"].rstrip("/"),
            plane_dir=params["plane_dir"].rstrip("/"),
            kubectl=params["kubectl"],
            nodes=tuple(
                Node(
                    name=row["name"],
                    labels={str(key): str(value) for key, value in (row["labels"] or {}).items()},
                    taints=tuple({name: taint[name] or "" for name in taint} for taint in row["taints"] or []),
                )
                for row in params["nodes"]
            ),
        )


class NodeKind:
    """`{labels, taints}`, less those that programs set: Kubernetes, and this collection, as it moves a Node from one mode of
    kube-proxy to another. The target is `NAME PLANE_DIR KUBECTL`."""

    def read(self, host: Host, target: str) -> Value:
        name, plane_dir, _kubectl = target.split(" ")
        record = load_record(host, plane_dir)
        node = _get(host, record, name) if record else None
        if node is None:
            return ABSENT
        labels = node["metadata"].get("labels", {})
        taints = node.get("spec", {}).get("taints", [])
        return {
            "labels": {key: value for key, value in sorted(labels.items()) if not _is_programs(key)},
            "taints": _own_taints(taints),
        }

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        if before == ABSENT:
            return  # its kubelet registers it with these labels and taints
        name, plane_dir, _kubectl = target.split(" ")
        record = load_record(host, plane_dir)
        node = _get(host, record, name) if record else None
        if record is None or node is None:
            return
        wanted = fields(after)
        gone = {key: None for key in fields(fields(before)["labels"]) if key not in fields(wanted["labels"])}
        kept = [taint for taint in node.get("spec", {}).get("taints", []) if _is_programs(taint["key"])]
        patch = {
            "metadata": {"labels": {**gone, **fields(wanted["labels"])}},
            "spec": {"taints": [*kept, *wanted["taints"]]},  # type: ignore[misc]
        }
        answer = record.ask(
            host,
            f"/api/v1/nodes/{name}",
            method="PATCH",
            body=json.dumps(patch).encode(),
            content_type="application/merge-patch+json",
        )
        _demand(answer, 200, name=name)

    def remove(self, host: Host, target: str, before: Value) -> None:
        name, plane_dir, kubectl = target.split(" ")
        record = load_record(host, plane_dir)
        if record is None:
            return
        flags = [*_DRAIN_FLAGS, f"--timeout={_DRAIN_SECONDS}s"]
        host.run([kubectl, *kubectl_options(record.kubeconfig), "drain", name, *flags], timeout=_DRAIN_SECONDS + 30)
        _demand(record.ask(host, f"/api/v1/nodes/{name}", method="DELETE"), 200, 202, 404, name=name)


class NodesEngine(ResourceEngine[Desired]):
    name = "nodes"
    kinds: Mapping[str, Kind] = {"node": NodeKind()}

    def resources(self, desired: Desired) -> list[Resource]:
        return [
            Resource(
                kind="node",
                target=f"{node.name} {desired.plane_dir} {desired.kubectl}",
                value={
                    "labels": {key: value for key, value in sorted(node.labels.items()) if not _is_programs(key)},
                    "taints": _own_taints(node.taints),
                },
                title=f"Node {node.name}",
                group="Node objects",
            )
            for node in desired.nodes
        ]

    def verify(self, desired: Desired, host: Host, progress: Progress) -> list[Finding]:
        return []  # whether they are Ready is asked of the instances

    def report(self, desired: Desired, host: Host) -> dict[str, object]:
        return {}


ENGINE = NodesEngine()


def kubectl_options(kubeconfig: str) -> list[str]:
    """Its cache goes beside the kubeconfig, not into a home directory or wherever it is run."""
    return ["--kubeconfig", kubeconfig, "--cache-dir", os.path.join(os.path.dirname(kubeconfig), "check", "kubectl")]


def _get(host: Host, record: Record, name: str) -> dict[str, Any] | None:
    try:
        answer = record.ask(host, f"/api/v1/nodes/{name}")
    except PeerError:
        return None
    node: dict[str, Any] = json.loads(answer.body) if answer.status == 200 else {}
    return node or None


def _demand(answer: Response, *statuses: int, name: str) -> None:
    if answer.status not in statuses:
        found = f"{answer.status}: {shorten(answer.body.decode(errors='replace'))}"
        raise MESSAGES.error("lab-node", name=name, found=found)


def _is_programs(key: str) -> bool:
    domain = "." + key.partition("/")[0] if "/" in key else ""
    return domain.endswith((".kubernetes.io", ".k8s.io", ".ballast.kube", ".ballast.dev"))


def _own_taints(taints: Iterable[Mapping[str, Any]]) -> list[Value]:
    own = [taint for taint in taints if not _is_programs(taint["key"])]
    rows = [{name: str(taint.get(name) or "") for name in ("key", "value", "effect")} for taint in own]
    return [*sorted(rows, key=lambda row: (row["key"], row["effect"]))]
