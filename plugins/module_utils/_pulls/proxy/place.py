# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proxy's place on the host: its sockets, which nobody else may open, and the lock that a host has once.

    /run/ballast-pull-proxy/lock       held while a proxy runs; holds its process id
    /run/ballast-pull-proxy/control    where `status` asks it

Users other than root have that directory in $XDG_RUNTIME_DIR. systemd names it itself, as $RUNTIME_DIRECTORY.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from ..._core.errors import BallastError, Problems
from .messages import MESSAGES
from .settings import Settings

_NAME = "ballast-pull-proxy"
BACKLOG = 1024  # the kernel holds it to net.core.somaxconn
_OTHERS = 0o077


def run_directory(environment: Mapping[str, str]) -> str:
    named = environment.get("RUNTIME_DIRECTORY", "").split(":")[0]
    if named:
        return named
    if os.geteuid() == 0:
        return f"/run/{_NAME}"
    home = environment.get("XDG_RUNTIME_DIR", "")
    if not home:
        raise MESSAGES.error("pulls-no-run-directory")
    return os.path.join(home, _NAME)


def control_path(directory: str) -> str:
    return os.path.join(directory, "control")


def check_places(settings: Settings, directory: str) -> None:
    """That the sockets may be where they are wanted. Changes nothing. Every problem at once."""
    parents = [os.path.dirname(listener.socket) for listener in settings.listeners]
    problems = [problem for path in sorted({directory, *parents}) for problem in _directory_problems(path)]
    paths = [listener.socket for listener in settings.listeners]
    problems += [
        MESSAGES.error("pulls-not-a-socket", path=path)
        for path in paths
        if os.path.lexists(path) and not _is_socket(path)
    ]
    Problems.raise_if(problems)


def make_directories(settings: Settings, directory: str) -> None:
    for path in sorted({directory, *(os.path.dirname(listener.socket) for listener in settings.listeners)}):
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.mkdir(path, 0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise MESSAGES.error("pulls-directory", path=path, found=error.strerror or "") from None


@contextmanager
def host_lock(directory: str) -> Iterator[None]:
    """HostError where another process has it. The kernel takes it back when this one ends, however it ends."""
    path = os.path.join(directory, "lock")
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(file, 32).decode(errors="replace").strip()
            raise MESSAGES.error("pulls-running", found=f"process {holder}" if holder.isdigit() else "") from None
        os.ftruncate(file, 0)
        os.write(file, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(file)


def listen(path: str) -> socket.socket:
    """A listening socket at `path`, 0600 from its first moment. HostError where another process listens there."""
    _clear(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)  # of the process, which has no other thread yet that makes files
    try:
        listening.bind(path)
    except OSError as error:
        listening.close()
        raise MESSAGES.error("pulls-bind", path=path, found=error.strerror or "") from None
    finally:
        os.umask(mask)
    listening.listen(BACKLOG)
    listening.setblocking(False)
    return listening


def unlink_own(sockets: Iterable[socket.socket]) -> None:
    """Before they are closed."""
    for one in sockets:
        path = one.getsockname()
        try:
            os.unlink(path)
        except OSError:
            continue


def _clear(path: str) -> None:
    """Remove the socket that a killed process left. One that is listened on is not touched."""
    if not os.path.lexists(path):
        return
    if not _is_socket(path):
        raise MESSAGES.error("pulls-not-a-socket", path=path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        code = probe.connect_ex(path)
    if code not in (errno.ECONNREFUSED, errno.ENOENT):  # EAGAIN is a listener with a full backlog
        raise MESSAGES.error("pulls-socket-held", path=path)
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _directory_problems(path: str) -> Iterator[BallastError]:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return  # it is made, 0700
    except OSError as error:
        yield MESSAGES.error("pulls-directory", path=path, found=error.strerror or "")
        return
    if not stat.S_ISDIR(found.st_mode):
        yield MESSAGES.error("pulls-directory", path=path, found="it is no directory")
    elif found.st_uid != os.geteuid():
        yield MESSAGES.error("pulls-directory-owner", path=path, user=os.geteuid(), found=f"user {found.st_uid}")
    elif found.st_mode & _OTHERS:
        yield MESSAGES.error("pulls-directory-open", path=path, found=f"mode {stat.S_IMODE(found.st_mode):04o}")


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
