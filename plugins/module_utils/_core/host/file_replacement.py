# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Replaces the content of a file atomically: a file of our own, with the attributes we give it, or someone else's, which
keeps its own.

Both are written next to the old file under an unguessable name and renamed. Readers see either the old or the new content.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Union

from .safe_path import Place, kind_of, not_a_file_error, open_own, place_of
from .selinux import ATTRIBUTE, policy_label

_OTHERS_WRITE = 0o022
_OF_CONTENT = ("security.evm", "security.ima")  # checksums of the old content; the kernel computes them again
_NONE = (errno.ENOTSUP, errno.ENODATA)  # a filesystem without attributes; an attribute that has been removed meanwhile


def write_file(path: str, data: Union[bytes, Iterable[bytes]], *, mode: int) -> None:
    """Write a file of our own, with the label that the SELinux policy gives its path. A link at `path` is replaced; its
    target is not touched."""
    with place_of(path) as place:
        # The label for the temporary name would be that of the directory.
        label = policy_label(place.path, stat.S_IFREG | mode)

        def finish(new: int) -> None:
            os.fchmod(new, mode)
            if label is not None:
                _set_label(new, label)

        _write_beside(place, data, finish)


def set_aside(path: str, status: os.stat_result, *, mode: int) -> int:
    """Rename the file `path`, whose stat is `status`, to `path`.1 and put an empty file in its place. Returns a descriptor
    to append to the new file. On failure nothing has changed. OSError if `path` is another file by now."""
    made = open_own(f"{path}.new", os.O_WRONLY | os.O_APPEND, mode)
    try:
        os.ftruncate(made, 0)
        os.fchmod(made, mode)
        with place_of(path) as place:
            now = place.lstat()
            if now is None or not os.path.samestat(now, status):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            at = place.descriptor
            os.rename(place.name, f"{place.name}.1", src_dir_fd=at, dst_dir_fd=at)
            os.rename(f"{place.name}.new", place.name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        os.close(made)
        raise
    return made


def replace_file(path: str, data: bytes) -> None:
    """Replace the content of someone else's file, also through a link. Owner, group, mode and extended attributes are kept,
    except that only the owner may still write. HostError if it is not a regular file; OSError if it is absent or an
    attribute cannot be kept."""
    with place_of(path, follow=True) as place:
        old = os.open(place.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.descriptor)
        try:
            status = os.fstat(old)
            if not stat.S_ISREG(status.st_mode):
                raise not_a_file_error(place.path, kind_of(status.st_mode))
            attributes = _attributes(old)
        finally:
            os.close(old)

        def as_it_was(new: int) -> None:
            made = os.fstat(new)
            if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
                os.fchown(new, status.st_uid, status.st_gid)
            for name, value in attributes.items():
                os.setxattr(new, name, value)
            os.fchmod(new, stat.S_IMODE(status.st_mode) & ~_OTHERS_WRITE)  # last: setting an ACL changes mode bits

        _write_beside(place, data, as_it_was)


def link(path: str, to: str) -> None:
    """Make a symbolic link, replacing an existing file or link."""
    with place_of(path) as place:
        temporary = _unguessable()
        os.symlink(to, temporary, dir_fd=place.descriptor)
        _rename(place, temporary)


def _write_beside(place: Place, data: Union[bytes, Iterable[bytes]], finish: Callable[[int], None]) -> None:
    temporary = _unguessable()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=place.descriptor)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for piece in (data,) if isinstance(data, bytes) else data:
                file.write(piece)
            file.flush()
            finish(descriptor)
            os.fsync(descriptor)
    except BaseException:
        _unlink(place, temporary)
        raise
    _rename(place, temporary)
    # Without this, a power cut could bring back the old file, such as a journal that still contains a run that has ended.
    directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place.descriptor)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _set_label(opened: int, label: bytes) -> None:
    try:
        os.setxattr(opened, ATTRIBUTE, label)
    except OSError as error:
        if error.errno != errno.ENOTSUP:  # ENOTSUP: a filesystem mounted with one label for all files
            raise


def _rename(place: Place, temporary: str) -> None:
    try:
        os.replace(temporary, place.name, src_dir_fd=place.descriptor, dst_dir_fd=place.descriptor)
    except BaseException:  # including an interrupt; if that came after the rename, the file is gone already
        _unlink(place, temporary)
        raise


def _unlink(place: Place, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=place.descriptor)


def _unguessable() -> str:
    return f".ballast-{os.urandom(8).hex()}"


def _attributes(opened: int) -> dict[str, bytes]:
    """The extended attributes by name. `opened` is an O_PATH descriptor, which cannot be read from, so its path in /proc is
    used."""
    path = f"/proc/self/fd/{opened}"
    attributes: dict[str, bytes] = {}
    try:
        names = [name for name in os.listxattr(path) if name not in _OF_CONTENT]
    except OSError as error:
        if error.errno in _NONE:
            return attributes
        raise
    for name in names:
        try:
            attributes[name] = os.getxattr(path, name)
        except OSError as error:
            if error.errno not in _NONE:
                raise
    return attributes
