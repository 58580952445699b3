# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The digest of a disk image that mostly consists of holes: SHA-256 over its non-zero blocks, each with its number.

Reading 500 MiB of data takes a second; reading the 8 GiB of zeros around them would take half a minute. This module reads
the file directly, as `Host.read` returns whole files.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator

_BLOCK = 65536


def image_digest(path: str) -> str:
    """`sha256-blocks:` and 64 hex digits. The digest depends on content and size, not on which zeros are holes."""
    total = hashlib.sha256()
    zeros = bytes(_BLOCK)
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        total.update(size.to_bytes(8, "big"))
        for number in _data_blocks(file.fileno(), size):
            block = os.pread(file.fileno(), _BLOCK, number * _BLOCK)
            if block != zeros[: len(block)]:
                total.update(number.to_bytes(8, "big") + block)
    return f"sha256-blocks:{total.hexdigest()}"


def _data_blocks(descriptor: int, size: int) -> Iterator[int]:
    """Numbers of the blocks that may hold data, ascending."""
    following = 0
    while following * _BLOCK < size:
        try:
            start = os.lseek(descriptor, following * _BLOCK, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole up to the end
                return
            raise
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        first, last = max(following, start // _BLOCK), (end - 1) // _BLOCK
        yield from range(first, last + 1)
        following = last + 1
