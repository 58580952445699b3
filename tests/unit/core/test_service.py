# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.engine import ResourceEngine
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.kinds import BASE_KINDS, Kind, directory
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Resource
from ansible_collections.ballast.kube.plugins.module_utils._core.host.cgroup_paths import cgroup_hierarchies
from ansible_collections.ballast.kube.plugins.module_utils._core.service.runit import supervisor_pid
from ansible_collections.ballast.kube.plugins.module_utils._core.service.service import (
    Service,
    env_file_text,
    parse_env_file,
    service,
    supervisor,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.service.service_text import (
    run_script,
    systemd_word,
    unit_text,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import (
    SERVICE_KINDS,
    ServiceKind,
    reload_service,
    service_pid,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import (
    Bug,
    HostError,
    Unavailable,
    UserError,
)
from tests.unit.cases import apply, check_kills, plan_of
from tests.unit.fake_supervisors import FakeRunit, FakeSystemd
from tests.unit.fakes import FakeHost

STATE = "/var/lib/ballast/lab/nodes"
SV = f"{STATE}/sv"
# What an operator may put into an option that ends up in a command line.
HOSTILE = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@dataclass(frozen=True)
class Wanted:
    state_dir: str = STATE
    rows: tuple[Resource, ...] = ()


class Engine(ResourceEngine[Wanted]):
    name = "test"
    kinds: Mapping[str, Kind] = {**BASE_KINDS, **SERVICE_KINDS}

    def wanted(self, ctx: Context[Wanted]) -> list[Resource]:
        return list(ctx.desired.rows)


def kubelet(node: str = "n1", **changes: Any) -> Service:
    plain = Service(
        name=f"ballast-lab-{node}-kubelet",
        argv=("/opt/kubelet", "--node-ip", "10.0.0.1"),
        log=f"{STATE}/log/{node}.log",
        cgroup=f"ballast-lab-{node}/kubelet",
        env=(("HOME", "/root"),),
    )
    return replace(plain, **changes)


def wanted(*services: Service, running: bool = True) -> Wanted:
    rows = [directory(STATE + "/log"), directory(SV)]
    rows += [service(SV, one, running=running, group="") for one in services]
    return Wanted(rows=(*rows, supervisor(SV, group="")))


def runit_machine() -> tuple[FakeHost, FakeRunit]:
    host = FakeHost()
    host.given_directory("/var/lib/ballast/lab")
    host.given_cgroups(1)
    return host, FakeRunit(host)


def systemd_machine() -> tuple[FakeHost, FakeSystemd]:
    host = FakeHost(systemd=True)
    host.given_directory("/var/lib/ballast/lab")
    host.given_cgroups(2)
    return host, FakeSystemd(host)


MACHINES: dict[str, Callable[[], tuple[FakeHost, FakeRunit | FakeSystemd]]] = {
    "runit": runit_machine,
    "systemd": systemd_machine,
}


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


@given(st.lists(HOSTILE, max_size=4), st.lists(HOSTILE, max_size=2), st.booleans())
def test_a_definition_survives_its_way_through_a_file(words: list[str], values: list[str], running: bool) -> None:
    one = kubelet(argv=("/opt/kubelet", *words), env=tuple((f"V{number}", text) for number, text in enumerate(values)))
    value = one.as_value(running=running)
    assert json.loads(json.dumps(value)) == value
    assert Service.from_value(value) == one
    assert value["running"] is running


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "a b"},
        {"name": "a\nb"},
        {"name": "../x"},
        {"argv": ()},
        {"argv": ("kubelet",)},
        {"argv": ("/opt/$HOME/kubelet",)},
        {"argv": ("/opt/a=b/kubelet",)},
        {"argv": ("/opt/kubelet", "a\0b")},
        {"log": "relative.log"},
        {"log": "/var/log/a\nExecStartPre=/bin/evil"},
        {"netns": "/run/netns/a\nb"},
        {"mountns": "x"},
        {"cgroup": "no-parent"},
        {"cgroup": "a/b/c"},
        {"cgroup": "a /b"},
        {"env": (("A B", "x"),)},
        {"env": (("A=B", "x"),)},
    ],
)
def test_what_a_unit_or_a_script_cannot_carry_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UserError) as caught:
        kubelet(**changes)
    assert caught.value.id == "core-service-text"


SHOW = '#!/bin/sh\nfor word in "$@"; do printf \'%s\\0\' "$word"; done\nprintf \'%s\\0\' "$VALUE" "$PATH"\n'


@given(st.lists(HOSTILE, max_size=4), HOSTILE)
def test_the_shell_gives_the_program_every_word_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], value: str
) -> None:
    root = tmp_path_factory.mktemp("runit")
    (root / "show").write_text(SHOW)
    (root / "show").chmod(0o755)
    one = kubelet(argv=(str(root / "show"), *words), env=(("VALUE", value),), log=str(root / "it's a log"))
    done = subprocess.run(
        ["/bin/sh", "-c", script(one, root)], stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    assert done.stderr == b""
    *found, found_value, path, end = (root / "it's a log").read_bytes().decode().split("\0")
    assert (found, found_value, end) == (words, value, "")
    assert path.startswith("/usr/local/sbin:")
    assert (root / "cgroup/cpu/ballast-lab-n1/kubelet/cgroup.procs").read_text().strip().isdigit()


ENV_VALUES = st.text(
    st.characters(exclude_characters="'\\\x7f", exclude_categories=["Cs"], min_codepoint=0x20), max_size=20
)


@given(st.dictionaries(st.sampled_from(["A", "HTTP_PROXY", "_b"]), ENV_VALUES))
def test_a_file_of_variables_reaches_the_program_and_no_command_line(variables: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        path = root / "the $variables"
        path.write_text(env_file_text(tuple(variables.items())), encoding="utf-8")
        assert dict(parse_env_file(path.read_text(encoding="utf-8"))) == variables
        one = kubelet(argv=("/usr/bin/env", "-0"), log=str(root / "log"), env_file=str(path))
        text = script(one, root)
        subprocess.run(["/bin/sh", "-c", text], stdin=subprocess.DEVNULL, check=True, timeout=20)
        found = dict(row.split("=", 1) for row in (root / "log").read_text(encoding="utf-8").split("\0") if row)
    assert {name: value for name, value in found.items() if name in variables} == variables
    assert found["HOME"] == "/root"


def test_a_file_of_variables_that_is_missing_starts_nothing(tmp_path: Path) -> None:
    one = kubelet(argv=("/usr/bin/touch", str(tmp_path / "made")), log=str(tmp_path / "log"), env_file="/none/such")
    done = subprocess.run(["/bin/sh", "-c", script(one, tmp_path)], stdin=subprocess.DEVNULL, check=False, timeout=20)
    assert done.returncode != 0
    assert not (tmp_path / "made").exists()
    assert "EnvironmentFile=/none/such\n" in unit_text(one)


@pytest.mark.parametrize("value", ["it's", "a\\b", "a\nB=c"])
def test_a_value_that_a_file_of_variables_cannot_hold_is_a_bug(value: str) -> None:
    with pytest.raises(Bug):
        env_file_text((("A", value),))


def script(one: Service, root: Path) -> str:
    """Its cgroup has been made, the leaf in it has not."""
    host, _runit = runit_machine()
    for hierarchy in cgroup_hierarchies(host):
        Path(hierarchy.replace("/sys/fs/cgroup", str(root / "cgroup")), one.cgroup).parent.mkdir(
            parents=True, exist_ok=True
        )
    return run_script(host, one).replace("/sys/fs/cgroup", str(root / "cgroup"))


def test_a_service_whose_cgroup_is_gone_does_not_make_it_again(tmp_path: Path) -> None:
    one = kubelet(argv=("/usr/bin/true",), log=str(tmp_path / "log"))
    text = script(one, tmp_path)
    for path in (tmp_path / "cgroup").glob("*/*"):
        path.rmdir()
    done = subprocess.run(["/bin/sh", "-c", text], stdin=subprocess.DEVNULL, timeout=20, check=False)
    assert done.returncode == 1
    assert list((tmp_path / "cgroup").glob("*/*")) == []


def test_a_process_that_an_earlier_supervisor_left_is_ended_and_no_other(tmp_path: Path) -> None:
    leaf = tmp_path / "cgroup/cpu/ballast-lab-n1/kubelet"
    leaf.mkdir(parents=True)
    left = subprocess.Popen(["/usr/bin/sleep", "60"])
    other = subprocess.Popen(["/bin/sh", "-c", "read line"], stdin=subprocess.PIPE)
    (leaf / "cgroup.procs").write_text(f"{left.pid}\n{other.pid}\n")
    one = kubelet(argv=(os.path.realpath("/usr/bin/sleep"), "0"), log=str(tmp_path / "log"))
    try:
        subprocess.run(["/bin/sh", "-c", script(one, tmp_path)], stdin=subprocess.DEVNULL, check=True, timeout=20)
        assert left.wait(timeout=10) == -9
        assert other.poll() is None
    finally:
        left.kill()
        left.wait()
        other.communicate()


def read_systemd(line: str, *, of_command: bool) -> list[str]:
    """The words of a setting, by the rules of systemd.syntax(7), systemd.unit(5) and systemd.service(5)."""
    words, at = [], 0
    assert line.isprintable() or any(ord(sign) >= 0x80 for sign in line)
    for match in re.finditer(r'"((?:[^"\\]|\\.)*)"(?: |$)', line):
        assert match.start() == at, "nothing stands between the words"
        at = match.end()
        word = re.sub(
            r'\\(x[0-9a-f]{2}|["\\])',
            lambda found: chr(int(found[1][1:], 16)) if found[1][0] == "x" else found[1],
            match[1],
        )
        word = re.sub(r"%(.?)", lambda found: {"%": "%"}[found[1]], word)
        if of_command:
            word = re.sub(r"\$(.?)", lambda found: {"$": "$"}[found[1]], word)
        words.append(word)
    assert at == len(line)
    return words


@given(st.lists(HOSTILE, max_size=4), HOSTILE)
def test_systemd_gives_the_program_every_word_as_it_is(words: list[str], value: str) -> None:
    unit = unit_text(kubelet(argv=("/opt/kubelet", *words), env=(("VALUE", value),)))
    rows = dict(line.split("=", 1) for line in unit.split("\n") if "=" in line)
    assert read_systemd(rows["ExecStart"], of_command=True) == ["/opt/kubelet", *words]
    assert read_systemd(rows["Environment"], of_command=False) == [f"VALUE={value}"]
    assert len(unit.split("\n")) == len(unit_text(kubelet()).split("\n")), "no text makes a line of its own"


def test_words_that_systemd_would_read_in_its_own_way() -> None:
    assert systemd_word('a "b" \\ $C %d', of_command=True) == r'"a \"b\" \\ $$C %%d"'
    assert systemd_word("a=$B\n", of_command=False) == r'"a=$B\x0a"'


def test_the_unit_enters_the_namespaces_and_the_slice() -> None:
    unit = unit_text(kubelet(netns="/run/netns/100%", mountns="/run/ns/m", keep_children=True, log="/var/log/5%.log"))
    assert (
        'ExecStart="/usr/bin/nsenter" "--mount=/proc/1/root/run/ns/m" "--" "/opt/kubelet" "--node-ip" "10.0.0.1"'
        in unit
    )
    assert "NetworkNamespacePath=/run/netns/100%%\n" in unit
    assert "StandardOutput=append:/var/log/5%%.log\n" in unit
    assert "Slice=ballast-lab-n1.slice\n" in unit
    assert "KillMode=process\n" in unit
    assert unit.startswith("# ballast: ")


def test_the_script_enters_the_namespaces_and_each_cgroup() -> None:
    host, _runit = runit_machine()
    text = run_script(host, kubelet(netns="/run/netns/n1", mountns="/run/ns/m"))
    assert "/usr/bin/nsenter --net=/run/netns/n1 --mount=/run/ns/m -- /opt/kubelet" in text
    for controller in ("cpu", "cpuset", "memory", "pids"):
        assert f"/sys/fs/cgroup/{controller}/ballast-lab-n1/kubelet" in text


def test_the_unit_has_its_place_among_others_and_its_time_to_end() -> None:
    unit = unit_text(kubelet(after=("containerd.service", "crio.service"), before=("x.service",), stop_seconds=75))
    assert "After=containerd.service crio.service\nBefore=x.service\n" in unit
    assert "TimeoutStopSec=75\n" in unit
    assert "ExecReload" not in unit, "who does not know HUP would end by it"
    assert "ExecReload=/bin/kill -HUP $MAINPID\n" in unit_text(kubelet(reloads=True))


def test_runit_leaves_a_service_the_time_that_it_has_to_end(machine: FakeHost) -> None:
    slow = kubelet(stop_seconds=75)
    apply(Engine(), wanted(slow), machine)
    apply(Engine(), wanted(replace(slow, config_digest="new")), machine)
    apply(Engine(), wanted(), machine)
    stopped = [argv for argv in machine.commands if argv[:2] == ("sv", "-w")]
    assert all(argv[2] == "75" for argv in stopped)
    assert len(stopped) == (0 if machine.is_systemd() else 2)


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


def machines(name: str) -> FakeHost:
    return MACHINES[name]()[0]


def apply_one(host: FakeHost, one: Service) -> None:
    apply(Engine(), wanted(one), host)
