"""scripts/execution_environment.py, and what ansible-builder reads of the collection: one source for each list."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._images.definitions import ImageArchiveRequest
from scripts import execution_environment
from scripts.audit import normal, parse_constraints
from scripts.env import EE_PYTHON, NEWEST, OLDEST, REQUIREMENTS, ROOT
from scripts.execution_environment import PACKAGES, debian_packages, definition, sort_files


def names(path: Path) -> set[str]:
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return {normal(re.split(r"[=<>\[ ;]", line)[0]) for line in lines if line and not line.startswith("-r")}


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_ansible_builder_is_led_to_files_that_are_shipped():
    named = read("meta/execution-environment.yml")["dependencies"]
    assert set(named) == {"python", "system"}
    assert all((ROOT / path).is_file() and path.startswith("meta/") for path in named.values())
    assert "meta" not in read("galaxy.yml")["build_ignore"]


def test_python_packages_are_those_of_a_lab_but_for_ansible_itself():
    """ansible-core is of the base image, and brings what it needs."""
    required = (importlib.metadata.requires("ansible-core") or []) + ["ansible-core"]
    brought = {normal(re.split(r"[=<>!~\[ ;]", one)[0]) for one in required}
    assert names(ROOT / "meta/ee-requirements.txt") == names(REQUIREMENTS / "run.txt") - brought


def test_packages_of_debian_and_of_red_hat_are_as_many():
    text = (ROOT / "meta/ee-bindep.txt").read_text(encoding="utf-8")
    assert len(debian_packages()) == len(re.findall(r"^\S+ \[platform:rpm\]$", text, re.M)) > 0
    assert set(debian_packages()) & set(PACKAGES) == set()


def test_the_image_has_a_python_that_ansible_runs_on():
    assert OLDEST <= tuple(map(int, EE_PYTHON.split("."))) <= NEWEST
    asked = parse_constraints((REQUIREMENTS / "ee.txt").read_text(encoding="utf-8"), where="")
    assert [pin.name for pin in asked] == ["ansible-runner"]


@pytest.fixture
def described(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "python/bin").mkdir(parents=True)
    (tmp_path / "python/bin/ansible").touch()
    (tmp_path / "python/yaml").mkdir()
    return definition("example.local/ee:1", python=tmp_path / "python", collections=tmp_path)


def test_the_definition_is_one_of_image_archive(described):
    files = [{"mode": None, **file} for file in described["files"]]
    request = {"path": "/x.tar", "images": [], "names": {}, "state": "present", "suite": "trixie"}
    (image,) = ImageArchiveRequest.from_params(
        {**request, "definitions": [{**described, "files": files, "packages": []}]}
    ).images
    assert image.user == "1000"
    assert {"openssh-client", "python3"} <= set(image.whole)


def test_no_user_of_the_image_can_become_root(described):
    """/etc/passwd that its group may write makes any user root: names of users are appended to another file, of which
    libnss-extrausers takes no user below 500."""
    shared = {file["path"] for file in described["files"] if int(file.get("mode", "0644"), 8) & 0o022}
    assert shared == {"/var/lib/extrausers/passwd"}
    assert [file for file in described["files"] if file.get("setuid")] == []


def test_files_are_listed_in_one_order(tmp_path):
    files = [{"name": "b"}, {"name": "a/x"}, {"name": "."}]
    (tmp_path / "FILES.json").write_text(json.dumps({"files": files, "format": 1}), encoding="utf-8")
    manifest = {"file_manifest_file": {"name": "FILES.json", "chksum_sha256": "0"}}
    (tmp_path / "MANIFEST.json").write_text(json.dumps(manifest), encoding="utf-8")
    sort_files(tmp_path)
    listed = (tmp_path / "FILES.json").read_bytes()
    assert [file["name"] for file in json.loads(listed)["files"]] == [".", "a/x", "b"]
    named = json.loads((tmp_path / "MANIFEST.json").read_text(encoding="utf-8"))["file_manifest_file"]
    assert named["chksum_sha256"] == hashlib.sha256(listed).hexdigest()


def test_packages_are_fetched_by_digest_once(monkeypatch, tmp_path):
    asked: list[list[str]] = []

    class Done:
        returncode = 0

    def run(argv, **_other):
        asked.append(argv)
        Path(next(word for word in argv if word.startswith("--target=")).partition("=")[2]).mkdir()
        return Done()

    monkeypatch.setattr(execution_environment.subprocess, "run", run)
    made = execution_environment.lay_out_python(tmp_path)
    assert {"--require-hashes", "--only-binary=:all:", "--no-deps"} <= set(asked[0])
    assert execution_environment.lay_out_python(tmp_path) == made
    assert len(asked) == 1
    assert [path.name for path in tmp_path.iterdir()] == [made.name]
