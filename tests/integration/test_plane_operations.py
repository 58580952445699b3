# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real control plane is backed up, hurt, restored elsewhere and in place, read, renewed, and taken from version to version.

The tests share one control plane. Each leaves it running and well, so that any of them can be run alone.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import DEFAULT_KUBERNETES
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.info import readiness_answers as readiness
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.integration.adhoc import module
from tests.integration.plane_lab import VERSION, Plane, binaries, place
from tests.integration.told import assert_told

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a control plane")]

NAMESPACE = "/api/v1/namespaces/default"
# The versions to go through, which `make test-matrix` builds before.
UPGRADE = ("1.35.8", "1.36.4", DEFAULT_KUBERNETES)


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with place("generic", encryption="secretbox") as found:
        found.run()
        yield found


@pytest.fixture
def archive(plane: Plane, tmp_path: Path) -> Path:
    """A backup of it with two objects, which then are changed."""
    put(plane, "configmaps", "kept", {"a": "before"})
    put(plane, "secrets", "kept", {"a": base64.b64encode(b"secret before").decode()})
    path = tmp_path / "plane.tar"
    done = module("control_plane_backup", state_dir=plane.state_dir, path=str(path))
    assert done.get("changed"), done
    put(plane, "configmaps", "kept", {"a": "after"})
    put(plane, "configmaps", "later", {})
    return path


def put(plane: Plane, resource: str, name: str, data: dict[str, str]) -> None:
    kind = {"configmaps": "ConfigMap", "secrets": "Secret"}[resource]
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "data": data}
    path = f"{NAMESPACE}/{resource}/{name}?fieldManager=test&force=true"
    assert plane.ask(path, "PATCH", body, "application/apply-patch+yaml").status in (200, 201)


def data_of(plane: Plane, resource: str, name: str) -> Any:
    """Of an object; None where it is not there."""
    answer = plane.ask(f"{NAMESPACE}/{resource}/{name}")
    return answer.body.get("data") if answer.status == 200 else None


def assert_as_before(plane: Plane) -> None:
    assert data_of(plane, "configmaps", "kept") == {"a": "before"}
    assert data_of(plane, "secrets", "kept") == {"a": base64.b64encode(b"secret before").decode()}
    assert data_of(plane, "configmaps", "later") is None


def test_a_backup_is_for_root_alone_and_says_what_it_is(plane: Plane, archive: Path) -> None:
    described = json.loads(Path(f"{archive}.json").read_text(encoding="utf-8"))
    assert described["kubernetes_version"] == plane.record.kubernetes_version
    assert described["keys"] > 50
    assert [oct(path.stat().st_mode & 0o777) for path in (archive, Path(f"{archive}.json"))] == ["0o600"] * 2
    with tarfile.open(archive) as opened:
        assert {member.mode for member in opened.getmembers()} == {0o600}
        assert {"backup.json", "etcd.db", "encryption.json", "ca.key", "sa.key"} <= set(opened.getnames())
    assert sorted(path.name for path in archive.parent.iterdir()) == ["plane.tar", "plane.tar.json"]


def test_a_new_control_plane_has_what_was_backed_up(plane: Plane, archive: Path) -> None:
    asked = plane.ask(f"{NAMESPACE}/serviceaccounts/default/token", "POST", {"spec": {"expirationSeconds": 3600}})
    token = asked.body["status"]["token"]
    # Without encryption from here on: what the backup has encrypted must be read all the same.
    with place("generic", encryption="none") as other:
        done = module(
            "control_plane_restore", state_dir=other.state_dir, archive=str(archive), bin_dir=other.params["bin_dir"]
        )
        assert (done.get("changed"), done.get("moved_aside")) == (True, None), done
        again = module(
            "control_plane_restore", state_dir=other.state_dir, archive=str(archive), bin_dir=other.params["bin_dir"]
        )
        assert again.get("changed") is False, again
        other.run()
        assert other.run() == []
        assert_as_before(other)
        with other.client(token=token) as client:  # the key that signed it was restored
            assert client.ask("/apis/authentication.k8s.io/v1/selfsubjectreviews", "POST", {}).status == 201
        other.run(state="absent")
        assert not os.path.exists(other.state_dir), os.listdir(other.state_dir)


def test_a_restore_in_place_loses_nothing(plane: Plane, archive: Path) -> None:
    asked = {"state_dir": plane.state_dir, "archive": str(archive)}
    assert module("control_plane_restore", fails=True, **asked, replace=True)["id"] == "plane-restore-running"
    plane.run(state="stopped")
    silent = module("control_plane_backup", fails=True, state_dir=plane.state_dir, path=str(archive.with_name("x.tar")))
    assert silent["id"] == "plane-etcd-silent"
    assert not archive.with_name("x.tar").exists()
    assert module("control_plane_restore", fails=True, **asked)["id"] == "plane-restore-data"
    damaged = archive.with_name("damaged.tar")
    data = bytearray(archive.read_bytes())
    with tarfile.open(archive) as opened:
        data[opened.getmember("etcd.db").offset_data + 9000] ^= 1
    damaged.write_bytes(data)
    assert module("control_plane_restore", fails=True, **{**asked, "archive": str(damaged)}, replace=True)["id"] == (
        "plane-archive-unsound"
    )
    done = module("control_plane_restore", **asked, replace=True)
    assert os.path.exists(os.path.join(done["moved_aside"], "etcd", "member", "snap", "db"))
    plane.run()
    assert_as_before(plane)
    assert plane.run() == []
    assert os.path.exists(done["moved_aside"])


def test_what_it_tells_is_what_there_is(plane: Plane) -> None:
    found = plane.info()
    assert (found["state"], found["drift"]) == ("running", [])
    assert {each["version"].partition("+")[0] for each in found["components"] if each["name"] != "etcd"} == {
        plane.record.kubernetes_version
    }
    assert all(flag["why"] and flag["in_effect"] for each in found["components"] for flag in each["flags"])
    assert found["etcd"]["healthy"]
    assert found["etcd"]["member"] == "ballast"
    assert "garbage-collector-controller" in found["controllers"]
    core = next(each for each in found["served"] if each["group"] == "")
    assert "secrets" in core["resources"]
    assert "pods" not in core["resources"]


def test_what_somebody_changed_is_found_and_mended(plane: Plane) -> None:
    with open(os.path.join(plane.state_dir, "config/authentication.json"), "a", encoding="utf-8") as file:
        file.write("\n")
    Path(plane.pki("admin.key")).write_text("no key\n", encoding="utf-8")
    told = module("control_plane_info", state_dir=plane.state_dir, readiness=True)
    found = {(each["about"], each["subject"].rpartition("/")[2]) for each in told["drift"]}
    assert {("file", "authentication.json"), ("certificate", "admin.crt"), ("file", "admin.kubeconfig")} <= found
    assert told["readiness"]["present"] == [readiness.CERTIFICATE_ENDS, readiness.DIFFERS]
    assert_told(told["readiness"], readiness.CERTIFICATE_ENDS, readiness.DIFFERS, no=())
    plane.run()
    assert plane.info()["drift"] == []


def test_renewed_certificates_serve_the_same_data_and_tokens(plane: Plane) -> None:
    put(plane, "configmaps", "renewed", {"a": "b"})
    at = (plane.address, int(str(plane.params["secure_port"])))
    before, authority = ssl.get_server_certificate(at), Path(plane.pki("ca.crt")).read_bytes()
    old_client = Path(plane.kubeconfig).read_bytes()
    steps = plane.run(renew_certificates=True)
    assert not any(step.target.startswith(plane.pki("ca.crt")) for step in steps)
    assert ssl.get_server_certificate(at) != before
    assert Path(plane.pki("ca.crt")).read_bytes() == authority
    assert Path(plane.kubeconfig).read_bytes() != old_client
    assert data_of(plane, "configmaps", "renewed") == {"a": "b"}
    assert plane.run() == []


def test_an_older_version_and_a_jump_are_refused(plane: Plane) -> None:
    minor = int(VERSION.split(".")[1])
    for version, id in ((f"1.{minor - 1}.0", "plane-downgrade"), (f"1.{minor + 2}.0", "plane-version-jump")):
        with pytest.raises(BallastError) as caught:
            plane.run(kubernetes_version=version)
        assert caught.value.id == id


@pytest.mark.versions
def test_data_is_kept_from_version_to_version() -> None:
    first, *following = UPGRADE
    with place("generic", kubernetes_version=first, encryption="secretbox") as here:
        here.run()
        put(here, "secrets", "kept", {"a": "Yg=="})
        for version in following:
            here = here.changed(kubernetes_version=version, bin_dir=binaries(version))
            here.run()
            assert str(here.report()["kubernetes_version"]).partition("+")[0] == version
            assert data_of(here, "secrets", "kept") == {"a": "Yg=="}
        assert here.run() == []
