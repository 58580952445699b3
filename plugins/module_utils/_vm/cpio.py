# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Archives in the format of the kernel's initial root file system: cpio, "newc".

Source: Documentation/driver-api/early-userspace/buffer-format.rst of Linux.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A directory if both `data` and `device` are None; a character device if `device` is (major, minor)."""

    path: str  # without a leading slash
    mode: int = 0o755
    data: bytes | None = None
    device: tuple[int, int] | None = None


def archive(entries: Iterable[Entry]) -> bytes:
    """The entries in the given order, owned by root, without times: the same entries give the same bytes."""
    parts = [_record(number, entry) for number, entry in enumerate(entries, start=1)]
    parts.append(_record(0, Entry(path="TRAILER!!!", mode=0, data=b"")))
    return b"".join(parts)


def _record(number: int, entry: Entry) -> bytes:
    name = entry.path.encode() + b"\0"
    data = entry.data or b""
    if entry.device is not None:
        kind = stat.S_IFCHR
    elif entry.data is not None:
        kind = stat.S_IFREG
    else:
        kind = stat.S_IFDIR
    major, minor = entry.device or (0, 0)
    mode = 0 if number == 0 else kind | entry.mode
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _pad(header + name) + _pad(data)


def _pad(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
