# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Snapshots of a lab and their restore, on a machine in memory: whole, refused, on a full disk, and killed at any moment."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given as generated
from hypothesis import settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.snapshot import REVISIONS_AHEAD
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki import pki
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.journal import journal_path
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Step
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._lab import engine as lab_engine
from ansible_collections.ballast.kube.plugins.module_utils._lab.snapshots import restore, store, take
from tests.unit.cases import apply, require
from tests.unit.control_plane.fake_etcd import DB, Tools, database
from tests.unit.control_plane.given import BIN_DIR, STATE_DIR, Machine
from tests.unit.fakes import Call, FakeHost, Killed, Node
from tests.unit.lab.given import DIR, lab

DATA = f"{STATE_DIR}/etcd/{DB}"
VOLUME = "pvc-1_default_kept"


class LabMachine:
    """A lab of two nodes, which are stopped, on a host whose cp, du, mv and sync work."""

    def __init__(self, **changes: Any) -> None:
        self.plane = Machine()
        self.host: FakeHost = self.plane.host
        self.tools = Tools(self.host, BIN_DIR)
        self.host.given_ours(DIR, "lab")
        self.plane.run(profile="generic")
        self.host.given(DATA, database(212, 193), mode=0o600)
        pid = f"{STATE_DIR}/sv/ballast-lab-etcd/supervise/pid"
        self.tools.db = lambda: self.host.read(DATA) if self.host.read(pid) else None
        self.host.on("cp", answer=self._copy)
        self.host.on("du", answer=self._measure, reads=True)
        self.host.on("sync", answer="")
        self.record(nodes=2, addons=["storage"], **changes)

    def record(self, **changes: Any) -> None:
        self.lab = lab(**changes)
        self.host.given(f"{DIR}/lab.json", json.dumps(self.lab))

    def write(self, node: str, name: str, content: str) -> None:
        self.host.given(f"{store.volumes_path(DIR, node)}/{VOLUME}/{name}", content)

    def volumes(self, node: str) -> dict[str, bytes]:
        top = store.volumes_path(DIR, node)
        return {path[len(top) :]: row.data for path, row in self.host._nodes.items() if _is_file_in(path, row, top)}

    def stop(self) -> None:
        self.plane.run(profile="generic", state="stopped")

    def save(self) -> tuple[Any, Any]:
        return copy.deepcopy(self.host._nodes), copy.deepcopy(self.host.processes)

    def load(self, saved: tuple[Any, Any]) -> None:
        self.host._nodes, self.host.processes = copy.deepcopy(saved)

    def etcd(self) -> dict[str, int]:
        value: dict[str, int] = json.loads(self.host.read(DATA) or b"{}")
        return value

    def leftovers(self) -> list[str]:
        parts = (".ballast-", store.volumes_path("", "") + ".", ".restored", ".replaced", "restoring.json")
        return [path for path in self.host._nodes if any(part in path for part in parts)]

    def _copy(self, call: Call) -> str:
        source, to = call.argv[-2:]
        assert self.host.stat(to) is None, f"{to} is there"
        for path in sorted(self.host.paths(source)):
            row = self.host._nodes[path]
            self.host._nodes[to + path[len(source) :]] = Node(row.kind, mode=row.mode, data=row.data)
        return ""

    def _measure(self, call: Call) -> str:
        top = call.argv[-1]
        size = sum(len(row.data) for path, row in self.host._nodes.items() if _is_file_in(path, row, top))
        return f"{size}\t{top}\n"


def _is_file_in(path: str, row: Node, top: str) -> bool:
    return path.startswith(f"{top}/") and row.kind == "file"


def snapshot(host: FakeHost, name: str = "one", **changes: Any) -> None:
    wanted = take.desired_from_params({"state": "present", "lab_dir": DIR, "name": name, **changes}, host)
    require(take.ENGINE, wanted, host)
    apply(take.ENGINE, wanted, host)


def put_back(host: FakeHost, name: str = "one") -> None:
    wanted = restore.desired_from_params({"lab_dir": DIR, "name": name}, host)
    ctx = Context(wanted, host)
    state = restore.ENGINE.observe(ctx)
    plan = restore.ENGINE.plan(wanted, state)
    restore.ENGINE.require(ctx, state)
    restore.ENGINE.apply(plan, ctx)


def names(host: FakeHost) -> list[str]:
    return store.list_snapshots(host, DIR)


def ids(act: Any, *args: Any, **changes: Any) -> list[str]:
    with pytest.raises(BallastError) as caught:
        act(*args, **changes)
    error = caught.value
    return [problem.id for problem in (error.problems if isinstance(error, Problems) else [error])]


@pytest.fixture(autouse=True)
def _small_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that are made in no time; nobody relies on them."""
    monkeypatch.setattr(pki, "_RSA_BITS", 1024)


@pytest.fixture
def machine() -> LabMachine:
    made = LabMachine()
    made.write("n1", "file", "first")
    return made


def test_a_snapshot_holds_etcd_keys_and_volumes_for_root_alone(machine: LabMachine) -> None:
    host = machine.host
    snapshot(host)
    path = store.snapshot_path(DIR, "one")
    assert host.listdir(path) == ["plane.tar", "plane.tar.json", "snapshot.json", "volumes"]
    assert host.mode(path) == 0o700
    assert host.mode(f"{path}/plane.tar") == host.mode(f"{path}/snapshot.json") == 0o600
    assert host.read(f"{path}/volumes/n1/{VOLUME}/file") == b"first"
    assert host.listdir(f"{path}/volumes") == ["n1"], "n2 has no volume"
    found = store.read_snapshot(host, path)
    assert found is not None
    assert (found.nodes, found.addons, found.volume_bytes) == (("n1", "n2"), ("storage",), 5)
    assert machine.leftovers() == []


def test_etcd_is_backed_up_before_volumes_are_copied(machine: LabMachine) -> None:
    snapshot(machine.host)
    ran = [os.path.basename(argv[0]) for argv in machine.host.commands]
    assert ran.index("etcdctl") < ran.index("cp") < ran.index("sync") < len(ran) - ran[::-1].index("mv")


def test_a_plan_changes_nothing(machine: LabMachine) -> None:
    before = machine.host.snapshot()
    wanted = take.desired_from_params({"state": "present", "lab_dir": DIR, "name": "one"}, machine.host)
    ctx = Context(wanted, machine.host)
    assert [step.title for step in take.ENGINE.plan(wanted, take.ENGINE.observe(ctx)).steps] == ["snapshot one"]
    assert machine.host.snapshot() == before


def test_snapshots_are_listed_by_their_time(machine: LabMachine) -> None:
    assert "has no snapshots" in store.read_snapshots(machine.host, {"lab_dir": DIR})["ballast_summary"]
    snapshot(machine.host, "second")
    machine.host.sleep(60)
    snapshot(machine.host, "first")
    found = store.read_snapshots(machine.host, {"lab_dir": DIR})
    assert [row["name"] for row in found["snapshots"]] == ["second", "first"]
    assert found["snapshots"][0]["bytes"] > 0
    lines = found["ballast_summary"].splitlines()
    assert lines[0].split() == ["SNAPSHOT", "TAKEN", "KUBERNETES", "NODES", "SIZE"]
    assert lines[1].split()[:1] == ["second"]


def test_one_is_not_overwritten_and_a_misspelt_one_not_removed(machine: LabMachine) -> None:
    snapshot(machine.host)
    before = machine.host.snapshot()
    assert ids(snapshot, machine.host) == ["lab-snapshot-taken"]
    assert ids(snapshot, machine.host, "on", state="absent") == ["lab-snapshot-none"]
    assert ids(snapshot, machine.host, "../x") == ids(snapshot, machine.host, "lock") == ["lab-value"]
    assert machine.host.snapshot() == before


def test_one_is_removed_and_the_others_stay(machine: LabMachine) -> None:
    snapshot(machine.host, "a")
    snapshot(machine.host, "b")
    snapshot(machine.host, "a", state="absent")
    assert names(machine.host) == ["b"]
    snapshot(machine.host, "b", state="absent")
    assert machine.host.stat(store.snapshots_dir(DIR)) is None


def test_nodes_that_run_are_refused(machine: LabMachine) -> None:
    snapshot(machine.host)
    machine.host.given(machine.lab["nodes"][0]["netns"])
    assert ids(snapshot, machine.host, "two") == ["lab-snapshot-running"]
    machine.stop()
    assert ids(put_back, machine.host) == ["lab-snapshot-running"]


def test_a_control_plane_that_is_stopped_or_runs_is_refused(machine: LabMachine) -> None:
    snapshot(machine.host)
    assert ids(put_back, machine.host) == ["plane-restore-running"]
    machine.stop()
    assert ids(snapshot, machine.host, "two") == ["plane-etcd-silent"]


def test_a_lab_in_the_midst_of_an_upgrade_is_refused(machine: LabMachine) -> None:
    step = Step("drain", "drain of node n1", f"n1 {DIR}/plane", after={"pods": 0}, before=None)
    machine.host.given(journal_path(f"{DIR}/drain"), json.dumps({"op": "doing", **vars(step)}) + "\n")
    assert ids(snapshot, machine.host) == ["lab-snapshot-drained"]


def test_a_lab_with_virtual_machines_is_refused(machine: LabMachine) -> None:
    machine.record(target="vm", hosts=2)
    assert ids(snapshot, machine.host) == ["lab-snapshot-machines"]


def test_room_is_looked_at_before_anything_is_made(machine: LabMachine) -> None:
    snapshot(machine.host)
    machine.host.free = 2**20
    before = machine.host.snapshot()
    assert ids(snapshot, machine.host, "two") == ["lab-snapshot-space"]
    assert machine.host.snapshot() == before
    wanted = restore.desired_from_params({"lab_dir": DIR, "name": "one"}, machine.host)
    machine.host.free = 2**27 + 2**25  # enough for etcd alone
    seen = restore.ENGINE.observe(Context(wanted, machine.host))
    assert ids(restore.ENGINE.plan, wanted, seen) == ["lab-snapshot-space"], "in check mode, before the lab is stopped"


def test_what_a_killed_restore_has_copied_counts_as_room(machine: LabMachine) -> None:
    snapshot(machine.host)
    wanted = restore.desired_from_params({"lab_dir": DIR, "name": "one"}, machine.host)
    ctx = Context(wanted, machine.host)
    needed = restore.ENGINE.observe(ctx).needed
    for end in (".restored", ".replaced"):
        machine.host.given(store.volumes_path(DIR, "n1") + f"{end}/file", "12345")
    assert restore.ENGINE.observe(ctx).needed == needed - 10


@pytest.mark.parametrize(
    ("now", "wanted"),
    [
        ({"nodes": 1, "addons": ["storage"]}, ["lab-snapshot-lacks"]),
        ({"nodes": 2, "addons": []}, ["lab-snapshot-lacks"]),
        ({"nodes": 2, "addons": ["storage"], "kubernetes_version": "1.36.4"}, ["lab-snapshot-version"]),
        (
            {"nodes": 1, "addons": [], "kubernetes_version": "1.38.0"},
            ["lab-snapshot-version"] + 2 * ["lab-snapshot-lacks"],
        ),
        ({"nodes": 2, "addons": ["storage"], "kubernetes_version": "1.37.9"}, []),
        ({"nodes": 3, "addons": ["dns", "storage"]}, []),
    ],
)
def test_a_lab_that_lacks_what_the_snapshot_has_is_refused_before_it_is_stopped(
    machine: LabMachine, now: Mapping[str, Any], wanted: list[str]
) -> None:
    snapshot(machine.host)
    machine.record(**now)
    found = store.read_snapshot(machine.host, store.snapshot_path(DIR, "one"))
    assert found is not None
    assert [problem.id for problem in restore.find_differences(found, machine.lab)] == wanted
    if wanted:
        assert ids(put_back, machine.host) == wanted


def test_what_is_no_snapshot_of_ours_is_named(machine: LabMachine) -> None:
    snapshot(machine.host)
    machine.host.given(f"{store.snapshot_path(DIR, 'one')}/snapshot.json", '{"format": 9}')
    assert ids(put_back, machine.host) == ["lab-snapshot-unreadable"]
    (row,) = store.read_snapshots(machine.host, {"lab_dir": DIR})["snapshots"]
    assert row["taken_at"] == ""
    snapshot(machine.host, state="absent")
    assert names(machine.host) == []


def test_a_restore_brings_etcd_and_volumes_back(machine: LabMachine) -> None:
    snapshot(machine.host)
    machine.write("n1", "file", "second")
    machine.write("n1", "new", "later")
    machine.write("n2", "new", "later")
    machine.record(nodes=3, addons=["storage"])
    machine.write("n3", "new", "later")
    machine.host.given(DATA, database(400, 300), mode=0o600)
    machine.stop()
    begun = len(machine.host.commands)
    put_back(machine.host)
    ran = [os.path.basename(argv[0]) for argv in machine.host.commands[begun:]]
    assert ran.index("cp") < ran.index("sync") < ran.index("mv"), "copies are on the disk before they take a place"
    assert machine.volumes("n1") == {f"/{VOLUME}/file": b"first"}
    assert machine.volumes("n2") == machine.volumes("n3") == {}, "nothing of the time after"
    assert machine.etcd() == {"revision": 212 + REVISIONS_AHEAD, "keys": 193}
    assert machine.leftovers() == []
    assert names(machine.host) == ["one"], "it can be restored again"


def test_a_lab_does_not_start_on_half_a_restore(machine: LabMachine) -> None:
    machine.host.given(f"{DIR}/restoring.json", '{"snapshot": "one"}')
    request = lab_engine.LabRequest(state="present", state_dir=DIR, name="lab", lab=machine.lab)
    ctx = Context(request, machine.host)
    with pytest.raises(BallastError) as caught:
        lab_engine.ENGINE.require(ctx, lab_engine.ENGINE.observe(ctx))
    assert caught.value.id == "lab-restore-unfinished"
    assert "lab_snapshot=one" in caught.value.remedy


def test_a_restore_that_fails_before_it_has_replaced_anything_leaves_a_lab_that_starts(machine: LabMachine) -> None:
    snapshot(machine.host)
    machine.stop()
    machine.tools.full.add("etcdutl")
    assert ids(put_back, machine.host) == ["plane-backup-space"]
    assert lab_engine.read_unfinished_restore(machine.host, DIR) is None
    machine.host.given(f"{DIR}/restoring.json", '{"snapshot": "one"}')
    assert ids(put_back, machine.host) == ["plane-backup-space"]
    assert lab_engine.read_unfinished_restore(machine.host, DIR) == "one", "an earlier run may have replaced something"


def test_the_snapshot_of_half_a_restore_stays(machine: LabMachine) -> None:
    snapshot(machine.host, "a")
    snapshot(machine.host, "b")
    machine.host.given(f"{DIR}/restoring.json", '{"snapshot": "a"}')
    assert ids(snapshot, machine.host, "a", state="absent") == ["lab-restore-unfinished"]
    snapshot(machine.host, "b", state="absent")
    assert names(machine.host) == ["a"]


def test_snapshots_go_with_the_lab(machine: LabMachine) -> None:
    snapshot(machine.host)
    request = lab_engine.LabRequest(state="absent", state_dir=DIR, name="lab", lab=None)
    lab_engine._remove_results(machine.host, request)
    assert machine.host.stat(store.snapshots_dir(DIR)) is None


def test_a_directory_of_others_called_snapshots_stays(machine: LabMachine) -> None:
    machine.host.given(f"{store.snapshots_dir(DIR)}/letter", "dear")
    assert ids(snapshot, machine.host) == ["core-not-ours"]
    request = lab_engine.LabRequest(state="absent", state_dir=DIR, name="lab", lab=None)
    lab_engine._remove_results(machine.host, request)
    assert machine.host.text(f"{store.snapshots_dir(DIR)}/letter") == "dear"


def _is_killed(host: FakeHost, number: int, act: Any) -> bool:
    host.fail_at(number)
    try:
        act(host)
    except Killed:
        return True
    finally:
        host.calm()
    return False


def test_of_a_run_that_is_killed_anywhere_there_is_no_snapshot_or_a_whole_one(machine: LabMachine) -> None:
    saved, host, path = machine.save(), machine.host, store.snapshot_path(DIR, "one")
    for number in range(1, 200):
        machine.load(saved)
        if not _is_killed(host, number, snapshot):
            break
        if not names(host):
            snapshot(host)
        assert host.listdir(path) == ["plane.tar", "plane.tar.json", "snapshot.json", "volumes"]
        assert host.read(f"{path}/volumes/n1/{VOLUME}/file") == b"first"
        assert machine.volumes("n1") == {f"/{VOLUME}/file": b"first"}
        snapshot(host, state="absent")
        assert host.stat(store.snapshots_dir(DIR)) is None, f"killed at {number}"
    assert number > 10


def test_a_removal_that_is_killed_anywhere_leaves_none_or_a_whole_one(machine: LabMachine) -> None:
    snapshot(machine.host)
    saved, host = machine.save(), machine.host
    for number in range(1, 50):
        machine.load(saved)
        if not _is_killed(host, number, lambda host: snapshot(host, state="absent")):
            break
        if names(host):
            assert host.read(f"{store.snapshot_path(DIR, 'one')}/volumes/n1/{VOLUME}/file") == b"first"
        else:
            snapshot(host)  # its name is free again
        snapshot(host, state="absent")
        assert host.stat(store.snapshots_dir(DIR)) is None, f"killed at {number}"
    assert number > 3


def test_a_restore_that_is_killed_anywhere_is_finished_by_the_next_and_never_half_of_it_starts(
    machine: LabMachine,
) -> None:
    snapshot(machine.host)
    machine.write("n1", "file", "second")
    machine.host.given(DATA, database(400, 300), mode=0o600)
    machine.stop()
    saved, old, new = machine.save(), (b"second", 400), (b"first", 212 + REVISIONS_AHEAD)
    for number in range(1, 300):
        machine.load(saved)
        if not _is_killed(machine.host, number, put_back):
            break
        found = machine.volumes("n1").get(f"/{VOLUME}/file"), machine.etcd().get("revision")
        assert found in (old, new) or machine.host.stat(f"{DIR}/restoring.json"), f"killed at {number}"
        put_back(machine.host)
        assert machine.volumes("n1") == {f"/{VOLUME}/file": b"first"}
        assert machine.etcd()["revision"] == 212 + REVISIONS_AHEAD
        assert machine.leftovers() == []
    assert number > 10


FILES = st.dictionaries(st.sampled_from("abc"), st.text("xy", max_size=3), max_size=3)


def test_whatever_was_written_since_is_gone(machine: LabMachine) -> None:
    saved = machine.save()
    machine.stop()
    stopped = machine.save()[1]

    @settings(max_examples=40, deadline=None)
    @generated(before=FILES, after=FILES, node=st.sampled_from(["n1", "n2"]))
    def check(before: dict[str, str], after: dict[str, str], node: str) -> None:
        machine.load(saved)
        machine.host.remove_tree(store.volumes_path(DIR, "n1"))
        for name, content in before.items():
            machine.write("n1", name, content)
        snapshot(machine.host)
        for name, content in after.items():
            machine.write(node, name, content)
        machine.host.processes = copy.deepcopy(stopped)
        put_back(machine.host)
        assert machine.volumes("n1") == {f"/{VOLUME}/{name}": content.encode() for name, content in before.items()}
        assert machine.volumes("n2") == {}

    check()
