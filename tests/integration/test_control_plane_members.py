# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A control plane of three, each member of which is killed in turn, in an order that is drawn: its clients hardly notice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.record import Member
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.spec import MAKE
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import service_pid
from tests.integration import containerds, journal
from tests.integration.test_control_plane import VERSION, Plane, processes_of

NAME, ADDRESS, BRIDGE = "cpthree", "10.97.251.1", "ballast-cpthree"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_GAP_SECONDS = 15.0  # without an answer: that of a loaded machine, on an idle one it is under 2

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a control plane")]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    place = tmp_path_factory.mktemp("three")
    params: dict[str, Any] = {
        **{option: spec.get("default") for option, spec in MAKE.items()},
        "state_dir": str(place / "plane"),
        "name": NAME,
        "kubernetes_version": VERSION,
        "bin_dir": str(containerds.bin_dir()),
        "address": ADDRESS,
        "members": 3,
        "etcd_fsync": False,
    }
    with journal.link(BRIDGE, "type", "bridge"):
        subprocess.run(["ip", "address", "add", f"{ADDRESS}/24", "dev", BRIDGE], check=True, timeout=30)
        subprocess.run(["ip", "link", "set", BRIDGE, "up"], check=True, timeout=30)
        with journal.undone_by(*journal.module("control_plane", {"state_dir": params["state_dir"], "state": "absent"})):
            begun = time.monotonic()
            control_plane = Plane(params)
            control_plane.run()
            print(f"three members are well after {time.monotonic() - begun:.1f} s")
            yield control_plane
    assert processes_of(params["state_dir"]) == []


def write(plane: Plane, name: str) -> float:
    """Seconds until a new object was written, tried again and again as clients do."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    begun = time.monotonic()
    while True:
        try:
            status = plane.ask(CONFIG_MAPS, body=body)[0]
        except Exception as error:  # whatever a broken connection is reported as
            status, last = 0, repr(error)
        else:
            last = str(status)
        if status in (201, 409):  # 409: the answer to the first try was lost
            return time.monotonic() - begun
        assert time.monotonic() < begun + _GAP_SECONDS, f"{name}: {last}"
        time.sleep(0.1)


def kill(members: list[Member]) -> dict[str, int]:
    """SIGKILL to the processes, by name."""
    host = LocalHost()
    pids = {member.name: service_pid(host, member.service) for member in members}
    for pid in pids.values():
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    return {name: pid for name, pid in pids.items() if pid is not None}


def test_every_member_is_well_and_a_second_run_changes_nothing(plane: Plane) -> None:
    assert plane.report()["members"] == [{"number": number, "down": []} for number in (1, 2, 3)]
    assert plane.run() == []


def test_any_process_and_any_member_may_be_killed(plane: Plane) -> None:
    seed = random.randrange(10**6)
    draw = random.Random(seed)
    processes = list(plane.record.members)
    victims = [[process] for process in draw.sample(processes, 5)]
    victims += [
        [each for each in processes if each.number == number and each.component != "haproxy"] for number in (1, 2, 3)
    ]
    draw.shuffle(victims)
    gaps = {}
    for number, members in enumerate(victims):
        killed = kill(members)
        gaps[" ".join(killed)] = max(write(plane, f"kept-{seed}-{number}-{again}") for again in range(3))
        plane.run()  # waits until all of it is well again
        after = plane.pids()
        assert all(after[name] not in (None, pid) for name, pid in killed.items())
    print(f"seed {seed}; seconds without an answer: {json.dumps({name: round(gap, 2) for name, gap in gaps.items()})}")
    found = json.loads(plane.ask(CONFIG_MAPS)[1])["items"]
    assert len([each for each in found if each["metadata"]["name"].startswith(f"kept-{seed}")]) == 3 * len(victims)


def test_without_one_member_it_goes_on_and_a_run_brings_it_back(plane: Plane) -> None:
    down = [each for each in plane.record.members if each.number == 2]
    for each in down:
        subprocess.run(["sv", "-w", "30", "force-stop", each.service], check=True, timeout=60)
    assert plane.report()["members"][1] == {"number": 2, "down": [each.name for each in down]}
    for again in range(5):
        write(plane, f"without-{time.monotonic_ns()}-{again}")
    steps = plane.run()
    assert sorted(step.target for step in steps) == sorted(each.service for each in down)
    assert plane.report()["members"][1]["down"] == []
