# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Union

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.request import BalloonsRequest, NodeRequest
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.limits import Limits, limits_of
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.slices import SliceLimits
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.vms import VmLimits
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import Resources
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.cgroup_paths import cgroup_directories
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_files import host_error
from ansible_collections.ballast.kube.plugins.module_utils._core.service.cgroup import CgroupKind
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import (
    BallastError,
    Bug,
    HostError,
    PeerError,
)
from tests.unit.balloon.qemu import Qemu, served
from tests.unit.fake_supervisors import FakeSystemd
from tests.unit.fakes import FakeHost

MIB = 2**20
SLICE = "ballast-lab-n1"
WHOLE = Resources(4000, 8000 * MIB)  # of the machine
LIMIT = Resources(1500, 512 * MIB)
HOSTS = ("v1", "v2", "systemd", "systemd with v1")


class Kernel(FakeHost):
    """It takes unread files from a slice when it must, and ends processes as the real ones do: never by v1."""

    anonymous = 100 * MIB
    unread = 0  # files that were read once
    stubborn = False  # they cannot be taken: they are being written to the disk
    ended = False

    def __init__(self, name: str) -> None:
        super().__init__(systemd="systemd" in name)
        self.given_cgroups(1 if "v1" in name else 2)
        self.given("/proc/stat", "cpu  1 2 3\ncpu0 1 2\ncpu1 1 2\ncpu2 0 0\ncpu3 0 0\nintr 7\n")
        self.given("/proc/meminfo", f"MemTotal: {8000 * 1024} kB\nMemFree: 1 kB\n")
        if "v1" not in name:
            self.given("/sys/fs/cgroup/cgroup.subtree_control", "cpu cpuset hugetlb io memory pids\n")
        if self.is_systemd():
            FakeSystemd(self)
        CgroupKind().write(Context(None, self), SLICE, {"cpu_millis": None, "memory_bytes": None, "pids": 300}, None)
        self.tell()

    def tell(self) -> None:
        for directory in cgroup_directories(self, SLICE):
            used = self.anonymous + self.unread
            for file, stat in (("memory.usage_in_bytes", "total_inactive_file"), ("memory.current", "inactive_file")):
                if self.stat(f"{directory}/{'memory.limit_in_bytes' if 'usage' in file else 'memory.max'}"):
                    self.given(f"{directory}/{file}", f"{used}\n")
                    self.given(f"{directory}/memory.stat", f"anon {self.anonymous}\n{stat} {self.unread}\n")

    def use(self, *, anonymous: int, unread: int = 0, stubborn: bool = False) -> None:
        self.anonymous, self.unread, self.stubborn = anonymous, unread, stubborn
        self.tell()

    def take(self, limit: int) -> bool:
        """Whether no more than the limit is used then."""
        if not self.stubborn:
            self.unread = max(0, min(self.unread, limit - self.anonymous))
        self.tell()
        return self.anonymous + self.unread <= limit

    def given(self, path: str, content: Union[str, bytes] = "", *, mode: int = 0o644) -> None:
        """What systemd writes, which goes on where v1 refuses."""
        if not path.endswith(f"{SLICE}.slice/memory.limit_in_bytes") or self.take(int(content)):
            super().given(path, content, mode=mode)

    def write_kernel_file(self, path: str, text: str) -> None:
        limit = int(text) if text.isdigit() else 2**63
        if path.endswith("memory.limit_in_bytes") and not self.take(limit):
            raise host_error("write into", path, OSError(errno.EBUSY, "Device or resource busy"))
        if path.endswith("memory.high"):
            self.given(path)
            self.take(limit)
        if path.endswith("memory.max"):
            self.ended |= self.anonymous + self.unread > limit
        super().write_kernel_file(path, text)

    def in_force(self, file: str) -> str:
        (found,) = (path for d in cgroup_directories(self, SLICE) for path in [f"{d}/{file}"] if self.stat(path))
        return self.text(found).strip()


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest) -> Kernel:
    return Kernel(request.param)


def limits(host: FakeHost) -> SliceLimits:
    return SliceLimits(host, {"n1": SLICE})


def refused(writer: Limits, limit: Resources) -> BallastError:
    with pytest.raises(BallastError) as caught:
        writer.write("n1", limit)
    assert "n1" in caught.value.text
    return caught.value


def test_a_slice_without_limits_has_the_whole_machine(host: Kernel) -> None:
    assert limits(host).read("n1") == limits(host).most("n1") == WHOLE


def test_what_is_written_is_read_and_the_limit_of_pids_stays(host: Kernel) -> None:
    for limit in (LIMIT, Resources(10, 128 * MIB), WHOLE):
        limits(host).write("n1", limit)
        assert limits(host).read("n1") == limit
        assert limits(host).most("n1") == WHOLE
        assert host.in_force("pids.max") == "300"
    assert not host.ended


def test_unread_files_are_no_obstacle_and_nothing_is_ended(host: Kernel) -> None:
    host.use(anonymous=100 * MIB, unread=700 * MIB)
    limits(host).write("n1", Resources(1000, 128 * MIB))
    assert limits(host).read("n1") == Resources(1000, 128 * MIB)
    assert not host.ended


@pytest.mark.parametrize(("anonymous", "unread", "stubborn"), [(513, 0, False), (400, 200, True)])
def test_memory_is_not_lowered_below_what_is_used(host: Kernel, anonymous: int, unread: int, stubborn: bool) -> None:
    limits(host).write("n1", Resources(2000, 1024 * MIB))
    host.use(anonymous=anonymous * MIB, unread=unread * MIB, stubborn=stubborn)
    error = refused(limits(host), LIMIT)
    late = stubborn and host.is_systemd() and not host.stat("/sys/fs/cgroup/memory.max")
    assert error.id == ("balloon-slice-not-in-force" if late else "balloon-slice-in-use")
    assert isinstance(error, HostError)
    assert limits(host).read("n1") == Resources(2000, 1024 * MIB)
    assert not host.ended


@pytest.mark.parametrize("name", ["v2", "systemd"])
@pytest.mark.parametrize("stubborn", [False, True])
def test_what_makes_the_kernel_take_memory_is_taken_back(name: str, stubborn: bool) -> None:
    host = Kernel(name)
    host.use(anonymous=100 * MIB, unread=700 * MIB, stubborn=stubborn)
    if stubborn:
        refused(limits(host), LIMIT)
    else:
        limits(host).write("n1", LIMIT)
    assert host.in_force("memory.high") == "max"


def test_a_write_that_fails_in_the_middle_changes_nothing(host: Kernel) -> None:
    limits(host).write("n1", LIMIT)
    started = len(host.effects)
    limits(host).write("n1", Resources(800, 256 * MIB))
    effects = [str(effect) for effect in host.effects[started:]]
    tried = 0
    for number, effect in enumerate(effects, start=1):
        if "memory.high" in effect:  # it holds the other values up, and is none of them
            continue
        limits(host).write("n1", LIMIT)
        host.fail_at(number, host_error("write", "it", OSError(errno.EIO, "Input/output error")))
        with pytest.raises(HostError):
            limits(host).write("n1", Resources(800, 256 * MIB))
        assert limits(host).read("n1") == LIMIT, effect
        assert CgroupKind().read(Context(None, host), SLICE) == {
            "cpu_millis": 1500,
            "memory_bytes": 512 * MIB,
            "pids": 300,
        }
        tried += 1
    assert tried > 3


def test_cgroup_v1_takes_no_quota_below_that_of_a_pod_which_is_named() -> None:
    host = Kernel("v1")
    limits(host).write("n1", LIMIT)
    pod = f"/sys/fs/cgroup/cpu/{SLICE}/kubepods/pod7"
    host.given_cgroup(pod)
    host.given(f"{pod}/cpu.cfs_quota_us", "120000")
    error = refused(limits(host), Resources(1000, 512 * MIB))
    assert error.id == "balloon-slice-quota"
    assert pod in error.found
    assert limits(host).read("n1") == LIMIT
    limits(host).write("n1", Resources(1200, 512 * MIB))
    assert limits(host).read("n1") == Resources(1200, 512 * MIB)


@pytest.mark.parametrize("what", ["absent", "part of it"])
def test_a_slice_that_is_not_whole_is_refused(host: Kernel, what: str) -> None:
    name = "ballast-lab-n2"
    if what == "part of it":
        if host.is_systemd():
            host.given(f"/etc/systemd/system/{name}.slice", "# ballast: slice\n[Slice]\nCPUQuota=\n")
        else:
            host.given_cgroup(f"/sys/fs/cgroup/cpu/{name}")
            if host.stat("/sys/fs/cgroup/cgroup.procs"):
                return
    others = SliceLimits(host, {"n1": name})
    before = host.snapshot()
    assert refused(others, LIMIT).id == "balloon-slice-missing"
    with pytest.raises(HostError) as caught:
        others.read("n1")
    assert caught.value.id == "balloon-slice-missing"
    assert host.snapshot() == before


def test_a_systemd_that_does_as_it_likes_is_found_out() -> None:
    host = Kernel("systemd")
    limits(host).write("n1", LIMIT)
    host.on("systemctl", "set-property", answer="")
    error = refused(limits(host), Resources(800, 256 * MIB))
    assert error.id == "balloon-slice-not-in-force"
    assert "1500m" in error.found


def test_a_part_of_a_page_is_our_own_mistake(host: Kernel, tmp_path: Path) -> None:
    for writer in (limits(host), VmLimits(host, {"n1": str(tmp_path / "none")})):
        error = refused(writer, Resources(1000, 512 * MIB + 1))
        assert error.id == "balloon-limit-pages"
        assert isinstance(error, Bug)


# Virtual machines.


@pytest.fixture
def qemu() -> Qemu:
    return Qemu(memory=1024 * MIB)


@pytest.fixture
def vms(qemu: Qemu, tmp_path: Path) -> Iterator[VmLimits]:
    host = FakeHost()
    qemu.now = host.now
    with served(tmp_path / "qmp", qemu.serve) as path:
        yield VmLimits(host, {"n1": path})


def test_a_machine_has_what_it_was_started_with(vms: VmLimits) -> None:
    assert vms.most("n1") == Resources(2000, 1024 * MIB)
    assert vms.read("n1") == Resources(0, 1024 * MIB), "a limit of memory alone"


def test_memory_goes_and_comes_back_and_no_processor_is_taken(vms: VmLimits, qemu: Qemu) -> None:
    for limit in (Resources(0, 300 * MIB), Resources(0, 1024 * MIB), Resources(0, 640 * MIB)):
        vms.write("n1", limit)
        assert vms.read("n1") == limit
        assert vms.most("n1") == Resources(2000, 1024 * MIB)
        assert qemu.actual == limit.memory
    assert not any("device_del" in command for command in qemu.commands)


def test_what_is_there_already_is_not_asked_for(vms: VmLimits, qemu: Qemu) -> None:
    vms.write("n1", Resources(0, 1024 * MIB))
    assert qemu.asked == []


def test_more_than_it_was_started_with_is_refused(vms: VmLimits, qemu: Qemu) -> None:
    assert refused(vms, Resources(0, 1025 * MIB)).id == "balloon-vm-above"
    assert qemu.asked == []


def test_what_the_guest_uses_is_not_taken(vms: VmLimits, qemu: Qemu) -> None:
    qemu.used = 600 * MIB
    error = refused(vms, Resources(0, 599 * MIB))
    assert error.id == "balloon-vm-in-use"
    assert "424 MiB" in error.found
    assert qemu.asked == []
    vms.write("n1", Resources(0, 600 * MIB))


def test_a_guest_without_the_driver_is_not_asked_to_give(vms: VmLimits, qemu: Qemu) -> None:
    qemu.has_driver = False
    assert refused(vms, Resources(0, 512 * MIB)).id == "balloon-vm-mute"
    assert qemu.asked == []


def test_what_was_told_before_we_asked_does_not_count(vms: VmLimits, qemu: Qemu) -> None:
    qemu.interval, qemu.told_at = 2, int(qemu.now()) - 60
    qemu.has_driver = False
    assert refused(vms, Resources(0, 512 * MIB)).id == "balloon-vm-mute"
    assert qemu.interval == 2


def test_how_often_a_guest_tells_is_as_before(vms: VmLimits, qemu: Qemu) -> None:
    qemu.interval = 30
    vms.write("n1", Resources(0, 512 * MIB))
    assert qemu.interval == 30


def test_a_guest_that_does_not_give_all_is_put_back(vms: VmLimits, qemu: Qemu) -> None:
    qemu.least = 700 * MIB
    error = refused(vms, Resources(0, 512 * MIB))
    assert error.id == "balloon-vm-stalled"
    assert "reached 700 MiB, and now has 1024 MiB" in error.found
    assert qemu.asked == [512 * MIB, 1024 * MIB]
    assert vms.read("n1") == Resources(0, 1024 * MIB)


def test_a_guest_that_gives_slowly_is_waited_for(vms: VmLimits, qemu: Qemu) -> None:
    qemu.step = MIB // 2
    vms.write("n1", Resources(0, 512 * MIB))
    assert qemu.asked == [512 * MIB]


def test_a_machine_without_a_balloon_is_named(vms: VmLimits, qemu: Qemu) -> None:
    qemu.has_device = False
    assert refused(vms, Resources(0, 512 * MIB)).id == "balloon-vm-no-device"
    with pytest.raises(PeerError) as caught:
        vms.read("n1")
    assert caught.value.id == "balloon-vm-no-device"


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("query-balloon", {}),
        ("query-balloon", {"actual": "much"}),
        ("query-balloon", {"actual": True}),
        ("query-balloon", {"actual": -1}),
        ("query-balloon", []),
        ("query-cpus-fast", {}),
        ("query-memory-size-summary", []),
        ("query-memory-size-summary", {"base-memory": 1e9}),
        ("query-memory-size-summary", {"base-memory": 2**30, "plugged-memory": None}),
        ("qom-list", {}),
        ("qom-list", ["type"]),
        ("qom-get", []),
        ("qom-get", {"last-update": 2**40, "stats": 7}),
    ],
)
def test_answers_of_another_form_are_errors(vms: VmLimits, qemu: Qemu, command: str, answer: object) -> None:
    obey = qemu.obey
    qemu.obey = lambda name, arguments: answer if name == command else obey(name, arguments)  # type: ignore[method-assign]
    assert refused(vms, Resources(500, 512 * MIB)).id == "balloon-qmp-answer"
    assert qemu.asked == []


# What a request asks for.


def request_for(*, slices: bool = False, vm: bool = False) -> BalloonsRequest:
    return BalloonsRequest(
        state="present",
        kubeconfig="/k",
        namespace="kube-system",
        nodes=(NodeRequest(name="n1", slice=SLICE, qmp="/q"),),
        reserve=None,
        priority="never-preempt",
        grow_timeout=30.0,
        slices=slices,
        vm=vm,
        image="pause",
    )


def test_limits_are_moved_where_that_is_asked_for() -> None:
    assert limits_of(request_for(), FakeHost()) is None
    slices = limits_of(request_for(slices=True), Kernel("v2"))
    assert slices is not None
    assert slices.read("n1") == WHOLE
    assert isinstance(limits_of(request_for(vm=True), FakeHost()), VmLimits)
