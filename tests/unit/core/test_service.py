# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.service.runit import supervisor_pid
from ansible_collections.ballast.kube.plugins.module_utils._core.service.service import (
    STOP_SECONDS,
    Service,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import (
    ServiceKind,
    reload_service,
    service_pid,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import (
    HostError,
    Unavailable,
)
from tests.unit.cases import apply, check_kills, plan_of
from tests.unit.core.services import (
    MACHINES,
    STATE,
    SV,
    Engine,
    Wanted,
    kubelet,
    runit_machine,
    systemd_machine,
    wanted,
)
from tests.unit.fakes import FakeHost


@pytest.fixture(params=sorted(MACHINES))
def machine(request: pytest.FixtureRequest) -> FakeHost:
    return MACHINES[request.param]()[0]


def target(one: Service) -> str:
    return f"{SV}/{one.name}"


def pid(host: FakeHost, one: Service) -> int:
    found = service_pid(host, target(one))
    assert found is not None
    assert found in host.processes
    return found


def test_services_run_a_second_run_has_no_effect_and_removal_leaves_nothing(machine: FakeHost) -> None:
    given_before = machine.snapshot()
    one, two = kubelet("n1"), kubelet("n2")
    apply(Engine(), wanted(one, two), machine)
    assert pid(machine, one) != pid(machine, two)
    before = len(machine.effects)
    apply(Engine(), wanted(one, two), machine)
    assert machine.effects[before:] == []
    apply(Engine(), Wanted(), machine)
    assert machine.snapshot() == given_before


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_killed_at_any_effect_the_next_run_finishes_or_removes_it(name: str) -> None:
    one, two = kubelet("n1"), kubelet("n2")

    def holds(host: FakeHost) -> bool:
        return bool(pid(host, one) and pid(host, two))

    kills = check_kills(Engine(), lambda: MACHINES[name]()[0], wanted(one, two), Wanted(), holds)
    assert kills > 60


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_killed_at_any_effect_of_a_change_the_next_run_restarts_what_must_be(name: str) -> None:
    old, new = kubelet(), kubelet(argv=("/opt/kubelet", "--v=4"))
    for number in range(1, 100):
        host = MACHINES[name]()[0]
        apply(Engine(), wanted(old), host)
        started = pid(host, old)
        host.fail_at(number)
        try:
            apply(Engine(), wanted(new), host)
        except BaseException:
            host.calm()
            apply(Engine(), wanted(new), host)
            assert pid(host, new) != started
            assert plan_of(Engine(), wanted(new), host).steps == ()
            rendered = host.text(f"{target(new)}/run" if name == "runit" else _unit_path(new))
            assert "--v=4" in rendered
        else:
            assert number > 5
            return
    raise AssertionError("the change has no end")


def _unit_path(one: Service) -> str:
    return f"/etc/systemd/system/{one.name}.service"


@pytest.mark.parametrize(
    "changes",
    [{"argv": ("/opt/kubelet", "--v=4")}, {"env": ()}, {"config_digest": "new"}, {"netns": "/run/netns/x"}],
)
def test_any_change_of_the_definition_restarts_the_service(machine: FakeHost, changes: dict[str, Any]) -> None:
    apply(Engine(), wanted(kubelet()), machine)
    before = pid(machine, kubelet())
    apply(Engine(), wanted(kubelet(**changes)), machine)
    assert pid(machine, kubelet()) != before


def test_the_others_go_on_while_one_is_added_changed_or_removed(machine: FakeHost) -> None:
    stays, goes, comes = kubelet("n1"), kubelet("n2"), kubelet("n3")
    apply(Engine(), wanted(stays, goes), machine)
    before = pid(machine, stays)
    apply(Engine(), wanted(stays, comes), machine)
    assert pid(machine, stays) == before
    assert pid(machine, comes)
    assert machine.stat(target(goes)) is None
    assert len(machine.processes) == (3 if not machine.is_systemd() else 2)


def test_a_stopped_service_stays_down_and_starts_again_with_its_definition(machine: FakeHost) -> None:
    one = kubelet()
    apply(Engine(), wanted(one), machine)
    plan = apply(Engine(), wanted(one, running=False), machine)
    assert [f"{step.verb} {step.title}" for step in plan.steps] == [f"change service {one.name}"]
    assert service_pid(machine, target(one)) is None
    assert plan_of(Engine(), wanted(one, running=False), machine).steps == ()
    apply(Engine(), wanted(one), machine)
    assert pid(machine, one)


def test_a_service_that_runsv_takes_for_ended_runs_again_and_is_known_to() -> None:
    """A disk that was full when it started kept runsv from noting that it runs, until it ends."""
    host, _supervisor = runit_machine()
    one = kubelet()
    apply(Engine(), wanted(one), host)
    host.given(f"{target(one)}/supervise/stat", "down\n")
    assert service_pid(host, target(one)) is None
    apply(Engine(), wanted(one), host)
    assert pid(host, one)


def test_a_service_that_nobody_made_runs_under_the_supervisor_that_was_there() -> None:
    host, _runit = runit_machine()
    apply(Engine(), wanted(kubelet("n1")), host)
    first = supervisor_pid(host, SV)
    assert first is not None
    host.end_process(first)
    assert service_pid(host, target(kubelet("n1"))) is None, "what a dead supervisor wrote is not believed"
    apply(Engine(), wanted(kubelet("n1")), host)
    assert supervisor_pid(host, SV) not in (None, first)
    assert pid(host, kubelet("n1"))
    assert [process.argv[0] for process in host.processes.values()].count("runsvdir") == 1
    assert len(host.processes) == 2, "the service of the dead supervisor was ended before another one started"


def test_a_supervisor_that_was_started_but_not_recorded_is_found_again() -> None:
    host, _runit = runit_machine()
    apply(Engine(), wanted(kubelet()), host)
    first, running = supervisor_pid(host, SV), pid(host, kubelet())
    host.remove(f"{SV}.pid")
    apply(Engine(), wanted(kubelet()), host)
    assert supervisor_pid(host, SV) == first
    assert pid(host, kubelet()) == running
    host.remove(f"{SV}.pid")
    apply(Engine(), Wanted(), host)
    assert host.processes == {}


def test_a_pid_that_now_belongs_to_another_program_is_left_alone() -> None:
    host, _runit = runit_machine()
    stranger = host.given_process(["/usr/bin/postgres"])
    host.given_ours(STATE, "test")
    host.given(f"{SV}.pid", f"{stranger}\n")
    assert supervisor_pid(host, SV) is None
    apply(Engine(), wanted(kubelet()), host)
    apply(Engine(), Wanted(), host)
    assert list(host.processes) == [stranger]


@pytest.mark.parametrize(
    "known",
    [
        {"uid": 65534},
        {"own_users": False},
        {"exe": "/bin/sleep"},
        {"argv": ("runsvdir", "-P", SV, "/elsewhere")},
    ],
    ids=str,
)
def test_a_runsvdir_that_root_did_not_start_for_this_directory_is_not_ours(known: dict[str, Any]) -> None:
    host, _runit = runit_machine()
    stranger = host.given_process(**{"argv": ("runsvdir", "-P", SV), **known})
    host.given_ours(STATE, "test")
    host.given(f"{SV}.pid", f"{stranger}\n")
    assert supervisor_pid(host, SV) is None
    apply(Engine(), wanted(kubelet()), host)
    assert supervisor_pid(host, SV) not in (None, stranger)
    apply(Engine(), Wanted(), host)
    assert list(host.processes) == [stranger]


def test_a_process_that_runsv_did_not_start_is_no_service() -> None:
    host, _runit = runit_machine()
    one = kubelet()
    apply(Engine(), wanted(one), host)
    stranger = host.given_process(("/opt/kubelet",))
    host.given(f"{target(one)}/supervise/pid", f"{stranger}\n")
    assert service_pid(host, target(one)) is None


def test_a_service_that_does_not_end_is_killed_with_its_supervisor() -> None:
    host, runit = runit_machine()
    runit.deaf.add(kubelet().name)
    apply(Engine(), wanted(kubelet()), host)
    apply(Engine(), Wanted(), host)
    assert host.processes == {}


@pytest.mark.parametrize("wished", [Wanted(), wanted(kubelet())], ids=["removal", "start"])
def test_after_a_loss_of_power_nothing_waits_for_what_says_that_it_runs(wished: Wanted) -> None:
    host, runit = runit_machine()
    apply(Engine(), wanted(kubelet()), host)
    runit.lose_power()
    before = host.monotonic()
    apply(Engine(), wished, host)
    assert host.monotonic() - before < STOP_SECONDS
    assert len(host.processes) == (2 if wished.rows else 0)


def ended_together(host: FakeHost) -> list[list[str]]:
    """Names of services that the removal of a supervisor stops, by call of sv."""
    stopped: list[list[str]] = []
    run = host.run

    def kept(argv: Sequence[str], **options: Any) -> Any:
        if "force-stop" in argv:
            stopped.append([path.rpartition("-")[2] for path in argv if path.startswith(SV)])
        return run(argv, **options)

    host.run = kept  # type: ignore[method-assign]
    apply(Engine(), Wanted(), host)
    return stopped


def test_with_its_supervisor_a_service_ends_before_those_that_it_was_started_after() -> None:
    host, runit = runit_machine()
    rows = [("etcd", "etcd"), ("etcd", "etcd2"), ("api", "api"), ("api", "api2"), ("scheduler", "scheduler")]
    names = [f"ballast-lab-{name}" for _program, name in rows]
    services = [
        kubelet(name=name, argv=(f"/opt/{program}",), after=tuple(f"{unit}.service" for unit in names[:place]))
        for place, ((program, _short), name) in enumerate(zip(rows, names))
    ]
    runit.deaf.add("ballast-lab-api")
    apply(Engine(), wanted(*services), host)
    assert ended_together(host) == [["api", "api2", "scheduler"]]
    assert host.processes == {}


def test_services_without_an_order_end_together() -> None:
    host, _runit = runit_machine()
    apply(Engine(), wanted(kubelet("n1"), kubelet("n2", argv=("/opt/other",))), host)
    assert ended_together(host) == []
    assert host.processes == {}


def test_a_service_that_ends_at_once_is_told_with_where_to_look() -> None:
    host, runit = runit_machine()
    runit.crashing.add(kubelet().name)
    with pytest.raises(HostError) as caught:
        apply(Engine(), wanted(kubelet()), host)
    assert caught.value.id == "core-supervisor"
    assert kubelet().name in caught.value.text
    runit.crashing.clear()
    apply(Engine(), wanted(kubelet()), host)
    assert pid(host, kubelet())


def test_without_runit_the_package_is_named() -> None:
    host = FakeHost()
    host.given_cgroups(1)
    with pytest.raises(Unavailable) as caught:
        apply(Engine(), wanted(kubelet()), host)
    assert "apt-get install runit" in str(caught.value)


def test_a_unit_of_somebody_else_is_not_replaced() -> None:
    host, _systemd = systemd_machine()
    host.given(_unit_path(kubelet()), "[Service]\nExecStart=/bin/true\n")
    with pytest.raises(HostError) as caught:
        apply(Engine(), wanted(kubelet()), host)
    assert caught.value.id == "core-unit-taken"
    assert host.effects == []


def test_a_unit_of_another_instance_of_ours_is_not_replaced() -> None:
    """Two control planes of one name in two directories would share a unit."""
    host, _systemd = systemd_machine()
    apply(Engine(), wanted(kubelet()), host)
    unit, before = host.text(_unit_path(kubelet())), len(host.effects)
    with pytest.raises(HostError) as caught:
        ServiceKind().read(Context(None, host), f"/srv/other/sv/{kubelet().name}")
    assert caught.value.id == "core-unit-taken"
    assert "another instance" in caught.value.found
    with pytest.raises(HostError):
        ServiceKind().remove(Context(None, host), f"/srv/other/sv/{kubelet().name}", None)
    assert (host.text(_unit_path(kubelet())), len(host.effects)) == (unit, before)


def test_a_unit_that_another_put_in_the_place_of_ours_is_not_removed() -> None:
    host, _systemd = systemd_machine()
    apply(Engine(), wanted(kubelet()), host)
    host.given(_unit_path(kubelet()), f"# ballast: {kubelet().name}2\n[Service]\n")
    before = len(host.effects)
    with pytest.raises(HostError) as caught:
        apply(Engine(), Wanted(), host)
    assert (caught.value.id, len(host.effects)) == ("core-unit-taken", before)


def test_a_failed_unit_is_removed_with_its_state() -> None:
    host, systemd = systemd_machine()
    apply(Engine(), wanted(kubelet()), host)
    unit = f"{kubelet().name}.service"
    host.end_process(systemd.active.pop(unit)[0])
    systemd.failed.add(unit)
    apply(Engine(), Wanted(), host)
    assert (systemd.failed, systemd.enabled, systemd.active) == (set(), set(), {})


def test_runit_leaves_a_service_the_time_that_it_has_to_end() -> None:
    host, runit = runit_machine()
    slow = kubelet(stop_seconds=75)
    runit.deaf.add(slow.name)
    apply(Engine(), wanted(slow), host)
    for change in (wanted(replace(slow, config_digest="new")), wanted()):
        start = host.monotonic()
        apply(Engine(), change, host)
        assert 75 <= host.monotonic() - start < 78


def test_what_ends_at_once_is_not_waited_for() -> None:
    """sv itself looks every 0.42 seconds."""
    host, _runit = runit_machine()
    apply(Engine(), wanted(kubelet()), host)
    commands, start = len(host.commands), host.monotonic()
    apply(Engine(), wanted(), host)
    assert [argv[1] for argv in host.commands[commands:] if argv[0] == "sv"] == ["status", "exit", "-w"]
    assert host.monotonic() - start < 0.1


def test_a_definition_of_an_earlier_version_is_not_a_change(machine: FakeHost) -> None:
    apply(Engine(), wanted(kubelet()), machine)
    path = f"{target(kubelet())}/ballast.json"
    later = ("after", "before", "reloads", "stop_seconds")
    known = {name: part for name, part in json.loads(machine.text(path)).items() if name not in later}
    machine.given(path, json.dumps(known))
    assert plan_of(Engine(), wanted(kubelet()), machine).steps == ()


def test_a_reload_ends_nothing(machine: FakeHost) -> None:
    one = kubelet(reloads=True)
    apply(Engine(), wanted(one), machine)
    before = pid(machine, one)
    reload_service(machine, target(one))
    assert pid(machine, one) == before
    asked = ("systemctl", "reload", one.name) if machine.is_systemd() else ("sv", "hup", target(one))
    assert asked in machine.commands
