# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A backup of a control plane: a snapshot of its etcd, checked, with the keys that a restore needs, in one file.

Everything is made in a directory beside the archive and put in its place by one rename, so the archive at that path is
the earlier one or the new one, each whole. What a killed run leaves there is removed by the next.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..._core.engine import locked
from ..._core.errors import BallastError, Problems
from ..._core.events import Progress
from ..._core.host import Host
from ..._core.plan import ABSENT, Plan, Policy, Step, Value
from ..profiles import EXISTING
from ..record import Record, needed_record
from .archive import (
    FORMAT,
    KEPT,
    MANIFEST,
    NEEDED,
    SECONDS,
    SNAPSHOT,
    Manifest,
    beside,
    described,
    no_space,
    pack,
    read_manifest,
    sha256,
    told,
)
from .etcd import EtcdStatus, count_keys, etcd_status
from .messages import MESSAGES
from .operation import Operation
from .paths import path_problems
from .snapshot import status as snapshot_status
from .snapshot import take

_ROOM = 2**24  # bytes beside the data: tables of the filesystem, and writes of others meanwhile


@dataclass(frozen=True)
class Backup:
    """What is asked for."""

    state_dir: str
    path: str
    bin_dir: str  # empty: that of the control plane

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Backup:
        Problems.raise_if(path_problems(params, ("state_dir", "path", "bin_dir")))
        return cls(*(str(params[option] or "").rstrip("/") for option in ("state_dir", "path", "bin_dir")))

    def program(self, name: str, record: Record) -> str:
        return os.path.join(self.bin_dir or record.bin_dir, name)

    @property
    def work(self) -> str:
        return os.path.join(os.path.dirname(self.path), f".ballast-{os.path.basename(self.path)}")


class BackupEngine(Operation[Backup]):
    """Each run takes one: what etcd holds changes all the time."""

    def observe(self, desired: Backup, host: Host) -> Value:
        """Of the archive that is there."""
        earlier = described(host, desired.path)
        return {name: str(earlier.get(name)) for name in ("taken_at", "revision")} if earlier else ABSENT

    def plan(self, desired: Backup, state: Value) -> Plan:
        step = Step(
            kind="backup",
            title=f"backup {desired.path}",
            target=desired.path,
            after={"of": desired.state_dir},
            before=state,
            group="backup",
        )
        return Plan(steps=(step,), policy=Policy.KEEP)

    def require(self, desired: Backup, host: Host) -> None:
        record = needed_record(host, desired.state_dir)
        _refuse_what_is_missing(desired, record, host)
        status = etcd_status(host, record)
        _refuse_full_disk(desired, host, status)

    def apply(self, plan: Plan, desired: Backup, host: Host, progress: Progress) -> tuple[Step, ...]:
        record = needed_record(host, desired.state_dir)
        with locked(self.name, desired, host, progress):
            host.remove_tree(desired.work)
            progress.started("backup", "snapshot of etcd")
            try:
                _make(desired, record, host)
            except (Exception, KeyboardInterrupt):
                host.remove_tree(desired.work)
                raise
            host.remove_tree(desired.work)
        progress.done("backup", desired.path)
        return plan.steps

    def report(self, desired: Backup, host: Host) -> dict[str, object]:
        return {"archive": desired.path, "backup": described(host, desired.path)}


def _refuse_what_is_missing(desired: Backup, record: Record, host: Host) -> None:
    found: list[BallastError] = []
    missing = [name for name in ("etcdctl", "etcdutl") if host.stat(desired.program(name, record)) is None]
    if missing:
        path = os.path.dirname(desired.program("etcdctl", record))
        found.append(MESSAGES.error("plane-tool-missing", path=path, names=", ".join(missing)))
    if record.choice.etcd == EXISTING:
        endpoints = ", ".join(record.etcd.endpoints)
        found.append(MESSAGES.error("plane-etcd-not-ours", path=desired.state_dir, endpoints=endpoints))
    parent = host.stat(os.path.dirname(desired.path))
    if parent is None or parent.kind != "directory":
        found.append(MESSAGES.error("plane-backup-place", path=desired.path, parent=os.path.dirname(desired.path)))
    elif host.stat(desired.path) is not None and not _is_ours(desired, host):
        found.append(MESSAGES.error("plane-backup-foreign", path=desired.path))
    Problems.raise_if(found)


def _is_ours(desired: Backup, host: Host) -> bool:
    if described(host, desired.path):
        return True
    try:
        read_manifest(host, desired.path)
    except BallastError:
        return False
    return True


def _refuse_full_disk(desired: Backup, host: Host, status: EtcdStatus) -> None:
    """The snapshot is there twice for a moment: as a file, and in the archive."""
    needed = 2 * status.size_bytes + _ROOM
    if host.free_bytes(os.path.dirname(desired.path)) < needed:
        raise no_space(desired.path, needed=needed)


def _make(desired: Backup, record: Record, host: Host) -> None:
    content, archive = os.path.join(desired.work, "content"), os.path.join(desired.work, "archive")
    for path in (desired.work, content):
        host.make_directory(path, mode=0o700)
    snapshot = os.path.join(content, SNAPSHOT)
    take(host, record, etcdctl=desired.program("etcdctl", record), path=snapshot)
    for name, place in KEPT.items():
        data = host.read(os.path.join(desired.state_dir, place))
        if data is not None:
            host.write(os.path.join(content, name), data, mode=0o600)
    manifest = _manifest(desired, record, host, content)
    host.write(os.path.join(content, MANIFEST), manifest.as_text().encode(), mode=0o600)
    pack(host, content, archive)
    # The description goes first: an archive without one is whole, one with that of another is not to be believed.
    host.remove(beside(desired.path))
    description = {**told(manifest), "archive_sha256": sha256(host, archive)}
    host.run(["mv", "--no-target-directory", "--", archive, desired.path], timeout=SECONDS)
    host.write(beside(desired.path), json.dumps(description, indent=2, sort_keys=True).encode() + b"\n", mode=0o600)


def _manifest(desired: Backup, record: Record, host: Host, content: str) -> Manifest:
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
        shape=record.choice.shape,
        kubernetes_version=record.kubernetes_version,
        etcd_version=etcd_status(host, record).version,
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
