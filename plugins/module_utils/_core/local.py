# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `LocalHost` is made of where the standard library leaves a gap, and the errors of a machine."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shlex
import socket
from collections.abc import Sequence

from .errors import HostError, last_lines

_HEARD_BYTES = 64 * 2**20


def lock_file(path: str) -> int:
    """A descriptor of `path` that holds its lock.

    Who removes a lock file holds it while doing so. Whoever had opened it before then locks a file without a name,
    and must begin again, or two would hold "the" lock.
    """
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise host_error("lock", path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours, named = os.fstat(descriptor), os.stat(path)
            if (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino):
                return descriptor
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace")
            os.close(descriptor)
            raise locked_error(path, holder) from error
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def heard(path: str, *, timeout: float) -> bytes:
    """What the one who listens on the unix socket `path` says to whoever connects, until it closes. OSError where none does,
    or it says nothing for `timeout` seconds, or does not come to an end."""
    data = bytearray()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        connection.connect(path)
        while True:
            part = connection.recv(1 << 16)
            if not part:
                return bytes(data)
            data += part
            if len(data) > _HEARD_BYTES:
                raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE), path)


def write_all_or_nothing(descriptor: int, data: bytes) -> None:
    """A full disk takes a part of a write and refuses the rest: the part is then cut off again."""
    before = os.fstat(descriptor).st_size
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError:
        os.ftruncate(descriptor, before)
        raise


def mounts_in(path: str) -> list[str]:
    """Mount points at `path` and below it, as this process sees them, sorted."""
    real = os.path.realpath(path)
    with open("/proc/self/mountinfo", "rb") as file:
        rows = [line.split(b" ") for line in file]
    # proc(5): blank, tab, newline and backslash are written in octal.
    points = [
        re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), row[4]).decode(errors="surrogateescape")
        for row in rows
    ]
    return sorted(point for point in set(points) if point == real or point.startswith(real.rstrip("/") + "/"))


def mounted_error(path: str, mounts: Sequence[str]) -> HostError:
    return HostError(
        f"cannot remove {path}: it has mounts inside, and what is mounted there would be deleted with it",
        id="core-mounted",
        found=last_lines("\n".join(mounts)),
        remedy=f"see what uses them, unmount them (umount {shlex.quote(mounts[-1])}), then run the same command again",
        page="docs/errors.md",
    )


def locked_error(path: str, holder: str) -> HostError:
    return HostError(
        f"another run is at work here: {path} is locked",
        id="core-locked",
        found=f"process {holder.strip() or 'unknown'}",
        remedy="wait until it has ended, then run the same command again",
        page="docs/errors.md",
    )


def host_error(verb: str, path: str, error: OSError) -> HostError:
    remedies = {
        errno.ENOSPC: "free space on that filesystem, then run the same command again",
        errno.EACCES: "run it as root or through sudo",
        errno.EPERM: "run it as root or through sudo",
        errno.EROFS: "the filesystem is mounted read-only; choose another directory",
    }
    return HostError(
        f"cannot {verb} {path}",
        id=f"core-{errno.errorcode.get(error.errno or 0, 'os').lower()}",
        found=error.strerror or str(error),
        remedy=remedies.get(error.errno or 0, "see docs/errors.md"),
        page="docs/errors.md",
    )
