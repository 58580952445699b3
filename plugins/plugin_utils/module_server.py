# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts modules on the controller with fork(2), from a process that has imported them.

The start of Python and the imports take longer than the work of most modules: 0.25 to 0.5 s of a run of 0.6 s. One server per run of
Ansible imports each module once. The first task that needs it starts it; it listens in the run's own temporary directory, which
only its user may enter, and ends with the process of that run. `ansible-connection` does the same for connections.

A module runs as if started by hand: in its own process, with the working directory and environment of the task, reading its arguments
from standard input. It is ended when the task that waits for it disappears.

    client -> server    descriptors of standard input, output and error; a length; JSON of `Order`
    server -> client    the exit status
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import selectors
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.host.bounded import open_file
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.host.processes import STARTED_FOR
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError

_ROOT = Path(__file__).parents[5]  # the directory that contains ansible_collections
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {} import main; main()".format(
    "ansible_collections.ballast.kube.plugins.plugin_utils.module_server"
)
_SOCKET = "ballast-modules.sock"
_START_SECONDS = 60.0
_OUTPUT_MAX = 256 * 2**20
_STATUS_MAX = 2**16
_LENGTH, _STATUS = struct.Struct("!Q"), struct.Struct("!i")
# What engines import only when they need it. A run that has started a second module will start more.
_USED_LATER = ("argparse", "http.client", "ssl", "cryptography.x509.verification")
_ORDER_SECONDS = 10.0  # in which a connected client must send its order


@dataclass(frozen=True)
class Order:
    """A module to run; `directory` is its working directory."""

    module: str  # name by which Python imports it
    directory: str
    environment: dict[str, str]
    umask: int


class Ended(NamedTuple):
    """The exit status and output of a module."""

    status: int
    stdout: bytes
    stderr: bytes


def run_module(module: str, arguments: bytes, directory: str, *, owner: int) -> Optional[Ended]:
    """Run the module with these arguments on its standard input. The server is that of `directory`, and ends with the process `owner`.
    None if this system cannot run the server, for example without pidfd_open(2)."""
    with ExitStack() as stack:
        try:
            order = json.dumps(asdict(Order(module, os.getcwd(), dict(os.environ), _read_umask()))).encode()
            files = [stack.enter_context(os.fdopen(os.memfd_create(name), "w+b", 0)) for name in ("in", "out", "err")]
            connection = stack.enter_context(_connected(directory, owner))
        except (OSError, AttributeError, IndexError, BallastError):
            return None
        files[0].write(arguments)
        for file in files:
            file.seek(0)
        try:
            socket.send_fds(connection, [_LENGTH.pack(len(order))], [file.fileno() for file in files])
            connection.sendall(order)
            (status,) = _STATUS.unpack(_receive(connection, _STATUS.size))
        except OSError as error:  # the module may have run, so it is not started again
            return Ended(1, b"", f"{module}: the process that starts modules has ended ({error})".encode())
        outputs = []
        for file in files[1:]:
            file.seek(0)
            outputs.append(file.read(_OUTPUT_MAX))
        return Ended(status, *outputs)


def _read_umask() -> int:
    """The umask of this process, without changing it as umask(2) would."""
    with open_file("/proc/self/status") as file:
        status = file.read(_STATUS_MAX)
    return int(status.partition(b"\nUmask:")[2].split()[0], 8)


def _connected(directory: str, owner: int) -> socket.socket:
    with _short_path(directory) as short, suppress(OSError):
        return _connect(f"{short}/{_SOCKET}")
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX)
        short = f"/proc/self/fd/{place}"
        with suppress(OSError):  # another task has started it meanwhile
            return _connect(f"{short}/{_SOCKET}")
        os.close(os.pidfd_open(os.getpid()))  # fails at once on an older kernel, which lacks what the server needs
        command = [sys.executable, "-P", "-c", _START, str(_ROOT), directory, str(owner)]
        LocalHost().run(command, timeout=_START_SECONDS, env={**os.environ, STARTED_FOR: str(owner)})
        return _connect(f"{short}/{_SOCKET}")
    finally:
        os.close(place)


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


@contextmanager
def _short_path(directory: str) -> Iterator[str]:
    """The same directory by a path short enough for the 108 bytes of a socket's address."""
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _receive(connection: socket.socket, length: int) -> bytes:
    """Exactly `length` bytes. OSError when the other end closes before."""
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise ConnectionResetError("the process at the other end has ended")
        data += part
    return data


def main() -> None:
    """The server. Also returns in the children, each when its module has ended. Arguments: the directory, the owner's process ID."""
    directory, owner = sys.argv[1], int(sys.argv[2])
    listener = socket.socket(socket.AF_UNIX)
    with _short_path(directory) as short:
        with suppress(FileNotFoundError):
            os.unlink(f"{short}/{_SOCKET}")  # left by an earlier server
        listener.bind(f"{short}/{_SOCKET}")
    listener.listen()
    ending = os.pidfd_open(owner)
    _detach()
    job = _Server(listener, ending).serve()
    if job is not None:
        job()


def _detach() -> None:
    """Continue as a child in a session of its own, without the output of the started process, which then ends. The client kills what
    is left of that process's group, and takes an output that is still open for a sign that something is left."""
    detached, ready = os.pipe()
    if os.fork():
        os.close(ready)
        os.read(detached, 1)  # until the child closes the other end
        os._exit(0)  # the client may connect now
    os.close(detached)
    os.setsid()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)
    os.close(ready)


class _Server:
    """Single-threaded, so that it may fork at any time."""

    def __init__(self, listener: socket.socket, ending: int) -> None:
        self._listener = listener
        self._ending = ending  # readable when the owner has ended
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._selector.register(ending, selectors.EVENT_READ, self._end)
        self._is_over = False
        self._count = 0  # number of started modules
        self._jobs: dict[int, socket.socket] = {}  # by process ID: the connection of the client that waits for it

    def serve(self) -> Optional[Callable[[], None]]:
        """What a child has to do; None in the server, at its end."""
        while self._jobs or not self._is_over:
            for key, _events in self._selector.select():
                job: Optional[Callable[[], None]] = key.data()
                if job is not None:
                    return job
            if self._count == 2:
                self._import_ahead()
        return None

    def _import_ahead(self) -> None:
        self._count += 1  # so that it happens only once
        for name in _USED_LATER:
            with suppress(ImportError):
                importlib.import_module(name)

    def _end(self) -> None:
        self._is_over = True
        self._selector.unregister(self._ending)
        self._selector.unregister(self._listener)

    def _accept(self) -> Optional[Callable[[], None]]:
        connection, _address = self._listener.accept()
        connection.settimeout(_ORDER_SECONDS)
        try:
            order, descriptors = _receive_order(connection)
        except (OSError, ValueError, TypeError):  # the client has gone away
            connection.close()
            return None
        with suppress(Exception):  # the child meets the same error, and reports it
            importlib.import_module(order.module)
        self._count += 1
        process = os.fork()
        if process == 0:
            for each in (self._listener, connection, *self._jobs.values()):
                each.close()
            self._selector.close()
            return partial(_run, order, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        self._jobs[process] = connection
        handle = os.pidfd_open(process)
        self._selector.register(handle, selectors.EVENT_READ, partial(self._finish, process, handle))
        self._selector.register(connection, selectors.EVENT_READ, partial(self._abandon, process))
        return None

    def _finish(self, process: int, handle: int) -> None:
        self._selector.unregister(handle)
        os.close(handle)
        _pid, status = os.waitpid(process, 0)
        connection = self._jobs.pop(process)
        with suppress(KeyError):
            self._selector.unregister(connection)
        with connection, suppress(OSError):
            connection.sendall(_STATUS.pack(os.waitstatus_to_exitcode(status)))

    def _abandon(self, process: int) -> None:
        """End a module whose task has ended before it."""
        if process not in self._jobs:  # both have ended since the last check
            return
        self._selector.unregister(self._jobs[process])
        try:
            os.killpg(process, signal.SIGTERM)
        except ProcessLookupError:  # it has not made its process group yet
            os.kill(process, signal.SIGTERM)


def _receive_order(connection: socket.socket) -> tuple[Order, list[int]]:
    head, descriptors, _flags, _address = socket.recv_fds(connection, _LENGTH.size, 3)
    try:
        (length,) = _LENGTH.unpack(head + _receive(connection, _LENGTH.size - len(head)))
        if len(descriptors) != 3:
            raise ValueError("an order comes with three descriptors")
        return Order(**json.loads(_receive(connection, length))), descriptors
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise


def _run(order: Order, descriptors: list[int]) -> None:
    os.setsid()  # one process group with everything that it starts, which can be ended together
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.umask(order.umask)
    os.chdir(order.directory)
    os.environ.clear()
    os.environ.update(order.environment)
    sys.argv = [order.module]
    importlib.import_module(order.module).main()
