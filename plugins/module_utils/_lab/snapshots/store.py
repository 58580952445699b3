# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a snapshot of a lab consists of, and where it is stored.

    LAB_DIR/snapshots/NAME/snapshot.json   its description; written last, so that an incomplete snapshot has none
    LAB_DIR/snapshots/NAME/plane.tar       the backup of the control plane, with its keys
    LAB_DIR/snapshots/NAME/volumes/NODE    the volumes of a node, unchanged

Only root may enter any of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Optional

from ..._core.host.host import Host
from ..._core.host.names import is_name
from ..._core.text.errors import BallastError
from ..._core.text.json_text import parse_json
from ..._core.text.quantity import format_memory
from ..engine import SNAPSHOTS
from ..messages import MESSAGES
from ..record import no_lab, read_record
from ..resolve import LOCAL, Lab
from ..summary import format_table
from ..topology import KUBEADM

DESCRIPTION, PLANE_ARCHIVE, VOLUMES = "snapshot.json", "plane.tar", "volumes"
FORMAT = 1
COPY_SECONDS = 1800  # for a command that copies or measures all volumes of a node
INFO_SPEC: dict[str, Any] = {"lab_dir": {"type": "path", "default": "/var/lib/ballast/lab"}}
_NONE = (
    "the lab in {lab_dir} has no snapshots. Take one: ansible-playbook ballast.kube.lab_snapshot -e lab_snapshot=NAME"
)


@dataclass(frozen=True)
class Snapshot:
    format: int
    name: str
    taken_at: str  # "2026-11-27T08:40:00Z"
    kubernetes_version: str
    nodes: tuple[str, ...]
    addons: tuple[str, ...]
    volume_bytes: int

    def as_bytes(self) -> bytes:
        return json.dumps(asdict(self), indent=2, sort_keys=True).encode() + b"\n"


def snapshots_dir(lab_dir: str) -> str:
    return os.path.join(lab_dir, SNAPSHOTS)


def snapshot_path(lab_dir: str, name: str) -> str:
    """The directory of the snapshot; it need not exist."""
    return os.path.join(snapshots_dir(lab_dir), name)


def volumes_path(lab_dir: str, node: str) -> str:
    """The directory of a node's volumes of the add-on `storage`."""
    return os.path.join(lab_dir, "nodes", node, "kubelet", "local-path")


def volumes_paths(lab_dir: str, lab: Lab) -> dict[str, str]:
    """`volumes_path` by node of the lab."""
    return {node["name"]: volumes_path(lab_dir, node["name"]) for node in lab["nodes"]}


def read_snapshot(host: Host, path: str) -> Optional[Snapshot]:
    """The snapshot; None when there is no complete one. BallastError for one of another version of the collection."""
    data = host.read(os.path.join(path, DESCRIPTION))
    if data is None:
        return None
    try:
        row = parse_json(data)
        if row["format"] != FORMAT:
            raise ValueError(f"format {row['format']}")
        return Snapshot(
            format=FORMAT,
            name=str(row["name"]),
            taken_at=str(row["taken_at"]),
            kubernetes_version=str(row["kubernetes_version"]),
            nodes=tuple(map(str, row["nodes"])),
            addons=tuple(map(str, row["addons"])),
            volume_bytes=int(row["volume_bytes"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise MESSAGES.error("lab-snapshot-unreadable", path=path, found=str(error)) from error


def list_snapshots(host: Host, lab_dir: str) -> list[str]:
    """Names of the complete snapshots, sorted."""
    names = [name for name in host.listdir(snapshots_dir(lab_dir)) if is_name(name)]
    return sorted(name for name in names if host.stat(os.path.join(snapshot_path(lab_dir, name), DESCRIPTION)))


def require_snapshotable(host: Host, lab_dir: str) -> Lab:
    """The record of a lab that supports snapshots. BallastError for any other."""
    lab = read_record(host, lab_dir)
    if lab is None:
        raise no_lab(host, lab_dir)
    if lab.get("bootstrap") == KUBEADM or any(row["host"] != LOCAL for row in lab["nodes"]):
        raise MESSAGES.error("lab-snapshot-machines", name=lab["name"])
    return lab


def refuse_running_nodes(host: Host, lab: Mapping[str, Any]) -> None:
    """Refuse running nodes, as their pods would go on writing. A stopped node has no network namespace."""
    running = [node["name"] for node in lab["nodes"] if host.stat(node["netns"]) is not None]
    if running:
        raise MESSAGES.error("lab-snapshot-running", nodes=", ".join(running))


def measure_bytes(host: Host, directory: str) -> int:
    """The disk space of a directory with its content; 0 where it is absent."""
    if host.stat(directory) is None:
        return 0
    argv = ["du", "--summarize", "--block-size=1", "--one-file-system", "--", directory]
    return int(host.run(argv, timeout=COPY_SECONDS).stdout.split()[0])


def copy_tree(host: Host, source: str, to: str) -> None:
    """Copy with owners, modes, times, links and extended attributes. Shares blocks if the filesystem can. `to` must be absent."""
    argv = ["cp", "--archive", "--no-target-directory", "--one-file-system", "--reflink=auto", "--", source, to]
    host.run(argv, timeout=COPY_SECONDS)


def move(host: Host, source: str, to: str) -> None:
    """Move by one rename. `to` must be absent."""
    host.run(["mv", "--no-target-directory", "--no-clobber", "--", source, to], timeout=60)


def require_space(lab_dir: str, *, needed: int, free: int, name: str) -> None:
    """`lab-snapshot-space` when the lab's file system lacks bytes. `name` is that of the snapshot."""
    if free < needed:
        shown = {"needed": format_memory(needed), "free": format_memory(free)}
        raise MESSAGES.error("lab-snapshot-space", name=name, directory=lab_dir, **shown)


def read_snapshots(host: Host, params: Mapping[str, Any]) -> dict[str, Any]:
    """`snapshots`, oldest first, and `ballast_summary`, the same for people."""
    lab_dir = params["lab_dir"].rstrip("/")
    if read_record(host, lab_dir) is None:
        raise no_lab(host, lab_dir)
    rows = [_describe(host, lab_dir, name) for name in list_snapshots(host, lab_dir)]
    rows.sort(key=lambda row: (row["taken_at"], row["name"]))
    return {"snapshots": rows, "ballast_summary": _format(rows, lab_dir)}


def _describe(host: Host, lab_dir: str, name: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": name,
        "taken_at": "",
        "kubernetes_version": "",
        "nodes": [],
        "addons": [],
        "bytes": 0,
    }
    path = snapshot_path(lab_dir, name)
    try:
        snapshot = read_snapshot(host, path)
    except BallastError:
        return row
    if snapshot is None:  # removed meanwhile
        return row
    return {
        **row,
        "taken_at": snapshot.taken_at,
        "kubernetes_version": snapshot.kubernetes_version,
        "nodes": list(snapshot.nodes),
        "addons": list(snapshot.addons),
        "bytes": measure_bytes(host, path),
    }


def _format(rows: list[dict[str, Any]], lab_dir: str) -> str:
    if not rows:
        return _NONE.format(lab_dir=lab_dir)
    heads = ("SNAPSHOT", "TAKEN", "KUBERNETES", "NODES", "SIZE")
    cells = [
        (row["name"], row["taken_at"] or "unreadable", row["kubernetes_version"], ",".join(row["nodes"]), _size(row))
        for row in rows
    ]
    return "\n".join(format_table([heads, *cells]))


def _size(row: Mapping[str, Any]) -> str:
    return format_memory(row["bytes"]) if row["bytes"] else "-"
