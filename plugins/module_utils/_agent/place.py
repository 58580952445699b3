# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program's directory on the machine: its sockets, which nobody else may open, and the lock, which one process per machine
can hold.

    /run/ballast-NAME/lock       held while the program runs; contains its pid
    /run/ballast-NAME/control    the socket that `status` queries

For users other than root, the directory is in $XDG_RUNTIME_DIR. systemd provides it as $RUNTIME_DIRECTORY.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from .._core.host.directories import make_directory
from .._core.host.safe_path import open_own
from .._core.text.errors import BallastError, Problems
from .identity import Agent

BACKLOG = 1024  # the kernel limits it to net.core.somaxconn
_OTHERS = 0o077
_RUN = "/run"  # empty after each boot
_CREDENTIALS = struct.Struct("iII")  # struct ucred, unix(7)


def run_directory(agent: Agent, environment: Mapping[str, str]) -> str:
    """The path of the directory, which may not exist. The program's error `no-run-directory` if no rule above names
    one."""
    named = environment.get("RUNTIME_DIRECTORY", "").split(":")[0]
    if named:
        return named
    if os.geteuid() == 0:
        return _of_root(agent)
    home = environment.get("XDG_RUNTIME_DIR", "")
    if not home:
        raise agent.error("no-run-directory")
    return os.path.join(home, agent.name)


def control_path(directory: str) -> str:
    return os.path.join(directory, "control")


def check_places(agent: Agent, directory: str, sockets: Sequence[str] = ()) -> None:
    """Check that the sockets can be created where they are configured. Changes nothing. Raises all problems together."""
    problems = [problem for path in _directories(directory, sockets) for problem in _directory_problems(agent, path)]
    problems += [
        agent.error("not-a-socket", path=path) for path in sockets if os.path.lexists(path) and not _is_socket(path)
    ]
    Problems.raise_if(problems)


def make_directories(agent: Agent, directory: str, sockets: Sequence[str] = ()) -> None:
    """Make what is missing of the program's directory and of those of its sockets, each for this user only."""
    for path in _directories(directory, sockets):
        if os.path.lexists(path):  # checked by check_places
            continue
        try:
            make_directory(path, 0o700)
        except OSError as error:
            raise agent.error("directory", path=path, found=error.strerror or "") from None
    if os.geteuid() == 0 and directory == _of_root(agent):
        _mark(directory)


def _of_root(agent: Agent) -> str:
    return f"{_RUN}/{agent.name}"


def _mark(directory: str) -> None:
    """Mark the directory as the module does when it first makes it: after a reboot the supervisor creates it, and a removal
    leaves unmarked directories alone."""
    from .._core.engine.ownership import read_mark, set_mark
    from .._core.host.local_host import LocalHost

    host = LocalHost()
    with suppress(BallastError):  # no reason not to start
        if read_mark(host, directory) is None:
            set_mark(host, directory)


@contextmanager
def host_lock(agent: Agent, directory: str) -> Iterator[None]:
    """Hold the lock. HostError if another process holds it. The kernel releases it when this process ends, for whatever
    reason."""
    path = os.path.join(directory, "lock")
    file = open_own(path, os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(file, 32).decode(errors="replace").strip()
            raise agent.error("running", found=f"process {holder}" if holder.isdigit() else "") from None
        os.ftruncate(file, 0)
        os.write(file, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(file)


def listen(agent: Agent, path: str) -> socket.socket:
    """A listening socket at `path`, with mode 0600 from the first moment. HostError if another process listens there."""
    _clear(agent, path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)  # of the whole process, in which no other thread creates files yet
    try:
        listening.bind(path)
    except OSError as error:
        listening.close()
        raise agent.error("bind", path=path, found=error.strerror or "") from None
    finally:
        os.umask(mask)
    listening.listen(BACKLOG)
    listening.setblocking(False)
    return listening


def peer_user(connection: socket.socket) -> int:
    """The uid of the process at the other end of a unix socket, at the time it connected."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _pid, user, _group = _CREDENTIALS.unpack(credentials)
    return int(user)


def unlink_own(sockets: Iterable[socket.socket]) -> None:
    """Remove the files of these sockets; call before they are closed."""
    for listener in sockets:
        path = listener.getsockname()
        try:
            os.unlink(path)
        except OSError:
            continue


def _clear(agent: Agent, path: str) -> None:
    """Remove a socket that a killed process has left. A socket with a listener is not touched."""
    if not os.path.lexists(path):
        return
    if not _is_socket(path):
        raise agent.error("not-a-socket", path=path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        code = probe.connect_ex(path)
    if code not in (errno.ECONNREFUSED, errno.ENOENT):  # EAGAIN is a listener with a full backlog
        raise agent.error("socket-held", path=path)
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _directory_problems(agent: Agent, path: str) -> Iterator[BallastError]:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return  # it will be created with mode 0700
    except OSError as error:
        yield agent.error("directory", path=path, found=error.strerror or "")
        return
    if not stat.S_ISDIR(status.st_mode):
        yield agent.error("directory", path=path, found="it is not a directory")
    elif status.st_uid != os.geteuid():
        yield agent.error("directory-owner", path=path, user=os.geteuid(), found=f"user {status.st_uid}")
    elif status.st_mode & _OTHERS:
        yield agent.error("directory-open", path=path, found=f"mode {stat.S_IMODE(status.st_mode):04o}")


def _directories(directory: str, sockets: Sequence[str]) -> list[str]:
    return sorted({directory, *(os.path.dirname(path) for path in sockets)})


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
