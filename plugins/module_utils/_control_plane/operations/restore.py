# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A restore of a control plane from a backup, into a state directory with no control plane, or a stopped one.

Everything is first unpacked and checked in a separate directory, which changes nothing else. Replaced data is moved aside,
never removed. The next run of ballast.kube.control_plane starts the control plane, makes the leaf certificates, and compares
etcd with the backup.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional

from ..._core.engine.context import Context
from ..._core.engine.engine import hold_lock
from ..._core.engine.kinds import directory
from ..._core.engine.ownership import list_content, set_mark
from ..._core.engine.plan import ABSENT, Plan, Policy, Resource, Step
from ..._core.host.host import Host
from ..._core.service.services import service_pid
from ..._core.text.errors import BallastError, Problems
from ..engine import ENGINE as PLANE
from ..messages import MESSAGES as PLANE_MESSAGES
from ..pki.encryption import KIND as ENCRYPTION_KIND
from ..profiles.profiles import EXISTING
from ..record import Record, load_record
from .archive import (
    ENCRYPTION,
    KEPT,
    SNAPSHOT,
    Manifest,
    describe_manifest,
    no_space,
    read_description,
    read_manifest,
    sha256,
    unpack,
    unsound_archive,
)
from .messages import MESSAGES
from .operation import Operation
from .paths import find_path_problems
from .placement import ETCD, new_path, place_all, work_path
from .recording import Recording, open_recording
from .replaced_data import replaced_data_path
from .restore_note import PLACING, RESTORED, RestoreNote, load_note, write_note
from .snapshot import REVISIONS_AHEAD, etcd_members, restore_snapshot
from .snapshot import read_etcdutl_version as etcdutl_version
from .snapshot import read_snapshot_status as snapshot_status
from .upgrade import find_version_problem

_ROOM = 2**26  # bytes beside the data: etcd's new write-ahead log has 64 MiB from the start
_GROUP = "restore"


@dataclass(frozen=True)
class RestoreRequest:
    """What is asked for."""

    state_dir: str
    archive: str
    bin_dir: str  # empty: that of the control plane
    replace: bool
    kubernetes_version: str  # of the API server that will serve the data; empty: checked when it starts

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> RestoreRequest:
        Problems.raise_if(find_path_problems(params, ("state_dir", "archive", "bin_dir")))
        return cls(
            state_dir=str(params["state_dir"]).rstrip("/"),
            archive=str(params["archive"]),
            bin_dir=str(params["bin_dir"] or "").rstrip("/"),
            replace=bool(params["replace"]),
            kubernetes_version=str(params["kubernetes_version"] or "").lstrip("v"),
        )


@dataclass(frozen=True)
class RestoreState:
    """The state directory before a restore."""

    record: Optional[Record]
    running: tuple[str, ...]  # processes of the control plane
    has_data: bool
    archive_sha256: str  # empty while there is no archive
    note: Optional[RestoreNote]

    def is_finished(self) -> bool:
        """Whether this archive was restored, and nothing was started since."""
        note = self.note
        return note is not None and note.stage == RESTORED and note.archive_sha256 == self.archive_sha256

    def is_begun(self) -> bool:
        """Whether an earlier run ended while it put data in place, from whichever archive."""
        return self.note is not None and self.note.stage == PLACING


class RestoreEngine(Operation[RestoreRequest, RestoreState]):
    def observe(self, ctx: Context[RestoreRequest]) -> RestoreState:
        desired, host = ctx.desired, ctx.host
        record = load_record(host, desired.state_dir)
        members = () if record is None else record.members
        running = (member.name for member in members if service_pid(host, member.service) is not None)
        return RestoreState(
            record=record,
            running=tuple(running),
            has_data=bool(list_content(host, os.path.join(desired.state_dir, ETCD))),
            archive_sha256=sha256(host, desired.archive) if host.stat(desired.archive) is not None else "",
            note=load_note(host, desired.state_dir),
        )

    def plan(self, desired: RestoreRequest, state: RestoreState) -> Plan:
        """BallastError when a process runs there, or data exists that must not be replaced."""
        if state.is_finished():
            return Plan(steps=(), policy=Policy.KEEP)
        if state.running:
            components = ", ".join(state.running)
            raise MESSAGES.error("plane-restore-running", path=desired.state_dir, found=components)
        if state.record is not None and state.record.choice.etcd == EXISTING:
            endpoints = ", ".join(state.record.etcd.endpoints)
            raise MESSAGES.error("plane-etcd-not-ours", path=desired.state_dir, endpoints=endpoints)
        if state.has_data and not desired.replace and not state.is_begun():
            raise MESSAGES.error("plane-restore-data", path=desired.state_dir)
        step = Step(
            kind="restore",
            title=f"data of the control plane in {desired.state_dir}",
            target=desired.state_dir,
            after={"from": desired.archive},
            before={"moved_aside": True} if state.has_data else ABSENT,
            group=_GROUP,
        )
        return Plan(steps=(step,), policy=Policy.KEEP)

    def require(self, ctx: Context[RestoreRequest], state: RestoreState) -> None:
        """The archive can be used here, and is whole as far as can be seen without unpacking it."""
        desired, host = ctx.desired, ctx.host
        state = self.observe(ctx)
        if state.is_finished() or state.is_begun():
            return
        manifest = read_manifest(host, desired.archive)
        noted = read_description(host, desired.archive)
        if noted and noted["archive_sha256"] != state.archive_sha256:
            raise unsound_archive(desired.archive, f"it is not the file that {desired.archive}.json describes")
        Problems.raise_if(
            [*_find_version_problems(desired, manifest), *_find_program_problems(desired, host, state, manifest)]
        )
        needed = needed_bytes(state.record, manifest.size_bytes)
        if host.free_bytes(desired.state_dir) < needed:
            raise no_space(os.path.join(desired.state_dir, ETCD), needed=needed)

    def apply(self, plan: Plan, ctx: Context[RestoreRequest]) -> Plan:
        desired, host, progress = ctx.desired, ctx.host, ctx.progress
        if not plan.steps:
            return plan
        with hold_lock(self.name, ctx):
            state = self.observe(ctx)
            plan = self.plan(desired, state)
            if not plan.steps:
                return plan  # another run restored it while this one waited
            progress.started(_GROUP, desired.archive)
            with open_recording(PLANE, ctx) as recorded:
                _restore(desired, state, host, recorded)
        progress.done(_GROUP, desired.state_dir)
        return plan

    def report(self, ctx: Context[RestoreRequest]) -> dict[str, object]:
        host = ctx.host
        note = load_note(host, ctx.desired.state_dir)
        moved = "" if note is None or host.stat(note.aside) is None else note.aside
        return {"backup": describe_manifest(read_manifest(host, ctx.desired.archive)), "moved_aside": moved or None}


def needed_bytes(record: Optional[Record], snapshot_bytes: int) -> int:
    """Disk space for a restore: the unpacked snapshot, and the data of every member."""
    return (1 + len(etcd_members(record))) * (snapshot_bytes + _ROOM)


def _directory(path: str) -> Resource:
    return directory(path, mode=0o700, group=_GROUP)


def _encryption_keys(path: str) -> Resource:
    return Resource(ENCRYPTION_KIND, path, value={}, title=f"encryption at rest in {path}", group=_GROUP)


def _restore(desired: RestoreRequest, state: RestoreState, host: Host, recording: Recording) -> None:
    state_dir = desired.state_dir
    if state.note is not None and state.is_begun():
        _place(state.note, state_dir, host, recording)
        if state.note.archive_sha256 == state.archive_sha256:
            return
        raise MESSAGES.error("plane-restore-other", path=state_dir)
    if host.stat(work_path(state_dir)) is not None:
        recording.remove(_directory(work_path(state_dir)))  # unpacked by a killed run
    recording.make(_directory(work_path(state_dir)))
    try:
        manifest = _prepare(desired, state, host)
    except (Exception, KeyboardInterrupt):
        recording.remove(_directory(work_path(state_dir)))
        raise
    members = etcd_members(state.record)
    for name in ("config", "pki", *(member.directory for member in members)):
        recording.make(_directory(os.path.join(state_dir, name)))
    if ENCRYPTION in manifest.files:
        # A run of the control plane keeps recorded keys, whatever its option `encryption`.
        recording.record(_encryption_keys(os.path.join(state_dir, KEPT[ENCRYPTION])))
    aside = replaced_data_path(state_dir, host.now())
    recording.make(_directory(aside))
    note = RestoreNote(
        stage=PLACING,
        archive_sha256=state.archive_sha256,
        kubernetes_version=manifest.kubernetes_version,
        service_network=manifest.service_network,
        revision=manifest.revision + REVISIONS_AHEAD,
        keys=manifest.keys,
        aside=aside,
        members=len(members),
    )
    write_note(host, state_dir, note)
    _place(note, state_dir, host, recording)


def _place(note: RestoreNote, state_dir: str, host: Host, recording: Recording) -> None:
    """Move the data into place and clean up. The note is written last, so that until then the next run continues a killed one."""
    place_all(host, state_dir, aside=note.aside)
    recording.remove(_directory(work_path(state_dir)))
    if not list_content(host, note.aside):
        recording.remove(_directory(note.aside))
    write_note(host, state_dir, replace(note, stage=RESTORED))


def _prepare(desired: RestoreRequest, state: RestoreState, host: Host) -> Manifest:
    """Unpack and check the archive; the data is then ready under `new`."""
    work = work_path(desired.state_dir)
    unpacked, etcdutl = os.path.join(work, "content"), _program(desired, state.record, "etcdutl")
    for path in (unpacked, new_path(desired.state_dir, "")):
        host.make_directory(path, mode=0o700)
    manifest = read_manifest(host, desired.archive)
    unpack(host, desired.archive, manifest, unpacked)
    snapshot = os.path.join(unpacked, SNAPSHOT)
    checked = snapshot_status(host, etcdutl=etcdutl, path=snapshot)
    if (checked.hash, checked.revision) != (manifest.hash, manifest.revision):
        raise unsound_archive(desired.archive, "its snapshot is another than its manifest says")
    for member in etcd_members(state.record):
        data = new_path(desired.state_dir, member.directory)
        restore_snapshot(host, etcdutl=etcdutl, path=snapshot, member=member, data_dir=data)
        set_mark(host, data, as_path=os.path.join(desired.state_dir, member.directory))
    for name in sorted(set(KEPT) & set(manifest.files)):
        mode = 0o644 if name.endswith((".crt", ".pub")) else 0o600
        kept = host.read(os.path.join(unpacked, name)) or b""
        host.write(new_path(desired.state_dir, name), kept, mode=mode)
    return manifest


def _find_version_problems(desired: RestoreRequest, manifest: Manifest) -> list[BallastError]:
    if not desired.kubernetes_version:
        return []
    problem = find_version_problem(
        version=desired.kubernetes_version, served=manifest.kubernetes_version, path=desired.archive
    )
    return [] if problem is None else [problem]


def _find_program_problems(
    desired: RestoreRequest, host: Host, state: RestoreState, manifest: Manifest
) -> list[BallastError]:
    if not desired.bin_dir and state.record is None:
        return [PLANE_MESSAGES.error("plane-option-missing", option="bin_dir", state="absent")]
    etcdutl = _program(desired, state.record, "etcdutl")
    if host.stat(etcdutl) is None:
        return [MESSAGES.error("plane-tool-missing", path=os.path.dirname(etcdutl), names="etcdutl")]
    major, minor = etcdutl_version(host, etcdutl=etcdutl)
    needed = tuple(int(part) for part in manifest.etcd_version.split(".")[:2])
    if (major, minor) < needed:
        version = f"{major}.{minor}"
        return [
            MESSAGES.error("plane-archive-etcd", found_version=manifest.etcd_version, path=etcdutl, version=version)
        ]
    return []


def _program(desired: RestoreRequest, record: Optional[Record], name: str) -> str:
    return os.path.join(desired.bin_dir or ("" if record is None else record.bin_dir), name)


ENGINE = RestoreEngine()
