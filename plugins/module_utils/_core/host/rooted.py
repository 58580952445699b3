# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Opens files below an untrusted directory, such as the root of a container. No path can lead out of it.

openat2(2) with RESOLVE_IN_ROOT treats the directory as `/`, so absolute links and `..` stay inside. Where the kernel lacks
openat2 (before Linux 5.6), the path is walked one component at a time with O_NOFOLLOW, and links are resolved here.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Optional

_OPENAT2 = 437  # the same on all architectures that Kubernetes is built for
_RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 0x02, 0x10
_LINKS = 40  # the limit of the kernel, path_resolution(7)
_TRIES = 10
# O_PATH opens nothing: a device does not act, and a fifo does not wait for its other end.
_LOOK = os.O_PATH | os.O_CLOEXEC
_KINDS = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a fifo", stat.S_IFSOCK: "a socket"}


@contextmanager
def open_below(root: int, path: str) -> Iterator[tuple[int, str]]:
    """A descriptor to read the regular file from, and ""; for anything else, -1 and what it is. OSError if nothing exists
    there."""
    place = _resolve(root, path)
    try:
        kind = stat.S_IFMT(os.fstat(place).st_mode)
        if kind != stat.S_IFREG:
            yield -1, f"it is {_KINDS.get(kind, 'a device')}"
            return
        file = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            yield file, ""
        finally:
            os.close(file)
    finally:
        os.close(place)


def path_below(root: int, path: str) -> str:
    """The path, relative to `root`, that `path` leads to when all links are resolved. OSError if nothing exists there."""
    place, parts = _walk(root, path)
    os.close(place)
    return "/" + "/".join(parts)


def _resolve(root: int, path: str) -> int:
    place = _by_openat2(root, path)
    return _walk(root, path)[0] if place is None else place


def _by_openat2(root: int, path: str) -> Optional[int]:
    """A descriptor of `path` below `root`; None if this kernel lacks openat2."""
    try:
        import ctypes
    except ImportError:
        return None

    class OpenHow(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint64) for name in ("flags", "mode", "resolve")]

    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    how = OpenHow(_LOOK, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    number = 0
    for _try in range(_TRIES):
        place = libc.syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_long(root),
            ctypes.c_char_p(os.fsencode(path)),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if place >= 0:
            return int(place)
        number = ctypes.get_errno()
        if number != errno.EAGAIN:  # EAGAIN: something was renamed while `..` was followed
            break
    # A sandbox that does not know the call returns EPERM.
    if number in (errno.ENOSYS, errno.EPERM):
        return None
    raise OSError(number, os.strerror(number), path)


def _walk(root: int, path: str) -> tuple[int, list[str]]:
    """A descriptor of what the path leads to, and its components after all links are resolved."""
    left = _parts(path)
    held = [os.dup(root)]  # the directories passed so far, the root first
    names: list[str] = []
    links = 0
    try:
        while left:
            name = left.pop(0)
            if name == "..":
                if names:
                    names.pop()
                    os.close(held.pop())
                continue
            place = os.open(name, _LOOK | os.O_NOFOLLOW, dir_fd=held[-1])
            held.append(place)
            names.append(name)
            if stat.S_ISLNK(os.fstat(place).st_mode):
                links += 1
                if links > _LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                to = os.readlink("", dir_fd=place)
                os.close(held.pop())
                names.pop()
                if to.startswith("/"):
                    names.clear()
                    while len(held) > 1:
                        os.close(held.pop())
                left = _parts(to) + left
            elif left and not stat.S_ISDIR(os.fstat(place).st_mode):
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return os.dup(held[-1]), names
    finally:
        for each in held:
            with suppress(OSError):
                os.close(each)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
