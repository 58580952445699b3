# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Paths that nobody else can redirect while we write, make or remove something there.

A path is followed from / one component at a time, each through a descriptor of its parent directory. So what is checked is
what is used, even if names change meanwhile. Rules for each directory on the way:

    it belongs to root or to this user                           (if this process is root)
    nobody else may write to it                                  (a group may, if this process is not root)
    or it is sticky, and the entry we use is root's or ours      (/tmp)

A symbolic link in such a directory is as trustworthy as the directory and is followed. As root, the user who called sudo is
trusted too, having become root already. Kernel directories (/proc, /sys) contain only what the kernel put there.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Optional

from ..text.errors import HostError
from ..text.host_messages import MESSAGES

_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LINKS_MAX = 40  # the limit of the kernel
_OF_KERNEL = ("/proc", "/sys")
_OF_PROCESS = re.compile(r"/proc/(\d+|self|thread-self)(/|$)")  # its links lead elsewhere than their text says
# Distributions let a group write here: that of Ubuntu's log daemon, and Debian's `staff`, whose members may by design
# replace what root runs. As in a sticky directory, the entry we use must be root's or ours.
OF_GROUPS = ("/usr/local", "/usr/local/bin", "/usr/local/lib", "/var/log")


@dataclass(frozen=True)
class Place:
    """The entry `name` in the directory `descriptor`, whose real path is `directory`."""

    descriptor: int
    name: str
    directory: str

    def lstat(self) -> Optional[os.stat_result]:
        """The stat of the entry, of a link itself; None if it does not exist."""
        try:
            return os.stat(self.name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    @property
    def path(self) -> str:
        return os.path.join(self.directory, self.name)


@contextmanager
def place_of(path: str, *, follow: bool = False, make: bool = False) -> Iterator[Place]:
    """The place of `path`, which need not exist. `follow`: if it is a link, the place of its target. `make`: create missing
    parents. OSError from the kernel; HostError if others could redirect the path."""
    parts, links = _parts(path if path.startswith("/") else os.path.join(os.getcwd(), path)), 0
    at, where = os.open("/", _DIRECTORY), "/"
    try:
        while True:
            place = Place(at, parts[0], where)
            shared = check_directory(path, os.fstat(at), where)
            status = place.lstat()
            if status is not None:
                _check_entry(path, place, status, shared=shared)
            last = len(parts) == 1
            if status is not None and stat.S_ISLNK(status.st_mode) and (follow or not last):
                links += 1
                if links > _LINKS_MAX or _OF_PROCESS.match(place.path):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                to = os.readlink(place.name, dir_fd=at)
                parts = [*_parts(to), *parts[1:]]
                if to.startswith("/"):
                    at, where = _instead(at, os.open("/", _DIRECTORY)), "/"
                continue
            if last:
                yield place
                return
            if status is None and make:
                _make(place)
            entered = os.open(place.name, _DIRECTORY, dir_fd=at)
            if shared:
                _check_entry(path, place, os.fstat(entered), shared=True)
            at, where, parts = _instead(at, entered), os.path.normpath(place.path), parts[1:]
    finally:
        os.close(at)


def open_own(path: str, flags: int, mode: int) -> int:
    """A descriptor of the file `path`, which only this process creates if it is absent. HostError if it is not a regular
    file, belongs to another user, or has other hard links, through which others could access it."""
    with place_of(path) as place:
        while True:
            status = place.lstat()
            if status is not None:
                _check_file(path, status)
            try:
                descriptor = os.open(
                    place.name,
                    flags | _OWN | (os.O_CREAT | os.O_EXCL if status is None else 0),
                    mode,
                    dir_fd=place.descriptor,
                )
            except (FileExistsError, FileNotFoundError):  # it was created or removed since lstat
                continue
            try:
                _check_file(path, os.fstat(descriptor))
            except BaseException:
                os.close(descriptor)
                raise
            return descriptor


def check_trusted(path: str) -> None:
    """HostError if another user could have written the file `path`. OSError from the kernel."""
    with place_of(path, follow=True) as place:
        status = place.lstat()
        if status is not None and status.st_uid not in owners():
            raise owner_error(path, place.path, status.st_uid)
        if status is not None and _others_may_write(status):
            raise file_open_error(path, place.path)


def _check_file(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise not_a_file_error(path, kind_of(status.st_mode))
    if status.st_uid not in owners():
        raise owner_error(path, path, status.st_uid)
    if status.st_nlink > 1:
        raise hard_link_error(path, status.st_nlink)


def check_directory(path: str, status: os.stat_result, where: str) -> bool:
    """Whether the directory is shared: others may create entries in it, but not touch ours. HostError if it is not safe."""
    if _is_kernels(where):
        return False
    mode = status.st_mode
    if os.geteuid() == 0 and status.st_uid not in owners():
        raise owner_error(path, where, status.st_uid)
    writable = _others_may_write(status)
    if writable and not mode & stat.S_ISVTX and (where not in OF_GROUPS or mode & stat.S_IWOTH):
        raise open_error(path, where)
    return writable


def _others_may_write(status: os.stat_result) -> bool:
    """Whether users other than its owner may write it. For a non-root process, write access of its group is accepted."""
    group = os.geteuid() == 0 and status.st_mode & stat.S_IWGRP and status.st_gid not in _groups()
    return bool(status.st_mode & stat.S_IWOTH or group)


def _check_entry(path: str, place: Place, status: os.stat_result, *, shared: bool) -> None:
    if shared and status.st_uid not in owners():
        raise owner_error(path, place.path, status.st_uid)


def _make(place: Place) -> None:
    try:
        os.mkdir(place.name, 0o755, dir_fd=place.descriptor)
    except FileExistsError:  # by another run or by somebody else: it is checked like any existing directory
        return


def _instead(old: int, new: int) -> int:
    os.close(old)
    return new


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")] or ["."]


def _is_kernels(where: str) -> bool:
    return any(where == root or where.startswith(f"{root}/") for root in _OF_KERNEL)


def owners() -> set[int]:
    """The users who are trusted like root."""
    return {0, os.geteuid(), *_of_sudo("SUDO_UID")}


def _groups() -> set[int]:
    return {0, *_of_sudo("SUDO_GID")}


def _of_sudo(name: str) -> set[int]:
    """The id in a variable that sudo sets. Without sudo, only this user or root can have set it for us."""
    text = os.environ.get(name, "")
    return {int(text)} if os.geteuid() == 0 and text.isdecimal() else set()


def kind_of(mode: int) -> str:
    """The `kind` of a Stat, from st_mode."""
    return _KINDS.get(stat.S_IFMT(mode), "other")


def open_error(path: str, directory: str) -> HostError:
    reason = f"other users can write in {directory} and replace its content at any time"
    fields = {"path": path, "where": f"in {directory}", "place": directory}
    return HostError(**MESSAGES.texts("core-place-open", found=reason, **fields))


def file_open_error(path: str, file: str) -> HostError:
    reason = f"other users can write {file} and change its content"
    return HostError(**MESSAGES.texts("core-place-open", found=reason, path=path, where="it", place=file))


def owner_error(path: str, component: str, uid: int) -> HostError:
    reason = f"{component} belongs to user {uid}"
    return HostError(**MESSAGES.texts("core-place-owner", found=reason, path=path, place=component))


def hard_link_error(path: str, names: int) -> HostError:
    return HostError(**MESSAGES.texts("core-hard-link", found=f"the file has {names} names (hard links)", path=path))


def not_a_file_error(path: str, kind: str) -> HostError:
    return HostError(**MESSAGES.texts("core-not-a-file", found=f"a {kind}", path=path))


_OWN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe at the path must not block us
_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFSOCK: "socket",
}
