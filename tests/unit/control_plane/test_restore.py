"""Restoring a backup, on a machine in memory: whole, damaged, on a full disk, and killed at any moment; the start that follows."""

from __future__ import annotations

import json
import tarfile

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.engine import ENGINE as PLANE_ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations import restore
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.archive import KEPT
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.restore_note import load_note
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.snapshot import REVISIONS_AHEAD
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.journal import Journal, journal_path
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.unit.control_plane.fake_etcd import DB, Tools, database
from tests.unit.control_plane.given import BIN_DIR, PROGRESS, STATE_DIR, Machine, desired
from tests.unit.control_plane.operated import (
    ARCHIVE,
    DATA,
    archive_of,
    as_tar,
    back_up,
    ids,
    planned,
    put_back,
    running_plane,
    twice,
)
from tests.unit.fakes import FakeHost, Killed


@pytest.fixture
def machine():
    return running_plane()


@pytest.fixture
def host():
    """One without a control plane, that has a backup."""
    found = FakeHost()
    found.given_cgroups(1)
    found.tools = Tools(found, BIN_DIR)
    found.given(ARCHIVE, as_tar(archive_of()), mode=0o600)
    return found


OLD = {DATA: database(9, 9), f"{STATE_DIR}/pki/ca.crt": b"our ca.crt", f"{STATE_DIR}/pki/ca.key": b"our ca.key"}


def with_data(host):
    """Of a control plane that nobody recorded, so that all that counts is what lies there."""
    host.given_ours(STATE_DIR, "plane")
    for path, data in OLD.items():
        host.given(path, data)
    return host


def all_content(host):
    return [node.data for path, node in host._nodes.items() if node.kind == "file" and path.startswith(STATE_DIR)]


class TestRestore:
    def test_into_a_new_place_it_is_ready_to_be_started(self, host):
        assert len(put_back(host)) == 1
        assert host.read(DATA) == database(212 + REVISIONS_AHEAD, 193)
        assert host.text(f"{STATE_DIR}/pki/ca.key") == "their ca.key"
        assert host.mode(f"{STATE_DIR}/pki/ca.key") == host.mode(f"{STATE_DIR}/pki/sa.key") == 0o600
        assert host.mode(f"{STATE_DIR}/pki") == host.mode(f"{STATE_DIR}/etcd") == 0o700
        assert host.listdir(STATE_DIR) == [".ballast", "config", "etcd", "ledger.jsonl", "lock", "pki"]
        note = load_note(host, STATE_DIR)
        assert (note.stage, note.kubernetes_version, note.keys) == ("restored", "1.36.4", 193)

    def test_a_second_run_changes_nothing(self, host):
        put_back(host)
        effects = len(host.effects)
        assert put_back(host) == ()
        assert len(host.effects) == effects

    def test_data_is_not_replaced_unless_told(self, host):
        with_data(host)
        before = host.snapshot()
        assert ids(put_back, host) == ["plane-restore-data"]
        assert host.snapshot() == before

    def test_what_is_replaced_is_moved_aside(self, host):
        put_back(with_data(host), replace=True)
        note = load_note(host, STATE_DIR)
        assert {host.read(f"{note.aside}/{name}") for name in (f"etcd/{DB}", "ca.crt", "ca.key")} == set(OLD.values())
        wanted = restore.RestoreRequest(STATE_DIR, ARCHIVE, BIN_DIR, True, "")
        assert restore.ENGINE.report(Context(wanted, host))["moved_aside"] == note.aside

    def test_a_control_plane_that_runs_is_refused(self, machine):
        back_up(machine.host)
        assert ids(put_back, machine.host, replace=True) == ["plane-restore-running"]

    def test_check_mode_changes_nothing(self, host):
        before = host.snapshot()
        wanted = restore.RestoreRequest(STATE_DIR, ARCHIVE, BIN_DIR, False, "")
        plan = restore.ENGINE.plan(wanted, restore.ENGINE.observe(Context(wanted, host)))
        assert [step.verb for step in plan.steps] == ["make"]
        assert "their" not in json.dumps(restore.ENGINE.diff(plan))
        assert host.snapshot() == before

    @pytest.mark.parametrize(
        ("id", "held"),
        [
            ("plane-archive-unsound", {}),
            ("plane-archive-unsound", {**archive_of(), "backup.json": b"no json"}),
            ("plane-archive-unsound", {**archive_of(), "sa.key": b"another"}),
            ("plane-archive-unsound", {**archive_of(), "etcd.db": b"cut"}),
            ("plane-archive-unsound", {k: v for k, v in archive_of().items() if k != "ca.key"}),
            ("plane-archive-unsound", archive_of(files={"etcd.db": "0" * 64})),
            ("plane-archive-unsound", archive_of(files={**dict.fromkeys(KEPT, "0" * 64), "../x": "0" * 64})),
            ("plane-archive-unsound", archive_of(kubernetes_version="latest")),
            ("plane-archive-unsound", archive_of(keys=-1)),
            ("plane-archive-unsound", archive_of(keys=True)),
            ("plane-archive-unsound", archive_of(hash=1)),
            ("plane-archive-format", archive_of(format=2)),
            ("plane-archive-etcd", archive_of(etcd_version="3.7.1")),
        ],
    )
    def test_what_is_no_sound_backup_changes_nothing(self, host, id, held):
        host.given(ARCHIVE, as_tar(held))
        with_data(host)
        before = {path: host.read(path) for path in OLD}
        assert ids(put_back, host, replace=True) == [id]
        assert {path: host.read(path) for path in OLD} == before
        assert host.stat(f"{STATE_DIR}/restore") is None
        assert load_note(host, STATE_DIR) is None

    @pytest.mark.parametrize(
        ("found", "archive"),
        [
            ("not a tar archive", as_tar(archive_of(), mode="w:gz")),
            ("not a tar archive", as_tar(archive_of(), mode="w:xz")),
            ("begin with a backup.json", as_tar({k: v for k, v in archive_of().items() if k != "backup.json"})),
            (
                "begin with a backup.json",
                as_tar(archive_of(), backup_json={"type": tarfile.SYMTYPE, "linkname": "/etc/x"}),
            ),
            (
                "begin with a backup.json",
                as_tar({**archive_of(), "backup.json": b" " * 2**21 + archive_of()["backup.json"]}),
            ),
            ("sa.key is not a file", as_tar(archive_of(), sa_key={"type": tarfile.SYMTYPE, "linkname": "/etc/x"})),
            ("sa.key is not a file", as_tar(archive_of(), sa_key={"type": tarfile.LNKTYPE, "linkname": "ca.key"})),
            ("sa.key is not a file", as_tar(archive_of(), sa_key={"type": tarfile.CHRTYPE})),
            ("sa.key is not a file", as_tar(archive_of(), sa_key={"type": tarfile.FIFOTYPE})),
            ("manifest does not name", as_tar({**archive_of(), "../../etc/cron.d/x": b"* * * * *"})),
            ("manifest does not name", as_tar({**archive_of(), "/etc/x": b""})),
            ("manifest does not name", as_tar(archive_of(), sa_key={"name": "../sa.key"})),
            ("names once", twice(as_tar(archive_of()))),
            ("bytes, where", as_tar({**archive_of(), "etcd.db": archive_of()["etcd.db"] + b" "})),
            ("bytes, where", as_tar({**archive_of(), "ca.crt": bytes(2**21)})),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_a_member_that_is_none_of_ours_refuses_the_whole(self, host, found, archive):
        host.given(ARCHIVE, archive)
        with pytest.raises(BallastError) as caught:
            put_back(host)
        assert caught.value.id == "plane-archive-unsound"
        assert found in caught.value.found
        assert host.stat(f"{STATE_DIR}/restore") is None

    def test_one_that_was_cut_is_told(self, host):
        host.given(ARCHIVE, host.read(ARCHIVE)[:4000])
        assert ids(put_back, host) == ["plane-archive-unsound"]

    def test_one_that_is_not_there_is_told(self, host):
        assert ids(put_back, host, archive="/var/backups/none.tar") == ["plane-archive-missing"]

    def test_the_file_beside_it_must_fit(self, host):
        host.given(f"{ARCHIVE}.json", json.dumps({"archive_sha256": "0" * 64}))
        assert ids(put_back, host) == ["plane-archive-unsound"]

    @pytest.mark.parametrize(
        ("version", "expected"),
        [("1.36.4", []), ("1.37.1", []), ("1.35.8", ["plane-downgrade"]), ("1.38.0", ["plane-version-jump"])],
    )
    def test_a_version_that_cannot_serve_it_is_refused(self, host, version, expected):
        if expected:
            assert ids(put_back, host, kubernetes_version=version) == expected
        else:
            put_back(host, kubernetes_version=version)

    def test_without_etcds_program_it_says_so(self, host):
        assert ids(put_back, host, bin_dir="/nowhere") == ["plane-tool-missing"]
        assert ids(put_back, host, bin_dir=None) == ["plane-option-missing"]

    def test_a_disk_without_room_is_seen_beforehand(self, host):
        host.free = 1000
        assert ids(put_back, host) == ["plane-backup-space"]

    @pytest.mark.parametrize(("tool", "id"), [("archive", "plane-backup-space"), ("etcdutl", "plane-backup-space")])
    def test_a_disk_that_fills_up_changes_nothing(self, host, tool, id):
        with_data(host)
        host.tools.full.add(tool)
        assert ids(put_back, host, replace=True) == [id]
        assert {path: host.read(path) for path in OLD} == OLD
        assert host.stat(f"{STATE_DIR}/restore") is None

    def test_killed_at_any_moment_nothing_is_lost_and_the_next_run_goes_on(self, host):
        numbers = 0
        for number in range(1, 100):
            here = FakeHost()
            here.tools = Tools(here, BIN_DIR)
            here.given(ARCHIVE, as_tar(archive_of()), mode=0o600)
            with_data(here)
            here.fail_at(number)
            try:
                put_back(here, replace=True)
            except Killed:
                here.calm()
                assert set(OLD.values()) <= set(all_content(here)), f"effect {number}"
                put_back(here, replace=True)
                assert set(OLD.values()) <= set(all_content(here)), f"effect {number}, and again"
                assert here.read(DATA) == database(212 + REVISIONS_AHEAD, 193)
                assert here.text(f"{STATE_DIR}/pki/ca.key") == "their ca.key"
                assert here.stat(f"{STATE_DIR}/restore") is None
                assert put_back(here, replace=True) == ()
                numbers += 1
                continue
            break
        assert numbers > 30

    def test_one_that_was_killed_while_it_placed_stands_in_the_way_of_a_start(self, host):
        with_data(host)
        host.on("mv", answer=Killed("at the first rename"))
        with pytest.raises(Killed):
            put_back(host, replace=True)
        assert ids(planned, desired(profile="generic"), host) == ["plane-restore-unfinished"]


class TestTheNextStart:
    def restored(self, machine):
        back_up(machine.host)
        machine.run(profile="generic", state="stopped")
        machine.host.given(DATA, database(999, 500))
        put_back(machine.host, replace=True)

    def test_the_data_is_that_of_the_backup_and_the_old_one_stays(self, machine):
        self.restored(machine)
        aside = load_note(machine.host, STATE_DIR).aside
        machine.run(profile="generic")
        assert load_note(machine.host, STATE_DIR) is None
        assert machine.run(profile="generic") == []
        assert machine.host.read(f"{aside}/etcd/{DB}") == database(999, 500)

    def test_a_removal_takes_all_of_it(self, machine):
        self.restored(machine)
        machine.run(profile="generic")
        machine.run(state="absent")
        assert machine.host.paths(STATE_DIR) == []

    def test_a_removal_before_the_start_takes_all_of_it(self, host):
        put_back(with_data(host), replace=True)
        machine = Machine()
        machine.host = host
        machine.run(state="absent")
        assert load_note(host, STATE_DIR) is None
        assert [path for path in host.paths(STATE_DIR) if "before-restore" in path] == []

    def test_a_number_of_keys_that_differs_fails_it(self, machine):
        self.restored(machine)
        machine.host.given(DATA, database(212 + REVISIONS_AHEAD, 192))
        wanted = desired(profile="generic")
        plan = PLANE_ENGINE.plan(wanted, PLANE_ENGINE.observe(Context(wanted, machine.host)))
        PLANE_ENGINE.apply(plan, Context(wanted, machine.host, PROGRESS))
        for _attempt in range(2):  # it stays so until somebody does something about it
            (finding,) = PLANE_ENGINE.verify(Context(wanted, machine.host, PROGRESS))
            assert finding.id == "plane-restore-differs"
            assert finding.blocking

    def test_keys_of_encryption_are_kept_whatever_is_asked_for(self, machine):
        machine.run(profile="generic", encryption="secretbox")
        back_up(machine.host)
        keys = machine.host.read(f"{STATE_DIR}/config/encryption.json")
        machine.run(state="absent")
        put_back(machine.host)
        assert machine.host.read(f"{STATE_DIR}/config/encryption.json") == keys
        machine.run(profile="generic", encryption="none")
        secret = json.loads(keys)["resources"][0]["providers"][0]["secretbox"]["keys"][0]["secret"]
        assert secret in machine.host.text(f"{STATE_DIR}/config/encryption.json")
        recorded = Journal(journal_path(STATE_DIR), host=machine.host, kinds=PLANE_ENGINE.kinds).recorded
        assert [old.kind for old in recorded].count("encryption-config") == 1

    def test_an_older_version_is_refused_by_what_the_backup_was_served_by(self, host):
        put_back(host)
        assert ids(planned, desired(profile="generic", kubernetes_version="1.35.8"), host) == ["plane-downgrade"]

    def test_another_network_of_services_is_refused(self, host):
        host.given(ARCHIVE, as_tar(archive_of(service_network="10.50.0.0/16", profile="full")))
        put_back(host)
        assert ids(planned, desired(), host) == ["plane-restore-network"]
