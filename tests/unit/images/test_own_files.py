# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images of files that the user has written or compiled."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._images import own_files
from tests.unit.images.debian_host import DebianHost, bring_about, desired, layer_of

NAME = "example.local/app:1"


def request(archive: Path, *files: tuple[str, Path]) -> Any:
    rows = [{"path": path, "local": str(local)} for path, local in files]
    definition = {
        "name": NAME,
        "packages": [],
        "whole": [],
        "files": rows,
        "directories": [],
        "links": [],
        "entrypoint": ["/app"],
        "cmd": [],
        "env": {},
        "user": "",
        "working_dir": "",
    }
    return desired(archive, images=[], definitions=[definition])


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "app"
    (root / "static/css").mkdir(parents=True)
    (root / "run").write_bytes(b"ELF")
    (root / "run").chmod(0o775)
    (root / "static/index.html").write_text("hello")
    (root / "static/css/a.css").write_text("x")
    (root / "static/latest").symlink_to("index.html")
    return root


def test_a_program_and_a_directory_are_taken_as_they_are(tree: Path, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    bring_about(request(archive, ("/app", tree / "run"), ("/srv/static", tree / "static")), DebianHost())
    layer = layer_of(archive, NAME)
    files = {name: (member.mode, member.uid) for name, member in layer.items() if member.isfile()}
    assert files == {
        "app": (0o755, 0),
        "srv/static/index.html": (0o644, 0),
        "srv/static/css/a.css": (0o644, 0),
    }
    assert layer["srv/static/latest"].linkname == "index.html"


def test_programs_alone_get_the_set_user_id_bit(tree: Path, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    made = request(archive, ("/app", tree))
    marked = [replace(file, setuid=True) for file in made.images[0].files]
    bring_about(replace(made, images=(replace(made.images[0], files=tuple(marked)),)), DebianHost())
    modes = {name: member.mode for name, member in layer_of(archive, NAME).items() if member.isfile()}
    assert modes == {"app/run": 0o4755, "app/static/index.html": 0o644, "app/static/css/a.css": 0o644}


def test_a_link_that_is_named_stands_for_its_target(tree: Path, tmp_path: Path) -> None:
    """As in a directory of programs of several versions. In an image a link would lead to a path of this machine."""
    (tmp_path / "current").symlink_to(tmp_path / "versions")
    (tmp_path / "versions").symlink_to(tree.name)
    (tmp_path / "program").symlink_to(tree / "run")
    direct, by_links = tmp_path / "direct.tar", tmp_path / "links.tar"
    bring_about(request(direct, ("/app", tree), ("/run", tree / "run")), DebianHost())
    bring_about(request(by_links, ("/app", tmp_path / "current"), ("/run", tmp_path / "program")), DebianHost())
    found, expected = (
        {name: member.type for name, member in layer_of(path, NAME).items()} for path in (by_links, direct)
    )
    assert found == expected


@pytest.mark.parametrize("name", ["gone", "circle"])
def test_a_link_that_leads_nowhere_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to("none")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(BallastError) as raised:
        bring_about(request(tmp_path / "x.tar", ("/app", tmp_path / name)), DebianHost())
    assert raised.value.id == "image-local"


def test_a_change_of_content_builds_it_again_and_a_date_does_not(tree: Path, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    asked = request(archive, ("/app", tree))
    assert len(bring_about(asked, DebianHost()).steps) == 1
    os.utime(tree / "run", (1, 1))
    assert bring_about(asked, DebianHost()).steps == ()
    changes = [
        lambda: (tree / "run").write_bytes(b"ELF 2"),
        lambda: (tree / "run").chmod(0o644),
        lambda: (tree / "static/css/a.css").rename(tree / "static/css/b.css"),
        lambda: (tree / "static/latest").unlink(),
    ]
    for change in changes:
        before = archive.read_bytes()
        change()
        assert len(bring_about(asked, DebianHost()).steps) == 1
        assert archive.read_bytes() != before
        assert bring_about(asked, DebianHost()).steps == ()


@pytest.mark.parametrize("what", ["missing", "fifo", "large", "many"])
def test_what_cannot_be_in_an_image_is_named_and_nothing_is_written(
    what: str, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {"missing": "image-local", "fifo": "image-local"}
    if what == "fifo":
        os.mkfifo(tree / "static/pipe")
    if what == "large":
        monkeypatch.setattr(own_files, "PROGRAM_LIMIT", 7)
    if what == "many":
        monkeypatch.setattr(own_files, "_ENTRIES_MOST", 3)
    archive = tmp_path / "a.tar"
    with pytest.raises(BallastError) as raised:
        bring_about(request(archive, ("/app", tree / "none" if what == "missing" else tree)), DebianHost())
    assert raised.value.id == ids.get(what, "image-local-large")
    assert not archive.exists()


def test_what_changes_while_it_is_built_is_not_taken(tree: Path, tmp_path: Path) -> None:
    class Busy(DebianHost):
        def work_directory(self, parent: str, name: str) -> Any:
            (tree / "run").write_bytes(b"half of it")
            return super().work_directory(parent, name)

    archive = tmp_path / "a.tar"
    with pytest.raises(BallastError) as raised:
        bring_about(request(archive, ("/app", tree)), Busy())
    assert raised.value.id == "image-local-changed"
    assert not archive.exists()


@pytest.mark.parametrize("local", ["bin/app", "/a/../b", "/a/"])
def test_a_local_path_is_absolute_and_plain(local: str, tmp_path: Path) -> None:
    with pytest.raises(BallastError) as raised:
        request(tmp_path / "a.tar", ("/app", local))  # type: ignore[arg-type]
    assert raised.value.id == "image-file"
