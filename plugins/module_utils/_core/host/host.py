# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one door to the machine. Engines get a `Host`; tests hand in a fake that records every effect in order.

Commands run with an environment built from nothing, stdin closed, a time limit, and capped output. Reading methods
answer None or an empty list for what is absent. What may not be read is an error, `core-not-root` where root might, and
a *tool* that is absent raises `Unavailable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import IO, NamedTuple, Optional, Protocol, Union

NOTHING: Mapping[str, str] = MappingProxyType({})  # no variables, no headers
Pem = Union[str, bytes]  # a certificate or a key: the path of its file, or the PEM itself
# Bytes. What passes its cap is an error, `core-too-large`: half a text is a wrong one.
OUTPUT_LIMIT = 16 * 2**20  # of each stream of a command
READ_LIMIT = 16 * 2**20  # of a file, and of what a unix socket says
LOG_LIMIT = 2**20  # of the end of a log
KERNEL_LIMIT = 256 * 2**20  # of what lists the kernel's rules, connections or sockets; 50,000 Services are below 64 MiB
PROGRAM_LIMIT = 512 * 2**20  # of a file that is a program, a kernel or a package; kube-apiserver has 90 MiB
BODY_LIMIT = 64 * 2**20  # of an HTTP answer; a list of 50,000 Services is below it
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Completed:
    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Stat:
    kind: str  # "file", "directory", "symlink", "socket" or "other"
    mode: int  # permission bits
    uid: int
    gid: int
    size: int
    mtime: float
    version: str = (
        ""  # another one after each change of its content or attributes; no program can put the former one back
    )


class ProcessId(NamedTuple):
    """One process. A pid alone is given to another process when its own has ended."""

    pid: int
    started: int  # clock ticks after the machine's start, field 22 of proc_pid_stat(5)


@dataclass(frozen=True)
class Process:
    """What the kernel says of a process, all of one moment. Nothing here is the process's own word: its command, its
    environment and its name are not, so they prove nothing, and are read with `read_process` after it is identified."""

    id: ProcessId
    parent: int
    uids: tuple[int, ...]  # real, effective, saved and of files, as seen from our own user namespace
    exe: str  # path of its program, as it sees it; "" where there is none, or we may not look
    cgroups: tuple[str, ...]  # its path in each hierarchy
    own_users: bool  # it is in our own user namespace
    own_network: bool  # it is in our own network namespace
    own_pids: bool = True  # it is in our own pid namespace
    own_root: bool = True  # its root directory is ours

    @property
    def pid(self) -> int:
        return self.id.pid


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes


@dataclass(frozen=True)
class Stream:
    """An answer that is read as it comes: `lines` ends when the server closes."""

    status: int
    lines: Iterator[bytes]


LISTENING = "0A"  # TCP_LISTEN, include/net/tcp_states.h
_UDP_UNCONNECTED = "07"  # how the kernel shows a UDP socket that takes packets from everyone


class Socket(NamedTuple):
    address: str  # its own
    port: int
    state: str  # as the kernel writes it, "0A"
    inode: str
    uid: int = 0  # of the user that made it

    @property
    def is_open_to_all(self) -> bool:
        """It takes connections, or packets, from any sender."""
        return self.state in (LISTENING, _UDP_UNCONNECTED)


class Host(Protocol):
    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        env: Mapping[str, str] = ...,
        check: bool = True,
        cwd: Optional[str] = None,
        limit: int = OUTPUT_LIMIT,
        writes: Optional[int] = None,
    ) -> Completed:
        """Run to its end. With `check`, a status other than 0 raises CommandFailed.

        At `timeout`, and where it prints more than `limit` bytes, it is ended with its process group, and so is what it
        leaves behind that holds its output open. `writes` is how large a file may become that it writes.
        """

    def spawn(self, argv: Sequence[str], *, log: str, env: Mapping[str, str] = ...) -> ProcessId:
        """Start a daemon in a session of its own, its output appended to `log`. Its directory (/), umask, limits, priorities and
        processors are stated (`detached_program.py`), not those of the caller."""

    def process(self, pid: int) -> Optional[Process]:
        """None where it is gone."""

    def read_process(self, process: ProcessId, name: str) -> Optional[bytes]:
        """A file of proc_pid(5), as `cmdline`. None where that process is gone, also when another one has its pid."""

    def read_below(self, process: ProcessId, path: str, *, limit: int) -> Optional[bytes]:
        """A file as the process sees it: every link is followed inside its root. None where there is none, or the process
        is gone. HostError where it is no plain file, or has more than `limit` bytes."""

    def resolve_below(self, process: ProcessId, path: str) -> Optional[str]:
        """The path, as the process sees it, of what all links of `path` lead to. None as in `read_below`."""

    def run_program(
        self, process: ProcessId, arguments: Sequence[str], *, timeout: float, check: bool = True
    ) -> Completed:
        """`run` the file that the process was started from, also where another file is in its place by now. Unavailable where
        it is gone: the program of another process that has its pid is not run."""

    def signal(self, process: ProcessId, number: int) -> bool:
        """False when it is gone; another process that has its pid by now gets no signal."""

    def which(self, name: str) -> Optional[str]: ...

    def read(self, path: str, *, limit: int = READ_LIMIT) -> Optional[bytes]:
        """The whole of a regular file; another kind is an error, and so is one of more than `limit` bytes."""

    def read_trusted(self, path: str, *, limit: int = READ_LIMIT) -> Optional[bytes]:
        """As `read`, of a file that decides which programs run or who gets a secret. HostError `core-place-open` or
        `core-place-owner` where another user could have written it: the file is root's or this user's, and so is the way to it."""

    def read_end(self, path: str, limit: int) -> Optional[bytes]:
        """The last `limit` bytes of a file. None for what is no plain file: a link, a pipe, a device."""

    def reading(self, path: str) -> AbstractContextManager[Optional[IO[bytes]]]:
        """A regular file, to be read in pieces."""

    def write(self, path: str, data: Union[bytes, Iterable[bytes]], *, mode: int = 0o644) -> None:
        """Make a file of our own, or replace it in one step: readers see the old content or the new, also after a power cut.
        Pieces are written as they come; where they end with an error, the old content stays. Somebody else's file is for `replace`.

        This and all below that make, change or remove something refuse a path that other users could point elsewhere
        (`_core/host/safe_path.py`): HostError `core-place-open` or `core-place-owner`.
        """

    def replace(self, path: str, data: bytes) -> None:
        """New content for somebody else's file, in one step. A link is followed; owner, group, mode (without the right of others
        to write) and extended attributes stay. HostError where there is no file, or one of these cannot be kept."""

    def append(self, path: str, data: bytes, *, mode: int, sync: bool) -> None:
        """Add to the end of a file of our own, making it when absent; with `sync`, return when it is on the disk."""

    def write_kernel_file(self, path: str, text: str) -> None:
        """Write into a file of the kernel's (proc, sys, cgroup), which cannot be replaced."""

    def remove(self, path: str) -> None:
        """Remove a file, symbolic link or socket. Absent is well."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with its content, our mark last. Absent is well."""

    def make_directory(self, path: str, *, mode: Optional[int] = None) -> None:
        """Make it with its parents, with 0755 where no `mode` is given. One that exists is given a `mode` only where it is ours;
        without one it stays as it is."""

    def work_directory(self, parent: str, name: str) -> AbstractContextManager[str]:
        """A new directory in `parent`, for files of one job, that only this user may enter and nobody can guess; removed with all
        in it at the end. What a killed run left there under the same `name` is removed first."""

    def make_owned_directory(self, path: str, mark: bytes, *, mode: int) -> None:
        """Make it, with our mark in it, in one step; its parents too. HostError where something is there."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory or a cgroup. Absent is well."""

    def symlink(self, path: str, to: str) -> None: ...

    def readlink(self, path: str) -> Optional[str]: ...

    def listdir(self, path: str) -> list[str]: ...

    def list_directories(self, path: str) -> list[str]:
        """The names of the directories in it, without links to such."""

    def stat(self, path: str) -> Optional[Stat]: ...

    def read_socket(self, path: str, *, timeout: float) -> Optional[bytes]:
        """What a listener on a unix socket says to a client, until it closes, within `timeout` seconds in all.
        None where none does; what is beyond READ_LIMIT is an error."""

    def tcp_listeners(self) -> list[Socket]:
        """The TCP sockets of our network namespace that take connections, of both families."""

    def free_bytes(self, path: str) -> int:
        """Free bytes of the filesystem that `path`, or its nearest present parent, lies on."""

    def request(
        self,
        url: str,
        *,
        method: str = "GET",
        body: Optional[bytes] = None,
        headers: Mapping[str, str] = ...,
        ca: Optional[Pem] = None,
        cert: Optional[Pem] = None,
        key: Optional[Pem] = None,
        peer: Optional[Pem] = None,
        timeout: float = 10,
        limit: int = BODY_LIMIT,
    ) -> Response:
        """One HTTP request. `unix://SOCKET:/path` speaks over a unix socket. With `peer` the server has to have that very
        certificate, the first of the PEM, whatever its names and its issuer; nothing is sent to another.

        Any status is an answer. No whole answer within `timeout` seconds (refused, slow, cut, bad certificate) raises
        PeerError, and so does a body of more than `limit` bytes.
        """

    def stream(
        self,
        url: str,
        *,
        headers: Mapping[str, str] = ...,
        ca: Optional[Pem] = None,
        cert: Optional[Pem] = None,
        key: Optional[Pem] = None,
        timeout: float,
    ) -> AbstractContextManager[Stream]:
        """A GET whose answer is read line by line. `timeout` seconds until the answer begins, or without a whole line
        after that, raise PeerError, from `lines` too; so do a line beyond its cap, and an end in the middle of one."""

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Hold `path` as a lock file. HostError at once when another run holds it."""

    def monotonic(self) -> float: ...

    def now(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...

    def is_root(self) -> bool:
        """Whether this run may read and change what is root's."""

    def is_systemd(self) -> bool:
        """Whether PID 1 is systemd (sd_booted(3))."""
