# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Node objects of a lab: sets labels and taints of the topology, and drains a node before it is removed.

A kubelet registers its own Node, and only when it starts. So a node that is to be removed is first drained and deleted here; its
instance is removed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .._control_plane.pki.identities import LAB_NODES
from .._control_plane.record import Record, load_record
from .._control_plane.rights import ensure_rights, kubeconfig_of
from .._core.engine.context import Context
from .._core.engine.engine import Finding, ResourceEngine
from .._core.engine.events import PROGRESS_LOG
from .._core.engine.kinds import Kind, fields
from .._core.engine.plan import ABSENT, Resource, Value
from .._core.host.host import Host
from .._core.kube.client import Refused
from .._core.text.errors import CommandFailed, PeerError
from .departed import admit, refuse
from .messages import MESSAGES

_DRAIN_SECONDS = 60
# A pod whose kubelet is dead never ends; a drain stops waiting for it 15 seconds after its deletion.
_DRAIN_FLAGS = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--skip-wait-for-delete-timeout=15")

SPEC: dict[str, Any] = {
    "state_dir": {"type": "path", "required": True},
    **PROGRESS_LOG,
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
class NodesRequest:
    state_dir: str
    plane_dir: str
    kubectl: str
    nodes: tuple[Node, ...]

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> NodesRequest:
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
    """`{labels, taints}`, without those that programs set: Kubernetes, and this collection while it switches kube-proxy's mode.
    The target is `NAME PLANE_DIR`. It does not name the programs' directory, which may change while the Node stays the same."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        name, plane_dir = target.split(" ")
        record = load_record(ctx.host, plane_dir)
        node = get_node(ctx.host, record, name) if record else None
        if node is None:
            return ABSENT
        labels = node["metadata"].get("labels", {})
        taints = node.get("spec", {}).get("taints", [])
        return {
            "labels": {key: value for key, value in sorted(labels.items()) if not _is_programs(key)},
            "taints": _own_taints(taints),
        }

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        name, plane_dir = target.split(" ")
        record = load_record(ctx.host, plane_dir)
        if record is None:
            return
        ensure_rights(ctx.host, record, LAB_NODES)
        before, node = self.read(ctx, target), get_node(ctx.host, record, name)
        admit(ctx.host, record, name)
        if before == ABSENT or node is None:
            return  # its kubelet registers it with these labels and taints
        requested = fields(after)
        gone = {key: None for key in fields(fields(before)["labels"]) if key not in fields(requested["labels"])}
        kept = [taint for taint in node.get("spec", {}).get("taints", []) if _is_programs(taint["key"])]
        patch = {
            "metadata": {"labels": {**gone, **fields(requested["labels"])}},
            "spec": {"taints": [*kept, *requested["taints"]]},  # type: ignore[misc]
        }
        change_node(name, lambda: record.api(ctx.host, LAB_NODES).patch(node_path(name), patch))

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        name, plane_dir = target.split(" ")
        record = load_record(ctx.host, plane_dir)
        if record is None:
            return
        ensure_rights(ctx.host, record, LAB_NODES)
        drain_node(ctx, record, name)
        change_node(name, lambda: record.api(ctx.host, LAB_NODES).delete(node_path(name)))
        refuse(ctx.host, record, name)


class NodesEngine(ResourceEngine[NodesRequest]):
    name = "nodes"
    kinds: Mapping[str, Kind] = {"node": NodeKind()}

    def wanted(self, ctx: Context[NodesRequest]) -> list[Resource]:
        desired = ctx.desired
        return [
            Resource(
                kind="node",
                target=f"{node.name} {desired.plane_dir}",
                value={
                    "labels": {key: value for key, value in sorted(node.labels.items()) if not _is_programs(key)},
                    "taints": _own_taints(node.taints),
                },
                title=f"Node {node.name}",
                group="Node objects",
            )
            for node in desired.nodes
        ]

    def verify(self, ctx: Context[NodesRequest]) -> list[Finding]:
        """Nothing: the plan of a new node is not empty until its kubelet has registered it."""
        return []


ENGINE = NodesEngine()


def kubectl_options(kubeconfig: str) -> list[str]:
    """Without kubectl's cache, which would stay in a home directory or the current one."""
    return ["--kubeconfig", kubeconfig, "--cache-dir", "/dev/null"]


def drain_node(ctx: Context[Any], record: Record, name: str) -> None:
    """Drain the node. When this fails or is interrupted, the node takes pods again if it did before: `kubectl drain` leaves it
    cordoned."""
    node = get_node(ctx.host, record, name)
    flags = [*_DRAIN_FLAGS, f"--timeout={_DRAIN_SECONDS}s"]
    with kubeconfig_of(ctx.host, record, LAB_NODES) as lent:
        argv = [ctx.desired.kubectl, *kubectl_options(lent), "drain", name, *flags]
        try:
            ctx.host.run(argv, timeout=_DRAIN_SECONDS + 30)
        except (CommandFailed, KeyboardInterrupt) as error:
            if node is not None and not node.get("spec", {}).get("unschedulable"):
                with suppress(PeerError):  # if the API does not answer, the drain's own error reports it
                    record.api(ctx.host, LAB_NODES).patch(node_path(name), {"spec": {"unschedulable": None}})
            if isinstance(error, KeyboardInterrupt):
                raise
            raise MESSAGES.error(
                "lab-node-drain", name=name, seconds=_DRAIN_SECONDS, kubeconfig=record.kubeconfig, found=error.found
            ) from error


def get_node(host: Host, record: Record, name: str) -> dict[str, Any] | None:
    """The Node object; None also when the API server cannot be asked."""
    try:
        return record.api(host, LAB_NODES).find(node_path(name))
    except PeerError:
        return None


def change_node(name: str, change: Callable[[], object]) -> None:
    """Call `change`. Its Refused becomes an error that names the node; other errors pass."""
    try:
        change()
    except Refused as error:
        raise MESSAGES.error("lab-node", name=name, found=f"{error.status}: {error.found}") from error


def node_path(name: str) -> str:
    """The path of the Node in the API."""
    return f"/api/v1/nodes/{name}"


def _is_programs(key: str) -> bool:
    domain = "." + key.partition("/")[0] if "/" in key else ""
    return domain.endswith((".kubernetes.io", ".k8s.io", ".ballast.kube", ".ballast.dev"))


def _own_taints(taints: Iterable[Mapping[str, Any]]) -> list[Value]:
    own = [taint for taint in taints if not _is_programs(taint["key"])]
    rows = [{name: str(taint.get(name) or "") for name in ("key", "value", "effect")} for taint in own]
    return [*sorted(rows, key=lambda row: (row["key"], row["effect"]))]
