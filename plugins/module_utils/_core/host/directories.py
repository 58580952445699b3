# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creation and removal of directories, including temporary work directories."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Optional

from .local_files import host_error, mounted_error, mounts_in
from .local_tree import remove_all_but_mark
from .safe_path import Place, check_directory, open_error, owner_error, place_of

WORK_MARK = ".ballast-work"  # in each work directory: we made it, and may remove it with its content
_MODE = 0o755
_OPENED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TREE_ATTEMPTS = 10  # attempts to remove a tree while another process adds entries to it


def make_directory(path: str, mode: Optional[int]) -> None:
    """Make `path` and its parents. An existing directory keeps its mode, unless `mode` is given and the directory is
    ours."""
    with place_of(path, follow=True, make=True) as place:
        made = True
        try:
            os.mkdir(place.name, 0o700, dir_fd=place.descriptor)
        except FileExistsError:
            there, made = place.lstat(), False
            if there is not None and not stat.S_ISDIR(there.st_mode):
                raise
        descriptor = os.open(
            place.name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.descriptor
        )
        try:
            status = os.fstat(descriptor)
            shared = check_directory(path, status, place.path)
            target_mode = _MODE if made and mode is None else mode
            if target_mode is None or target_mode == stat.S_IMODE(status.st_mode):
                return
            if status.st_uid != os.geteuid():
                raise owner_error(path, place.path, status.st_uid)
            if shared:
                raise open_error(path, place.path)
            os.chmod(f"/proc/self/fd/{descriptor}", target_mode)
        finally:
            os.close(descriptor)


def remove_directory(path: str) -> None:
    """No error if it is absent. OSError if it is not empty, or not a directory."""
    with suppress(FileNotFoundError), place_of(path) as place:
        os.rmdir(place.name, dir_fd=place.descriptor)


def remove_tree(path: str) -> None:
    """No error if it is absent. OSError if it is not a directory; HostError `core-mounted` if something is mounted in
    it."""
    with ExitStack() as held:
        try:
            place = held.enter_context(place_of(path))
        except (FileNotFoundError, NotADirectoryError):
            return
        status = place.lstat()
        if status is None:
            return
        if not stat.S_ISDIR(status.st_mode):  # for a symlink, rmtree raises an OSError without an errno
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        below = mounts_in(path)
        if below:
            raise mounted_error(path, below)
        _remove_tree(place, place.name)


@contextmanager
def work_directory(parent: str, name: str) -> Iterator[str]:
    """A new directory in `parent` with an unguessable name, which only this user may enter. It is removed at the end.

    It is locked while this process lives. A directory with the same `name` and our mark that is not locked was left by a
    killed run and is removed first.
    """
    prefix = f".ballast-{name}."
    with ExitStack() as held:
        try:
            place = held.enter_context(place_of(os.path.join(parent, prefix)))
            _remove_left(place, prefix)
            made, lock = _make_work(place, prefix)
        except OSError as error:
            raise host_error("make a directory in", parent, error) from error
        held.callback(os.close, lock)
        path = os.path.join(parent, made)
        try:
            yield path
        finally:
            try:
                _remove_tree(place, made)
            except OSError as error:
                raise host_error("remove", path, error) from error


def _make_work(place: Place, prefix: str) -> tuple[str, int]:
    """Its name, and the descriptor that holds its lock."""
    while True:
        name = f"{prefix}{os.urandom(8).hex()}"
        os.mkdir(name, 0o700, dir_fd=place.descriptor)
        try:
            held = _lock_entry(place, name)
        except (FileNotFoundError, BlockingIOError):  # another run took it for a leftover
            continue
        os.close(os.open(WORK_MARK, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=held))
        return name, held


def _remove_left(place: Place, prefix: str) -> None:
    listed = os.open(".", _OPENED, dir_fd=place.descriptor)
    try:
        names = [name for name in os.listdir(listed) if re.fullmatch(re.escape(prefix) + "[0-9a-f]{16}", name)]
    finally:
        os.close(listed)
    for name in names:
        with suppress(OSError):  # in use, or another run is removing it
            held = _lock_entry(place, name)
            try:
                if WORK_MARK in os.listdir(held):
                    _remove_tree(place, name)
                else:  # its maker was killed before it wrote the mark, or it is not ours
                    os.rmdir(name, dir_fd=place.descriptor)
            finally:
                os.close(held)


def _lock_entry(place: Place, name: str) -> int:
    """A descriptor that holds the lock of the directory. OSError if it is no directory of this user, is locked by another
    process, or has been removed."""
    held = os.open(name, _OPENED, dir_fd=place.descriptor)
    try:
        if os.fstat(held).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        named = os.stat(name, dir_fd=place.descriptor, follow_symlinks=False)
        if not os.path.samestat(named, os.fstat(held)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    except BaseException:
        os.close(held)
        raise
    return held


def _remove_tree(place: Place, name: str) -> None:
    path = (
        f"/proc/self/fd/{place.descriptor}/{name}"  # the directory that was checked, wherever its path may lead by now
    )
    for _attempt in range(_TREE_ATTEMPTS):
        try:
            remove_all_but_mark(path)
            shutil.rmtree(path)
            return
        except FileNotFoundError:  # an entry vanished meanwhile, not necessarily the directory itself
            if not os.path.lexists(path):
                return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:  # ENOTEMPTY: an entry was added meanwhile
                raise
    raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
