# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files below a directory that somebody else fills, as the root of a container: no path leads out of it.

openat2(2) with RESOLVE_IN_ROOT takes the directory for `/`, so that an absolute link and `..` stay inside. Where the kernel
has no openat2 (before Linux 5.6), the path is walked component by component with O_NOFOLLOW, and links are followed here.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Optional

_OPENAT2 = 437  # on all architectures that Kubernetes is built for
_RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 0x02, 0x10
_LINKS = 40  # as the kernel itself (path_resolution(7))
_TRIES = 10
# Nothing is opened by that: neither does a device act, nor does a fifo wait for its other end.
_LOOK = os.O_PATH | os.O_CLOEXEC
_KINDS = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a fifo", stat.S_IFSOCK: "a socket"}


@contextmanager
def open_below(root: int, path: str) -> Iterator[tuple[int, str]]:
    """A descriptor of the plain file to read from, and ""; where it is none, what it is. OSError where there is nothing."""
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
    """The path below `root` of what all links of `path` lead to. OSError where there is nothing."""
    place, parts = _walk(root, path)
    os.close(place)
    return "/" + "/".join(parts)


def _resolve(root: int, path: str) -> int:
    place = _by_openat2(root, path)
    return _walk(root, path)[0] if place is None else place


def _by_openat2(root: int, path: str) -> Optional[int]:
    """None where this kernel has no such call."""
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
        if number != errno.EAGAIN:  # something was renamed while `..` was followed
            break
    # A sandbox that does not know a call answers EPERM.
    if number in (errno.ENOSYS, errno.EPERM):
        return None
    raise OSError(number, os.strerror(number), path)


def _walk(root: int, path: str) -> tuple[int, list[str]]:
    """A descriptor of what the path leads to, and the names on the way there, without links."""
    left = _parts(path)
    held = [os.dup(root)]  # the directories on the way, the root first
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
