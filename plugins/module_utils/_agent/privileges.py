# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drops root for the program's own user, keeping the few capabilities that its work needs.

A program is started as root, creates its sockets and its lock, and calls `become_user` before it starts other threads,
because capabilities are per thread. So no file belongs to that user, and it works the same under systemd, under runit and in
a container, where users other than root get no capabilities at all. The capabilities are ambient: programs that it runs,
such as nft, have them too. Source: capabilities(7), linux/capability.h.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import struct
from collections.abc import Iterable

CAP_NET_ADMIN = 12
NEEDED = ("CAP_SETUID", "CAP_SETGID")  # to become the user, in addition to those that are kept
_KEEP_CAPABILITIES, _NO_NEW_PRIVILEGES, _AMBIENT, _AMBIENT_RAISE = 8, 38, 47, 2
_HEADER, _SETS = struct.Struct("=Ii"), struct.Struct("=6I")
_VERSION_3 = 0x20080522


def become_user(name: str, capabilities: Iterable[int]) -> None:
    """Become a user permanently. KeyError if there is no such user. OSError if this process is not permitted to, or lacks
    one of the capabilities (numbers below 32); it must then exit."""
    entry = pwd.getpwnam(name)
    kept = sum(1 << number for number in set(capabilities))
    library = ctypes.CDLL(None, use_errno=True)
    _set(library, _NO_NEW_PRIVILEGES, 1)
    _set(library, _KEEP_CAPABILITIES, 1)
    os.setgroups([])
    os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
    os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
    header, sets = _HEADER.pack(_VERSION_3, 0), _SETS.pack(kept, kept, kept, 0, 0, 0)
    if library.capset(header, sets) != 0:
        raise _error()
    for number in set(capabilities):
        _set(library, _AMBIENT, _AMBIENT_RAISE, number)


def _set(library: ctypes.CDLL, option: int, *values: int) -> None:
    """prctl(2)."""
    words = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    if library.prctl(option, *words) != 0:
        raise _error()


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
