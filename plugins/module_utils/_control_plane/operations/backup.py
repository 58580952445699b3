# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A backup of a control plane: a snapshot of its etcd, checked, with the keys that a restore needs, in one file.

It is made in a private work directory beside the archive and moved into place by one rename, so the archive at that path is
always whole: the earlier or the new one. The next run removes what a killed run left.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..._core.engine.context import Context
from ..._core.engine.engine import hold_lock
from ..._core.engine.plan import ABSENT, Plan, Policy, Step, Value
from ..._core.host.host import Host
from ..._core.text.errors import BallastError, Problems
from ..profiles.profiles import EXISTING
from ..record import Record, require_record
from .archive import (
    FORMAT,
    KEPT,
    MANIFEST,
    NEEDED,
    SECONDS,
    SNAPSHOT,
    Manifest,
    describe_manifest,
    description_path,
    no_space,
    pack,
    read_description,
    read_manifest,
    sha256,
)
from .etcd import EtcdStatus, count_keys, read_etcd_status
from .messages import MESSAGES
from .operation import Operation
from .paths import find_path_problems
from .snapshot import read_snapshot_status as snapshot_status
from .snapshot import take_snapshot

_ROOM = 2**24  # bytes to spare: filesystem metadata, and writes of other processes meanwhile


@dataclass(frozen=True)
class BackupRequest:
    """What is asked for."""

    state_dir: str
    path: str
    bin_dir: str  # empty: that of the control plane

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> BackupRequest:
        Problems.raise_if(find_path_problems(params, ("state_dir", "path", "bin_dir")))
        return cls(*(str(params[option] or "").rstrip("/") for option in ("state_dir", "path", "bin_dir")))

    def program(self, name: str, record: Record) -> str:
        """The path of a program, in `bin_dir` or else where those of the control plane are."""
        return os.path.join(self.bin_dir or record.bin_dir, name)


class BackupEngine(Operation[BackupRequest, Value]):
    """Each run takes a backup, as the data of etcd changes all the time."""

    def observe(self, ctx: Context[BackupRequest]) -> Value:
        """Time and revision of the present archive at the path; ABSENT when it has no description."""
        earlier = read_description(ctx.host, ctx.desired.path)
        return {name: str(earlier.get(name)) for name in ("taken_at", "revision")} if earlier else ABSENT

    def plan(self, desired: BackupRequest, state: Value) -> Plan:
        step = Step(
            kind="backup",
            title=f"backup {desired.path}",
            target=desired.path,
            after={"of": desired.state_dir},
            before=state,
            group="backup",
        )
        return Plan(steps=(step,), policy=Policy.KEEP)

    def require(self, ctx: Context[BackupRequest], state: Value) -> None:
        desired, host = ctx.desired, ctx.host
        record = require_record(host, desired.state_dir)
        _refuse_what_is_missing(desired, record, host)
        status = read_etcd_status(host, record)
        _refuse_full_disk(desired, host, status)

    def apply(self, plan: Plan, ctx: Context[BackupRequest]) -> Plan:
        desired, host, progress = ctx.desired, ctx.host, ctx.progress
        record = require_record(host, desired.state_dir)
        with hold_lock(self.name, ctx):
            progress.started("backup", "snapshot of etcd")
            with host.work_directory(os.path.dirname(desired.path), os.path.basename(desired.path)) as work:
                _make(desired, record, host, work)
        progress.done("backup", desired.path)
        return plan

    def report(self, ctx: Context[BackupRequest]) -> dict[str, object]:
        return {"archive": ctx.desired.path, "backup": read_description(ctx.host, ctx.desired.path)}


def _refuse_what_is_missing(desired: BackupRequest, record: Record, host: Host) -> None:
    problems: list[BallastError] = []
    missing = [name for name in ("etcdctl", "etcdutl") if host.stat(desired.program(name, record)) is None]
    if missing:
        path = os.path.dirname(desired.program("etcdctl", record))
        problems.append(MESSAGES.error("plane-tool-missing", path=path, names=", ".join(missing)))
    if record.choice.etcd == EXISTING:
        endpoints = ", ".join(record.etcd.endpoints)
        problems.append(MESSAGES.error("plane-etcd-not-ours", path=desired.state_dir, endpoints=endpoints))
    parent = host.stat(os.path.dirname(desired.path))
    if parent is None or parent.kind != "directory":
        problems.append(MESSAGES.error("plane-backup-place", path=desired.path, parent=os.path.dirname(desired.path)))
    elif host.stat(desired.path) is not None and not _is_ours(desired, host):
        problems.append(MESSAGES.error("plane-backup-foreign", path=desired.path))
    Problems.raise_if(problems)


def _is_ours(desired: BackupRequest, host: Host) -> bool:
    if read_description(host, desired.path):
        return True
    try:
        read_manifest(host, desired.path)
    except BallastError:
        return False
    return True


def _refuse_full_disk(desired: BackupRequest, host: Host, status: EtcdStatus) -> None:
    """The snapshot needs its space twice for a while: as a file, and in the archive."""
    needed = 2 * status.size_bytes + _ROOM
    if host.free_bytes(os.path.dirname(desired.path)) < needed:
        raise no_space(desired.path, needed=needed)


def _make(desired: BackupRequest, record: Record, host: Host, work: str) -> None:
    content, archive = os.path.join(work, "content"), os.path.join(work, "archive")
    host.make_directory(content, mode=0o700)
    snapshot = os.path.join(content, SNAPSHOT)
    take_snapshot(host, record, etcdctl=desired.program("etcdctl", record), path=snapshot)
    for name, place in KEPT.items():
        data = host.read(os.path.join(desired.state_dir, place))
        if data is not None:
            host.write(os.path.join(content, name), data, mode=0o600)
    manifest = _make_manifest(desired, record, host, content)
    host.write(os.path.join(content, MANIFEST), manifest.as_text().encode(), mode=0o600)
    pack(host, content, archive)
    # Remove the description first: an archive may lack one, but must not have that of another archive.
    host.remove(description_path(desired.path))
    description = {**describe_manifest(manifest), "archive_sha256": sha256(host, archive)}
    host.run(["mv", "--no-target-directory", "--", archive, desired.path], timeout=SECONDS)
    host.write(
        description_path(desired.path), json.dumps(description, indent=2, sort_keys=True).encode() + b"\n", mode=0o600
    )


def _make_manifest(desired: BackupRequest, record: Record, host: Host, content: str) -> Manifest:
    snapshot = os.path.join(content, SNAPSHOT)
    checked = snapshot_status(host, etcdutl=desired.program("etcdutl", record), path=snapshot)
    keys = count_keys(host, record, revision=checked.revision)
    if keys is None:
        raise MESSAGES.error("plane-backup-snapshot", log=f"{desired.state_dir}/log", found="its revision is compacted")
    names = host.listdir(content)
    missing = sorted(set(NEEDED) - set(names))
    if missing:
        raise MESSAGES.error("plane-backup-keys", path=desired.state_dir, names=", ".join(missing))
    size = host.stat(snapshot)
    return Manifest(
        format=FORMAT,
        name=record.name,
        profile=record.choice.profile,
        shape=record.choice.deployment_mode,
        kubernetes_version=record.kubernetes_version,
        etcd_version=read_etcd_status(host, record).version,
        service_network=_service_network(record),
        revision=checked.revision,
        keys=keys,
        hash=checked.hash,
        size_bytes=0 if size is None else size.size,
        taken_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(host.now())),
        files={name: sha256(host, os.path.join(content, name)) for name in names},
    )


def _service_network(record: Record) -> str:
    """The network that the API server allocates the addresses of Services from; empty where it has none."""
    flags = [flag for member in record.members for flag in member.flags]
    return next((flag.value for flag in flags if flag.name == "service-cluster-ip-range"), "")


ENGINE = BackupEngine()
