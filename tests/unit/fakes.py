# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine in memory that implements the Host protocol, for unit tests.

It executes: what the real one refuses it refuses with the same error id (tests/unit/core/test_host_contract.py runs
on both). Every effect is recorded in order in `effects`, and any effect can be made to fail or to kill the program.

    host = FakeHost(files={"/etc/hostname": "box\n"})
    host.on("ip", "-j", "link", answer="[]", reads=True)      # an answer by the first words; the longest match wins
    host.on("ip", answer=model.run)                           # or a function (Call) -> str | int | Completed
    host.fail_at(3)                                           # killed instead of the 3rd effect from now
    host.fill_disk()                                          # writes now fail as on a full disk
"""

from __future__ import annotations

import errno
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace as dataclass_replace
from typing import Optional, Union

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.ownership import DIRECTORY, Mark
from ansible_collections.ballast.kube.plugins.module_utils._core.host.bounded import too_large_error
from ansible_collections.ballast.kube.plugins.module_utils._core.host.directories import WORK_MARK
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import (
    BODY_LIMIT,
    NOTHING,
    OUTPUT_LIMIT,
    Completed,
    Pem,
    ProcessId,
    Response,
    Socket,
    Stream,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_files import (
    HOLDER_BYTES,
    host_error,
    locked_error,
    mounted_error,
    not_a_lock_error,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.host.names import MARKER
from ansible_collections.ballast.kube.plugins.module_utils._core.host.safe_path import not_a_file_error, open_error
from ansible_collections.ballast.kube.plugins.module_utils._core.host.sockets import listed_listeners
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import answer_too_large, no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import CommandFailed, Unavailable
from tests.unit.fake_parts import (
    CGROUP_V1,
    CGROUP_V2,
    Answer,
    Call,
    Effect,
    Handler,
    Killed,
    ListSink,
    Node,
    Process,
    Rule,
    json_answer,
)
from tests.unit.fake_processes import FakeProcesses

__all__ = ["Answer", "Call", "Effect", "FakeHost", "Handler", "Killed", "ListSink", "Node", "Process", "json_answer"]

_SLEEPS_LIMIT = 20_000  # a wait without an end fails the test and does not hang it


class FakeHost(FakeProcesses):
    def __init__(self, *, files: Optional[Mapping[str, Union[str, bytes]]] = None, systemd: bool = False) -> None:
        self.effects: list[Effect] = []
        self.commands: list[tuple[str, ...]] = []  # every command run, reading ones too
        self.requests: list[tuple[str, str, Optional[bytes]]] = []  # method, url, body
        self.processes: dict[int, Process] = {}
        self.unlisted: dict[int, Process] = {}
        self.mounts: set[str] = set()
        self.free = 100 * 2**30
        self.on_sleep: list[Callable[[], None]] = []
        self.on_spawn: list[Callable[[int, Process], None]] = []
        self.on_signal: list[Callable[[int, Process, int], bool]] = []  # True: dealt with, do not end the process
        self._nodes = {"/": Node("directory", mode=0o755)}
        self._rules: list[Rule] = []
        self._urls: list[tuple[str, str, Union[Response, Callable[[str, Optional[bytes]], Response]]]] = []
        self._told: dict[str, Callable[[], Optional[str]]] = {}
        self._kernel = {}
        self._locked: set[str] = set()
        self._faults: dict[int, tuple[BaseException, bool]] = {}
        self._full = self._full_by_others = False
        self._on_disk: dict[str, bytes] = {}  # of each file that has more in memory: what a power cut leaves
        self._clock = 1000.0
        self._sleeps = 0
        self._works = 0
        self._next_pid = 4000
        self._systemd = systemd
        for path in ("/etc", "/proc/sys", "/run", "/tmp", "/usr/bin", "/var/lib", "/var/log", "/var/cache"):
            self.given_directory(path)
        self.given("/proc/self/mounts", "")
        self.given("/proc/uptime", "100.0 1.0\n")
        for path, content in (files or {}).items():
            self.given(path, content)

    # What the machine has before the test begins. None of these counts as an effect.

    def given(self, path: str, content: Union[str, bytes] = "", *, mode: int = 0o644) -> None:
        self.given_directory(os.path.dirname(path))
        data = content.encode() if isinstance(content, str) else content
        self._nodes[path] = Node("file", mode=mode, data=data, mtime=self.now())

    def given_directory(self, path: str, *, mode: int = 0o755, uid: int = 0) -> None:
        if path in self._nodes:
            return
        self.given_directory(os.path.dirname(path))
        self._nodes[path] = Node("directory", mode=mode, mtime=self.now(), uid=uid)

    def given_ours(self, path: str, owner: str = DIRECTORY) -> None:
        """A directory with our mark."""
        self.given_directory(path)
        self.given(os.path.join(path, MARKER), Mark(owner, path).as_bytes(), mode=0o600)

    def given_link(self, path: str, to: str, *, uid: int = 0) -> None:
        self.given_directory(os.path.dirname(path))
        self._nodes[path] = Node("symlink", mode=0o777, data=to.encode(), mtime=self.now(), uid=uid)

    def given_owner(self, path: str, uid: int, gid: int, *, mode: int) -> None:
        node = self._nodes[path]
        node.uid, node.gid, node.mode = uid, gid, mode

    def given_behind_link(self, path: str, to: str, uid: int, gid: int, *, mode: int) -> None:
        """What is there lies at `to`, and is of this owner; a link leads to it."""
        self.given(to, self._nodes[path].data)
        self.given_owner(to, uid, gid, mode=mode)
        self.given_link(path, to)

    def owner(self, path: str) -> tuple[int, int, int]:
        """User, group and mode."""
        node = self._nodes[path]
        return node.uid, node.gid, node.mode

    def given_sysctl(self, name: str, value: Union[int, str]) -> None:
        self.given("/proc/sys/" + name.replace(".", "/"), f"{value}\n")

    def given_cgroups(self, version: int) -> None:
        """The hierarchies of cgroup v1 (each controller its own) or v2, mounted as on Debian."""
        rows = []
        if version == 1:
            for controller, names in CGROUP_V1.items():
                root = f"/sys/fs/cgroup/{controller}"
                self._kernel[root] = {"cgroup.procs": "", "cgroup.clone_children": "0\n", **names}
                rows.append(f"cgroup {root} cgroup rw,relatime,{controller} 0 0")
        else:
            root = "/sys/fs/cgroup"
            self._kernel[root] = dict(CGROUP_V2)
            rows.append(f"cgroup2 {root} cgroup2 rw,relatime 0 0")
        for root, names in self._kernel.items():
            for name, content in names.items():
                self.given(os.path.join(root, name), content)
        if version == 1:
            self._nodes["/sys/fs/cgroup/cpuset/cpuset.cpus"].data = b"0-1\n"
            self._nodes["/sys/fs/cgroup/cpuset/cpuset.mems"].data = b"0\n"
        self._nodes["/proc/self/mounts"].data = "".join(f"{row}\n" for row in rows).encode()

    def given_cgroup(self, path: str) -> None:
        """A directory of a hierarchy, with the kernel's files in it."""
        self._make_directories(path)

    def end_cgroup(self, path: str) -> None:
        """It goes. Those above stay, as under systemd, when nothing is in them any more."""
        self._forget(path)

    def on(
        self,
        *prefix: str,
        answer: Union[Answer, Handler] = "",
        reads: Union[bool, Callable[[tuple[str, ...]], bool]] = False,
    ) -> None:
        """Answer commands that begin with these words. A tool without any answer is not on this machine.

        A str is the output of a success, an int a status, an exception is raised. `reads` marks what changes nothing,
        and is then no effect.
        """
        self._rules.insert(0, Rule(prefix=prefix, answer=answer, reads=reads))

    def answer(
        self,
        url: str,
        answer: Union[Response, Callable[[str, Optional[bytes]], Response]],
        *,
        method: str = "GET",
    ) -> None:
        """Answer requests for urls that begin with `url`; a function gets the url and the body. The longest wins."""
        self._urls.insert(0, (method, url, answer))

    def hold_lock(self, path: str) -> None:
        """Another process holds it."""
        self.given(path, "1")
        self._locked.add(path)

    def release_lock(self, path: str) -> None:
        self._locked.discard(path)

    def fill_disk(self, *, by_others: bool = False) -> None:
        """Until `empty_disk`, or a tree is removed; by others, who take what becomes free, until `empty_disk` alone."""
        self._full, self._full_by_others = True, by_others

    def empty_disk(self) -> None:
        self._full = False

    def fail_at(self, number: int, error: Optional[BaseException] = None, *, torn: bool = False) -> None:
        """Raise `error` (Killed when none is given) in place of the effect `number` from now, the next being 1.

        With `torn`, half of what a `write`-like effect appends is there, as a power cut leaves it.
        """
        self._faults[len(self.effects) + number] = (error or Killed(f"at effect {number}"), torn)

    def cut_power(self) -> None:
        """Lose what was appended and not synced. Files that were written or replaced are on the disk, as with the real host."""
        for path in self._on_disk.keys() & self._nodes.keys():
            self._nodes[path] = dataclass_replace(self._nodes[path], data=self._on_disk[path])
        self._on_disk = {}

    def calm(self) -> None:
        """Forget faults that were not reached, and the locks of killed programs."""
        self._faults = {}
        self._locked = set()

    # What tests look at.

    def snapshot(self) -> dict[str, object]:
        """All that a program may have changed, comparable; times left out."""
        found: dict[str, object] = {
            path: (node.kind, node.mode, node.data) for path, node in sorted(self._nodes.items())
        }
        found["processes"] = sorted(process.argv for process in self.processes.values())
        return found

    # The Host protocol; what only reads the tree of files is in FakePaths.

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
        assert timeout > 0, "a command has a time limit"
        words = tuple(argv)
        assert all(isinstance(word, str) for word in words), f"a command is a list of text: {words!r}"
        self.commands.append(words)
        rule = self._rule(words)
        if not (rule.reads(words) if callable(rule.reads) else rule.reads):
            self._effect("run", " ".join(words))
        answer = rule.answer
        if callable(answer):
            answer = answer(Call(argv=words, stdin=stdin, env=dict(env), cwd=cwd))
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, str):
            answer = Completed(argv=words, status=0, stdout=answer, stderr="")
        elif isinstance(answer, int):
            answer = Completed(argv=words, status=answer, stdout="", stderr=f"{words[0]}: status {answer}")
        for name, said in (("stdout", answer.stdout), ("stderr", answer.stderr)):
            if len(said) > limit and len(said.encode()) > limit:
                raise too_large_error(f"{name} of {shlex.join(argv)}", limit)
        if check and answer.status != 0:
            raise CommandFailed(argv, status=answer.status, output=answer.stderr or answer.stdout)
        return answer

    def spawn(self, argv: Sequence[str], *, log: str, env: Mapping[str, str] = NOTHING) -> ProcessId:
        if not argv[0].startswith("/"):
            self._rule(tuple(argv))
        self._safe(log)
        self._need_parent("open", log)
        self._own_file(log)
        self._effect("spawn", " ".join(argv))
        if log not in self._nodes:
            self._nodes[log] = Node("file", mode=0o640, mtime=self.now())
        pid = self.given_process(argv)
        self.processes[pid].log = log
        for hook in self.on_spawn:
            hook(pid, self.processes[pid])
        return ProcessId(pid, 0)

    def which(self, name: str) -> Optional[str]:
        if any(rule.prefix[0] == name for rule in self._rules):
            return f"/usr/bin/{name}"
        return None

    def write(self, path: str, data: Union[bytes, Iterable[bytes]], *, mode: int = 0o644) -> None:
        data = data if isinstance(data, bytes) else b"".join(data)
        self._safe(path)
        path = self._real_parent("write", path)
        self._refuse_kernel("write", path)
        if self._is(path, "directory"):
            raise host_error("write", path, OSError(errno.EISDIR, "Is a directory"))
        self._need_space("write", path, size=len(data))
        self._effect("write", path)
        self._on_disk.pop(path, None)
        self._nodes[path] = Node("file", mode=mode, data=data, mtime=self.now())

    def replace(self, path: str, data: bytes) -> None:
        self._safe(path, follow=True)
        path = self._resolve(path)
        node = self._nodes.get(path)
        if node is None:
            raise host_error("replace", path, OSError(errno.ENOENT, os.strerror(errno.ENOENT)))
        if node.kind != "file":
            raise not_a_file_error(path, node.kind)
        self._need_space("replace", path)
        self._effect("replace", path)
        self._on_disk.pop(path, None)
        self._nodes[path] = dataclass_replace(node, data=data, mode=node.mode & ~0o022, names=1, mtime=self.now())

    def append(self, path: str, data: bytes, *, mode: int, sync: bool) -> None:
        self._safe(path)
        path = self._real_parent("write", path)
        self._refuse_kernel("write", path)
        self._own_file(path)
        self._need_space("write", path)
        node = self._nodes.get(path, Node("file", mode=mode))

        def with_part(size: int) -> None:
            self._on_disk.setdefault(path, node.data)
            self._nodes[path] = Node(node.kind, mode=node.mode, data=node.data + data[:size], mtime=self.now())

        self._effect("append", path, torn=lambda: with_part(len(data) // 2))
        with_part(len(data))
        if sync:
            self._on_disk.pop(path)

    def write_kernel_file(self, path: str, text: str) -> None:
        node = self._nodes.get(self._real_parent_or_none(path) or "")
        if node is None:
            raise host_error("write into", path, OSError(errno.ENOENT, "No such file or directory"))
        if node.kind == "directory":
            raise host_error("write into", path, OSError(errno.EISDIR, "Is a directory"))
        if node.kind == "symlink":
            raise host_error("write into", path, OSError(errno.ELOOP, os.strerror(errno.ELOOP)))
        self._effect("poke", f"{path} {text.strip()}")
        if path.endswith("/cgroup.procs"):
            for other, procs in self._nodes.items():
                if other.startswith(self._kernel_root(path) or "/-") and other.endswith("/cgroup.procs"):
                    kept = [line for line in procs.data.split() if line != text.strip().encode()]
                    procs.data = b"".join(line + b"\n" for line in kept)
            node.data += text.strip().encode() + b"\n"
        elif path.endswith("/cgroup.subtree_control"):
            enabled = node.data.decode().split() + [word[1:] for word in text.split()]
            node.data = " ".join(sorted(set(enabled))).encode() + b"\n"
        else:
            node.data = text.strip().encode() + b"\n" if path.startswith(("/proc/", "/sys/")) else text.encode()

    def remove(self, path: str) -> None:
        self._safe(path)
        path = self._real_parent_or_none(path) or ""
        node = self._nodes.get(path)
        if node is None:
            return
        if node.kind == "directory":
            raise host_error("remove", path, OSError(errno.EISDIR, "Is a directory"))
        self._effect("remove", path)
        del self._nodes[path]

    def remove_tree(self, path: str) -> None:
        self._safe(path)
        real = self._real_parent_or_none(path) or ""
        node = self._nodes.get(real)
        if node is None:
            return
        if node.kind != "directory":
            raise host_error("remove", path, OSError(errno.ENOTDIR, "Not a directory"))
        below = sorted(mount for mount in self.mounts if mount == real or mount.startswith(real + "/"))
        if below:
            raise mounted_error(path, below)
        self._refuse_kernel("remove", real)
        self._effect("remove_tree", path)
        is_on_disk = not self._full_by_others and not real.startswith("/run/")
        if is_on_disk and any(self._nodes[below].data for below in self.paths(real)):
            self.empty_disk()  # what is removed is room again
        self._forget(real)

    def make_directory(self, path: str, *, mode: Optional[int] = None) -> None:
        self._safe(path, follow=True)
        found = self._find(path)
        if found is not None and found.kind != "directory":
            raise host_error("make directory", path, OSError(errno.EEXIST, "File exists"))
        real = self._resolve(path)
        parent = os.path.dirname(path)
        while self._find(parent) is None:
            parent = os.path.dirname(parent)
        above = self._find(parent)
        if above is not None and above.kind != "directory":
            raise host_error("make directory", path, OSError(errno.ENOTDIR, "Not a directory"))
        if found is None:
            self._need_space("make directory", path)
        else:
            self._safe(f"{path}/.", follow=True)
            if mode not in (None, found.mode) and found.mode & 0o002:
                raise open_error(path, path)
        self._effect("make_directory", path)
        self._make_directories(real)
        if found is None or mode is not None:
            self._nodes[real].mode = 0o755 if mode is None else mode

    @contextmanager
    def work_directory(self, parent: str, name: str) -> Iterator[str]:
        prefix = os.path.join(parent, f".ballast-{name}.")
        self._safe(prefix)
        self._need_parent("make a directory in", prefix)
        for left in [os.path.join(parent, one) for one in self.listdir(parent)]:
            if re.fullmatch(re.escape(prefix) + "[0-9a-f]{16}", left) and left not in self._locked:
                if WORK_MARK in self.listdir(left):
                    self.remove_tree(left)
                elif not self.listdir(left):
                    self.remove_directory(left)
        self._works += 1
        path = f"{prefix}{self._works:016x}"
        self.make_directory(path, mode=0o700)
        self.write(os.path.join(path, WORK_MARK), b"", mode=0o600)
        self._locked.add(path)
        try:
            yield path
        except (Exception, KeyboardInterrupt):  # a killed program removes nothing
            self._end_work(path)
            raise
        self._end_work(path)

    def _end_work(self, path: str) -> None:
        self.remove_tree(path)
        self._locked.discard(path)

    def make_owned_directory(self, path: str, mark: bytes, *, mode: int) -> None:
        real = self._real_parent_or_none(path)
        if real is not None and real in self._nodes:
            raise host_error("make directory", path, OSError(errno.EEXIST, "File exists"))
        self.make_directory(path, mode=mode)
        self._nodes[os.path.join(self._resolve(path), MARKER)] = Node("file", mode=0o600, data=mark, mtime=self.now())

    def remove_directory(self, path: str) -> None:
        self._safe(path)
        real = self._real_parent_or_none(path) or ""
        node = self._nodes.get(real)
        if node is None:
            return
        if node.kind != "directory":
            raise host_error("remove directory", path, OSError(errno.ENOTDIR, "Not a directory"))
        root = self._kernel_root(real)
        files = {os.path.join(real, name) for name in self._kernel.get(root or "", {})}
        if set(self.paths(real)) - files - {real}:
            number = errno.EBUSY if root else errno.ENOTEMPTY
            raise host_error("remove directory", path, OSError(number, os.strerror(number)))
        if root and self._nodes[os.path.join(real, "cgroup.procs")].data.strip():
            raise host_error("remove directory", path, OSError(errno.EBUSY, os.strerror(errno.EBUSY)))
        self._effect("remove_directory", path)
        self._forget(real)

    def symlink(self, path: str, to: str) -> None:
        self._safe(path)
        path = self._real_parent("link", path)
        if self._is(path, "directory"):
            raise host_error("link", path, OSError(errno.EISDIR, "Is a directory"))
        self._need_space("link", path)
        self._effect("symlink", path)
        self._nodes[path] = Node("symlink", mode=0o777, data=to.encode(), mtime=self.now())

    def listdir(self, path: str) -> list[str]:
        node = self._find(path)
        if node is None or node.kind != "directory":
            return []
        real = self._resolve(path)
        below = real.rstrip("/") + "/"
        found = {other[len(below) :] for other in self._nodes if other.startswith(below) and other != below}
        found = {name for name in found if "/" not in name}
        if real == "/proc":
            found.update(str(pid) for pid in self.processes)
        return sorted(found)

    def list_directories(self, path: str) -> list[str]:
        real = self._resolve(path)
        places = {name: self._nodes.get(f"{real.rstrip('/')}/{name}") for name in self.listdir(path)}
        return [name for name, node in places.items() if node is not None and node.kind == "directory"]

    def given_listener(self, path: str, say: Callable[[], Optional[str]]) -> None:
        """One that says this to whoever connects; None while it does not listen."""
        self._told[path] = say

    def read_socket(self, path: str, *, timeout: float) -> Optional[bytes]:
        told = self._told[path]() if path in self._told else None
        return None if told is None else told.encode()

    def free_bytes(self, path: str) -> int:
        return 0 if self._full else self.free

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
        self.requests.append((method, url, body))
        if method not in ("GET", "HEAD"):
            self._effect("request", f"{method} {url}")
        fits = [row for row in self._urls if row[0] == method and url.startswith(row[1])]
        if not fits:
            raise no_answer_error(method, url, ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"))
        answer = max(fits, key=lambda row: len(row[1]))[2]
        answer = answer(url, body) if callable(answer) else answer
        if len(answer.body) > limit:
            raise answer_too_large(method, url, limit)
        return answer

    @contextmanager
    def stream(
        self,
        url: str,
        *,
        headers: Mapping[str, str] = NOTHING,
        ca: Optional[Pem] = None,
        cert: Optional[Pem] = None,
        key: Optional[Pem] = None,
        timeout: float,
    ) -> Iterator[Stream]:
        """What `answer` says, line by line; then the server closes."""
        answer = self.request(url, headers=headers, ca=ca, cert=cert, key=key, timeout=timeout)
        yield Stream(status=answer.status, lines=iter(answer.body.splitlines(keepends=True)))

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        self._safe(path)
        path = self._real_parent("lock", path)
        self._own_file(path)
        if path in self._locked:
            raise locked_error(path, self._nodes[path].data.decode())
        held = self._nodes[path].data.strip() if path in self._nodes else b""
        if len(held) > HOLDER_BYTES or (held and not held.isdigit()):
            raise not_a_lock_error(path)
        self._effect("lock", path)
        self._nodes[path] = Node("file", mode=0o600, data=b"1", mtime=self.now())
        self._locked.add(path)
        try:
            yield
        finally:
            self._locked.discard(path)

    def tcp_listeners(self) -> list[Socket]:
        return listed_listeners(self)

    def monotonic(self) -> float:
        return self._clock

    def now(self) -> float:
        return 1_700_000_000.0 + self._clock

    def sleep(self, seconds: float) -> None:
        self._clock += seconds
        self._sleeps += 1
        assert self._sleeps < _SLEEPS_LIMIT, "a wait has no end"
        for hook in self.on_sleep:
            hook()

    def is_root(self) -> bool:
        return True

    def is_systemd(self) -> bool:
        return self._systemd

    # Inside.

    def _rule(self, argv: tuple[str, ...]) -> Rule:
        fits = [rule for rule in self._rules if argv[: len(rule.prefix)] == rule.prefix]
        if fits:
            return max(fits, key=lambda rule: len(rule.prefix))
        if any(rule.prefix[0] == argv[0] for rule in self._rules):
            raise AssertionError(f"the test has no answer to this command: {argv!r}")
        raise Unavailable(argv[0])

    def _effect(self, verb: str, target: str, *, torn: Optional[Callable[[], None]] = None) -> None:
        number = len(self.effects) + 1
        error, half = self._faults.pop(number, (None, False))
        if error is not None:
            if half and torn is not None:
                torn()
            raise error
        self.effects.append(Effect(verb, target))

    def _need_space(self, verb: str, path: str, *, size: int = 1) -> None:
        """An empty file takes none; /run is in memory."""
        if self._full and size and not path.startswith("/run/") and self._kernel_root(path) is None:
            raise host_error(verb, path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
