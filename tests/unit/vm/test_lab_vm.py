# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The virtual machines of a lab, on a machine in memory."""

from __future__ import annotations

import io
import json
import re
import signal
import tarfile

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._vm.model import VmRequest
from tests.unit.fakes import Call, Killed, Process
from tests.unit.vm.world import IMAGE, STATE, World, params, vm


@pytest.mark.parametrize("engine", ["uml", "kvm", "tcg"])
def test_machines_are_made_once_and_leave_nothing(engine: str) -> None:
    world = World()
    asked = params(vm(1), vm(2), engine=engine)
    assert [step.verb for step in world.apply(asked).steps] == ["make"] * 13
    assert world.running() == ["vm1", "vm2"]
    assert set(world.taps.values()) == {"ballast-lab"}
    effects = len(world.host.effects)
    assert world.apply(asked).steps == ()
    assert len(world.host.effects) == effects
    world.apply(params(state="absent"))
    assert world.host.paths(STATE) == []
    assert world.taps == {}
    assert world.host.processes == {}


def test_a_plan_has_no_effect() -> None:
    world = World()
    assert world.plan(params(vm(1))).steps
    assert world.host.effects == []


def test_the_key_is_in_the_command_and_not_in_the_plan() -> None:
    world = World()
    plan = world.apply(params(vm(1)))
    assert "AAAAkey" not in str(plan)
    assert "ballast.ssh_key=AAAAkey" in next(iter(world.host.processes.values())).argv


@pytest.mark.parametrize("engine", ["uml", "kvm", "tcg"])
def test_a_machine_is_a_user_of_its_own_and_sees_its_own_files(engine: str) -> None:
    world = World()
    world.apply(params(vm(1), vm(2), engine=engine))
    uids = [order["uid"] for order in world.orders]
    assert len(set(uids)) == 2
    assert all(0x70000000 <= uid < 0x80000000 for uid in uids)
    for number, order in enumerate(world.orders, start=1):
        disk = f"{STATE}/vm{number}/disk"
        assert order["writes"] == [disk]
        found = world.host.stat(disk)
        assert found is not None
        assert (found.uid, found.mode) == (order["uid"], 0o600)
        assert IMAGE in order["reads"]
        assert [path for path in order["reads"] if path in ("/", "/etc", "/usr") or path.startswith(STATE)] == [
            f"{STATE}/vm{number}/seed"
        ]
        seed = world.host.stat(f"{STATE}/vm{number}/seed")
        assert seed is not None
        assert (seed.uid, seed.mode) == (order["uid"], 0o600)
        assert not order["wait"]


def test_a_link_is_of_root_and_comes_as_a_descriptor() -> None:
    world = World()
    world.apply(params(vm(1)))
    assert any("tuntap add" in str(effect) and "mode tap user 0" in str(effect) for effect in world.host.effects)
    assert world.orders[0]["tap"] in world.taps
    assert "transport=fd,fd=3," in " ".join(world.orders[0]["argv"])


def test_only_root_connects_to_the_monitor_of_qemu() -> None:
    world = World()
    world.apply(params(vm(1), engine="tcg"))
    assert world.orders[0]["listen"] == f"{STATE}/vm1/qmp.sock"
    assert "socket,id=qmp,fd=4,server=on,wait=off" in world.orders[0]["argv"]
    sandbox = world.orders[0]["argv"][world.orders[0]["argv"].index("-sandbox") + 1]
    assert sandbox == "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"


def test_only_kvm_has_the_device_of_kvm() -> None:
    for engine, has in (("kvm", True), ("tcg", False), ("uml", False)):
        world = World()
        world.apply(params(vm(1), engine=engine))
        assert ("/dev/kvm" in world.orders[0]["devices"]) is has


def test_the_trial_of_an_engine_is_confined_too() -> None:
    world = World()
    world.apply(params(vm(1), engine="auto"))
    probes = [argv for argv in world.host.commands if "vm-probe" in " ".join(argv)]
    assert probes
    for argv in probes:
        assert json.loads(argv[-1])["uid"] >= 0x70000000
        assert json.loads(argv[-1])["writes"] == []


def test_a_disk_of_an_earlier_release_is_kept_and_gets_its_user() -> None:
    world = World()
    world.apply(params(vm(1)))
    world.host.write(f"{STATE}/vm1/disk", b"data")  # of root, as the kernel of an earlier release made it
    world.host.write(f"{STATE}/vm1/disk.json", json.dumps({"image": IMAGE, "format": "cow"}).encode())
    world.host.write(f"{STATE}/vm1/vm.json", json.dumps({"engine": "uml", "address": "10.97.0.101"}).encode())
    assert [(step.kind, step.verb) for step in world.apply(params(vm(1))).steps] == [
        ("disk", "change"),
        ("machine", "change"),
    ]
    assert world.host.text(f"{STATE}/vm1/disk") == "data"
    found = world.host.stat(f"{STATE}/vm1/disk")
    assert found is not None
    assert found.uid == world.orders[-1]["uid"]
    assert world.running() == ["vm1"]


def test_a_stopped_machine_keeps_its_disk_and_starts_again() -> None:
    world = World()
    world.apply(params(vm(1)))
    world.host.write(f"{STATE}/vm1/disk", b"data")
    stopping = params(vm(1), state="stopped")
    assert [step.verb for step in world.apply(stopping).steps] == ["change"]
    assert world.running() == []
    assert world.apply(stopping).steps == ()
    assert [step.title for step in world.apply(params(vm(1))).steps] == ["virtual machine vm1"]
    assert world.host.text(f"{STATE}/vm1/disk") == "data"
    assert world.running() == ["vm1"]


def test_a_guest_that_does_not_power_off_is_ended() -> None:
    world = World()
    world.apply(params(vm(1)))
    world.answers = False
    world.apply(params(vm(1), state="stopped"))
    assert world.host.processes == {}


def test_only_our_own_process_is_ended() -> None:
    world = World()
    other = world.host.given_process(["linux.uml", "umid=vm1", "uml_dir=/elsewhere/vm1/uml"])
    reader = world.host.given_process(["grep", f"uml_dir={STATE}/vm1/uml"])
    world.given_threads(reader, "S", session=77)
    world.apply(params(vm(1)))
    argv, uid = world.orders[-1]["argv"], world.orders[-1]["uid"]
    lookalikes = [
        world.host.given_process(argv, uid=65534),
        world.host.given_process(argv, uid=uid - 1),  # another machine's user
        world.host.given_process(argv, uid=uid, own_users=False),
        world.host.given_process(argv, uid=uid, exe="/usr/bin/python3"),
    ]
    for one in lookalikes:
        world.given_threads(one, "S", session=one)
    world.apply(params(state="absent"))
    assert sorted(world.host.processes) == [other, reader, *lookalikes]


def test_a_machine_that_is_no_longer_asked_for_is_removed() -> None:
    world = World()
    world.apply(params(vm(1), vm(2)))
    kept = world.report()["vms"][0]["pid"]
    world.apply(params(vm(1)))
    assert [(row["name"], row["pid"]) for row in world.report()["vms"]] == [("vm1", kept)]
    assert world.host.stat(f"{STATE}/vm2") is None


def test_other_memory_boots_only_that_machine_anew() -> None:
    world = World()
    world.apply(params(vm(1), vm(2)))
    before = {row["name"]: row["pid"] for row in world.report()["vms"]}
    plan = world.apply(params(vm(1), vm(2, memory_mib=1024)))
    after = {row["name"]: row["pid"] for row in world.report()["vms"]}
    assert [step.title for step in plan.steps] == ["virtual machine vm2"]
    assert before["vm1"] == after["vm1"]
    assert before["vm2"] != after["vm2"]


def test_machines_of_one_processor_are_spread_over_those_that_this_process_may_use() -> None:
    world = World()
    world.apply(params(vm(1), vm(2), vm(3), vm(4)))
    spawned = [str(effect) for effect in world.host.effects if "umid=" in str(effect)]
    assert [re.findall(r"taskset --cpu-list (\d+) ", effect) for effect in spawned] == [["0"], ["1"], ["4"], ["0"]]
    world.apply(params(vm(1), vm(3), vm(4)))
    world.apply(params(vm(1), vm(2), vm(3), vm(4)))
    again = [str(effect) for effect in world.host.effects if "umid=vm2" in str(effect)][-1]
    assert "taskset --cpu-list 1 " in again, "which no machine has any more"


def test_a_machine_that_may_have_several_processors_is_not_bound() -> None:
    world = World()
    world.apply(params(vm(1), engine="tcg"))
    assert "taskset" not in str(world.host.effects)


def test_a_machine_that_died_is_started_again() -> None:
    world = World()
    world.apply(params(vm(1)))
    world.host.end_process(world.report()["vms"][0]["pid"])
    assert [step.verb for step in world.apply(params(vm(1))).steps] == ["change"]
    assert world.running() == ["vm1"]


def test_a_machine_that_taskset_has_yet_to_become_is_not_taken_for_dead() -> None:
    world = World()
    world.host.on_spawn.remove(world.becomes)

    def bind_later(pid: int, process: Process) -> None:
        world.host.on_sleep.append(lambda: world.becomes(pid, process))

    world.host.on_spawn.append(bind_later)
    world.apply(params(vm(1)))
    assert world.running() == ["vm1"]


def test_an_end_before_it_has_become_the_machine_is_told() -> None:
    world = World()
    world.host.on_spawn.remove(world.becomes)
    world.host.on_spawn.append(lambda pid, process: world.host.end_process(pid))
    with pytest.raises(BallastError) as caught:
        world.apply(params(vm(1)))
    assert caught.value.id == "vm-died"
    assert world.host.monotonic() < 1005, "it is not waited for"


@pytest.mark.parametrize("states", ["S", "ZS"], ids=["helper process", "last thread"])
def test_a_machine_starts_when_nothing_holds_the_tap_and_the_disk_of_the_one_before(states: str) -> None:
    world = World()
    world.apply(params(vm(1)))
    killed = world.report()["vms"][0]["pid"]
    helper = world.host.given_process(world.host.processes[killed].argv)
    world.given_threads(helper, *states, session=killed)
    world.host.end_process(killed)
    ends = iter([False, False, True])

    def dies(pid: int, process: Process, number: int) -> bool:
        world.host.on_sleep.append(lambda: world.host.end_process(pid) if next(ends, False) else None)
        return True

    world.host.on_signal.append(dies)
    world.host.on_spawn.append(lambda pid, process: held.append(helper in world.host.processes))
    held: list[bool] = []
    world.apply(params(vm(1)))
    assert held == [False]


def test_a_removal_waits_for_a_machine_that_takes_long_to_end() -> None:
    world = World()
    world.apply(params(vm(1)))
    world.answers = False
    killed = world.report()["vms"][0]["pid"]
    ends = world.host.monotonic() + 20

    def dies(pid: int, process: Process, number: int) -> bool:
        process.argv = ()  # its memory, and so its command, is the first that goes
        return True

    world.host.on_signal.append(dies)
    world.host.on_sleep.append(
        lambda: (
            world.host.end_process(killed)
            if killed in world.host.processes and world.host.monotonic() >= ends
            else None
        )
    )
    world.apply(params(state="absent"))
    assert world.host.processes == {}


def test_a_removal_ends_helpers_that_come_while_the_machine_dies() -> None:
    world = World()
    world.apply(params(vm(1)))
    world.answers = False
    row = world.host.processes[world.report()["vms"][0]["pid"]]
    argv, uid = row.argv, row.uid
    late = iter(range(3))

    def dies(pid: int, process: Process, number: int) -> bool:
        if number == signal.SIGKILL and next(late, None) is not None:
            helper = world.host.given_process(argv, uid=uid)
            world.given_threads(helper, "S", session=1)
        return False

    world.host.on_signal.append(dies)
    world.host.given_process(argv, uid=uid)
    world.apply(params(state="absent"))
    assert world.host.processes == {}


def test_a_machine_that_nobody_reaped_is_started_again() -> None:
    world = World()
    world.apply(params(vm(1)))
    ended = world.report()["vms"][0]["pid"]
    world.host.processes[ended].argv = ()
    world.given_threads(ended, "Z", session=ended)
    assert [step.verb for step in world.apply(params(vm(1))).steps] == ["change"]
    assert world.running() == ["vm1"]


def test_a_command_that_is_not_shown_for_a_moment_is_no_end() -> None:
    world = World()
    world.answers = False

    def executes(pid: int, process: Process) -> None:
        argv = process.argv
        shown = iter([(), argv])

        def sleeps() -> None:
            process.argv = next(shown, argv)
            world.answers = bool(process.argv)

        world.host.on_sleep.append(sleeps)

    world.host.on_spawn.append(executes)
    world.apply(params(vm(1)))
    assert world.running() == ["vm1"]


def test_the_wait_ends_at_once_when_a_machine_dies() -> None:
    world = World()
    world.answers = False

    def die(pid: int, process: Process) -> None:
        world.host.given(process.log, "Kernel panic - not syncing: \x1b[0mVFS\n")
        world.host.on_sleep.append(lambda: world.host.end_process(pid))

    world.host.on_spawn.append(die)
    start = world.host.monotonic()
    with pytest.raises(BallastError) as caught:
        world.apply(params(vm(1)))
    assert caught.value.id == "vm-died"
    assert "Kernel panic - not syncing" in caught.value.found
    assert world.host.monotonic() - start < 5


def test_a_machine_that_never_answers_is_told_with_its_console() -> None:
    world = World()
    world.answers = False
    with pytest.raises(BallastError) as caught:
        world.apply(params(vm(1)))
    assert caught.value.id == "vm-not-ready"
    assert "Connection refused" in caught.value.found


def test_killed_at_any_effect_the_next_run_ends_well() -> None:
    for number in range(1, 200):
        world = World()
        asked = params(vm(1))
        world.host.fail_at(number)
        try:
            world.apply(asked)
        except Killed:
            world.host.calm()
            world.apply(asked)
            assert world.running() == ["vm1"]
            assert len(world.host.processes) == 1
            world.apply(params(state="absent"))
            assert world.host.paths(STATE) == []
            assert world.taps == {}
            assert world.host.processes == {}
        else:
            assert number > 10
            return
    raise AssertionError("no run was without the fault")


def test_machines_of_one_name_in_two_labs_have_their_own_taps() -> None:
    first = VmRequest.from_params(params(vm(1))).machines[0]
    second = VmRequest.from_params(params(vm(1), state_dir="/var/lib/ballast/other/vms")).machines[0]
    assert first.tap != second.tap
    assert first.mac != second.mac
    assert first.machine_id != second.machine_id
    assert first.tap.startswith("ballast-")
    assert len(first.tap) == 15


def test_the_key_is_of_the_user_who_reaches_the_machines() -> None:
    world = World()
    given: list[tuple[str, ...]] = []

    def chown(call: Call) -> str:
        given.append(tuple(call.argv[1:]))
        return world.chown(call)

    world.host.on("chown", "1000", answer=chown)
    world.host.on("chown", "0", answer=chown)
    wanted = params(vm(1), key_owner=1000)
    world.apply(wanted)
    assert given == [("1000", f"{STATE}/ssh_key"), ("1000", f"{STATE}/known_hosts")]
    assert not world.plan(wanted).steps
    world.apply({**wanted, "key_owner": 0})
    assert given[2:3] == [("0", f"{STATE}/ssh_key")]
    assert [world.host.stat(f"{STATE}/{name}").uid for name in ("ssh_key", "known_hosts")] == [0, 0]  # type: ignore[union-attr]


def test_a_machine_is_known_before_it_is_reached() -> None:
    """The key that it proves itself with is made here, and ssh takes no other."""
    world = World()
    world.apply(params(vm(1), vm(2)))
    rows = world.host.text(f"{STATE}/known_hosts").splitlines()
    keys = [world.host.text(f"{STATE}/vm{number}/host_key.pub").split()[:2] for number in (1, 2)]
    assert rows == [f"10.97.0.10{number} {' '.join(key)} vm{number}" for number, key in enumerate(keys, start=1)]
    assert keys[0] != keys[1]
    asked = [argv for argv in world.host.commands if argv[0] == "ssh"]
    assert len(asked) >= 2
    for argv in asked:
        assert {
            "StrictHostKeyChecking=yes",
            f"UserKnownHostsFile={STATE}/known_hosts",
            "GlobalKnownHostsFile=none",
        } <= set(argv)
    for name in ("known_hosts", "vm1/host_key", "vm1/seed"):
        assert world.host.mode(f"{STATE}/{name}") == 0o600


def test_the_machines_key_reaches_it_by_a_disk_and_by_no_command() -> None:
    world = World()
    plan = world.apply(params(vm(1), disks=[{"path": "/srv/programs.img", "mount": "/opt/programs"}]))
    private = world.host.text(f"{STATE}/vm1/host_key")
    argv = next(iter(world.host.processes.values())).argv
    assert private not in " ".join(argv) + str(plan)
    assert f"ubd3rc={STATE}/vm1/seed" in argv
    assert "ballast.seed=/dev/ubdd" in argv
    with tarfile.open(fileobj=io.BytesIO(world.host.read(f"{STATE}/vm1/seed") or b"")) as archive:
        members = {one.name: (one.mode, one.uid, archive.extractfile(one).read().decode()) for one in archive}  # type: ignore[union-attr]
    assert members["ssh_host_ed25519_key"] == (0o600, 0, private)
    assert len(world.host.read(f"{STATE}/vm1/seed") or b"") % 512 == 0


def test_a_host_key_that_is_gone_is_made_again_and_known() -> None:
    world = World()
    world.apply(params(vm(1)))
    before = world.host.text(f"{STATE}/known_hosts")
    world.host.remove(f"{STATE}/vm1/seed")
    assert {step.kind for step in world.plan(params(vm(1))).steps} == {"host-key"}
    world.apply(params(vm(1)))
    world.apply(params(vm(1)))
    assert world.host.text(f"{STATE}/known_hosts") != before
    assert world.host.text(f"{STATE}/vm1/host_key.pub").split()[1] in world.host.text(f"{STATE}/known_hosts")
