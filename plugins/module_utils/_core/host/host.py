# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one interface to the machine. Engines get a `Host`; tests pass a fake that records every effect in order.

Commands run with an environment built from nothing, stdin closed, a time limit, and capped output. Reading methods return
None or an empty list for what is absent. What may not be read is an error (`core-not-root` where root could read it), and a
missing *tool* raises `Unavailable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import IO, NamedTuple, Optional, Protocol, Union

NOTHING: Mapping[str, str] = MappingProxyType({})  # no variables, no headers
Pem = Union[str, bytes]  # a certificate or a key: the path of its file, or the PEM itself
# In bytes. Exceeding a limit is an error, `core-too-large`: truncated text would be misread.
OUTPUT_LIMIT = 16 * 2**20  # of each stream of a command
READ_LIMIT = 16 * 2**20  # of a file, or of what is read from a unix socket
LOG_LIMIT = 2**20  # of the tail of a log
KERNEL_LIMIT = 256 * 2**20  # of the kernel's rules, connections or sockets; 50,000 Services need less than 64 MiB
PROGRAM_LIMIT = 512 * 2**20  # of a file that is a binary, a kernel or a package; kube-apiserver has 90 MiB
BODY_LIMIT = 64 * 2**20  # of an HTTP response; a list of 50,000 Services is smaller
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
    version: str = ""  # changes with every change of content or attributes; no program can restore an older value


class ProcessId(NamedTuple):
    """Identifies one process. A pid alone may be reused after the process has ended."""

    pid: int
    started: int  # clock ticks since boot, field 22 of proc_pid_stat(5)


@dataclass(frozen=True)
class Process:
    """What the kernel reports about a process at one moment. Nothing here is chosen by the process. Its command line,
    environment and name are, so they prove nothing: read them with `read_process` once the process is identified."""

    id: ProcessId
    parent: int
    uids: tuple[int, ...]  # real, effective, saved and filesystem uid, as seen from our own user namespace
    exe: str  # path of its executable in its own mount namespace; "" if there is none or it is hidden from us
    cgroups: tuple[str, ...]  # its cgroup path in each hierarchy
    own_users: bool  # it is in our own user namespace
    own_network: bool  # it is in our own network namespace
    own_pids: bool = True  # it is in our own pid namespace
    own_root: bool = True  # its root directory is the same as ours

    @property
    def pid(self) -> int:
        return self.id.pid


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes


@dataclass(frozen=True)
class Stream:
    """A response that is read as it arrives: `lines` ends when the server closes the connection."""

    status: int
    lines: Iterator[bytes]


LISTENING = "0A"  # TCP_LISTEN, include/net/tcp_states.h
_UDP_UNCONNECTED = "07"  # how the kernel shows a UDP socket that accepts packets from any sender


class Socket(NamedTuple):
    address: str  # the local address
    port: int
    state: str  # as the kernel writes it, "0A"
    inode: str
    uid: int = 0  # of the user that created it

    @property
    def is_open_to_all(self) -> bool:
        """Whether it accepts connections or packets from any sender."""
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
        """Run a command to its end. With `check`, an exit status other than 0 raises CommandFailed.

        After `timeout` seconds, or if it prints more than `limit` bytes, it is killed with its process group, and with any
        process it left behind that holds its output open. `writes` limits the size in bytes of files it writes.
        """

    def spawn(self, argv: Sequence[str], *, log: str, env: Mapping[str, str] = ...) -> ProcessId:
        """Start a daemon in its own session, with its output appended to `log`. Its working directory (/), umask, limits,
        priority and CPU affinity are fixed (`detached_program.py`), not inherited from the caller."""

    def process(self, pid: int) -> Optional[Process]:
        """The process with this pid; None if there is none."""

    def read_process(self, process: ProcessId, name: str) -> Optional[bytes]:
        """The content of a file of proc_pid(5), such as `cmdline`. None if that process is gone, even if its pid was
        reused."""

    def read_below(self, process: ProcessId, path: str, *, limit: int) -> Optional[bytes]:
        """The content of a file as the process sees it: every link is resolved inside its root. None if there is no such
        file or the process is gone. HostError if it is not a regular file or has more than `limit` bytes."""

    def resolve_below(self, process: ProcessId, path: str) -> Optional[str]:
        """The path, as the process sees it, that `path` leads to when all links are resolved. None as for `read_below`."""

    def run_program(
        self, process: ProcessId, arguments: Sequence[str], *, timeout: float, check: bool = True
    ) -> Completed:
        """`run` the executable of a process, even if its file has been replaced since. Unavailable if the process is gone;
        the executable of a process that reuses its pid is not run."""

    def signal(self, process: ProcessId, number: int) -> bool:
        """Send a signal. False if the process is gone; a process that reuses its pid gets no signal."""

    def which(self, name: str) -> Optional[str]:
        """The path of a program, looked up in the same fixed PATH as by `run`; None if it is absent."""

    def read(self, path: str, *, limit: int = READ_LIMIT) -> Optional[bytes]:
        """The content of a regular file. Any other kind of file is an error, as are more than `limit` bytes."""

    def read_trusted(self, path: str, *, limit: int = READ_LIMIT) -> Optional[bytes]:
        """`read` for a file that decides which programs run or who gets a secret. HostError `core-place-open` or
        `core-place-owner` if another user could have written it: the file and all directories above must belong to root or
        this user."""

    def read_end(self, path: str, limit: int) -> Optional[bytes]:
        """The last `limit` bytes of a file. None for anything but a regular file: a link, a pipe, a device."""

    def reading(self, path: str) -> AbstractContextManager[Optional[IO[bytes]]]:
        """Open a regular file, to read it in pieces; None if it is absent."""

    def write(self, path: str, data: Union[bytes, Iterable[bytes]], *, mode: int = 0o644) -> None:
        """Write a file of our own, atomically: readers see either the old or the new content, even after a power cut. An
        iterable is written piece by piece; if it raises, the old content stays. For someone else's file use `replace`.

        This method, and all below that make, change or remove something, refuse a path that other users could redirect
        (`_core/host/safe_path.py`): HostError `core-place-open` or `core-place-owner`.
        """

    def replace(self, path: str, data: bytes) -> None:
        """Replace the content of someone else's file, atomically. A link is followed. Owner, group, extended attributes and
        mode are kept, except that only the owner may still write. HostError if there is no file or an attribute cannot be
        kept."""

    def append(self, path: str, data: bytes, *, mode: int, sync: bool) -> None:
        """Append to a file of our own, creating it if absent. With `sync`, return once the data is on the disk."""

    def write_kernel_file(self, path: str, text: str) -> None:
        """Write to a file of the kernel (proc, sys, cgroup), which cannot be replaced."""

    def remove(self, path: str) -> None:
        """Remove a file, symbolic link or socket. No error if it is absent."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with its content, our mark last. No error if it is absent."""

    def make_directory(self, path: str, *, mode: Optional[int] = None) -> None:
        """Make a directory and its parents, by default with mode 0755. An existing directory gets `mode` only if it is ours;
        without `mode` it is not changed."""

    def work_directory(self, parent: str, name: str) -> AbstractContextManager[str]:
        """A new directory in `parent` for the files of one job, with an unguessable name, which only this user may enter. It
        is removed with its content at the end. What a killed run left under the same `name` is removed first."""

    def make_owned_directory(self, path: str, mark: bytes, *, mode: int) -> None:
        """Make a directory that contains our mark, atomically, and its parents. HostError if something exists there."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory or a cgroup. No error if it is absent."""

    def symlink(self, path: str, to: str) -> None:
        """Make the symbolic link `path`, which leads to `to`. An existing file or link is replaced."""

    def readlink(self, path: str) -> Optional[str]:
        """What a symbolic link contains. None for anything else, and for a link in /proc whose process is gone."""

    def listdir(self, path: str) -> list[str]:
        """The names in a directory, sorted. Empty for anything that is not a directory."""

    def list_directories(self, path: str) -> list[str]:
        """The names of the subdirectories of `path`, without links to directories."""

    def stat(self, path: str) -> Optional[Stat]:
        """The entry itself: a link is not followed. None if it is absent."""

    def read_socket(self, path: str, *, timeout: float) -> Optional[bytes]:
        """What a listener on a unix socket sends until it closes the connection, within `timeout` seconds in total. None if
        nothing listens; more than READ_LIMIT is an error."""

    def tcp_listeners(self) -> list[Socket]:
        """All listening TCP sockets of our network namespace, IPv4 and IPv6."""

    def free_bytes(self, path: str) -> int:
        """Free bytes of the filesystem of `path`, or of its nearest existing parent."""

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
        """Send one HTTP request. `unix://SOCKET:/path` uses a unix socket. With `peer`, the server must have exactly that
        certificate (the first one in the PEM), whatever its names and issuer; nothing is sent to any other.

        Every status is returned as a response. PeerError if there is no complete response within `timeout` seconds (refused,
        slow, interrupted, bad certificate) or its body exceeds `limit` bytes.
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
        """A GET request whose response is read line by line. PeerError if the response does not begin within `timeout`
        seconds. `lines` raises it too if no complete line arrives for that long, a line is too long, or the data ends within
        a line."""

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Hold `path` as a lock file. HostError at once if another run holds it."""

    def monotonic(self) -> float:
        """Seconds of a clock that nobody can set, for durations."""

    def now(self) -> float:
        """Seconds of Unix time."""

    def sleep(self, seconds: float) -> None: ...

    def is_root(self) -> bool:
        """Whether this run may read and change what belongs to root."""

    def is_systemd(self) -> bool:
        """Whether PID 1 is systemd (sd_booted(3))."""
