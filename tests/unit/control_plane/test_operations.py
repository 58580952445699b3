"""Backup, restore, renewal and upgrade, on a machine in memory: whole, damaged, on a full disk, and killed at any moment."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import tarfile

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.engine import ENGINE as PLANE_ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations import backup, restore
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.archive import KEPT, Manifest
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.etcd_damage import (
    find_damage,
    find_later_version,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.restore_note import load_note
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.snapshot import REVISIONS_AHEAD
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.upgrade import (
    desired_from_params,
    find_version_problem,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.journal import Journal, journal_path
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from tests.unit.control_plane.fake_etcd import DB, Tools, database
from tests.unit.control_plane.given import BIN_DIR, PROGRESS, STATE_DIR, Machine, desired, params, told
from tests.unit.fakes import FakeHost, Killed

ARCHIVE = "/var/backups/plane.tar"
DATA = f"{STATE_DIR}/etcd/{DB}"


@pytest.fixture
def machine():
    """A control plane that runs, with 193 keys."""
    found = Machine()
    found.tools = Tools(found.host, BIN_DIR)
    found.host.given_directory("/var/backups")
    found.run(profile="generic")
    found.host.given(DATA, database(212, 193), mode=0o600)
    pid = f"{STATE_DIR}/sv/ballast-lab-etcd/supervise/pid"
    found.tools.db = lambda: found.host.read(DATA) if found.host.read(pid) else None
    return found


def run(engine, wanted, host):
    """As the module does, to its end; the steps it took."""
    state = engine.observe(Context(wanted, host))
    plan = engine.plan(wanted, state)
    engine.require(Context(wanted, host), state)
    engine.apply(plan, Context(wanted, host, PROGRESS))
    return plan.steps


def back_up(host, **changes):
    asked = {"state_dir": STATE_DIR, "path": ARCHIVE, "bin_dir": None, **changes}
    return run(backup.ENGINE, backup.BackupRequest.from_params(asked), host)


def put_back(host, **changes):
    asked = {
        "state_dir": STATE_DIR,
        "archive": ARCHIVE,
        "bin_dir": BIN_DIR,
        "replace": False,
        "kubernetes_version": None,
        **changes,
    }
    return run(restore.ENGINE, restore.RestoreRequest.from_params(asked), host)


def planned(desired, host):
    """The plan of the control plane itself."""
    return PLANE_ENGINE.plan(desired, PLANE_ENGINE.observe(Context(desired, host)))


def ids(act, *args, **changes):
    with pytest.raises(BallastError) as caught:
        act(*args, **changes)
    error = caught.value
    return [problem.id for problem in (error.problems if isinstance(error, Problems) else [error])]


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


def healthy(url, body):
    from tests.unit.fakes import json_answer

    header = {"member_id": "7", "revision": "5"}
    answers = {
        "maintenance/status": {"header": header, "version": "3.6.14", "dbSize": "20480", "leader": "7"},
        "cluster/member/list": {"members": [{"ID": "7"}]},
    }
    return json_answer(200, answers.get(url.partition("/v3/")[2], {"header": header}))


def held_in(host):
    """As tar reads it, by name."""
    with tarfile.open(fileobj=io.BytesIO(host.read(ARCHIVE)), mode="r:") as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def matches(description, archive):
    return json.loads(description)["archive_sha256"] == hashlib.sha256(archive).hexdigest()


def archive_of(revision=212, keys=193, *, encryption=b"", **changes):
    """The members of the backup of another control plane."""
    files = {"etcd.db": database(revision, keys)}
    files.update({name: f"their {name}".encode() for name in KEPT if name != "encryption.json"})
    if encryption:
        files["encryption.json"] = encryption
    manifest = Manifest(
        format=1,
        name="other",
        profile="generic",
        shape="separate",
        kubernetes_version="1.36.4",
        etcd_version="3.6.14",
        service_network="",
        revision=revision,
        keys=keys,
        hash=len(files["etcd.db"]),
        size_bytes=len(files["etcd.db"]),
        taken_at="2026-11-22T10:14:31Z",
        files={name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
    )
    files["backup.json"] = dataclasses.replace(manifest, **changes).as_text().encode()
    return files


def as_tar(files, *, mode="w", **members):
    """The manifest first. `members` are changes of a member by its name, with _ for a dot."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode, format=tarfile.GNU_FORMAT) as made:
        for name in sorted(files, key=lambda name: (name != "backup.json", name)):
            member = tarfile.TarInfo(name)
            member.size = len(files[name])
            for field, value in members.get(name.replace(".", "_"), {}).items():
                setattr(member, field, value)
            made.addfile(member, io.BytesIO(files[name]))
    return buffer.getvalue()


def twice(archive):
    """All members, and all of them again: the end of the first, blocks of zeros, is left out."""
    used = len(archive.rstrip(bytes(1)))
    return archive[: used + -used % 512] + archive


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


class TestRenewal:
    def test_all_but_authorities_are_made_anew_and_what_runs_with_them_restarts(self, machine):
        steps = told(machine.run(profile="generic", renew_certificates=True))
        assert "change certificate apiserver.crt" in steps
        assert "change kubeconfig admin.kubeconfig" in steps
        assert not any("ca.crt" in step or "key-pair" in step for step in steps)
        assert [step for step in steps if "service" in step] == [
            "change service ballast-lab-etcd",
            "change service ballast-lab-generic-apiserver",
            "change service ballast-lab-kube-controller-manager",
        ]
        assert machine.run(profile="generic") == []


class TestVersions:
    @pytest.mark.parametrize(
        ("served", "wanted", "id"),
        [
            ("1.35.8", "1.36.4", None),
            ("1.36.4", "1.36.9", None),
            ("1.36.9", "1.36.4", None),
            ("1.35.8", "1.37.1", "plane-version-jump"),
            ("1.37.1", "1.36.4", "plane-downgrade"),
            ("2.0.0", "1.37.1", "plane-downgrade"),
        ],
    )
    def test_one_minor_version_forward_and_none_back(self, served, wanted, id):
        problem = find_version_problem(version=wanted, served=served, path=STATE_DIR)
        assert (problem and problem.id) == id

    @hypothesis_given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
    def test_a_change_is_allowed_one_way_unless_it_is_none(self, old, new, one, other):
        there = find_version_problem(version=f"1.{new}.{one}", served=f"1.{old}.{other}", path="/x") is None
        back = find_version_problem(version=f"1.{old}.{other}", served=f"1.{new}.{one}", path="/x") is None
        assert (there and back) == (old == new)
        assert there == (new - old in (0, 1))

    def test_data_refuses_what_cannot_serve_it_and_no_data_refuses_nothing(self, machine):
        wanted = desired(profile="generic", kubernetes_version="1.35.8")
        assert ids(planned, wanted, machine.host) == ["plane-downgrade"]
        machine.host._nodes.pop(DATA)
        machine.host.remove_tree(f"{STATE_DIR}/etcd/member")
        planned(desired(profile="generic", kubernetes_version="1.35.8", state="stopped"), machine.host)

    def test_a_stop_keeps_the_version_that_served_the_data(self, machine):
        def version(state):
            options = params(profile="generic", kubernetes_version="1.38.0", state=state)
            return desired_from_params(options, machine.host).kubernetes_version

        assert (version("stopped"), version("present")) == ("1.37.1", "1.38.0")
        machine.host.remove_tree(f"{STATE_DIR}/etcd/member")
        assert version("stopped") == "1.38.0"

    def test_it_is_told_between_which_to_go(self):
        problem = find_version_problem(version="1.37.1", served="1.34.0", path="/x")
        assert "upgrade to 1.35 first" in problem.remedy


class TestDamage:
    @pytest.mark.parametrize(
        ("line", "said"),
        [
            (
                '{"level":"fatal","msg":"discovery failed","error":"walpb: crc mismatch: expected: f0 computed: 95: in file x"}',
                "walpb: crc mismatch: expected: f0 computed: 95: in file x",
            ),
            ('{"level":"panic","msg":"failed to open database","error":"invalid database"}', "invalid database"),
            ("panic: assertion failed: Page expected to be: 11, but self identifies as 5979", None),
            ("panic: freepages: failed to get all reachable pages", None),
            ("panic: cannot use none as id", None),
            ("fatal error: fault", None),
        ],
    )
    def test_what_etcd_logs_over_damaged_files_is_known(self, line, said):
        assert find_damage(f"before\n{line}\n\ngoroutine 1 [running]:\n") == (said or line)

    @pytest.mark.parametrize(
        "line",
        [
            '{"level":"fatal","msg":"discovery failed","error":"listen tcp 10.97.1.1:2379: bind: address already in use"}',
            '{"level":"fatal","msg":"failed to create","error":"write /x: no space left on device"}',
            '{"level":"warn","msg":"simple token is not cryptographically signed"}',
        ],
    )
    def test_other_ends_are_not_taken_for_it(self, line):
        assert find_damage(line) == ""

    def test_data_of_a_later_etcd_is_known(self):
        line = (
            r'{"level":"fatal","msg":"discovery failed","error":"version \"3.7.0\" is not supported","stacktrace":"x"}'
        )
        assert find_later_version(f"one\n{line}\n") == "3.7"
        assert find_damage(line) == ""
        assert find_later_version('{"error":"version of something is not supported"}') == ""

    def test_a_start_over_damaged_data_says_how_to_restore(self, machine):
        machine.run(profile="generic", state="stopped")
        machine.api.failing = "[-]etcd failed: reason withheld\n"
        log, pid = f"{STATE_DIR}/log/etcd.log", f"{STATE_DIR}/sv/ballast-lab-etcd/supervise/pid"
        machine.host.given(log, "walpb: crc mismatch: long ago\n")

        def ends() -> None:
            if machine.host.stat(f"{STATE_DIR}/sv/ballast-lab-etcd/supervise"):
                machine.host.given(pid, "")
                machine.host.given(log, machine.host.text(log) + "panic: freepages: failed\n")

        machine.host.on_sleep.append(ends)
        with pytest.raises(BallastError) as caught:
            machine.run(profile="generic")
        assert (caught.value.id, caught.value.found) == ("plane-etcd-corrupt", "panic: freepages: failed")
        assert "control_plane_restore" in caught.value.remedy
