# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Building archives: from a machine whose packages are a table, on a real file system."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.directories import WORK_MARK
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._images import engine as engine_module
from ansible_collections.ballast.kube.plugins.module_utils._images.archive import (
    ArchiveFacts,
    image_references,
    inspect,
)
from ansible_collections.ballast.kube.plugins.module_utils._images.definitions import ImageArchiveRequest
from ansible_collections.ballast.kube.plugins.module_utils._images.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._images.layout import DEFINITIONS_ANNOTATION
from tests.unit.images.debian_host import DEFINITION, DebianHost, bring_about, desired, layer_of


def test_two_builds_give_the_same_bytes(archive: Path, tmp_path: Path) -> None:
    bring_about(desired(archive), DebianHost())
    other = tmp_path / "other.tar"
    bring_about(desired(other), DebianHost(umask=0o027))
    # Modes differ as the packages' do: the second build's differ by what others may do.
    first = image_references(str(archive))
    assert [reference.name for reference in first] == ["ballast.local/busybox:1", "ballast.local/pause:1"]
    third = tmp_path / "third.tar"
    bring_about(desired(third), DebianHost())
    assert third.read_bytes() == archive.read_bytes()
    assert image_references(str(other)) != first


def test_only_the_archive_is_left(archive: Path) -> None:
    bring_about(desired(archive), DebianHost())
    assert os.listdir(archive.parent) == [archive.name]


def test_an_archive_that_is_there_costs_no_command(archive: Path) -> None:
    bring_about(desired(archive), DebianHost())
    host = DebianHost()
    assert bring_about(desired(archive), host).steps == ()
    assert host.commands == []


def test_an_archive_that_is_there_is_hashed_once_in_a_run(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bring_about(desired(archive), DebianHost())
    hashed: list[int] = []

    def counted(file: Any, *, size: int) -> ArchiveFacts:
        hashed.append(size)
        return inspect(file, size=size)

    monkeypatch.setattr(engine_module, "inspect", counted)
    ctx = Context(desired(archive), DebianHost())
    assert ENGINE.apply(ENGINE.plan(ctx.desired, ENGINE.observe(ctx)), ctx).steps == ()
    report: Any = ENGINE.report(ctx)
    assert hashed == [archive.stat().st_size]
    assert {image["name"]: image["digest"] for image in report["images"]} == dict(image_references(str(archive)))
    assert ENGINE.is_verified_by_plan
    os.utime(archive)
    assert ENGINE.report(ctx) == report
    assert len(hashed) == 2


def test_the_layer_is_sorted_and_belongs_to_root(archive: Path) -> None:
    bring_about(desired(archive), DebianHost())
    members = layer_of(archive, "ballast.local/busybox:1")
    assert list(members) == sorted(members)
    assert {(member.uid, member.gid, member.mtime) for member in members.values()} == {(0, 0, 0)}
    assert members["bin"].isdir()
    assert (members["tmp"].isdir(), members["tmp"].mode) == (True, 0o1777)  # where programs write
    assert members["bin/busybox"].mode == 0o755
    assert members["bin/sh"].linkname == "busybox"
    assert members["etc/passwd"].mode == 0o644


@pytest.mark.parametrize("position", [0.001, 0.3, 0.6])
def test_a_corrupted_archive_is_built_again(archive: Path, position: float) -> None:
    bring_about(desired(archive), DebianHost())
    good = archive.read_bytes()
    at = int(len(good) * position)
    while good[at : at + 1] == b"\0":
        at += 1
    archive.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
    plan = bring_about(desired(archive), DebianHost())
    assert [step.verb for step in plan.steps] == ["change"]
    assert archive.read_bytes() == good


@pytest.mark.parametrize("length", [3000, 15000])
def test_a_truncated_archive_is_built_again(archive: Path, length: int) -> None:
    bring_about(desired(archive), DebianHost())
    good = archive.read_bytes()
    archive.write_bytes(good[:length])
    assert len(bring_about(desired(archive), DebianHost()).steps) == 1
    assert archive.read_bytes() == good


def refused(wanted: ImageArchiveRequest, path: Path) -> str:
    before = path.lstat(), path.read_bytes() if path.is_file() else b""
    with pytest.raises(BallastError) as caught:
        bring_about(wanted, DebianHost())
    assert caught.value.id == "image-archive-others"
    assert (path.lstat().st_ino, path.read_bytes() if path.is_file() else b"") == (before[0].st_ino, before[1])
    return caught.value.found


@pytest.mark.parametrize("state", ["present", "absent"])
def test_what_others_have_at_the_path_is_neither_replaced_nor_removed(archive: Path, state: str) -> None:
    wanted = desired(archive, state=state)
    archive.parent.mkdir(parents=True)
    for data in (b"", b"a thesis", b"\0" * 5000, DEFINITIONS_ANNOTATION.encode() * 500):
        archive.write_bytes(data)
        assert f"a file of {len(data)} bytes" in refused(wanted, archive)
    with tarfile.open(archive, "w") as made:  # as another tool writes it
        for name in ("oci-layout", "index.json"):
            text = b'{"schemaVersion":2,"annotations":{"ballast.kube/definitions":"[]"}}'
            member = tarfile.TarInfo(name)
            member.size = len(text)
            made.addfile(member, io.BytesIO(text))
    refused(wanted, archive)
    archive.unlink()
    bring_about(desired(archive), DebianHost())
    ours = archive.rename(archive.with_name("elsewhere.tar"))
    archive.symlink_to(ours)
    assert refused(wanted, archive) == "a symlink"
    archive.unlink()
    os.mkfifo(archive)  # which nobody writes: it is not opened
    assert refused(wanted, archive) == "not a regular file"
    archive.unlink()
    shutil.copy(ours, archive)
    archive.chmod(0o666)
    assert "others may have changed it" in refused(wanted, archive)


def test_another_definition_changes_the_archive(archive: Path) -> None:
    bring_about(desired(archive), DebianHost())
    wanted = desired(archive, images=["pause"])
    assert [step.verb for step in bring_about(wanted, DebianHost()).steps] == ["change"]
    assert [reference.name for reference in image_references(str(archive))] == ["ballast.local/pause:1"]


def test_absent_removes_it_once(archive: Path) -> None:
    bring_about(desired(archive), DebianHost())
    gone = desired(archive, state="absent")
    assert [step.verb for step in bring_about(gone, DebianHost()).steps] == ["remove"]
    assert bring_about(gone, DebianHost()).steps == ()
    assert not archive.exists()


def test_the_report_tells_names_digests_and_packages(archive: Path) -> None:
    bring_about(desired(archive), DebianHost())
    report: Any = ENGINE.report(Context(desired(archive), DebianHost()))
    assert report["size"] == archive.stat().st_size
    assert [image["packages"] for image in report["images"]] == [("busybox-static=1:1.35.0-4",), ("catatonit=0.1.7-1",)]
    digests = {image["name"]: image["digest"] for image in report["images"]}
    assert digests == dict(image_references(str(archive)))


def test_check_mode_tells_the_digests_of_an_archive_that_stays(archive: Path) -> None:
    before: Any = ENGINE.preview(Context(desired(archive), DebianHost()))
    assert [(image["name"], image["digest"]) for image in before["images"]] == [
        ("ballast.local/busybox:1", ""),
        ("ballast.local/pause:1", ""),
    ]
    assert not archive.parent.exists()
    bring_about(desired(archive), DebianHost())
    assert ENGINE.preview(Context(desired(archive), DebianHost())) == ENGINE.report(
        Context(desired(archive), DebianHost())
    )


def test_what_a_killed_run_left_is_cleared(archive: Path) -> None:
    left = archive.parent / f".ballast-{archive.name}.0123456789abcdef" / "catatonit/catatonit_0.0_amd64.deb"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    (left.parent.parent / WORK_MARK).touch()
    bring_about(desired(archive), DebianHost())
    assert not left.exists()


def test_files_and_directories_have_the_modes_that_were_asked_for(archive: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_text("a")
    (tree / "b").symlink_to("a")
    files = [
        {"path": "/start", "content": "#!/bin/sh\n", "mode": "0755"},
        {"path": "/tool", "source": "/usr/bin/tool", "mode": "0700"},
        {"path": "/srv/tree", "local": str(tree), "mode": "0600"},
        {"path": "/home/me/.profile", "content": ""},
    ]
    directories = [{"path": "/home/me", "mode": "0770"}, {"path": "/tmp", "mode": "1777"}]
    definition = {**DEFINITION, "files": files, "directories": directories}
    bring_about(desired(archive, images=[], definitions=[definition]), DebianHost())
    layer = layer_of(archive, DEFINITION["name"])
    assert {name: member.mode for name, member in layer.items() if not member.issym()} == {
        "home": 0o755,
        "home/me": 0o770,
        "home/me/.profile": 0o644,
        "srv": 0o755,
        "srv/tree": 0o755,
        "srv/tree/a": 0o600,
        "start": 0o755,
        "tmp": 0o1777,
        "tool": 0o700,
    }
    assert {name for name, member in layer.items() if member.isdir()} == {"home", "home/me", "srv", "srv/tree", "tmp"}
    assert bring_about(desired(archive, images=[], definitions=[definition]), DebianHost()).steps == ()


def test_a_command_has_its_user_and_its_directory(archive: Path) -> None:
    definition = {**DEFINITION, "user": "1000:0", "working_dir": "/srv"}
    bring_about(desired(archive, images=[], definitions=[definition]), DebianHost())
    with tarfile.open(archive) as tar:
        docker = tar.extractfile("manifest.json")
        assert docker is not None
        config = tar.extractfile(json.load(docker)[0]["Config"])
        assert config is not None
        run = json.load(config)["config"]
    assert (run["User"], run["WorkingDir"]) == ("1000:0", "/srv")
    assert bring_about(desired(archive, images=[], definitions=[definition]), DebianHost()).steps == ()
    changed = {**definition, "user": ""}
    assert [
        step.verb for step in bring_about(desired(archive, images=[], definitions=[changed]), DebianHost()).steps
    ] == ["change"]
