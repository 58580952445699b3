# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""etcd's own programs: etcdctl takes a snapshot, etcdutl checks one and makes a data directory of it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Optional

from ..._core.host.host import Host
from ..._core.text.errors import CommandFailed
from ..._core.text.json_text import parse_json
from ..profiles.profiles import ETCD
from ..record import Record
from .archive import SECONDS, no_space
from .messages import MESSAGES

MEMBER = "ballast"  # the name that etcd runs under, whatever process it is in
# The peer URL of a restored member. It has no peers, and its flags say where it listens.
_PEER = "https://localhost:2380"
# Clients that watched the data before may know later revisions than the backup has. When revisions continue far above them,
# with all earlier ones compacted, these clients list again. Otherwise they would miss writes until their own revision is reached.
REVISIONS_AHEAD = 10**9
_VERSION = re.compile(r"^etcdutl version: (\d{1,4})\.(\d{1,4})\.\d{1,4}$", re.ASCII | re.MULTILINE)


@dataclass(frozen=True)
class SnapshotStatus:
    """What etcdutl reports of a snapshot. etcdutl reads every page, so it detects damage."""

    hash: int
    revision: int


def take_snapshot(host: Host, record: Record, *, etcdctl: str, path: str) -> None:
    """Save a snapshot to `path`; it is on the disk when this returns. BallastError, with etcdctl's output, on failure."""
    etcd = record.etcd
    access = [f"--cacert={etcd.authority}", f"--cert={etcd.client}", f"--key={etcd.key}"]
    try:
        host.run(
            [etcdctl, f"--endpoints={etcd.healthy_endpoint(host)}", *access, "snapshot", "save", path], timeout=SECONDS
        )
    except CommandFailed as error:
        if "no space left" in error.output:
            raise no_space(path) from error
        log = f"{record.state_dir}/log"
        raise MESSAGES.error("plane-backup-snapshot", log=log, found=error_line(error)) from error


def read_snapshot_status(host: Host, *, etcdutl: str, path: str) -> SnapshotStatus:
    """BallastError when the file is no sound snapshot."""
    try:
        done = host.run([etcdutl, "snapshot", "status", path, "--write-out=json"], timeout=SECONDS)
        value = parse_json(done.stdout)
        return SnapshotStatus(hash=int(value["hash"]), revision=int(value["revision"]))
    except CommandFailed as error:
        raise MESSAGES.error("plane-snapshot-unsound", path=path, found=error_line(error)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise MESSAGES.error("plane-snapshot-unsound", path=path, found=repr(error)) from error


@dataclass(frozen=True)
class EtcdMember:
    name: str
    cluster: str  # value of etcd's --initial-cluster
    peer_url: str
    directory: str  # name of its data directory


ONLY_MEMBER = EtcdMember(MEMBER, f"{MEMBER}={_PEER}", _PEER, ETCD)


def etcd_members(record: Optional[Record]) -> tuple[EtcdMember, ...]:
    """The etcd members of the control plane whose data is to be restored. Without a record it is one member."""
    processes = [] if record is None else [member for member in record.members if member.component == ETCD]
    if len(processes) < 2:
        return (ONLY_MEMBER,)
    flags = [{flag.name: flag.value for flag in process.flags} for process in processes]
    return tuple(
        EtcdMember(
            each["name"],
            each["initial-cluster"],
            each["initial-advertise-peer-urls"],
            os.path.basename(each["data-dir"]),
        )
        for each in flags
    )


def restore_snapshot(host: Host, *, etcdutl: str, path: str, member: EtcdMember, data_dir: str) -> None:
    """Make a member's data directory from a snapshot, whose hash etcdutl checks first."""
    peers = [
        f"--name={member.name}",
        f"--initial-cluster={member.cluster}",
        f"--initial-advertise-peer-urls={member.peer_url}",
    ]
    ahead = [f"--bump-revision={REVISIONS_AHEAD}", "--mark-compacted"]
    try:
        host.run([etcdutl, "snapshot", "restore", path, f"--data-dir={data_dir}", *peers, *ahead], timeout=SECONDS)
    except CommandFailed as error:
        if "no space left" in error.output:
            raise no_space(data_dir) from error
        raise MESSAGES.error("plane-snapshot-unsound", path=path, found=error_line(error)) from error


def read_etcdutl_version(host: Host, *, etcdutl: str) -> tuple[int, int]:
    """Major and minor of etcdutl; (0, 0) when its output has no version."""
    match = _VERSION.search(host.run([etcdutl, "version"], timeout=30).stdout)
    return (0, 0) if match is None else (int(match[1]), int(match[2]))


def error_line(error: CommandFailed) -> str:
    """The line of these programs' long output that names the error."""
    lines = [line for line in error.output.splitlines() if line.startswith(("Error:", "panic:", "fatal error:"))]
    return lines[0] if lines else error.found
