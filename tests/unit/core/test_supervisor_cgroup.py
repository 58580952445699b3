# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import ProcessId
from ansible_collections.ballast.kube.plugins.module_utils._core.service import supervisor_cgroup
from tests.unit.fakes import FakeHost

PLACES = {1: "/sys/fs/cgroup/cpu/ballast-supervisors", 2: "/sys/fs/cgroup/ballast-supervisors"}
SUPERVISOR = ProcessId(700, 1)


def host_of(version: int) -> FakeHost:
    host = FakeHost()
    host.given_cgroups(version)
    host.given("/proc/700/task/700/children", "701 702 ")
    return host


@pytest.mark.parametrize("version", PLACES)
def test_supervisors_leave_the_root_cgroup(version):
    host = host_of(version)
    supervisor_cgroup.enter(host, SUPERVISOR)
    assert host.read(f"{PLACES[version]}/cgroup.procs") == b"700\n701\n702\n"
    assert [path for path in host.paths("/sys/fs/cgroup") if path.endswith("ballast-supervisors")] == [PLACES[version]]


@pytest.mark.parametrize("version", PLACES)
def test_the_cgroup_goes_with_the_last_supervisor(version):
    host = host_of(version)
    supervisor_cgroup.enter(host, SUPERVISOR)
    host.given(f"{PLACES[version]}/cgroup.procs", "")  # they have ended
    supervisor_cgroup.leave(host)
    assert host.stat(PLACES[version]) is None
    supervisor_cgroup.leave(host)  # nothing is left to do


def test_the_cgroup_stays_while_others_use_it():
    host = host_of(2)
    supervisor_cgroup.enter(host, SUPERVISOR)
    host.given_directory(f"{PLACES[2]}/of-another")
    supervisor_cgroup.leave(host)
    assert host.stat(PLACES[2]) is not None


def test_a_host_without_cgroups_goes_on():
    host = FakeHost()
    supervisor_cgroup.enter(host, SUPERVISOR)
    supervisor_cgroup.leave(host)
    assert host.effects == []


def test_a_host_whose_cgroups_refuse_it_goes_on():
    host = host_of(2)
    host.given(PLACES[2], "not a directory")
    supervisor_cgroup.enter(host, SUPERVISOR)
    supervisor_cgroup.leave(host)
