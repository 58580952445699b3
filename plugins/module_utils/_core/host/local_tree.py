# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Marked directories, for `LocalHost`. The mark is in the directory from the first moment to the last."""

from __future__ import annotations

import errno
import os
import shutil

from .names import MARK, MARKER
from .safe_path import place_of


def make_marked(path: str, mark: bytes, mode: int) -> None:
    """Make `path`, with the mark in it, and its parents. OSError if the path exists."""
    with place_of(path, make=True) as place:
        if place.lstat() is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        temporary = f".{MARK}-{os.urandom(8).hex()}"
        os.mkdir(temporary, 0o700, dir_fd=place.descriptor)
        try:
            _fill(place.descriptor, temporary, mark, mode)
            os.rename(temporary, place.name, src_dir_fd=place.descriptor, dst_dir_fd=place.descriptor)
        except BaseException:
            shutil.rmtree(f"/proc/self/fd/{place.descriptor}/{temporary}", ignore_errors=True)
            raise


def _fill(directory: int, name: str, mark: bytes, mode: int) -> None:
    inside = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(MARKER, flags, 0o600, dir_fd=inside), "wb") as file:
            file.write(mark)
            file.flush()
            os.fsync(file.fileno())
        os.fchmod(inside, mode)
    finally:
        os.close(inside)


def remove_all_but_mark(path: str) -> None:
    """Remove all content except the mark: if the removal is killed, the next one still recognizes the directory."""
    if not os.path.lexists(os.path.join(path, MARKER)):
        return
    for entry in list(os.scandir(path)):
        if entry.name == MARKER:
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
