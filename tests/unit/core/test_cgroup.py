# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.engine import ResourceEngine
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.kinds import Kind
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Resource
from ansible_collections.ballast.kube.plugins.module_utils._core.host.cgroup_paths import cgroup_directories
from ansible_collections.ballast.kube.plugins.module_utils._core.service.cgroup import (
    CGROUP_KINDS,
    CgroupKind,
    Limits,
    cgroup,
    end_processes,
    limits_in_force,
    list_processes,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from tests.unit.cases import apply, check_kills
from tests.unit.fake_supervisors import FakeSystemd
from tests.unit.fakes import FakeHost, Process

NAME = "ballast-lab-n1"
LIMITS = Limits(cpu_millis=1500, memory_bytes=512 * 2**20 + 5, pids=300)


@dataclass(frozen=True)
class Wanted:
    state_dir: str = "/var/lib/test"
    rows: tuple[Resource, ...] = ()


class Engine(ResourceEngine[Wanted]):
    name = "test"
    kinds: Mapping[str, Kind] = CGROUP_KINDS

    def wanted(self, ctx: Context[Wanted]) -> list[Resource]:
        return list(ctx.desired.rows)


def machine(name: str) -> FakeHost:
    host = FakeHost(systemd="systemd" in name)
    host.given_cgroups(1 if "v1" in name else 2)
    if host.is_systemd():
        FakeSystemd(host)
    else:
        # A v2 hierarchy has its controllers enabled on a machine where something has run before us.
        given_control(host)
    return host


def given_control(host: FakeHost) -> None:
    control = "/sys/fs/cgroup/cgroup.subtree_control"
    if host.stat(control):
        host.given(control, "cpu cpuset hugetlb io memory pids\n")


KINDS = ["v1", "v2", "systemd", "systemd with v1"]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("limits", [LIMITS, Limits()])
def test_limits_read_back_as_they_were_asked_for(name: str, limits: Limits) -> None:
    host, resource = machine(name), cgroup(NAME, limits, group="")
    apply(Engine(), Wanted(rows=(resource,)), host)
    assert CgroupKind().read(Context(None, host), NAME) == resource.value
    before = len(host.effects)
    apply(Engine(), Wanted(rows=(resource,)), host)
    assert host.effects[before:] == []


@pytest.mark.parametrize("name", KINDS)
def test_limits_change_while_it_runs_and_the_kernel_holds_it_to_them(name: str) -> None:
    host = machine(name)
    for limits in (LIMITS, Limits(cpu_millis=7, memory_bytes=4096, pids=None), Limits(cpu_millis=128_001)):
        resource = cgroup(NAME, limits, group="")
        apply(Engine(), Wanted(rows=(resource,)), host)
        assert CgroupKind().read(Context(None, host), NAME) == resource.value
        assert asdict(limits_in_force(host, cgroup_directories(host, NAME))) == resource.value
        assert [path for path in host.paths("/run") if NAME in path] == []
    apply(Engine(), Wanted(), host)
    assert [path for path in host.paths() if NAME in path] == []


@pytest.mark.parametrize("name", ["systemd", "systemd with v1"])
def test_the_slices_above_go_with_the_last_one_in_them(name: str) -> None:
    host = machine(name)
    first, other = "ballast-lab-n1", "ballast-lab-n2"
    for one in (first, other):
        CgroupKind().write(Context(None, host), one, cgroup(one, LIMITS, group="").value, None)
    above = [*cgroup_directories(host, "ballast-lab"), *cgroup_directories(host, "ballast")]
    CgroupKind().remove(Context(None, host), first, cgroup(first, LIMITS, group="").value)
    assert all(host.stat(path) for path in (*above, *cgroup_directories(host, other)))
    CgroupKind().remove(Context(None, host), other, cgroup(other, LIMITS, group="").value)
    assert not any(host.stat(path) for path in above)


@pytest.mark.parametrize("name", KINDS)
def test_a_cgroup_that_no_journal_of_ours_lists_is_refused(name: str) -> None:
    host, rows = machine(name), (cgroup(NAME, LIMITS, group=""),)
    CgroupKind().write(Context(None, host), NAME, rows[0].value, None)
    before = len(host.effects)
    with pytest.raises(HostError) as caught:
        apply(Engine(), Wanted(rows=rows), host)
    assert (caught.value.id, len(host.effects)) == ("core-taken", before)


@pytest.mark.parametrize("name", ["systemd", "systemd with v1"])
def test_a_slice_of_somebody_else_is_neither_replaced_nor_removed(name: str) -> None:
    host = machine(name)
    path = f"/etc/systemd/system/{NAME}.slice"
    host.given(path, "[Slice]\nCPUQuota=10%\n")
    value = cgroup(NAME, LIMITS, group="").value
    for act in (
        lambda: CgroupKind().read(Context(None, host), NAME),
        lambda: CgroupKind().write(Context(None, host), NAME, value, None),
        lambda: CgroupKind().remove(Context(None, host), NAME, value),
    ):
        with pytest.raises(HostError) as caught:
            act()
        assert caught.value.id == "core-unit-taken"
    assert host.effects == []


def test_a_quota_of_another_period_is_read_as_what_it_allows() -> None:
    host = machine("v1")
    CgroupKind().write(Context(None, host), NAME, cgroup(NAME, LIMITS, group="").value, None)
    host.given(f"/sys/fs/cgroup/cpu/{NAME}/cpu.cfs_period_us", "50000")
    assert limits_in_force(host, cgroup_directories(host, NAME)).cpu_millis == 3000
    CgroupKind().write(Context(None, host), NAME, cgroup(NAME, LIMITS, group="").value, None)
    assert limits_in_force(host, cgroup_directories(host, NAME)).cpu_millis == 1500
    host = machine("v2")
    CgroupKind().write(Context(None, host), NAME, cgroup(NAME, LIMITS, group="").value, None)
    host.given(f"/sys/fs/cgroup/{NAME}/cpu.max", "1000 333333\n")
    assert limits_in_force(host, cgroup_directories(host, NAME)).cpu_millis == 3


@pytest.mark.parametrize("name", KINDS)
def test_killed_at_any_effect_the_next_run_finishes_or_removes_it(name: str) -> None:
    resource = cgroup(NAME, LIMITS, group="")
    kills = check_kills(
        Engine(),
        lambda: machine(name),
        Wanted(rows=(resource,)),
        Wanted(),
        lambda host: CgroupKind().read(Context(None, host), NAME) == resource.value,
    )
    assert kills > 20


def test_processes_inside_and_below_are_ended_and_no_others() -> None:
    host = machine("v1")
    CgroupKind().write(Context(None, host), NAME, cgroup(NAME, LIMITS, group="").value, None)
    inside, below, outside = (host.given_process([f"/bin/{n}"], ignores=[15]) for n in ("a", "b", "c"))
    host.make_directory(f"/sys/fs/cgroup/cpu/{NAME}/pod")
    host.write_kernel_file(f"/sys/fs/cgroup/cpu/{NAME}/cgroup.procs", str(inside))
    host.write_kernel_file(f"/sys/fs/cgroup/cpu/{NAME}/pod/cgroup.procs", str(below))
    assert list_processes(host, f"/sys/fs/cgroup/cpu/{NAME}") == [inside, below]
    CgroupKind().remove(Context(None, host), NAME, {})
    assert list(host.processes) == [outside]
    assert host.stat(f"/sys/fs/cgroup/cpu/{NAME}") is None


def test_files_of_a_cgroup_are_not_looked_at() -> None:
    """Each has a hundred, in a dozen hierarchies; to look at all of them takes longer than a removal."""
    host = machine("cgroup v1")
    place = f"/sys/fs/cgroup/cpu/{NAME}"
    host.given_directory(f"{place}/pod")
    for name in range(100):
        host.given(f"{place}/memory.{name}", "")
    looked: list[str] = []
    stat = host.stat

    def kept(path: str) -> Any:
        looked.append(path)
        return stat(path)

    host.stat = kept  # type: ignore[method-assign]
    assert list_processes(host, place) == []
    assert looked == [place, f"{place}/pod"]


def test_a_process_that_gets_the_pid_of_one_inside_is_left_alone() -> None:
    """It is no longer in the cgroup when we look whose the pid is; or it is another process when the signal comes."""
    for at in ("identity", "signal"):
        host = machine("v1")
        CgroupKind().write(Context(None, host), NAME, cgroup(NAME, LIMITS, group="").value, None)
        inside = host.given_process(["/bin/a"], ignores=[15])
        host.write_kernel_file(f"/sys/fs/cgroup/cpu/{NAME}/cgroup.procs", str(inside))
        look, done = host.process, list[int]()

        def looked(pid: int, *, host: Any = host, look: Any = look, done: Any = done, at: str = at) -> Any:
            before = look(pid)
            if not done:
                done.append(pid)
                host.end_process(pid)
                host.processes[pid] = Process(("/bin/stranger",), started=7)
            return look(pid) if at == "identity" else before

        host.process = looked  # type: ignore[method-assign]
        end_processes(host, NAME)
        assert host.processes[inside].argv == ("/bin/stranger",)


def test_processes_that_do_not_end_are_named() -> None:
    host = machine("v1")
    CgroupKind().write(Context(None, host), NAME, cgroup(NAME, LIMITS, group="").value, None)
    stuck = host.given_process(["/bin/stuck"])
    host.write_kernel_file(f"/sys/fs/cgroup/cpu/{NAME}/cgroup.procs", str(stuck))
    host.on_signal.append(lambda pid, process, number: True)
    with pytest.raises(HostError) as caught:
        end_processes(host, NAME)
    assert caught.value.id == "core-processes-stay"
    assert str(stuck) in caught.value.text


def test_without_a_hierarchy_it_is_told_how_to_get_one() -> None:
    with pytest.raises(HostError) as caught:
        CgroupKind().read(Context(None, FakeHost()), NAME)
    assert caught.value.id == "core-no-cgroup"
