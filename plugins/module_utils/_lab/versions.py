# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another Kubernetes version for an existing lab: whether it is allowed, and in which order the nodes get it.

Rules: Kubernetes' version skew policy (https://kubernetes.io/releases/version-skew-policy). An API server goes from one minor version to
the next and never back; a kubelet and its kube-proxy are at most three minor versions older than the API server, and not newer. So the
control plane comes first, then the nodes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .._binaries.families import VERSION, version_key
from .._control_plane.operations.upgrade import read_last_version
from .._core.host.host import Host
from .._core.text.errors import BallastError
from .._instance.record import read_options
from .drain import read_drained
from .messages import MESSAGES
from .resolve import LOCAL, Lab
from .topology import KUBEADM

_KUBELET_SKEW = 3  # minor versions


@dataclass(frozen=True)
class NodePrograms:
    """Version and programs that a node was last given."""

    kubernetes_version: str
    bin_dir: str
    running: bool


@dataclass(frozen=True)
class LabVersions:
    """Versions of the existing lab."""

    served: str  # by its control plane; "" while that has no data
    nodes: Mapping[str, NodePrograms]  # nodes of this host by name
    drained: Collection[str]  # nodes that an earlier run began to upgrade


NO_VERSIONS = LabVersions(served="", nodes={}, drained=())


def read_versions(host: Host, lab_dir: str, previous: Optional[Lab]) -> LabVersions:
    """NO_VERSIONS for a new lab (`previous` is None). `nodes` stays empty for a lab in virtual machines."""
    if previous is None:
        return NO_VERSIONS
    if any(row["connection"] != "local" for row in previous["hosts"]):
        return LabVersions(served=previous["kubernetes_version"], nodes={}, drained=())
    options = read_options(host, os.path.join(lab_dir, "nodes")) or {}
    mount_namespaces = {node["name"]: node.get("mountns", "") for node in previous["nodes"]}
    nodes = {}
    for row in options.get("instances", ()):
        mountns = mount_namespaces.get(row["name"])
        nodes[row["name"]] = NodePrograms(
            kubernetes_version=row.get("kubernetes_version") or options["kubernetes_version"],
            bin_dir=row.get("bin_dir") or options["bin_dir"],
            running=bool(mountns) and host.stat(str(mountns)) is not None and not row.get("stopped"),
        )
    return LabVersions(
        served=read_last_version(host, os.path.join(lab_dir, "plane")) or "",
        nodes=nodes,
        drained=read_drained(host, lab_dir),
    )


def find_version_problems(
    version: str, current: LabVersions, *, target: str, bootstrap: str, buildable: Collection[str]
) -> list[BallastError]:
    """Why the lab must not change to `version` (X.Y.Z). Pure."""
    served = current.served
    if not VERSION.fullmatch(served) or version == served:
        return []
    if bootstrap == KUBEADM:
        return [MESSAGES.error("lab-version-kubeadm", value=version, served=served)]
    if target != "host":
        return [MESSAGES.error("lab-version-machines", value=version, served=served)]
    new, old = version_key(version), version_key(served)
    if new < old:
        return [MESSAGES.error("lab-downgrade", value=version, served=served)]
    if new[:2] not in (old[:2], (old[0], old[1] + 1)):
        between = f"{old[0]}.{old[1] + 1}"
        known = [other for other in buildable if VERSION.fullmatch(other) and other.startswith(f"{between}.")]
        first = max(known, key=version_key, default=f"{between}.X, of which this collection pins no version")
        return [MESSAGES.error("lab-version-jump", value=version, served=served, first=first)]
    late = [
        (name, node.kubernetes_version)
        for name, node in sorted(current.nodes.items())
        if new[1] - version_key(node.kubernetes_version)[1] > _KUBELET_SKEW
    ]
    return [MESSAGES.error("lab-node-skew", value=version, served=served, node=name, found=old) for name, old in late]


def upgrade_turns(lab: Lab, instances: Sequence[Mapping[str, Any]], current: LabVersions) -> list[dict[str, Any]]:
    """A turn for each node with another version than the lab's, in order: `node`; `drain`, false if nothing of the node runs;
    `instances`, the rows of this host for the turn, in which nodes with a later turn keep their programs. Pure.

    A node that an earlier run drained has its turn again. If it has left the lab since, and is the only one, it also has a turn, which
    removes its drain from the journal: otherwise it would be drained again some time after it rejoins.
    """
    version = lab["kubernetes_version"]
    names = [node["name"] for node in lab["nodes"] if node["host"] == LOCAL]
    waiting = [
        name
        for name in names
        if name in current.nodes
        and (
            name in current.drained
            or (current.nodes[name].running and current.nodes[name].kubernetes_version != version)
        )
    ]
    # A node that is drained already comes first, so that never two nodes take no pods.
    waiting.sort(key=lambda name: name not in current.drained)
    turns = []
    for number, name in enumerate(waiting):
        late = {
            other: current.nodes[other]
            for other in waiting[number + 1 :]
            if current.nodes[other].kubernetes_version != version
        }
        rows = [
            {**row, "bin_dir": late[row["name"]].bin_dir, "kubernetes_version": late[row["name"]].kubernetes_version}
            if row["name"] in late
            else dict(row)
            for row in instances
            if row["name"] in current.nodes
        ]
        turns.append({"node": name, "drain": current.nodes[name].running, "instances": rows})
    left = sorted(set(current.drained) - set(names))
    if left and not turns:
        rows = [dict(row) for row in instances if row["name"] in current.nodes]
        turns.append({"node": left[0], "drain": False, "instances": rows})
    return turns
