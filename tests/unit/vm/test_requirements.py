# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a machine needs before it is made, which engine auto takes, and faults of the request."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._vm.model import VmRequest
from tests.unit.vm.world import CACHE, IMAGE, World, params, vm


def refused(asked: dict[str, Any]) -> list[str]:
    with pytest.raises(BallastError) as caught:
        VmRequest.from_params(asked)
    error = caught.value
    return [problem.id for problem in error.problems] if isinstance(error, Problems) else [error.id]


def lacks_tun(world: World) -> None:
    world.host.remove("/dev/net/tun")


def lacks_bridge(world: World) -> None:
    world.host.remove_tree("/sys/class/net/ballast-lab")


def lacks_memory(world: World) -> None:
    world.host.given("/proc/meminfo", "MemAvailable: 1024 kB\n")


def lacks_image(world: World) -> None:
    world.host.remove(IMAGE)


def has_a_touched_image(world: World) -> None:
    world.host.given(IMAGE, "")


@pytest.mark.parametrize(
    ("change", "id"),
    [
        (lacks_tun, "vm-no-tun"),
        (lacks_bridge, "vm-no-bridge"),
        (lacks_memory, "vm-memory"),
        (lacks_image, "vm-image-missing"),
        (has_a_touched_image, "vm-image-missing"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_made(change: Any, id: str) -> None:
    world = World()
    change(world)
    effects = len(world.host.effects)
    with pytest.raises(BallastError) as caught:
        world.apply(params(vm(1)))
    assert caught.value.id == id
    assert len(world.host.effects) == effects


def test_missing_programs_name_their_packages() -> None:
    world = World("qemu-system-x86_64")
    with pytest.raises(BallastError) as caught:
        world.apply(params(vm(1)))
    assert caught.value.id == "vm-tool-missing"
    assert "user-mode-linux" in caught.value.remedy


def test_a_full_disk_is_said_before_anything_is_made() -> None:
    world = World()
    world.host.free = 2**20
    with pytest.raises(BallastError) as caught:
        world.apply(params(vm(1)))
    assert caught.value.id == "vm-disk"
    assert world.host.effects == []


def test_a_corrupt_image_is_refused() -> None:
    world = World()
    world.digest = "sha256-blocks:2"
    with pytest.raises(BallastError) as caught:
        world.apply(params(vm(1)))
    assert caught.value.id == "vm-image-corrupt"
    assert world.host.processes == {}


def test_another_engine_or_image_does_not_cost_a_disk() -> None:
    world = World()
    world.apply(params(vm(1)))
    for change, id in (
        ({"engine": "tcg"}, "vm-engine-changed"),
        ({"image": f"{CACHE}/x/images/b/root.img"}, "vm-image-changed"),
    ):
        with pytest.raises(BallastError) as caught:
            world.plan(params(vm(1), **change))
        assert caught.value.id == id


def test_more_processors_than_the_engine_has_is_a_remark() -> None:
    world = World()
    asked = params(vm(1, cpus=2))
    world.apply(asked)
    desired = VmRequest.from_params(asked)
    findings = world.engine.verify(Context(desired, world.host, Progress(NullSink(), feature="vm")))
    assert [(finding.id, finding.blocking) for finding in findings] == [("vm-one-cpu", False)]


@pytest.mark.parametrize(
    ("boots", "chosen"),
    [
        ({"kvm": True, "uml": True, "tcg": True}, "kvm"),
        ({"kvm": False, "uml": True, "tcg": True}, "uml"),
        ({"kvm": False, "uml": False, "tcg": True}, "tcg"),
    ],
)
def test_auto_takes_the_first_engine_that_boots_and_keeps_it(boots: dict[str, bool], chosen: str) -> None:
    world = World()
    world.boots = boots
    asked = params(vm(1), engine="auto")
    world.apply(asked)
    assert world.report()["engine"] == chosen
    assert f"{chosen} boots" in world.report()["why"]
    probes = len([argv for argv in world.host.commands if "init=/usr/lib/ballast/vm-probe" in " ".join(argv)])
    world.boots = dict.fromkeys(boots, True)
    assert world.apply(asked).steps == ()
    again = len([argv for argv in world.host.commands if "init=/usr/lib/ballast/vm-probe" in " ".join(argv)])
    assert again == probes


def test_auto_says_why_each_engine_was_refused() -> None:
    world = World()
    world.boots = {"kvm": False, "uml": False, "tcg": False}
    with pytest.raises(BallastError) as caught:
        world.plan(params(vm(1), engine="auto"))
    assert caught.value.id == "vm-engine-missing"
    assert [line.split(":")[0] for line in caught.value.found.splitlines()] == ["kvm", "uml", "tcg"]


def test_auto_tries_anew_after_a_restart_of_this_machine() -> None:
    world = World()
    world.plan(params(vm(1), engine="auto"))
    world.boots["kvm"] = True
    world.host.given("/proc/sys/kernel/random/boot_id", "b-2\n")
    world.apply(params(vm(1), engine="auto"))
    assert world.report()["engine"] == "kvm"


def test_without_the_image_auto_guesses_and_tries_nothing() -> None:
    world = World()
    world.host.remove(IMAGE)
    before = len(world.host.effects)
    assert world.plan(params(vm(1), engine="auto")).steps
    assert len(world.host.effects) == before


@pytest.mark.parametrize(
    ("asked", "ids"),
    [
        (params(vm(1, name="VM_1")), ["vm-name"]),
        (params(vm(1, name="lock")), ["vm-name"]),
        (params(vm(1, name="n" * 41)), ["vm-name"]),
        (params(vm(1), vm(2, name="vm1")), ["vm-name-twice"]),
        (params(vm(1), vm(2, address="10.97.0.101/24")), ["vm-name-twice"]),
        (params(vm(1, address="10.97.0.101")), ["vm-address"]),
        (params(vm(1, address="10.97.0.300/24")), ["vm-address"]),
        (params(vm(1, address="fd00::1/64")), ["vm-address"]),
        (params(vm(1, gateway="10.98.0.1")), ["vm-address"]),
        (params(vm(1, memory_mib=64)), ["vm-amount"]),
        (params(vm(1, cpus=0)), ["vm-amount"]),
        (params(vm(1), bridge="ballast-lab-too-long"), ["vm-bridge-name"]),
        (params(vm(1), bridge=None), ["vm-required"]),
        (params(vm(1), image=None), ["vm-required"]),
        (params(vm(1), state_dir="/var/a,b"), ["vm-path"]),
        (params(vm(1), state_dir="/var/../etc"), ["vm-path"]),
        (params(vm(1), state_dir="/var/" + "x" * 90), ["vm-path-long"]),
        (params(vm(1), disks=[{"path": "/a b", "mount": "/m"}]), ["vm-path"]),
        (params(vm(1), disks=[{"path": "/a", "mount": "/m"}, {"path": "/b", "mount": "/m"}]), ["vm-name-twice"]),
        (params(vm(1, name="A", memory_mib=1), bridge=""), ["vm-required", "vm-name", "vm-amount"]),
    ],
)
def test_every_fault_of_the_request_is_told(asked: dict[str, Any], ids: list[str]) -> None:
    assert refused(asked) == ids
