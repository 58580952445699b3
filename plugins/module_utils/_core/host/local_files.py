# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""File functions of `LocalHost` that the standard library lacks, and the errors of a machine."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shlex
from collections.abc import Sequence

from ..text.errors import HostError, last_lines
from ..text.host_messages import MESSAGES
from .safe_path import open_own

HOLDER_BYTES = 32


def lock_file(path: str) -> int:
    """A descriptor of `path` that holds its lock. The content of the file is kept.

    A process removes a lock file only while holding its lock. A process that opened the file before that locks a file
    without a name, and must start over; otherwise two processes would hold "the" lock.
    """
    while True:
        try:
            descriptor = open_own(path, os.O_RDWR, 0o600)
        except OSError as error:
            raise host_error("lock", path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
                return descriptor
        except BlockingIOError as error:
            holder = os.pread(descriptor, HOLDER_BYTES, 0).decode(errors="replace")
            os.close(descriptor)
            raise locked_error(path, holder) from error
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def mark_lock(path: str, descriptor: int) -> None:
    """Write our pid into a lock file. A file with any content but a pid is not a lock file and is not changed."""
    content = os.pread(descriptor, HOLDER_BYTES + 1, 0)
    if len(content) > HOLDER_BYTES or (content.strip() and not content.strip().isdigit()):
        raise not_a_lock_error(path)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)


def write_all_or_nothing(descriptor: int, data: bytes) -> None:
    """Write everything or nothing: on a full disk part of the data may have been written, and is cut off again."""
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
        re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), row[4]).decode(errors="surrogateescape")
        for row in rows
    ]
    return sorted(point for point in set(points) if point == real or point.startswith(real.rstrip("/") + "/"))


def mounted_error(path: str, mounts: Sequence[str]) -> HostError:
    listed, last = last_lines("\n".join(mounts)), shlex.quote(mounts[-1])
    return HostError(**MESSAGES.texts("core-mounted", found=listed, path=path, mount=last))


def not_a_lock_error(path: str) -> HostError:
    reason = "a file whose content is not a process id"
    return HostError(**MESSAGES.texts("core-not-a-lock", found=reason, path=path))


def locked_error(path: str, holder: str) -> HostError:
    return HostError(**MESSAGES.texts("core-locked", found=f"process {holder.strip() or 'unknown'}", path=path))


def host_error(verb: str, path: str, error: OSError) -> HostError:
    """The HostError of a failed system call. Its id is `core-not-root` if this process lacks root's rights, else the
    kernel's name of the error (`core-enospc`), or `core-os` without one."""
    reason = error.strerror or str(error)
    if error.errno in (errno.EACCES, errno.EPERM) and os.geteuid() != 0:
        return not_root_error(f"cannot {verb} {path}", found=reason)
    id = f"core-{errno.errorcode.get(error.errno or 0, 'os').lower()}"
    row = id if id in MESSAGES.rows else "core-os"  # the kernel's error names that have no row of their own
    return HostError(**{**MESSAGES.texts(row, found=reason, verb=verb, path=path), "id": id})


def not_root_error(text: str, *, found: str = "") -> HostError:
    reason = found or f"it runs as user {os.geteuid()}"
    return HostError(**MESSAGES.texts("core-not-root", found=reason, what=text))
