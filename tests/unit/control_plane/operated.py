"""A control plane that can be backed up, and backups of another one: what tests of backup, restore and upgrade share."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import tarfile

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.engine import ENGINE as PLANE_ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations import backup, restore
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.archive import KEPT, Manifest
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from tests.unit.control_plane.fake_etcd import DB, Tools, database
from tests.unit.control_plane.given import BIN_DIR, PROGRESS, STATE_DIR, Machine

ARCHIVE = "/var/backups/plane.tar"
DATA = f"{STATE_DIR}/etcd/{DB}"


def running_plane():
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
