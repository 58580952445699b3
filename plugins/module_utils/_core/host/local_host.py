# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The machine that this process runs on, as a `Host`."""

from __future__ import annotations

import errno
import inspect
import os
import resource
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import IO, Optional, Union

from ..text.errors import CommandFailed, Unavailable
from ..text.packages import read_distribution
from . import detached_program, directories, local_processes, socket_diag
from .bounded import (
    Deadline,
    NotAFile,
    PassedCap,
    exchange,
    open_file,
    read_end,
    read_file,
    read_socket,
    too_large_error,
)
from .file_replacement import link, replace_file, write_file
from .host import (
    BODY_LIMIT,
    NOTHING,
    OUTPUT_LIMIT,
    PATH,
    READ_LIMIT,
    Completed,
    Pem,
    Process,
    ProcessId,
    Response,
    Socket,
    Stat,
    Stream,
)
from .local_files import host_error, lock_file, mark_lock, write_all_or_nothing
from .local_processes import stat_fields
from .local_tree import make_marked
from .safe_path import check_trusted, kind_of, not_a_file_error, open_own, place_of
from .sockets import listed_listeners

_SPAWN_SECONDS = 30
_KILLED_SECONDS = 10  # for the kernel to end a process; after that it is abandoned
_UMASK = 0o022  # of commands: files for nodes and pods must be readable by other users, whatever the caller's umask


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
        limit: int = OUTPUT_LIMIT,
        writes: Optional[int] = None,
    ) -> Completed:
        try:
            # A node instance has its own root directory, which systemctl takes for a chroot, where it does nothing and
            # returns 0.
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={"PATH": PATH, "LC_ALL": "C", "SYSTEMD_IGNORE_CHROOT": "1", **env},
                cwd=cwd,
                start_new_session=True,
                umask=_UMASK,
            )
        except FileNotFoundError as error:
            if cwd is not None and not os.path.isdir(cwd):
                raise host_error("run a command in", cwd, error) from error
            raise Unavailable(argv[0], distribution=read_distribution(self)) from error
        except OSError as error:
            raise host_error("run", argv[0], error) from error
        deadline = Deadline(timeout)
        try:
            if writes is not None:
                with suppress(ProcessLookupError):
                    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (writes, writes))
            output = exchange(process, stdin, deadline=deadline, limit=limit)
            if output.held:  # by a process that it left behind
                _end_group(process.pid)
            process.wait(timeout=deadline.seconds_left())
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            raise CommandFailed(
                argv, status=-signal.SIGKILL, output=f"still running after {timeout} seconds"
            ) from error
        except PassedCap as error:
            raise too_large_error(f"{error} of {shlex.join(argv)}", limit) from error
        finally:
            if process.returncode is None:  # also after an interrupt: no process outlives its run
                _end_group(process.pid)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=_KILLED_SECONDS)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:  # not read to the end: a daemon that it started may hold the other end open
                    with suppress(BrokenPipeError):  # input that it did not read
                        stream.close()
        done = Completed(
            argv=tuple(argv),
            status=process.returncode,
            stdout=output.stdout.decode(errors="replace"),
            stderr=output.stderr.decode(errors="replace"),
        )
        if check and done.status != 0:
            raise CommandFailed(argv, status=done.status, output=done.stderr or done.stdout)
        return done

    def spawn(self, argv: Sequence[str], *, log: str, env: Mapping[str, str] = NOTHING) -> ProcessId:
        if shutil.which(argv[0], path=PATH) is None:
            raise Unavailable(argv[0], distribution=read_distribution(self))
        try:
            output = open_own(log, os.O_WRONLY | os.O_APPEND, 0o640)
        except OSError as error:
            raise host_error("open", log, error) from error
        try:
            # Through a short-lived process: the daemon's parent becomes init, so nobody here has to reap it. That process
            # prints the daemon's line of proc_pid_stat(5): while it lives, the pid cannot be reused.
            starter = subprocess.run(
                [sys.executable, "-IS", "-c", inspect.getsource(detached_program), *argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                env={"PATH": PATH, "LC_ALL": "C", **env},
                cwd="/",
                check=False,
                timeout=_SPAWN_SECONDS,
            )
        except OSError as error:
            raise host_error("run", argv[0], error) from error
        finally:
            os.close(output)
        if starter.returncode != 0:
            raise CommandFailed(argv, status=starter.returncode, output=f"it did not start; read {log}")
        pid, stat_line = starter.stdout.split(b" ", 1)
        return ProcessId(int(pid), stat_fields(stat_line).started)

    def process(self, pid: int) -> Optional[Process]:
        return local_processes.process(pid)

    def read_process(self, process: ProcessId, name: str) -> Optional[bytes]:
        return local_processes.read(process, name)

    def read_below(self, process: ProcessId, path: str, *, limit: int) -> Optional[bytes]:
        return local_processes.read_below(process, path, limit=limit)

    def resolve_below(self, process: ProcessId, path: str) -> Optional[str]:
        return local_processes.resolve_below(process, path)

    def run_program(
        self, process: ProcessId, arguments: Sequence[str], *, timeout: float, check: bool = True
    ) -> Completed:
        with local_processes.open_program(process) as path:
            if path is None:
                raise Unavailable(f"/proc/{process.pid}/exe")
            return self.run([path, *arguments], timeout=timeout, check=check)

    def signal(self, process: ProcessId, number: int) -> bool:
        return local_processes.send_signal(process, number)

    def which(self, name: str) -> Optional[str]:
        return shutil.which(name, path=PATH)

    def read(self, path: str, *, limit: int = READ_LIMIT) -> Optional[bytes]:
        try:
            return read_file(path, limit=limit)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            # Files of /proc vanish between open and read when the process ends.
            if error.errno == errno.ESRCH:
                return None
            raise host_error("read", path, error) from error

    def read_trusted(self, path: str, *, limit: int = READ_LIMIT) -> Optional[bytes]:
        try:
            check_trusted(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise host_error("read", path, error) from error
        return self.read(path, limit=limit)  # nobody else can replace the file

    def read_end(self, path: str, limit: int) -> Optional[bytes]:
        try:
            return read_end(path, limit)
        except (FileNotFoundError, NotADirectoryError, NotAFile):
            return None
        except OSError as error:
            raise host_error("read", path, error) from error

    @contextmanager
    def reading(self, path: str) -> Iterator[Optional[IO[bytes]]]:
        with ExitStack() as stack:
            file = None
            try:
                file = stack.enter_context(open_file(path))
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError as error:
                raise host_error("read", path, error) from error
            yield file

    def write(self, path: str, data: Union[bytes, Iterable[bytes]], *, mode: int = 0o644) -> None:
        try:
            write_file(path, data, mode=mode)
        except OSError as error:
            raise host_error("write", path, error) from error

    def replace(self, path: str, data: bytes) -> None:
        try:
            replace_file(path, data)
        except OSError as error:
            raise host_error("replace", path, error) from error

    def append(self, path: str, data: bytes, *, mode: int, sync: bool) -> None:
        try:
            descriptor = open_own(path, os.O_WRONLY | os.O_APPEND, mode)
            try:
                write_all_or_nothing(descriptor, data)
                if sync:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise host_error("write", path, error) from error

    def write_kernel_file(self, path: str, text: str) -> None:
        try:
            # Never created when absent, and written in one call: the kernel takes each write for a complete value.
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                mode = os.fstat(descriptor).st_mode
                if not stat.S_ISREG(mode) and not stat.S_ISCHR(mode):
                    raise not_a_file_error(path, kind_of(mode))
                if stat.S_ISREG(mode):
                    os.ftruncate(descriptor, 0)
                # Since Linux 6.16, a non-blocking write to memory.high or memory.max does not reclaim memory.
                os.set_blocking(descriptor, True)
                os.write(descriptor, text.encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise host_error(f"write {text.strip()!r} into", path, error) from error

    def remove(self, path: str) -> None:
        try:
            with suppress(FileNotFoundError, NotADirectoryError), place_of(path) as place:
                os.unlink(place.name, dir_fd=place.descriptor)
        except OSError as error:
            raise host_error("remove", path, error) from error

    def remove_tree(self, path: str) -> None:
        try:
            directories.remove_tree(path)
        except OSError as error:
            raise host_error("remove", path, error) from error

    def make_directory(self, path: str, *, mode: Optional[int] = None) -> None:
        try:
            directories.make_directory(path, mode)
        except OSError as error:
            raise host_error("make directory", path, error) from error

    def work_directory(self, parent: str, name: str) -> AbstractContextManager[str]:
        return directories.work_directory(parent, name)

    def make_owned_directory(self, path: str, mark: bytes, *, mode: int) -> None:
        try:
            make_marked(path, mark, mode)
        except OSError as error:
            raise host_error("make directory", path, error) from error

    def remove_directory(self, path: str) -> None:
        try:
            directories.remove_directory(path)
        except OSError as error:
            if error.errno == errno.ENOTDIR and not os.path.lexists(path):
                return
            raise host_error("remove directory", path, error) from error

    def symlink(self, path: str, to: str) -> None:
        try:
            link(path, to)
        except OSError as error:
            raise host_error("link", path, error) from error

    def readlink(self, path: str) -> Optional[str]:
        try:
            return os.readlink(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ESRCH):  # not a link; a link of a process that has ended
                return None
            raise host_error("read link", path, error) from error

    def listdir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except (FileNotFoundError, NotADirectoryError, ProcessLookupError):  # ProcessLookupError: the process has ended
            return []
        except OSError as error:
            raise host_error("list", path, error) from error

    def list_directories(self, path: str) -> list[str]:
        try:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise host_error("list", path, error) from error

    def stat(self, path: str) -> Optional[Stat]:
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise host_error("examine", path, error) from error
        return Stat(
            kind=kind_of(status.st_mode),
            mode=stat.S_IMODE(status.st_mode),
            uid=status.st_uid,
            gid=status.st_gid,
            size=status.st_size,
            mtime=status.st_mtime,
            # Only the kernel can set the change time (ctime).
            version=f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}",
        )

    def read_socket(self, path: str, *, timeout: float) -> Optional[bytes]:
        try:
            return read_socket(path, timeout=timeout, limit=READ_LIMIT)
        except PermissionError as error:
            raise host_error("connect to", path, error) from error
        except OSError:
            return None

    def tcp_listeners(self) -> list[Socket]:
        try:
            return socket_diag.read_listeners()
        except OSError:  # this kernel lacks inet_diag, or this sandbox forbids netlink
            return listed_listeners(self)

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
        peer: Optional[Pem] = None,
        timeout: float = 10,
        limit: int = BODY_LIMIT,
    ) -> Response:
        from . import web  # imports TLS, which is slow and which most modules never need

        credentials = web.Tls(ca, cert, key, peer)
        return web.request(url, credentials, method=method, body=body, headers=headers, timeout=timeout, limit=limit)

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

        return web.stream(url, web.Tls(ca, cert, key), headers=headers, timeout=timeout)

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        descriptor = lock_file(path)
        try:
            mark_lock(path, descriptor)
            yield
        finally:
            os.close(descriptor)

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def is_root(self) -> bool:
        return os.geteuid() == 0

    def is_systemd(self) -> bool:
        return os.path.isdir("/run/systemd/system")


def _end_group(leader: int) -> None:
    """Kill a process that is not reaped yet, and its process group: the number cannot have been reused."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
