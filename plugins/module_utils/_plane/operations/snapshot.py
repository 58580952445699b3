# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""etcd's own programs: etcdctl takes a snapshot, etcdutl checks one and makes a data directory of it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from ..._core.errors import CommandFailed
from ..._core.host import Host
from ..record import Record
from .archive import SECONDS, no_space
from .messages import MESSAGES

MEMBER = "ballast"  # the name that etcd runs under, whatever process it is in
# What a restored member believes other members to reach it by. There are none, and etcd listens where its flags say.
_PEER = "https://localhost:2380"
# Clients that watched the data before may know later revisions than the backup has. With revisions further on, and all
# before them compacted, they list anew; else they would miss what is written until their own revision comes again.
REVISIONS_AHEAD = 10**9
_VERSION = re.compile(r"^etcdutl version: (\d{1,4})\.(\d{1,4})\.\d{1,4}$", re.ASCII | re.MULTILINE)


@dataclass(frozen=True)
class SnapshotStatus:
    """What etcdutl finds in the file. It reads every page, so a damaged one does not pass."""

    hash: int
    revision: int


def take(host: Host, record: Record, *, etcdctl: str, path: str) -> None:
    """A snapshot to `path`, on the disk when this returns. BallastError, with what etcdctl said, when it cannot be."""
    etcd = record.etcd
    access = [f"--cacert={etcd.authority}", f"--cert={etcd.client}", f"--key={etcd.key}"]
    try:
        host.run([etcdctl, f"--endpoints={etcd.endpoints[0]}", *access, "snapshot", "save", path], timeout=SECONDS)
    except CommandFailed as error:
        if "no space left" in error.output:
            raise no_space(path) from error
        log = f"{record.state_dir}/log"
        raise MESSAGES.error("plane-backup-snapshot", log=log, found=last_word(error)) from error


def status(host: Host, *, etcdutl: str, path: str) -> SnapshotStatus:
    """BallastError when the file is no sound snapshot."""
    try:
        done = host.run([etcdutl, "snapshot", "status", path, "--write-out=json"], timeout=SECONDS)
        found = json.loads(done.stdout)
        return SnapshotStatus(hash=int(found["hash"]), revision=int(found["revision"]))
    except CommandFailed as error:
        raise MESSAGES.error("plane-snapshot-unsound", path=path, found=last_word(error)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise MESSAGES.error("plane-snapshot-unsound", path=path, found=repr(error)) from error


def unfold(host: Host, *, etcdutl: str, path: str, data_dir: str) -> None:
    """A data directory of our member from a snapshot, whose hash etcdutl checks first."""
    peers = [f"--name={MEMBER}", f"--initial-cluster={MEMBER}={_PEER}", f"--initial-advertise-peer-urls={_PEER}"]
    ahead = [f"--bump-revision={REVISIONS_AHEAD}", "--mark-compacted"]
    try:
        host.run([etcdutl, "snapshot", "restore", path, f"--data-dir={data_dir}", *peers, *ahead], timeout=SECONDS)
    except CommandFailed as error:
        if "no space left" in error.output:
            raise no_space(data_dir) from error
        raise MESSAGES.error("plane-snapshot-unsound", path=path, found=last_word(error)) from error


def version(host: Host, *, etcdutl: str) -> tuple[int, int]:
    """Major and minor of etcdutl; (0, 0) when it does not say."""
    match = _VERSION.search(host.run([etcdutl, "version"], timeout=30).stdout)
    return (0, 0) if match is None else (int(match[1]), int(match[2]))


def last_word(error: CommandFailed) -> str:
    """The line that says what is wrong: these programs log a lot, and Go prints where it was when it panics."""
    lines = [line for line in error.output.splitlines() if line.startswith(("Error:", "panic:", "fatal error:"))]
    return lines[0] if lines else error.found
