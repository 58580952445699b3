# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests whether nodes can run here: on the filesystem of the lab's directory, and in this process's mount namespace.

containerd mounts an overlay for each container. An overlay cannot be the upper layer of another, as in a container without a volume,
and a filesystem mounted noexec runs no program. Both are tested in a mount namespace that ends with the test.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from .._core.host.host import Host
from .._core.text.errors import BallastError, HostError
from .messages import MESSAGES

_SECONDS = 30
# The argument is a directory, which is empty again afterwards. Paths are relative, as a comma would end a mount option.
_BEGIN = """
set -e
place=$(mktemp -d "$1/.ballast-preflight-XXXXXX") || exit 3
cd "$place"
trap 'umount merged 2>/dev/null || :; rm -rf "$PWD"' EXIT
mkdir lower upper work merged || exit 3
"""
_UNWRITABLE, _NOT_EXECUTABLE = 3, 126  # exit statuses; the latter is the same in every shell


_OVERLAY = "mount -t overlay ballast -o lowerdir=lower,upperdir=upper,workdir=work merged"
_PROGRAM = "cp /bin/true program || exit 3; ./program"


def find_place_problems(host: Host, directory: str) -> list[BallastError]:
    """`directory` need not exist yet: then its nearest existing parent, on the same filesystem, is tested."""
    directory = _nearest(host, directory)
    problems = []
    overlay, program = (_try(host, directory, script) for script in (_OVERLAY, _PROGRAM))
    for trial in (overlay, program):
        if trial.status == _UNWRITABLE:
            return [MESSAGES.error("lab-dir-write", directory=directory, found=trial.message)]
    if overlay.status:
        problems.append(MESSAGES.error("lab-dir-overlay", directory=directory, found=overlay.message))
    if program.status:
        problems.append(MESSAGES.error("lab-dir-noexec", directory=directory, found=program.message))
    return problems


def find_cache_problems(host: Host, directory: str) -> list[BallastError]:
    """Problems of the cache of binaries: services run binaries directly from it."""
    directory = _nearest(host, directory)
    program = _try(host, directory, _PROGRAM)
    if program.status != _NOT_EXECUTABLE:  # an unwritable directory is reported by the writer
        return []
    return [MESSAGES.error("lab-cache-noexec", directory=directory, found=program.message)]


def _nearest(host: Host, directory: str) -> str:
    while directory != "/" and host.stat(directory) is None:
        directory = os.path.dirname(directory)
    return directory


class _Trial(NamedTuple):
    status: int
    message: str  # the first line of the shell's output


def _try(host: Host, directory: str, script: str) -> _Trial:
    argv = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", _BEGIN + script, "sh", directory]
    done = host.run(argv, timeout=_SECONDS, check=False)
    return _Trial(done.status, (done.stderr.strip().splitlines() or [f"status {done.status}"])[0])


_NAMESPACES = "/run/netns"  # namespaces of nodes are bound to files there
_Mounts = Mapping[str, "_Mount"]


class _Mount(NamedTuple):
    device: str
    peers: frozenset[str]  # `shared:N`: mounts below it propagate to every namespace with the same number


def find_namespace_problems(host: Host) -> list[BallastError]:
    """A systemd service with PrivateTmp has its own mounts, so other programs do not see what it mounts. In a container, whose root
    differs from that of PID 1, everything that uses the lab is in the container too."""
    try:
        own, first = _mounts(host, "self"), _mounts(host, "1")
    except HostError:  # a container may not read PID 1
        return []
    if own == first and not _is_copy(host):
        return []
    if "/" not in own or "/" not in first or own["/"].device != first["/"].device:
        return []
    if _mount_of(own, _NAMESPACES).peers & _mount_of(first, _NAMESPACES).peers:
        return []
    return [MESSAGES.error("lab-mount-namespace")]


def _is_copy(host: Host) -> bool:
    """Whether this process is known to be in another mount namespace than PID 1. A new namespace begins with the same mounts."""
    with suppress(HostError):
        own, first = (host.readlink(f"/proc/{pid}/ns/mnt") for pid in ("self", "1"))
        return own is not None and first is not None and own != first
    return False


def _mounts(host: Host, pid: str) -> _Mounts:
    """Mounts by mount point, see proc_pid_mountinfo(5)."""
    rows = [line.split() for line in (host.read(f"/proc/{pid}/mountinfo") or b"").decode(errors="replace").splitlines()]
    return {row[4]: _Mount(row[2], frozenset(word for word in row[6:] if word.startswith("shared:"))) for row in rows}


def _mount_of(mounts: _Mounts, path: str) -> _Mount:
    while path not in mounts:
        path = os.path.dirname(path)
    return mounts[path]
