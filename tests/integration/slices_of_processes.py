# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A slice of a real kernel with a process in it, whose limits are moved as with a balloon.

test_balloon_limits.py runs these tests on this machine, and in a virtual machine that has cgroup v2.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.slices import SliceLimits
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import Resources
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.cgroup_paths import cgroup_directories
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.service.cgroup import CgroupKind
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from tests.integration import journal
from tests.integration.kube_proxy import eventually
from tests.integration.processes import running

MIB = 2**20
NAME = f"ballast-balloontest-{os.getpid()}"
FILE = "BALLAST_UNREAD_FILE"  # variable: a file that is in no memory yet, of as many MiB as UNREAD
UNREAD = 96
HELD = 64  # MiB that the process holds
_SECONDS = 60

# Enters the slice, holds memory, reads the file once, and says so; then it waits, or keeps a processor busy.
_PROCESS = """
import sys, time
for path in sys.argv[4:]:
    with open(path, "w") as procs:
        procs.write("0")
held = b"x" * (int(sys.argv[1]) * 2**20)
file = open(sys.argv[2], "rb", buffering=0)  # not closed: some file systems forget it then
while file.read(2**20):
    pass
print("ready", flush=True)
while True:
    if sys.argv[3] == "waits":
        time.sleep(1)
"""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or LocalHost().is_systemd(), reason="only root can make cgroups, and systemd makes its own"
)


@dataclass(frozen=True)
class Slice:
    host: LocalHost
    limits: SliceLimits
    place: Path

    @property
    def directories(self) -> list[str]:
        return cgroup_directories(self.host, NAME)

    def kept(self, *files: str) -> str:
        """Of the one of these files that this kernel has."""
        return next(
            path.read_text(encoding="ascii")
            for directory in self.directories
            for file in files
            if (path := Path(directory, file)).exists()
        )

    @property
    def used(self) -> int:
        return int(self.kept("memory.usage_in_bytes", "memory.current"))

    def figure(self, name: str) -> int:
        """Of memory.oom_control, memory.events and cpu.stat."""
        text = self.kept("memory.oom_control", "memory.events") + self.kept("cpu.stat")
        return int(dict(line.split() for line in text.splitlines())[name])

    @contextmanager
    def process(self, *, held: int = HELD, does: str = "waits") -> Iterator[None]:
        log = self.place / "log"
        with ExitStack() as undo:
            leaves = [f"{directory}/leaf" for directory in self.directories]  # v2: one that is divided holds no process
            for leaf in leaves:
                undo.enter_context(journal.directory(leaf))
            argv = [sys.executable, "-c", _PROCESS, str(held), os.environ[FILE], does]
            process = undo.enter_context(running([*argv, *(f"{leaf}/cgroup.procs" for leaf in leaves)], log))
            assert eventually(lambda: log.read_text() or process.poll() is not None, seconds=_SECONDS)
            assert log.read_text() == "ready\n"
            yield
            assert process.poll() is None, "it was ended"
            assert self.figure("oom_kill") == 0


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Slice]:
    host = LocalHost()
    with ExitStack() as undo:
        for directory in cgroup_directories(host, NAME):
            undo.enter_context(journal.directory(directory))
        CgroupKind().write(Context(None, host), NAME, {"cpu_millis": None, "memory_bytes": None, "pids": 300}, None)
        yield Slice(host, SliceLimits(host, {"n1": NAME}), tmp_path)


@pytest.fixture(autouse=True)
def _unread() -> None:
    """What is read then is charged to who reads it."""
    with open(os.environ[FILE], "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def refused(made: Slice, limit: Resources) -> HostError:
    with pytest.raises(HostError) as caught:
        made.limits.write("n1", limit)
    return caught.value


def test_limits_are_what_was_written_and_pids_stay(made: Slice) -> None:
    assert made.limits.read("n1") == made.limits.most("n1")
    for limit in (Resources(1500, 512 * MIB), Resources(10, 64 * MIB), Resources(2000, 1024 * MIB)):
        made.limits.write("n1", limit)
        assert made.limits.read("n1") == limit
        assert made.kept("pids.max") == "300\n"


def test_files_that_were_read_are_given_back_and_the_process_stays(made: Slice) -> None:
    with made.process():
        limit = Resources(1000, (HELD + 48) * MIB)
        assert made.used > limit.memory
        made.limits.write("n1", limit)
        assert made.limits.read("n1") == limit
        assert HELD * MIB < made.used <= limit.memory


def test_memory_in_use_is_not_taken(made: Slice) -> None:
    before = Resources(1500, 512 * MIB)
    made.limits.write("n1", before)
    with made.process():
        error = refused(made, Resources(500, (HELD - 32) * MIB))
        assert error.id == "balloon-slice-in-use"
        assert made.limits.read("n1") == before
        assert made.used > HELD * MIB


def test_a_busy_process_is_held_to_the_quota_from_then_on(made: Slice) -> None:
    with made.process(held=1, does="is busy"):
        made.limits.write("n1", Resources(2000, 512 * MIB))
        throttled = made.figure("nr_throttled")
        made.limits.write("n1", Resources(100, 512 * MIB))
        assert eventually(lambda: made.figure("nr_throttled") > throttled, seconds=_SECONDS)


def test_a_pod_with_a_larger_quota_is_named_where_the_kernel_takes_no_lower_one(made: Slice) -> None:
    made.limits.write("n1", Resources(2000, 512 * MIB))
    with ExitStack() as undo:
        pods = [f"{directory}/pod" for directory in made.directories]
        for pod in pods:
            undo.enter_context(journal.directory(pod))
        quotas = [path for pod in pods if (path := Path(pod, "cpu.cfs_quota_us")).exists()]
        if not quotas:  # cgroup v2 has no such rule
            for path in (path for pod in pods if (path := Path(pod, "cpu.max")).exists()):
                path.write_text("150000 100000", encoding="ascii")
            made.limits.write("n1", Resources(1000, 512 * MIB))
            return
        quotas[0].write_text("150000", encoding="ascii")
        error = refused(made, Resources(1000, 512 * MIB))
        assert error.id == "balloon-slice-quota"
        assert str(quotas[0].parent) in error.found
        assert made.limits.read("n1") == Resources(2000, 512 * MIB)
        made.limits.write("n1", Resources(1500, 512 * MIB))


def test_what_is_not_there_is_not_made(made: Slice) -> None:
    others = SliceLimits(made.host, {"n1": f"{NAME}-none"})
    with pytest.raises(HostError) as caught:
        others.write("n1", Resources(1000, 64 * MIB))
    assert caught.value.id == "balloon-slice-missing"
    assert not any(Path(directory).exists() for directory in cgroup_directories(made.host, f"{NAME}-none"))
