# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads untrusted data in pieces, up to a limit and a deadline: pipes of a command, files, unix sockets, JSON.

Exceeding a limit is an error, `core-too-large`; data is never truncated silently, since half a list is a wrong answer.
Memory use stays near the limit.
"""

from __future__ import annotations

import errno
import hashlib
import os
import selectors
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple, Optional, Protocol

from ..text.errors import HostError
from ..text.host_messages import MESSAGES
from .host import Host

PIECE = 2**16
_LOOK_SECONDS = 0.25  # interval of checks whether a command has ended while another process holds its output open
_GRACE_SECONDS = 1.0  # for the rest of its output after it has ended


class Deadline:
    """A point in time; `seconds_left` raises TimeoutError once it has passed."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def seconds_left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left

    def is_over(self) -> bool:
        return time.monotonic() >= self._end


def too_large_error(what: str, limit: int) -> HostError:
    return HostError(**MESSAGES.texts("core-too-large", what=what, limit=limit))


# Commands


class Piped(Protocol):
    """The parts of `subprocess.Popen`, with three pipes, that are needed here."""

    pid: int
    stdin: Optional[IO[bytes]]
    stdout: Optional[IO[bytes]]
    stderr: Optional[IO[bytes]]


class Output(NamedTuple):
    stdout: bytearray
    stderr: bytearray
    held: bool  # the process has ended, but a process that it left behind holds its output open


class PassedCap(Exception):
    """A process printed more than the limit on the stream named here."""


def exchange(process: Piped, data: bytes, *, deadline: Deadline, limit: int) -> Output:
    """Send `data` to the process and read its output until it closes it, or ends while another process holds it open.

    PassedCap for more than `limit` bytes on a stream, TimeoutError at the deadline. Neither signals nor reaps the process.
    """
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise ValueError("a process without pipes cannot be read")
    taken = {process.stdout: bytearray(), process.stderr: bytearray()}
    names = {process.stdout: "stdout", process.stderr: "stderr"}
    left = memoryview(data)
    grace: Optional[Deadline] = None
    with selectors.DefaultSelector() as selector:
        for pipe in taken:
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ)
        if left:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        else:
            process.stdin.close()
        while selector.get_map():
            ready = selector.select(min(_LOOK_SECONDS, deadline.seconds_left()))
            for key, _events in ready:
                stream: Any = key.fileobj
                if stream is process.stdin:
                    left = _give(stream.fileno(), left)
                    over = not left
                else:
                    over = not _take(stream.fileno(), taken[stream], names[stream], limit)
                if over:
                    selector.unregister(stream)
                    stream.close()
            if grace is None and selector.get_map() and has_ended(process.pid):
                grace = Deadline(_GRACE_SECONDS)
            if grace is not None and (not ready or grace.is_over()):
                break
        return Output(taken[process.stdout], taken[process.stderr], held=bool(selector.get_map()))


def has_ended(pid: int) -> bool:
    """Whether our child process has ended. It is not reaped, so its pid and process group cannot be reused."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # with SIGCHLD ignored, the kernel has reaped it
        return True


def _give(descriptor: int, left: memoryview) -> memoryview:
    """Write a piece; returns the data still to be written, empty if the process reads no more."""
    try:
        return left[os.write(descriptor, left[:PIECE]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        return left[:0]


def _take(descriptor: int, into: bytearray, name: str, limit: int) -> bool:
    """Read a piece; returns False at the end of the stream."""
    try:
        piece = os.read(descriptor, PIECE)
    except BlockingIOError:
        return True
    into += piece
    if len(into) > limit:
        raise PassedCap(name)
    return bool(piece)


# Files


class NotAFile(OSError):
    """A directory, pipe, device or socket; or a link, if links are not followed."""


@contextmanager
def open_file(path: str, *, follow: bool = True) -> Iterator[IO[bytes]]:
    """Open a regular file. OSError for anything else: a pipe would block us, and a device may act on being opened."""
    # O_PATH has no side effects; the file that was checked is then opened through it.
    place = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        kind = stat.S_IFMT(os.fstat(place).st_mode)
        if kind == stat.S_IFDIR:
            raise NotAFile(errno.EISDIR, os.strerror(errno.EISDIR))
        if kind != stat.S_IFREG:
            raise NotAFile(errno.EINVAL, f"it is {_KINDS[kind]}, not a file")
        # Without O_NONBLOCK, a process that holds a lease on the file could make us wait.
        descriptor = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        if os.path.isdir("/proc/self/fd"):
            raise
        raise OSError(errno.ENXIO, "/proc is not mounted") from error
    finally:
        os.close(place)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        yield file


def read_file(path: str, *, limit: int) -> bytes:
    """The content of a regular file. OSError, or HostError `core-too-large` beyond `limit` bytes."""
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise too_large_error(path, limit)
        return _read_whole(file.read, path, limit)


def read_end(path: str, limit: int) -> bytes:
    """The last `limit` bytes of a regular file, even one that is still growing. Links are not followed."""
    with open_file(path, follow=False) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - limit))
        data = bytearray()
        while len(data) < limit:
            piece = file.read(min(PIECE, limit - len(data)))
            if not piece:
                break
            data += piece
        return bytes(data)


def read_pieces(file: Optional[IO[bytes]]) -> Iterator[bytes]:
    """The pieces of a file up to its end; none if there is no file."""
    while file is not None:
        piece = file.read(PIECE)
        if not piece:
            return
        yield piece


def file_sha256(host: Host, path: str) -> Optional[str]:
    """The hexadecimal SHA-256 of a file; None if it does not exist."""
    digest = hashlib.sha256()
    with host.reading(path) as file:
        if file is None:
            return None
        for piece in read_pieces(file):
            digest.update(piece)
    return digest.hexdigest()


def _read_whole(read: Callable[[int], Optional[bytes]], what: str, limit: int) -> bytes:
    data = bytearray()
    while True:
        piece = read(PIECE)
        if not piece:
            return bytes(data)
        data += piece
        if len(data) > limit:
            raise too_large_error(what, limit)


_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link",
}


# Sockets


def read_socket(path: str, *, timeout: float, limit: int) -> bytes:
    """What a listener on the unix socket `path` sends until it closes the connection. OSError if nothing listens or it takes
    more than `timeout` seconds; HostError `core-too-large` beyond `limit` bytes."""
    deadline = Deadline(timeout)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(deadline.seconds_left())
        connection.connect(path)

        def read(size: int) -> bytes:
            connection.settimeout(deadline.seconds_left())
            return connection.recv(size)

        return _read_whole(read, path, limit)


# JSON
