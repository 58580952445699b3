# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The copy-on-write disk of User Mode Linux, which holds the differences from an image. Pure.

User Mode Linux could create the disk itself, but would need a writable directory; so the file is made here and passed to it.
Source: Linux, arch/um/drivers/cow_user.c: version 3, big-endian; the header is followed by a bitmap with a bit for each written
sector, and from the next page on by the sectors.
"""

from __future__ import annotations

import struct

_HEADER = ">IIIQIII4096s"  # magic, version, time stamp and size of the image, size of a sector, alignment, format, the image's path
_MAGIC, _VERSION, _FORMAT, _SECTOR, _PAGE = 0x4F4F4F4D, 3, 0, 512, 4096


def cow_header(image: str, *, size: int, mtime: int) -> tuple[bytes, int]:
    """The header of an empty disk over `image`, and the size of the file, whose rest is zero."""
    header = struct.pack(_HEADER, _MAGIC, _VERSION, mtime, size, _SECTOR, _PAGE, _FORMAT, image.encode())
    bitmap_end = len(header) + (size + _SECTOR - 1) // (8 * _SECTOR)
    data = (bitmap_end + _PAGE - 1) // _PAGE * _PAGE
    return header, data + size
