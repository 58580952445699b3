"""The cache of programs: made once, kept by content, refused when damaged, whole after every kind of end."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._binaries import engine as engine_module
from ansible_collections.ballast.kube.plugins.module_utils._binaries.engine import ENGINE, read_damage
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, HostError
from tests.unit.binaries.given import CACHE, SMALL, desired, machine, planned, request, run
from tests.unit.fakes import Killed

PROGRESS = Progress(NullSink(), feature="binaries")
PROGRAMS = ["etcd", "etcdctl", "etcdutl", "bridge", "loopback", "ptp", "host-local", "portmap"]


def caught_id(host, params=None) -> str:
    with pytest.raises(BallastError) as caught:
        run(host, params)
    return caught.value.id


def assert_whole(host) -> None:
    """Every program asked for is there, intact and linked, and nothing half-made beside it."""
    wanted = desired(host)
    assert planned(host, wanted).steps == ()
    assert {name: host.readlink(f"{wanted.bin_dir}/{name}") for name in host.listdir(wanted.bin_dir)} == wanted.paths
    assert host.listdir(f"{CACHE}/work") == []
    assert all(host.mode(path) == 0o755 for path in wanted.paths.values())


def test_a_request_is_met_and_the_second_run_has_no_effect():
    host, go = machine()
    assert [step.title for step in run(host)][-1] == "links to 8 binaries"
    assert go.built == PROGRAMS
    assert_whole(host)
    host.effects.clear()
    assert run(host) == ()
    assert host.effects == []


def test_planning_has_no_effect():
    host, go = machine()
    planned(host, desired(host))
    assert host.effects == []
    assert go.built == []


def test_an_optional_program_is_added_without_building_the_others_again():
    host, go = machine()
    families = [{"name": "kubernetes"}]
    run(host, request(families=families))
    go.built.clear()
    run(host, request(families=families, components=[{"name": "kubemark"}]))
    assert go.built == ["kubemark"]


def test_another_version_leaves_the_first_where_it_is():
    host, go = machine()
    families = [{"name": "kubernetes"}]
    first = desired(host, request(families=families))
    run(host, request(families=families))
    run(host, request(families=families, version="1.36.4"))
    go.built.clear()
    assert planned(host, first).steps == ()
    assert run(host, request(families=families)) == ()
    assert go.built == []


def test_a_missing_program_alone_is_made_again():
    host, go = machine()
    run(host)
    host.remove(desired(host).paths["ptp"])
    go.built.clear()
    run(host)
    assert go.built == ["ptp"]
    assert_whole(host)


def test_damaged_programs_are_refused_all_at_once_and_left_as_they_are():
    host, _go = machine()
    run(host)
    paths = desired(host).paths
    for name in ("ptp", "etcd"):
        size = len(host.text(paths[name]))
        host.given(paths[name], "x" * size)  # the same size and, in this machine, the same time
    host.effects.clear()
    with pytest.raises(BallastError) as caught:
        run(host)
    assert [problem.id for problem in caught.value.problems] == ["binaries-damaged"] * 2
    assert f"rm {paths['ptp']}" in str(caught.value)
    assert f"rm {paths['etcd']}" in str(caught.value)
    assert host.effects == []


def test_the_remedy_for_a_damaged_program_works():
    host, go = machine()
    run(host)
    path = desired(host).paths["ptp"]
    host.given(path, "damaged")
    host.remove(path)  # what the message says
    go.built.clear()
    run(host)
    assert go.built == ["ptp"]
    assert_whole(host)


def hashed_in(host, act) -> int:
    """The number of programs whose content `act` reads."""
    files, reading = [], host.reading

    @contextmanager
    def counted(path):
        files.append(path)
        with reading(path) as file:
            yield file

    host.reading = counted
    try:
        act()
    finally:
        del host.reading
    return len(set(files) & set(desired(host).paths.values()))


def test_programs_that_were_not_changed_are_hashed_once_a_day():
    host, _go = machine()
    run(host)
    host.sleep(10)
    assert hashed_in(host, lambda: run(host)) == len(PROGRAMS)
    assert hashed_in(host, lambda: run(host)) == 0
    host.sleep(24 * 3600)
    assert hashed_in(host, lambda: run(host)) == len(PROGRAMS)
    assert hashed_in(host, lambda: read_damage(Context(desired(host), host))) == len(PROGRAMS)


def test_a_program_that_was_hashed_and_is_changed_since_is_refused():
    host, _go = machine()
    run(host)
    host.sleep(10)
    run(host)
    path = desired(host).paths["ptp"]
    data = host.read(path)
    host.write(path, bytes(len(data)), mode=0o755)
    assert caught_id(host) == "binaries-damaged"
    host.write(path, data, mode=0o755)
    assert hashed_in(host, lambda: run(host)) == 1


def test_what_was_written_within_a_tick_of_the_clock_is_hashed_again():
    host, _go = machine()
    run(host)
    assert hashed_in(host, lambda: run(host)) == len(PROGRAMS)
    assert hashed_in(host, lambda: run(host)) == len(PROGRAMS)


def test_a_full_disk_stops_no_run_that_changes_nothing():
    host, _go = machine()
    run(host)
    host.sleep(10)
    host.fill_disk()
    assert run(host) == ()


def test_the_reading_twin_names_what_is_damaged_and_changes_nothing():
    host, _go = machine()
    run(host)
    wanted = desired(host)
    assert read_damage(Context(wanted, host))["damaged"] == {}
    host.given(wanted.paths["ptp"], "damaged")
    host.effects.clear()
    assert list(read_damage(Context(wanted, host))["damaged"]) == ["ptp"]
    assert host.effects == []


def test_an_unreadable_manifest_is_refused_by_name():
    host, _go = machine()
    run(host)
    path = desired(host).paths["ptp"].replace("/ptp", "/manifest.json")
    host.given(path, "{")
    assert caught_id(host) == "binaries-manifest"


def effects_of_a_run() -> int:
    host, _go = machine()
    run(host)
    return len(host.effects)


@pytest.mark.parametrize("number", range(1, effects_of_a_run() + 1))
def test_a_run_that_is_killed_anywhere_is_finished_by_the_next(number):
    """Also between the end of a build and its being put in place, and between that and its record."""
    host, _go = machine()
    host.fail_at(number)
    with pytest.raises(Killed):
        run(host)
    host.calm()
    run(host)
    assert_whole(host)


def test_a_disk_that_becomes_full_is_told_and_the_next_run_goes_on():
    host, go = machine()
    says = f"{CACHE}/work/ptp"
    host.on(says, answer=lambda call: host.fill_disk(by_others=True) or host.text(says), reads=True)
    assert caught_id(host) == "core-enospc"
    host.empty_disk()
    host.on(says, answer=lambda call: host.text(says), reads=True)
    go.built.clear()
    run(host)
    assert go.built == ["ptp", "host-local", "portmap"]
    assert_whole(host)


def test_too_little_space_is_told_before_anything_is_done():
    host, _go = machine()
    host.free = 2**29
    with pytest.raises(BallastError) as caught:
        run(host)
    assert {problem.id for problem in caught.value.problems} == {"binaries-disk"}
    assert host.effects == []


def test_little_space_is_enough_when_there_is_nothing_to_make():
    host, _go = machine()
    run(host)
    host.free = 2**20
    assert run(host) == ()


@pytest.mark.parametrize(
    ("output", "id"),
    [
        ("pkg/x.go:1: undefined: y", "binaries-build"),
        ("link: mapping output file failed: no space left on device", "binaries-build-disk-full"),
        ("compile: signal: killed", "binaries-build-killed"),
    ],
)
def test_each_way_that_a_build_fails_has_its_own_remedy(output, id):
    host, go = machine()
    go.broken = output
    with pytest.raises(BallastError) as caught:
        run(host)
    assert caught.value.id == id
    assert output in str(caught.value)
    go.broken = ""
    run(host)
    assert_whole(host)


def test_modules_that_cannot_be_fetched_are_told_apart_from_a_build():
    host, go = machine()
    go.unreachable = "dial tcp: lookup modules.example: no such host"
    assert caught_id(host) == "binaries-modules"


@pytest.mark.parametrize("says", ["v9.9.9", "", "panic: runtime error"])
def test_a_program_of_another_version_is_not_put_in_place(says):
    host, go = machine()
    go.says = says
    assert caught_id(host) == "binaries-version-output"
    assert not any(host.stat(path) for path in desired(host).paths.values())


def test_a_program_that_reports_no_version_is_not_started():
    host, go = machine()
    go.says = "nothing of its version"
    families = [{"name": "metallb"}]
    done = run(host, request(families=families))
    assert go.built == ["metallb-controller", "metallb-speaker"]
    assert len(done) == len(run(host, request(families=families))) + len(done)
    assert not [command for command in host.commands if "metallb-" in command[0]]


def test_two_runs_at_once_build_once():
    host, go = machine()
    wanted = desired(host)
    plans = [planned(host, wanted), planned(host, wanted)]
    for plan in plans:
        ENGINE.apply(plan, Context(wanted, host, PROGRESS))
    assert go.built == PROGRAMS
    assert_whole(host)


def test_a_run_beside_another_waits_and_disturbs_nothing():
    host, go = machine()
    host.given(f"{CACHE}/work/etcd", "of the other run")
    host.given_ours(CACHE, "binaries")
    host.hold_lock(f"{CACHE}/lock")
    wanted = desired(host)
    plan = planned(host, wanted)

    def the_other_ends():
        assert host.text(f"{CACHE}/work/etcd") == "of the other run"
        assert go.built == []
        host.on_sleep.clear()
        host.release_lock(f"{CACHE}/lock")

    host.on_sleep.append(the_other_ends)
    ENGINE.apply(plan, Context(wanted, host, PROGRESS))
    assert host.on_sleep == []
    assert_whole(host)


@pytest.mark.parametrize("damaged", [False, True])
def test_absent_removes_all_that_any_request_made(damaged):
    host, _go = machine()
    host.make_directory("/var/cache/ballast")
    before = host.snapshot()
    run(host)
    run(host, request(families=[{"name": "kubernetes"}], version="1.36.4"))
    if damaged:
        host.given(desired(host).paths["ptp"], "damaged")
    run(host, request(state="absent"))
    assert host.snapshot() == before
    host.effects.clear()
    assert run(host, request(state="absent")) == ()
    assert host.effects == []


def test_absent_asks_for_nothing_else():
    host, go = machine()
    run(host)
    go.version = "go1.2"
    run(host, request(state="absent", toolchain_dir=None, version="nonsense"))
    assert host.listdir(CACHE) == []


def test_a_given_path_is_taken_by_content():
    host, _go = machine()
    for name in ("bridge", "loopback", "ptp", "host-local", "portmap"):
        host.given(f"/opt/{name}", f"{name} v1.0.0")
    params = request(families=[{"name": "cni"}], source="path", path="/opt")
    run(host, params)
    first = desired(host, params)
    assert ENGINE.report(Context(first, host))["components"]["ptp"]["version"] == "v1.0.0"
    host.given("/opt/ptp", "ptp v1.0.1")
    second = desired(host, params)
    assert second.bin_dir != first.bin_dir
    run(host, params)
    assert host.text(first.paths["ptp"]) == "ptp v1.0.0", "what runs keeps its program"
    assert host.text(second.paths["ptp"]) == "ptp v1.0.1"


def test_the_report_has_what_the_manifest_has():
    host, _go = machine()
    wanted = desired(host)
    assert ENGINE.report(Context(wanted, host))["components"]["ptp"] == {
        "family": "cni",
        "source": "go",
        "path": wanted.paths["ptp"],
        "present": False,
        "version": "1.9.1",
        "sha256": "",
        "size": 0,
        "seconds": 0.0,
    }
    run(host)
    told = ENGINE.report(Context(wanted, host))
    assert told["bin_dir"] == wanted.bin_dir
    assert told["versions"] == {"etcd": "3.7.3", "cni": "1.9.1"}
    manifest = json.loads(host.text(wanted.paths["ptp"].replace("/ptp", "/manifest.json")))
    assert told["components"]["ptp"]["sha256"] == manifest["programs"]["ptp"]["sha256"]
    assert told["components"]["ptp"]["present"] is True


def test_verify_finds_a_link_that_leads_elsewhere():
    host, _go = machine()
    run(host)
    wanted = desired(host)
    host.symlink(f"{wanted.bin_dir}/ptp", "/bin/true")
    assert [finding.id for finding in ENGINE.verify(Context(wanted, host, PROGRESS))] == ["binaries-link"]
    run(host)
    assert_whole(host)


class Trials:
    """Stands in for the trial of API servers."""

    def __init__(self, monkeypatch) -> None:
        self.asked: list[list[str]] = []
        self.fault = False
        monkeypatch.setattr(engine_module, "smoke", self)

    def __call__(self, host, progress, *, etcd, servers, work) -> None:
        self.asked.append(sorted(servers))
        assert host.listdir(work) == [], "what a killed run left may still be in use by its etcd"
        host.make_directory(work)
        if self.fault:
            raise HostError("does not serve", id="binaries-smoke")


KUBERNETES = request(families=[*SMALL, {"name": "kubernetes"}])


def test_api_servers_are_tried_once_after_a_build(monkeypatch):
    trials = Trials(monkeypatch)
    host, _go = machine()
    run(host, KUBERNETES)
    run(host, KUBERNETES)
    assert trials.asked == [["generic-apiserver", "kube-apiserver"]]


def test_api_servers_that_do_not_serve_are_not_linked_and_tried_again(monkeypatch):
    trials = Trials(monkeypatch)
    trials.fault = True
    host, go = machine()
    assert caught_id(host, KUBERNETES) == "binaries-smoke"
    assert host.listdir(desired(host, KUBERNETES).bin_dir) == []
    assert host.listdir(f"{CACHE}/work") == []
    host.given(f"{CACHE}/work/smoke/etcd/member/snap/db", "of a killed run")
    trials.fault = False
    go.built.clear()
    run(host, KUBERNETES)
    assert len(trials.asked) == 2
    assert go.built == []


def test_api_servers_made_anew_are_tried_anew(monkeypatch):
    trials = Trials(monkeypatch)
    host, go = machine()
    run(host, KUBERNETES)
    host.remove(desired(host, KUBERNETES).paths["kube-apiserver"])
    go.says = "{shown} again"
    run(host, KUBERNETES)
    assert len(trials.asked) == 2


def test_without_etcd_there_is_no_trial(monkeypatch):
    trials = Trials(monkeypatch)
    host, _go = machine()
    run(host, request(families=[{"name": "kubernetes"}]))
    assert trials.asked == []
