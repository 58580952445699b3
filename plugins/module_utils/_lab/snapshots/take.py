# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Takes and removes snapshots of a lab: etcd, and the volumes of the add-on `storage`.

The nodes are stopped, so nothing writes to a volume, and only the control plane writes to etcd. First etcd is backed up, then the
volumes are copied, so each volume contains what its claim in the API expects. Everything is made in a work directory, and one
rename makes it a snapshot: a killed run leaves only that directory, which the next run removes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..._control_plane.operations.backup import ENGINE as BACKUP
from ..._control_plane.operations.backup import BackupRequest
from ..._control_plane.operations.etcd import read_etcd_status
from ..._control_plane.record import require_record
from ..._core.engine.context import Context
from ..._core.engine.engine import ResourceEngine
from ..._core.engine.events import PROGRESS_LOG
from ..._core.engine.kinds import Kind
from ..._core.engine.plan import ABSENT, Policy, Recorded, Resource, State, Value
from ..._core.host.host import Host
from ..._core.host.names import is_name
from ..drain import read_drained
from ..engine import SNAPSHOTS, read_unfinished_restore
from ..messages import MESSAGES
from ..resolve import Lab
from .store import (
    DESCRIPTION,
    FORMAT,
    PLANE_ARCHIVE,
    VOLUMES,
    Snapshot,
    copy_tree,
    list_snapshots,
    measure_bytes,
    read_snapshot,
    refuse_running_nodes,
    require_snapshotable,
    require_space,
    snapshot_path,
    snapshots_dir,
    volumes_paths,
)
from .store import move as move_directory

KIND = "lab-snapshot"
_LOCK = "lock"  # in the state directory, beside the snapshots
_ROOM = 2**26  # bytes to spare: filesystem metadata, and writes of others meanwhile

SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
    "lab_dir": {"type": "path", "default": "/var/lib/ballast/lab"},
    "name": {"type": "str", "required": True},
    **PROGRESS_LOG,
}


@dataclass(frozen=True)
class SnapshotRequest:
    state_dir: str  # LAB_DIR/snapshots
    lab_dir: str
    name: str
    present: bool
    lab: Lab = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The directory of the snapshot."""
        return snapshot_path(self.lab_dir, self.name)

    @property
    def plane_dir(self) -> str:
        return os.path.join(self.lab_dir, "plane")


def desired_from_params(params: Mapping[str, Any], host: Host) -> SnapshotRequest:
    """The request. Never overwrites a snapshot. Removing a missing one is an error, as its name may be misspelt."""
    lab_dir, name = params["lab_dir"].rstrip("/"), str(params["name"])
    lab, present = require_snapshotable(host, lab_dir), params["state"] == "present"
    if not is_name(name) or name == _LOCK:
        raise MESSAGES.error(
            "lab-value", path="lab_snapshot", value=name, wanted="up to 40 of a-z, 0-9 and -, and not lock"
        )
    names = list_snapshots(host, lab_dir)
    if present and name in names:
        raise MESSAGES.error("lab-snapshot-taken", name=name)
    drained = read_drained(host, lab_dir) if present else []
    if drained:
        raise MESSAGES.error("lab-snapshot-drained", nodes=", ".join(drained))
    if not present and name not in names:
        raise no_snapshot(name, names)
    if not present and read_unfinished_restore(host, lab_dir) == name:  # without it the lab could never start again
        raise MESSAGES.error("lab-restore-unfinished", name=name, directory=lab_dir)
    return SnapshotRequest(snapshots_dir(lab_dir), lab_dir, name, present, lab)


def no_snapshot(name: str, names: list[str]) -> Exception:
    """The error for a name that is not among the lab's snapshots, `names`."""
    return MESSAGES.error("lab-snapshot-none", name=name, names=", ".join(names) or "none")


class SnapshotKind:
    """`{name}`; the target is the directory of a snapshot."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        return {"name": os.path.basename(target)} if ctx.host.stat(os.path.join(target, DESCRIPTION)) else ABSENT

    def write(self, ctx: Context[SnapshotRequest], target: str, after: Value, before: Value) -> None:
        host = ctx.host
        with host.work_directory(os.path.dirname(target), os.path.basename(target)) as work:
            content = os.path.join(work, "content")
            host.make_directory(content, mode=0o700)
            _take(ctx, content)
            host.run(["sync", "--file-system", content], timeout=600)
            host.remove_tree(target)  # leftovers of a killed removal, which are no snapshot
            move_directory(host, content, target)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        """Removes the description first: without it the rest is no snapshot. Also removes what a killed run left while making one."""
        with ctx.host.work_directory(os.path.dirname(target), os.path.basename(target)):
            ctx.host.remove(os.path.join(target, DESCRIPTION))
            ctx.host.remove_tree(target)


class SnapshotsEngine(ResourceEngine[SnapshotRequest]):
    name = SNAPSHOTS
    policy = Policy.KEEP
    kinds: Mapping[str, Kind] = {KIND: SnapshotKind()}

    def wanted(self, ctx: Context[SnapshotRequest]) -> list[Resource]:
        desired = ctx.desired
        if not desired.present:
            return []
        title = f"snapshot {desired.name}"
        return [Resource(KIND, desired.path, {"name": desired.name}, title=title, group=title)]

    def read_recorded(self, ctx: Context[SnapshotRequest]) -> tuple[Recorded, ...]:
        """Only the requested snapshot, so that the others stay."""
        return tuple(row for row in super().read_recorded(ctx) if row.target == ctx.desired.path)

    def require(self, ctx: Context[SnapshotRequest], state: State) -> None:
        desired, host = ctx.desired, ctx.host
        if not desired.present:
            return
        refuse_running_nodes(host, desired.lab)
        etcd = read_etcd_status(host, require_record(host, desired.plane_dir)).size_bytes
        volumes = sum(measure_bytes(host, path) for path in _volumes(host, desired).values())
        free = host.free_bytes(desired.lab_dir)
        require_space(desired.lab_dir, needed=volumes + 2 * etcd + _ROOM, free=free, name=desired.name)

    def report(self, ctx: Context[SnapshotRequest]) -> dict[str, object]:
        snapshot = read_snapshot(ctx.host, ctx.desired.path)
        taken_at, size = ("", 0) if snapshot is None else (snapshot.taken_at, measure_bytes(ctx.host, ctx.desired.path))
        return {"path": ctx.desired.path if snapshot else "", "taken_at": taken_at, "bytes": size}


def _volumes(host: Host, desired: SnapshotRequest) -> dict[str, str]:
    """Directories with volumes, by the name of their node."""
    paths = volumes_paths(desired.lab_dir, desired.lab)
    return {name: path for name, path in paths.items() if host.stat(path) is not None}


def _take(ctx: Context[SnapshotRequest], content: str) -> None:
    desired, host = ctx.desired, ctx.host
    refuse_running_nodes(host, desired.lab)
    group = f"snapshot {desired.name}"
    backup = BackupRequest(desired.plane_dir, os.path.join(content, PLANE_ARCHIVE), bin_dir="")
    backup_ctx = Context(backup, host, ctx.progress)
    BACKUP.require(backup_ctx, ABSENT)
    BACKUP.apply(BACKUP.plan(backup, ABSENT), backup_ctx)
    volumes, paths = os.path.join(content, VOLUMES), _volumes(host, desired)
    host.make_directory(volumes, mode=0o700)
    for number, (node, path) in enumerate(paths.items(), 1):
        ctx.progress.waiting(group, f"volumes of node {node}, {number} of {len(paths)}")
        copy_tree(host, path, os.path.join(volumes, node))
    snapshot = Snapshot(
        format=FORMAT,
        name=desired.name,
        taken_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(host.now())),
        kubernetes_version=desired.lab["kubernetes_version"],
        nodes=tuple(node["name"] for node in desired.lab["nodes"]),
        addons=tuple(desired.lab.get("addons", ())),
        volume_bytes=measure_bytes(host, volumes),
    )
    host.write(os.path.join(content, DESCRIPTION), snapshot.as_bytes(), mode=0o600)
    ctx.progress.done(group, desired.path)


ENGINE = SnapshotsEngine()
