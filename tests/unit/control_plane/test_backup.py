"""Backups, on a machine in memory: whole, damaged, on a full disk, and killed at any moment."""

from __future__ import annotations

import hashlib
import json

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations import backup
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.archive import KEPT
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.unit.control_plane.fake_etcd import database
from tests.unit.control_plane.given import BIN_DIR, STATE_DIR
from tests.unit.control_plane.operated import ARCHIVE, DATA, back_up, healthy, held_in, ids, matches, running_plane
from tests.unit.fakes import FakeHost, Killed


@pytest.fixture
def machine():
    return running_plane()


class TestBackup:
    def test_it_holds_the_data_and_the_keys_that_it_needs(self, machine):
        assert [step.title for step in back_up(machine.host)] == [f"backup {ARCHIVE}"]
        held = held_in(machine.host)
        assert next(iter(held)) == "backup.json"
        assert set(held) == {"backup.json", "etcd.db", *KEPT} - {"encryption.json"}
        assert machine.host.mode(ARCHIVE) == machine.host.mode(f"{ARCHIVE}.json") == 0o600
        told_beside = json.loads(machine.host.text(f"{ARCHIVE}.json"))
        assert (told_beside["revision"], told_beside["keys"]) == (212, 193)
        assert told_beside["kubernetes_version"] == "1.37.1"
        assert told_beside["deployment_mode"] == json.loads(held["backup.json"])["shape"] == "separate"
        assert told_beside["archive_sha256"] == hashlib.sha256(machine.host.read(ARCHIVE)).hexdigest()
        assert "PRIVATE" not in machine.host.text(f"{ARCHIVE}.json")
        assert machine.host.listdir("/var/backups") == ["plane.tar", "plane.tar.json"]

    def test_the_key_of_encryption_is_in_it(self, machine):
        machine.run(profile="generic", encryption="secretbox")
        back_up(machine.host)
        assert held_in(machine.host)["encryption.json"] == machine.host.read(f"{STATE_DIR}/config/encryption.json")

    def test_no_secret_is_in_a_command_line(self, machine):
        back_up(machine.host)
        secrets = [machine.host.text(f"{STATE_DIR}/pki/{name}.key").splitlines()[1] for name in ("ca", "sa")]
        assert not any(secret in word for argv in machine.host.commands for word in argv for secret in secrets)

    def test_check_mode_changes_nothing(self, machine):
        before = machine.host.snapshot()
        wanted = backup.BackupRequest(STATE_DIR, ARCHIVE, "")
        plan = backup.ENGINE.plan(wanted, backup.ENGINE.observe(Context(wanted, machine.host)))
        assert len(plan.steps) == 1
        assert backup.ENGINE.diff(plan)[0]["after"] == json.dumps({"of": STATE_DIR}, indent=1) + "\n"
        assert machine.host.snapshot() == before

    def test_what_is_missing_is_told_at_once(self, machine):
        machine.host._nodes.pop(f"{BIN_DIR}/etcdutl")
        assert ids(back_up, machine.host, path="/nowhere/x.tar") == ["plane-tool-missing", "plane-backup-place"]

    def test_paths_are_checked_together(self, machine):
        assert ids(back_up, machine.host, path="x.tar", bin_dir="/opt/../etc") == ["plane-operation-path"] * 2

    def test_a_file_of_somebody_else_is_not_touched(self, machine):
        machine.host.given(ARCHIVE, "letters")
        assert ids(back_up, machine.host) == ["plane-backup-foreign"]
        assert machine.host.text(ARCHIVE) == "letters"

    def test_an_etcd_that_does_not_answer_is_told_with_the_way_back(self, machine):
        machine.run(profile="generic", state="stopped")
        with pytest.raises(BallastError) as caught:
            back_up(machine.host)
        assert caught.value.id == "plane-etcd-silent"
        assert "control_plane_restore" in caught.value.remedy

    @pytest.mark.parametrize("answer", [b"<html>", b"[]", b"{}", b'{"header": {"member_id": "x"}}'])
    def test_what_answers_like_no_etcd_is_refused(self, machine, answer):
        from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response

        machine.host.answer("https://10.97.1.1:2379/", Response(200, answer), method="POST")
        assert ids(back_up, machine.host) == ["plane-etcd-answer"]

    def test_a_control_plane_that_is_not_there_is_told(self):
        assert ids(back_up, FakeHost()) == ["plane-not-there"]

    def test_a_disk_without_room_is_seen_beforehand(self, machine):
        machine.host.free = 1000
        assert ids(back_up, machine.host) == ["plane-backup-space"]
        assert machine.host.listdir("/var/backups") == []

    @pytest.mark.parametrize(("tool", "id"), [("etcdctl", "plane-backup-space"), ("archive", "plane-backup-space")])
    def test_a_disk_that_fills_up_leaves_the_earlier_backup(self, machine, tool, id):
        back_up(machine.host)
        before = machine.host.read(ARCHIVE)
        machine.tools.full.add(tool)
        assert ids(back_up, machine.host) == [id]
        assert machine.host.read(ARCHIVE) == before
        assert machine.host.listdir("/var/backups") == ["plane.tar", "plane.tar.json"]

    def test_a_snapshot_that_is_damaged_is_no_backup(self, machine):
        machine.tools._put(DATA, b"rubbish")
        machine.tools._gateway = None
        machine.host.answer("https://10.97.1.1:2379/", healthy, method="POST")
        assert ids(back_up, machine.host) == ["plane-snapshot-unsound"]
        assert machine.host.listdir("/var/backups") == []

    def test_killed_at_any_moment_one_whole_archive_is_there(self, machine):
        back_up(machine.host)
        first = machine.host.read(ARCHIVE)
        machine.host.given(DATA, database(300, 200))
        for number in range(1, 100):
            machine.host.fail_at(number)
            try:
                back_up(machine.host)
            except Killed:
                machine.host.calm()
                found = machine.host.read(ARCHIVE)
                description = machine.host.read(f"{ARCHIVE}.json")
                assert found is not None
                assert description is None or matches(description, found)
                continue
            break
        machine.host.calm()
        assert number > 15
        back_up(machine.host)
        assert machine.host.read(ARCHIVE) != first
        assert machine.host.listdir("/var/backups") == ["plane.tar", "plane.tar.json"]
