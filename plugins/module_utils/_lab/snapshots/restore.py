# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Restores a stopped lab from a snapshot: its etcd, and the volumes of its nodes.

The volumes are first copied next to the existing ones, which takes time and disk space. The plan checks disk space, so that
check mode, which the playbook runs before it stops anything, refuses a disk that is too full. Then a note records that the restore
has begun, etcd is restored, and renames exchange the volumes. A run killed before the note has changed nothing; after
the note the lab does not start until the same restore was run again, so etcd and volumes never belong to different times.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..._control_plane.operations.restore import ENGINE as PLANE_RESTORE
from ..._control_plane.operations.restore import RestoreRequest as PlaneRequest
from ..._control_plane.operations.restore import needed_bytes
from ..._control_plane.record import load_record
from ..._core.engine.context import Context
from ..._core.engine.engine import BaseEngine, Finding, hold_lock
from ..._core.engine.events import PROGRESS_LOG
from ..._core.engine.ownership import claim
from ..._core.engine.plan import Plan, Policy, Step, Value
from ..._core.engine.plan_report import plan_diff, steps_as_result
from ..._core.host.host import Host
from ..._core.text.errors import BallastError, Problems
from ..engine import RESTORING, SNAPSHOTS, read_unfinished_restore
from ..messages import MESSAGES
from ..resolve import Lab
from .store import (
    PLANE_ARCHIVE,
    VOLUMES,
    Snapshot,
    copy_tree,
    list_snapshots,
    measure_bytes,
    move,
    read_snapshot,
    refuse_running_nodes,
    require_snapshotable,
    require_space,
    snapshot_path,
    snapshots_dir,
    volumes_paths,
)
from .take import no_snapshot

_STAGED, _REPLACED = ".restored", ".replaced"  # beside a node's directory of volumes, `local-path`
_ROOM = 2**26  # bytes to spare: filesystem metadata, and writes of others meanwhile

SPEC: dict[str, Any] = {
    "lab_dir": {"type": "path", "default": "/var/lib/ballast/lab"},
    "name": {"type": "str", "required": True},
    **PROGRESS_LOG,
}


@dataclass(frozen=True)
class RestoreRequest:
    state_dir: str  # LAB_DIR/snapshots
    lab_dir: str
    name: str
    snapshot: Snapshot
    lab: Lab = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The directory of the snapshot."""
        return snapshot_path(self.lab_dir, self.name)

    @property
    def group(self) -> str:
        """The group of the restore's one step."""
        return f"restore {self.name}"


def desired_from_params(params: Mapping[str, Any], host: Host) -> RestoreRequest:
    """The request. Raises together everything that prevents this lab from taking the snapshot."""
    lab_dir, name = params["lab_dir"].rstrip("/"), str(params["name"])
    lab, names = require_snapshotable(host, lab_dir), list_snapshots(host, lab_dir)
    snapshot = read_snapshot(host, snapshot_path(lab_dir, name)) if name in names else None
    if snapshot is None:
        raise no_snapshot(name, names)
    Problems.raise_if(find_differences(snapshot, lab))
    return RestoreRequest(snapshots_dir(lab_dir), lab_dir, name, snapshot, lab)


def find_differences(snapshot: Snapshot, lab: Lab) -> list[BallastError]:
    """Why the lab cannot take this snapshot. Nodes and add-ons added since are no obstacle."""
    problems = []
    version = lab["kubernetes_version"]
    if _minor(version) != _minor(snapshot.kubernetes_version):
        shown = {"name": snapshot.name, "taken_with": snapshot.kubernetes_version, "version": version}
        problems.append(MESSAGES.error("lab-snapshot-version", **shown))
    nodes = [node["name"] for node in lab["nodes"]]
    for what, had, has, option in (
        ("nodes", snapshot.nodes, nodes, "lab_nodes or lab_topology"),
        ("add-ons", snapshot.addons, lab.get("addons", ()), "lab_addons"),
    ):
        missing = ", ".join(sorted(set(had) - set(has)))
        if missing:
            shown = {"name": snapshot.name, "what": what, "missing": missing, "option": option}
            problems.append(MESSAGES.error("lab-snapshot-lacks", **shown))
    return problems


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


@dataclass(frozen=True)
class RestoreState:
    """`begun`: an earlier run did not finish a restore. `free` is in bytes."""

    begun: bool
    needed: int  # bytes, besides what a killed run has copied already
    free: int


class LabRestoreEngine(BaseEngine[RestoreRequest, RestoreState, Plan]):
    """Each run restores, as nobody knows what the lab did since the last one."""

    def observe(self, ctx: Context[RestoreRequest]) -> RestoreState:
        desired, host = ctx.desired, ctx.host
        plane = _plane_context(ctx)
        record = load_record(host, plane.desired.state_dir)
        of_plane = 0 if _is_plane_begun(ctx) else needed_bytes(record, measure_bytes(host, plane.desired.archive))
        copied = sum(measure_bytes(host, path) for path in _leftovers(desired))
        begun = read_unfinished_restore(host, desired.lab_dir) is not None
        needed = desired.snapshot.volume_bytes + of_plane + _ROOM - copied
        return RestoreState(begun, needed, host.free_bytes(desired.lab_dir))

    def plan(self, desired: RestoreRequest, state: RestoreState) -> Plan:
        require_space(desired.lab_dir, needed=state.needed, free=state.free, name=desired.name)
        before: Value = {"begun": state.begun}
        after: Value = {"snapshot": desired.name, "taken_at": desired.snapshot.taken_at}
        title = f"etcd and volumes of the lab {desired.lab['name']}"
        step = Step("restore", title, target=desired.lab_dir, after=after, before=before, group=desired.group)
        return Plan(steps=(step,), policy=Policy.KEEP)

    def as_result(self, plan: Plan) -> dict[str, object]:
        return {"steps": steps_as_result(plan)}

    def diff(self, plan: Plan) -> list[dict[str, str]]:
        return plan_diff(plan)

    def require(self, ctx: Context[RestoreRequest], state: RestoreState) -> None:
        desired, host = ctx.desired, ctx.host
        refuse_running_nodes(host, desired.lab)
        plane = _plane_context(ctx)
        plane_state = PLANE_RESTORE.observe(plane)
        PLANE_RESTORE.plan(plane.desired, plane_state)  # refuses a running control plane
        PLANE_RESTORE.require(plane, plane_state)

    def claim(self, ctx: Context[RestoreRequest]) -> None:
        claim(ctx.host, ctx.desired.state_dir, owner=SNAPSHOTS)

    def apply(self, plan: Plan, ctx: Context[RestoreRequest]) -> Plan:
        desired, host = ctx.desired, ctx.host
        with hold_lock(SNAPSHOTS, ctx):
            refuse_running_nodes(host, desired.lab)
            for path in _leftovers(desired):
                host.remove_tree(path)
            places = volumes_paths(desired.lab_dir, desired.lab)
            for node, place in places.items():
                ctx.progress.waiting(desired.group, f"volumes of node {node}")
                _stage(host, os.path.join(desired.path, VOLUMES, node), place)
            host.run(["sync", "--file-system", desired.lab_dir], timeout=600)
            note = os.path.join(desired.lab_dir, RESTORING)
            is_new = read_unfinished_restore(host, desired.lab_dir) is None
            host.write(note, json.dumps({"snapshot": desired.name}).encode() + b"\n", mode=0o600)
            try:
                _restore_plane(ctx)
            except (Exception, KeyboardInterrupt):
                if is_new and not _is_plane_begun(ctx):
                    host.remove(note)  # nothing was replaced: the lab may start as before
                raise
            for place in places.values():
                _swap(host, place)
            host.remove(note)
        ctx.progress.done(desired.group, f"as of {desired.snapshot.taken_at}")
        return plan

    def verify(self, ctx: Context[RestoreRequest]) -> list[Finding]:
        """Nothing: the control plane compares etcd with its backup when it starts."""
        return []

    def report(self, ctx: Context[RestoreRequest]) -> dict[str, object]:
        return {"taken_at": ctx.desired.snapshot.taken_at}


def _leftovers(desired: RestoreRequest) -> list[str]:
    """What a killed run may have left behind; the snapshot still has all of it."""
    return [
        place + end for place in volumes_paths(desired.lab_dir, desired.lab).values() for end in (_STAGED, _REPLACED)
    ]


def _plane_context(ctx: Context[RestoreRequest]) -> Context[PlaneRequest]:
    desired = ctx.desired
    request = PlaneRequest(
        state_dir=os.path.join(desired.lab_dir, "plane"),
        archive=os.path.join(desired.path, PLANE_ARCHIVE),
        bin_dir="",
        replace=True,
        kubernetes_version=desired.lab["kubernetes_version"],
    )
    return Context(request, ctx.host, ctx.progress)


def _restore_plane(ctx: Context[RestoreRequest]) -> None:
    plane = _plane_context(ctx)
    PLANE_RESTORE.apply(PLANE_RESTORE.plan(plane.desired, PLANE_RESTORE.observe(plane)), plane)


def _is_plane_begun(ctx: Context[RestoreRequest]) -> bool:
    """Whether etcd has this snapshot's data, or a restore of it has begun."""
    state = PLANE_RESTORE.observe(_plane_context(ctx))
    return state.is_begun() or state.is_finished()


def _stage(host: Host, source: str, place: str) -> None:
    """Copy the volumes next to the existing ones; nothing if the snapshot has no volumes of this node."""
    if host.stat(source) is not None:
        copy_tree(host, source, place + _STAGED)


def _swap(host: Host, place: str) -> None:
    if host.stat(place) is not None:
        move(host, place, place + _REPLACED)
    if host.stat(place + _STAGED) is not None:
        move(host, place + _STAGED, place)
    host.remove_tree(place + _REPLACED)


ENGINE = LabRestoreEngine()
