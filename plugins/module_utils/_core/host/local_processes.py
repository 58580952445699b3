# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The process functions of `LocalHost`.

Each process is read through one open directory of /proc. That directory keeps referring to the same process even if its pid
is reused: reading from it then fails, and never returns data of another process.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Optional

from ..text.errors import HostError
from ..text.host_messages import MESSAGES
from .host import Process, ProcessId
from .local_files import host_error
from .rooted import open_below, path_below

_STATUS_BYTES = 64 * 2**10  # the most to read of a file whose content the kernel writes
_WORDS_BYTES = 2 * 2**20  # the most to read of a command line or environment, which the process writes
_GONE = (errno.ENOENT, errno.ESRCH)


class StatFields(NamedTuple):
    state: str  # R, S, D, Z, X, ...
    parent: int
    session: int
    started: int  # clock ticks since boot


def stat_fields(line: bytes) -> StatFields:
    """Parse proc_pid_stat(5). The command name, in parentheses, may contain any character, including parentheses."""
    words = line.rpartition(b")")[2].split()
    return StatFields(words[0].decode(), int(words[1]), int(words[3]), int(words[19]))


def process(pid: int) -> Optional[Process]:
    with _directory(pid) as directory:
        if directory is None:
            return None
        try:
            stat = stat_fields(_content(directory, "stat", _STATUS_BYTES))
            status = _content(directory, "status", _STATUS_BYTES).splitlines()
            uids = next(line.split()[1:] for line in status if line.startswith(b"Uid:"))
            cgroup = _content(directory, "cgroup", _STATUS_BYTES).decode(errors="surrogateescape")
            return Process(
                id=ProcessId(pid, stat.started),
                parent=stat.parent,
                uids=tuple(int(uid) for uid in uids),
                exe=_link(directory, "exe") or "",
                # cgroups(7): hierarchy, controllers, path. The name of a cgroup may contain a colon.
                cgroups=tuple(line.split(":", 2)[2] for line in cgroup.splitlines() if line.count(":") >= 2),
                own_users=_is_own(directory, "ns/user"),
                own_network=_is_own(directory, "ns/net"),
                own_pids=_is_own(directory, "ns/pid"),
                own_root=_has_own_root(directory),
            )
        except (OSError, IndexError, StopIteration) as error:
            if isinstance(error, OSError) and error.errno not in _GONE:
                raise host_error("read", f"/proc/{pid}", error) from error
            return None  # it has ended in the meantime


def read(identity: ProcessId, name: str) -> Optional[bytes]:
    with _directory(identity.pid) as directory:
        if directory is None or not _is(directory, identity):
            return None
        try:
            return _content(directory, name, _WORDS_BYTES)
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise host_error("read", f"/proc/{identity.pid}/{name}", error) from error


def read_below(identity: ProcessId, path: str, *, limit: int) -> Optional[bytes]:
    with _root(identity) as root:
        if root is None:
            return None
        try:
            with open_below(root, path) as (file, problem):
                if problem:
                    raise not_plain_error(identity, path, problem)
                data = _read_all(file, limit + 1)
        except OSError as error:
            if error.errno in (*_GONE, errno.ENOTDIR):
                return None
            raise host_error("read", f"{path} below the root of process {identity.pid}", error) from error
    if len(data) > limit:
        raise not_plain_error(identity, path, f"it has more than {limit} bytes")
    return data


def resolve_below(identity: ProcessId, path: str) -> Optional[str]:
    with _root(identity) as root:
        if root is None:
            return None
        try:
            return path_below(root, path)
        except OSError as error:
            if error.errno in (*_GONE, errno.ENOTDIR, errno.ELOOP):
                return None
            raise host_error("examine", f"{path} below the root of process {identity.pid}", error) from error


@contextmanager
def open_program(identity: ProcessId) -> Iterator[Optional[str]]:
    """A path to the process's executable, valid within the context; None if the process is gone."""
    descriptor = None
    with _directory(identity.pid) as directory:
        if directory is not None and _is(directory, identity):
            try:
                descriptor = os.open("exe", os.O_PATH | os.O_CLOEXEC, dir_fd=directory)
            except OSError as error:
                if error.errno not in _GONE:
                    raise host_error("open", f"/proc/{identity.pid}/exe", error) from error
    try:
        # By our own pid: the child that becomes the program no longer has the descriptor.
        yield None if descriptor is None else f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        if descriptor is not None:
            os.close(descriptor)


def send_signal(identity: ProcessId, number: int) -> bool:
    try:
        # Opened before the process is identified: from here on it refers to one process, even if the pid is reused.
        handle = os.pidfd_open(identity.pid)
    except OSError as error:
        if error.errno == errno.ESRCH:
            return False
        if error.errno in (errno.ENOSYS, errno.EPERM):  # before Linux 5.3, or in a sandbox that does not know the call
            return _signal_by_number(identity, number)
        raise host_error("signal", f"process {identity.pid}", error) from error
    try:
        with _directory(identity.pid) as directory:
            if directory is None or not _is(directory, identity):
                return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    except OSError as error:
        raise host_error("signal", f"process {identity.pid}", error) from error
    finally:
        os.close(handle)
    return True


def _signal_by_number(identity: ProcessId, number: int) -> bool:
    with _directory(identity.pid) as directory:
        if directory is None or not _is(directory, identity):
            return False
        try:
            os.kill(identity.pid, number)
        except ProcessLookupError:
            return False
        except OSError as error:
            raise host_error("signal", f"process {identity.pid}", error) from error
    return True


@contextmanager
def _directory(pid: int) -> Iterator[Optional[int]]:
    """A descriptor of the process's directory in /proc; None if there is no such process."""
    try:
        descriptor = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in _GONE:
            raise host_error("open", f"/proc/{pid}", error) from error
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _root(identity: ProcessId) -> Iterator[Optional[int]]:
    """A descriptor of the process's root directory; None if the process is gone."""
    descriptor = None
    with _directory(identity.pid) as directory:
        if directory is not None and _is(directory, identity):
            try:
                descriptor = os.open("root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
            except OSError as error:
                if error.errno not in _GONE:
                    raise host_error("open", f"/proc/{identity.pid}/root", error) from error
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _is(directory: int, identity: ProcessId) -> bool:
    try:
        return stat_fields(_content(directory, "stat", _STATUS_BYTES)).started == identity.started
    except (OSError, IndexError):
        return False


def _is_own(directory: int, name: str) -> bool:
    """Whether the process is in our namespace `name`. A kernel without that type of namespace has a single one."""
    own = _link(None, f"/proc/self/{name}")
    return own is None or _link(directory, name) == own


def _has_own_root(directory: int) -> bool:
    try:
        return os.path.samestat(os.stat("root", dir_fd=directory), os.stat("/"))
    except OSError:  # see _link
        return False


def _link(directory: Optional[int], name: str) -> Optional[str]:
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError:  # a kernel thread, which has no executable; or this user may not inspect the process
        return None


def _content(directory: int, name: str, limit: int) -> bytes:
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    try:
        return _read_all(descriptor, limit)
    finally:
        os.close(descriptor)


def _read_all(descriptor: int, limit: int) -> bytes:
    parts, left = [], limit
    while left and (part := os.read(descriptor, min(left, 2**16))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def not_plain_error(identity: ProcessId, path: str, reason: str) -> HostError:
    return HostError(**MESSAGES.texts("core-below-root", found=reason, path=path, pid=identity.pid))
