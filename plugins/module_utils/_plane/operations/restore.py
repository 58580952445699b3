# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A restore of a control plane from a backup, into a state directory that has no plane, or a stopped one.

Everything is unpacked, checked and made ready in a directory of its own first; until then nothing of the plane is
touched. What is replaced is moved aside, never removed. The next run of ballast.kube.control_plane starts it, makes the
leaf certificates that the restored authority signs, and compares what etcd holds with the backup.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Optional

from ..._core.engine import locked
from ..._core.errors import BallastError, HostError, Problems
from ..._core.events import Progress
from ..._core.host import Host
from ..._core.kinds import directory
from ..._core.ledger import Ledger, ledger_path
from ..._core.plan import ABSENT, Plan, Policy, Resource, Step
from ..._core.service import service_pid
from ..encryption import KIND as ENCRYPTION_KIND
from ..engine import PlaneEngine
from ..messages import MESSAGES as PLANE_MESSAGES
from ..profiles import EXISTING
from ..record import Record, load_record
from .archive import (
    ENCRYPTION,
    KEPT,
    SNAPSHOT,
    Manifest,
    described,
    no_space,
    read_manifest,
    sha256,
    told,
    unpack,
    unsound,
)
from .aside import aside_path
from .messages import MESSAGES
from .note import PLACING, RESTORED, Note, load_note, write_note
from .operation import Operation
from .paths import path_problems
from .placing import ETCD, new_path, place_all, work_path
from .snapshot import REVISIONS_AHEAD, unfold
from .snapshot import status as snapshot_status
from .snapshot import version as etcdutl_version
from .upgrade import version_problem

_ROOM = 2**27  # bytes beside the data: etcd's new write-ahead log has 64 MiB from the start
_GROUP = "restore"


@dataclass(frozen=True)
class Restore:
    """What is asked for."""

    state_dir: str
    archive: str
    bin_dir: str  # empty: that of the control plane
    replace: bool
    kubernetes_version: str  # that will serve it; empty: it is checked when it starts

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Restore:
        Problems.raise_if(path_problems(params, ("state_dir", "archive", "bin_dir")))
        return cls(
            state_dir=str(params["state_dir"]).rstrip("/"),
            archive=str(params["archive"]),
            bin_dir=str(params["bin_dir"] or "").rstrip("/"),
            replace=bool(params["replace"]),
            kubernetes_version=str(params["kubernetes_version"] or "").lstrip("v"),
        )


@dataclass(frozen=True)
class Found:
    """What is there before a restore."""

    record: Optional[Record]
    running: tuple[str, ...]  # processes of the control plane
    has_data: bool
    archive_sha256: str  # empty while there is no archive
    note: Optional[Note]

    def is_finished(self) -> bool:
        """Whether this very archive was restored, and nothing was started since."""
        note = self.note
        return note is not None and note.stage == RESTORED and note.archive_sha256 == self.archive_sha256

    def is_begun(self) -> bool:
        return self.note is not None and self.note.stage == PLACING


class RestoreEngine(Operation[Restore]):
    def observe(self, desired: Restore, host: Host) -> Found:
        record = load_record(host, desired.state_dir)
        members = () if record is None else record.members
        running = (member.component for member in members if service_pid(host, member.service) is not None)
        return Found(
            record=record,
            running=tuple(running),
            has_data=bool(host.listdir(os.path.join(desired.state_dir, ETCD))),
            archive_sha256=sha256(host, desired.archive) if host.stat(desired.archive) is not None else "",
            note=load_note(host, desired.state_dir),
        )

    def plan(self, desired: Restore, state: Found) -> Plan:
        """BallastError when something runs there, or is there that may not be replaced."""
        if state.is_finished():
            return Plan(steps=(), policy=Policy.KEEP)
        if state.running:
            found = ", ".join(state.running)
            raise MESSAGES.error("plane-restore-running", path=desired.state_dir, found=found)
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

    def require(self, desired: Restore, host: Host) -> None:
        """The archive is whole as far as can be told without unpacking it, and can be used here."""
        found = self.observe(desired, host)
        if found.is_finished() or found.is_begun():
            return
        manifest = read_manifest(host, desired.archive)
        noted = described(host, desired.archive)
        if noted and noted["archive_sha256"] != found.archive_sha256:
            raise unsound(desired.archive, f"it is not the file that {desired.archive}.json describes")
        Problems.raise_if([*_version_problems(desired, manifest), *_program_problems(desired, host, found, manifest)])
        needed = 2 * manifest.size_bytes + _ROOM
        if host.free_bytes(desired.state_dir) < needed:
            raise no_space(os.path.join(desired.state_dir, ETCD), needed=needed)

    def apply(self, plan: Plan, desired: Restore, host: Host, progress: Progress) -> tuple[Step, ...]:
        if not plan.steps:
            return ()
        with locked(self.name, desired, host, progress):
            found = self.observe(desired, host)
            if not self.plan(desired, found).steps:
                return ()  # another run has done it while this one waited
            progress.started(_GROUP, desired.archive)
            ledger = Ledger(ledger_path(desired.state_dir), host=host, kinds=PlaneEngine.kinds)
            ledger.begin(Policy.KEEP)
            _restore(desired, found, host, _Recording(ledger, host))
            ledger.end()
        progress.done(_GROUP, desired.state_dir)
        return plan.steps

    def report(self, desired: Restore, host: Host) -> dict[str, object]:
        note = load_note(host, desired.state_dir)
        moved = "" if note is None or host.stat(note.aside) is None else note.aside
        return {"backup": told(read_manifest(host, desired.archive)), "moved_aside": moved or None}


class _Recording:
    """What a restore makes, recorded as the control plane's: a removal of it takes that along."""

    def __init__(self, ledger: Ledger, host: Host) -> None:
        self._ledger = ledger
        self._host = host

    def make_directory(self, path: str) -> None:
        if self._host.stat(path) is not None:
            return
        step = _step(directory(path, mode=0o700), made=True)
        self._ledger.doing(step)
        self._host.make_directory(path, mode=0o700)
        self._ledger.done(step)

    def remove_directory(self, path: str) -> None:
        self._host.remove_tree(path)  # before it is written down: the disk may be full
        step = _step(directory(path, mode=0o700), made=False)
        with suppress(HostError):  # what is recorded and not there does no harm
            self._ledger.doing(step)
            self._ledger.done(step)

    def encryption_keys(self, path: str) -> None:
        resource = Resource(kind=ENCRYPTION_KIND, target=path, value={}, title=f"encryption at rest in {path}")
        self._ledger.doing(_step(resource, made=True))


def _step(resource: Resource, *, made: bool) -> Step:
    before, after = (ABSENT, resource.value) if made else (resource.value, ABSENT)
    return Step(
        kind=resource.kind, title=resource.title, target=resource.target, after=after, before=before, group=_GROUP
    )


def _restore(desired: Restore, found: Found, host: Host, recording: _Recording) -> None:
    state_dir = desired.state_dir
    if found.note is not None and found.is_begun():
        _place(found.note, state_dir, host, recording)
        if found.note.archive_sha256 == found.archive_sha256:
            return
        raise MESSAGES.error("plane-restore-other", path=state_dir)
    if host.stat(work_path(state_dir)) is not None:
        recording.remove_directory(work_path(state_dir))  # what a killed run had unpacked
    recording.make_directory(work_path(state_dir))
    try:
        manifest = _prepare(desired, found, host)
    except (Exception, KeyboardInterrupt):
        recording.remove_directory(work_path(state_dir))
        raise
    for name in ("config", "pki", ETCD):
        recording.make_directory(os.path.join(state_dir, name))
    if ENCRYPTION in manifest.files:
        # A run of the control plane keeps these keys when it knows of them, whatever it is to encrypt with.
        recording.encryption_keys(os.path.join(state_dir, KEPT[ENCRYPTION]))
    aside = aside_path(state_dir, host.now())
    recording.make_directory(aside)
    note = Note(
        stage=PLACING,
        archive_sha256=found.archive_sha256,
        kubernetes_version=manifest.kubernetes_version,
        service_network=manifest.service_network,
        revision=manifest.revision + REVISIONS_AHEAD,
        keys=manifest.keys,
        aside=aside,
    )
    write_note(host, state_dir, note)
    _place(note, state_dir, host, recording)


def _place(note: Note, state_dir: str, host: Host, recording: _Recording) -> None:
    """What is ready, and clean up; the note that says so comes last, so that a killed run is gone on with until then."""
    place_all(host, state_dir, aside=note.aside)
    recording.remove_directory(work_path(state_dir))
    if not host.listdir(note.aside):
        recording.remove_directory(note.aside)
    write_note(host, state_dir, replace(note, stage=RESTORED))


def _prepare(desired: Restore, found: Found, host: Host) -> Manifest:
    """Everything that is to come, unpacked, checked and ready under `new`."""
    work = work_path(desired.state_dir)
    content, etcdutl = os.path.join(work, "content"), _program(desired, found.record, "etcdutl")
    for path in (content, new_path(desired.state_dir, "")):
        host.make_directory(path, mode=0o700)
    manifest = read_manifest(host, desired.archive)
    unpack(host, desired.archive, manifest, content)
    snapshot = os.path.join(content, SNAPSHOT)
    checked = snapshot_status(host, etcdutl=etcdutl, path=snapshot)
    if (checked.hash, checked.revision) != (manifest.hash, manifest.revision):
        raise unsound(desired.archive, "its snapshot is another than its manifest says")
    unfold(host, etcdutl=etcdutl, path=snapshot, data_dir=new_path(desired.state_dir, ETCD))
    for name in sorted(set(KEPT) & set(manifest.files)):
        mode = 0o644 if name.endswith((".crt", ".pub")) else 0o600
        data = host.read(os.path.join(content, name)) or b""
        host.write(new_path(desired.state_dir, name), data, mode=mode)
    return manifest


def _version_problems(desired: Restore, manifest: Manifest) -> list[BallastError]:
    if not desired.kubernetes_version:
        return []
    problem = version_problem(
        wanted=desired.kubernetes_version, served=manifest.kubernetes_version, path=desired.archive
    )
    return [] if problem is None else [problem]


def _program_problems(desired: Restore, host: Host, found: Found, manifest: Manifest) -> list[BallastError]:
    if not desired.bin_dir and found.record is None:
        return [PLANE_MESSAGES.error("plane-option-missing", option="bin_dir", state="absent")]
    etcdutl = _program(desired, found.record, "etcdutl")
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


def _program(desired: Restore, record: Optional[Record], name: str) -> str:
    return os.path.join(desired.bin_dir or ("" if record is None else record.bin_dir), name)


ENGINE = RestoreEngine()
