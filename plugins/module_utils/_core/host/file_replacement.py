# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""New content for a file, in one step: a file of our own, which is as we say, or somebody else's, which stays as it was.

Both are written beside the old file under a name that nobody can guess, and renamed. Readers see the old content or the new.
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
_OF_CONTENT = ("security.evm", "security.ima")  # sums over the old content, which the kernel makes again
_NONE = (errno.ENOTSUP, errno.ENODATA)  # a filesystem without attributes; one that went meanwhile


def write_file(path: str, data: Union[bytes, Iterable[bytes]], *, mode: int) -> None:
    """A file of our own, with the label that SELinux' policy has for it. A link in its place is replaced, and what that leads to is left alone."""
    with place_of(path) as place:
        # Not that of the temporary name, which is the directory's.
        label = policy_label(place.path, stat.S_IFREG | mode)

        def finish(new: int) -> None:
            os.fchmod(new, mode)
            if label is not None:
                _set_label(new, label)

        _write_beside(place, data, finish)


def set_aside(path: str, status: os.stat_result, *, mode: int) -> int:
    """Give the file `path`, which is `found`, the name `path`.1, and make an empty one in its place. Its descriptor, to append.
    Nothing has changed where that fails. OSError where `path` is another file by now."""
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
    """Somebody else's file, where a link leads to it too, with its owner, group, mode and extended attributes; others than its
    owner lose the right to write. HostError where it is no file, OSError where it is absent or one of these cannot be kept."""
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
            os.fchmod(new, stat.S_IMODE(status.st_mode) & ~_OTHERS_WRITE)  # last: an access list sets bits of the mode

        _write_beside(place, data, as_it_was)


def link(path: str, to: str) -> None:
    """A symbolic link that replaces an existing file or link."""
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
    # Else a power cut could bring the former file back, such as a journal with the run that has just ended.
    directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place.descriptor)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _set_label(opened: int, label: bytes) -> None:
    try:
        os.setxattr(opened, ATTRIBUTE, label)
    except OSError as error:
        if error.errno != errno.ENOTSUP:  # a filesystem that was mounted with one label for all
            raise


def _rename(place: Place, temporary: str) -> None:
    try:
        os.replace(temporary, place.name, src_dir_fd=place.descriptor, dst_dir_fd=place.descriptor)
    except BaseException:  # also when interrupted; gone already when that came after the replacement
        _unlink(place, temporary)
        raise


def _unlink(place: Place, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=place.descriptor)


def _unguessable() -> str:
    return f".ballast-{os.urandom(8).hex()}"


def _attributes(opened: int) -> dict[str, bytes]:
    """By name. The descriptor is one that cannot be read from, so they are asked for by its name in /proc."""
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
