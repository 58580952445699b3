# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one door to the machine. Engines get a `Host`; tests hand in a fake that records every effect in order.

Commands run with an environment built from nothing, stdin closed, a time limit, and capped output. Reading
methods answer None or an empty list for what is absent; a *tool* that is absent raises `Unavailable`.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Optional, Protocol, Union

from .errors import CommandFailed, Unavailable
from .local import heard, host_error, lock_file, mounted_error, mounts_in, write_all_or_nothing

NOTHING: Mapping[str, str] = MappingProxyType({})  # no variables, no headers
Pem = Union[str, bytes]  # a certificate or a key: the path of its file, or the PEM itself
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SPAWN_SECONDS = 30
_TREE_ATTEMPTS = 10  # removals of a tree that something else removes entries from at the same time
_OUTPUT_LIMIT = 64 * 2**20  # bytes kept of a command's output; a ruleset of 50,000 Services is below it


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


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes


@dataclass(frozen=True)
class Stream:
    """An answer that is read as it comes: `lines` ends when the server closes."""

    status: int
    lines: Iterator[bytes]


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
    ) -> Completed:
        """Run to its end. With `check`, a status other than 0 raises CommandFailed."""

    def spawn(self, argv: Sequence[str], *, log: str, env: Mapping[str, str] = ..., cwd: str = "/") -> int:
        """Start a daemon in a session of its own, its output appended to `log`; answers its pid."""

    def kill(self, pid: int, number: int) -> bool:
        """Send a signal to a process that *we* started. False when it is gone."""

    def which(self, name: str) -> Optional[str]: ...

    def read(self, path: str) -> Optional[bytes]: ...

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Replace the file in one step: readers see the old content or the new, also after a power cut."""

    def append(self, path: str, data: bytes, *, mode: int, sync: bool) -> None:
        """Add to the end of a file, making it when absent; with `sync`, return when it is on the disk."""

    def poke(self, path: str, text: str) -> None:
        """Write into a file of the kernel's (proc, sys, cgroup), which cannot be replaced."""

    def remove(self, path: str) -> None:
        """Remove a file, symbolic link or socket. Absent is well."""

    def remove_tree(self, path: str) -> None: ...

    def make_directory(self, path: str, *, mode: int = 0o755) -> None:
        """Make it with its parents, and give it `mode`."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory or a cgroup. Absent is well."""

    def symlink(self, path: str, to: str) -> None: ...

    def readlink(self, path: str) -> Optional[str]: ...

    def listdir(self, path: str) -> list[str]: ...

    def stat(self, path: str) -> Optional[Stat]: ...

    def hear(self, path: str, *, timeout: float) -> Optional[bytes]:
        """What a listener on a unix socket says to whoever connects, until it closes. None where none does."""

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
        timeout: float = 10,
    ) -> Response:
        """One HTTP request. `unix://SOCKET:/path` speaks over a unix socket.

        Any status is an answer. No answer (refused, timed out, bad certificate) raises PeerError.
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
        """A GET whose answer is read line by line. `timeout` seconds without a byte, or an end in the middle of a line
        of an answer without a length, raise PeerError, from `lines` too."""

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Hold `path` as a lock file. HostError at once when another run holds it."""

    def monotonic(self) -> float: ...

    def now(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...

    def is_systemd(self) -> bool:
        """Whether PID 1 is systemd (sd_booted(3))."""


class LocalHost:
    """The machine this process runs on."""

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        env: Mapping[str, str] = NOTHING,
        check: bool = True,
        cwd: Optional[str] = None,
    ) -> Completed:
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={"PATH": PATH, "LC_ALL": "C", **env},
                cwd=cwd,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            if cwd is not None and not os.path.isdir(cwd):
                raise host_error("run a command in", cwd, error) from error
            raise Unavailable(argv[0]) from error
        except OSError as error:
            raise host_error("run", argv[0], error) from error
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise CommandFailed(argv, status=-signal.SIGKILL, output=f"no end after {timeout} seconds") from error
        finally:
            if process.poll() is None:  # also when we are interrupted: nothing of ours outlives us
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:  # not read to its end: a daemon that it started may hold the other side
                    stream.close()
        done = Completed(
            argv=tuple(argv),
            status=process.returncode,
            stdout=stdout[:_OUTPUT_LIMIT].decode(errors="replace"),
            stderr=stderr[:_OUTPUT_LIMIT].decode(errors="replace"),
        )
        if check and done.status != 0:
            raise CommandFailed(argv, status=done.status, output=done.stderr or done.stdout)
        return done

    def spawn(
        self,
        argv: Sequence[str],
        *,
        log: str,
        env: Mapping[str, str] = NOTHING,
        cwd: str = "/",
    ) -> int:
        if shutil.which(argv[0], path=PATH) is None:
            raise Unavailable(argv[0])
        try:
            output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise host_error("open", log, error) from error
        try:
            # A short-lived process in between: the daemon's parent becomes init, so nobody here has to reap it.
            starter = subprocess.run(
                [sys.executable, "-IS", "-c", _START_DETACHED, *argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                env={"PATH": PATH, "LC_ALL": "C", **env},
                cwd=cwd,
                check=False,
                timeout=_SPAWN_SECONDS,
            )
        except OSError as error:
            raise host_error("run", argv[0], error) from error
        finally:
            os.close(output)
        if starter.returncode != 0:
            raise CommandFailed(argv, status=starter.returncode, output=f"it did not start; see {log}")
        return int(starter.stdout)

    def kill(self, pid: int, number: int) -> bool:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        except OSError as error:
            raise host_error("signal", f"process {pid}", error) from error
        return True

    def which(self, name: str) -> Optional[str]:
        return shutil.which(name, path=PATH)

    def read(self, path: str) -> Optional[bytes]:
        try:
            with open(path, "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            # Entries of /proc vanish between open and read when the process ends.
            if error.errno == errno.ESRCH:
                return None
            raise host_error("read", path, error) from error

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        directory = os.path.dirname(path)
        try:
            descriptor, temporary = tempfile.mkstemp(prefix=".ballast-", dir=directory)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    os.fchmod(file.fileno(), mode)
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, path)
            except BaseException:
                # Also when interrupted; gone already when that came after the replacement.
                with suppress(FileNotFoundError):
                    os.unlink(temporary)
                raise
        except OSError as error:
            raise host_error("write", path, error) from error

    def append(self, path: str, data: bytes, *, mode: int, sync: bool) -> None:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, mode)
            try:
                write_all_or_nothing(descriptor, data)
                if sync:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise host_error("write", path, error) from error

    def poke(self, path: str, text: str) -> None:
        try:
            # Never made when absent, and written at once: the kernel takes each write for a whole value.
            descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
            try:
                os.write(descriptor, text.encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise host_error(f"write {text.strip()!r} into", path, error) from error

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise host_error("remove", path, error) from error

    def remove_tree(self, path: str) -> None:
        found = self.stat(path)
        if found is None:
            return
        if found.kind != "directory":  # rmtree's own words for a link have no error number
            raise host_error("remove", path, OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))
        below = mounts_in(path)
        if below:
            raise mounted_error(path, below)
        for _attempt in range(_TREE_ATTEMPTS):
            try:
                shutil.rmtree(path)
                return
            except FileNotFoundError:  # an entry vanished while we looked, not of necessity `path` itself
                if not os.path.lexists(path):
                    return
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:  # an entry was added while we removed
                    raise host_error("remove", path, error) from error
        raise host_error("remove", path, OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY)))

    def make_directory(self, path: str, *, mode: int = 0o755) -> None:
        try:
            os.makedirs(path, exist_ok=True)
            os.chmod(path, mode)
        except OSError as error:
            raise host_error("make directory", path, error) from error

    def remove_directory(self, path: str) -> None:
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno == errno.ENOTDIR and not os.path.lexists(path):
                return
            raise host_error("remove directory", path, error) from error

    def symlink(self, path: str, to: str) -> None:
        temporary = f"{path}.ballast-new"
        try:
            self.remove(temporary)
            os.symlink(to, temporary)
            try:
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
        except OSError as error:
            raise host_error("link", path, error) from error

    def readlink(self, path: str) -> Optional[str]:
        try:
            return os.readlink(path)
        except OSError:
            return None

    def listdir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise host_error("list", path, error) from error

    def stat(self, path: str) -> Optional[Stat]:
        try:
            found = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise host_error("examine", path, error) from error
        return Stat(
            kind=_KINDS.get(stat.S_IFMT(found.st_mode), "other"),
            mode=stat.S_IMODE(found.st_mode),
            uid=found.st_uid,
            gid=found.st_gid,
            size=found.st_size,
            mtime=found.st_mtime,
        )

    def hear(self, path: str, *, timeout: float) -> Optional[bytes]:
        try:
            return heard(path, timeout=timeout)
        except OSError:
            return None

    def free_bytes(self, path: str) -> int:
        while not os.path.isdir(path):
            path = os.path.dirname(path) or "/"
        space = os.statvfs(path)
        return space.f_bavail * space.f_frsize

    def request(
        self,
        url: str,
        *,
        method: str = "GET",
        body: Optional[bytes] = None,
        headers: Mapping[str, str] = NOTHING,
        ca: Optional[Pem] = None,
        cert: Optional[Pem] = None,
        key: Optional[Pem] = None,
        timeout: float = 10,
    ) -> Response:
        from . import web  # with TLS behind it, which most modules never need, and which takes long to import

        return web.request(url, method=method, body=body, headers=headers, ca=ca, cert=cert, key=key, timeout=timeout)

    def stream(
        self,
        url: str,
        *,
        headers: Mapping[str, str] = NOTHING,
        ca: Optional[Pem] = None,
        cert: Optional[Pem] = None,
        key: Optional[Pem] = None,
        timeout: float,
    ) -> AbstractContextManager[Stream]:
        from . import web

        return web.stream(url, headers=headers, ca=ca, cert=cert, key=key, timeout=timeout)

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        descriptor = lock_file(path)
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def is_systemd(self) -> bool:
        return os.path.isdir("/run/systemd/system")


# Run as `python -c`: starts argv[1:] in a session of its own, stderr for all its output, and prints its pid.
_START_DETACHED = """
import subprocess, sys
daemon = subprocess.Popen(
    sys.argv[1:], stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), stderr=sys.stderr.fileno(), start_new_session=True
)
print(daemon.pid)
"""

_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFSOCK: "socket",
}
