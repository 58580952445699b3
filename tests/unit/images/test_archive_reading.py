# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading archives that come from anywhere."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any, Union

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._images import archive
from ansible_collections.ballast.kube.plugins.module_utils._images.archive import complete_name, image_references
from ansible_collections.ballast.kube.plugins.module_utils._images.definitions import Image
from ansible_collections.ballast.kube.plugins.module_utils._images.layout import FilledImage, format_archive

CONFIG = b'{"architecture":"amd64","os":"linux"}'
LAYER = b"layer"


def tar_of(files: dict[str, Union[bytes, str]], *, mode: str = "w") -> bytes:
    """A value of str is a symbolic link."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:  # type: ignore[call-overload]
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            if isinstance(data, str):
                member.type, member.linkname = tarfile.SYMTYPE, data
                tar.addfile(member)
            else:
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def docker(entries: list[dict[str, Any]], **files: Union[bytes, str]) -> dict[str, Union[bytes, str]]:
    return {"config.json": CONFIG, "1/layer.tar": LAYER, **files, "manifest.json": json.dumps(entries).encode()}


ENTRY: dict[str, Any] = {"Config": "config.json", "RepoTags": ["busybox:1"], "Layers": ["1/layer.tar"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "archive.tar"


def references(path: Path, data: bytes) -> list[tuple[str, str]]:
    path.write_bytes(data)
    return [tuple(reference) for reference in image_references(str(path))]


def refused(path: Path, data: bytes) -> BallastError:
    with pytest.raises(BallastError) as raised:
        references(path, data)
    return raised.value


def test_an_oci_layout_gives_the_digest_of_its_manifest(path: Path) -> None:
    image = FilledImage(image=Image(name="example.local/a:1"), entries=(), packages=())
    ((name, digest),) = references(path, format_archive([image], architecture="amd64"))
    with tarfile.open(path) as tar:
        index = tar.extractfile("index.json")
        assert index is not None
        assert (name, digest) == ("example.local/a:1", json.load(index)["manifests"][0]["digest"])


def test_an_archive_of_docker_gives_the_digest_that_containerd_will_show(path: Path) -> None:
    # The form is what ctr 1.6.20 and 2.3.7 showed in `images ls` after `images import` of such archives.
    manifest = (
        '{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json",'
        '"config":{"mediaType":"application/vnd.docker.container.image.v1+json","digest":"sha256:%s","size":37},'
        '"layers":[{"mediaType":"application/vnd.docker.image.rootfs.diff.tar","digest":"sha256:%s","size":5}]}'
    )
    digest = archive.hashlib.sha256
    wanted = digest((manifest % (digest(CONFIG).hexdigest(), digest(LAYER).hexdigest())).encode()).hexdigest()
    assert references(path, tar_of(docker([ENTRY]))) == [("docker.io/library/busybox:1", f"sha256:{wanted}")]


def test_layers_may_be_links_to_layers(path: Path) -> None:
    plain = references(path, tar_of(docker([{**ENTRY, "Layers": ["1/layer.tar", "1/layer.tar"]}])))
    files = docker([{**ENTRY, "Layers": ["1/layer.tar", "2/layer.tar"]}], **{"2/layer.tar": "../1/layer.tar"})
    assert references(path, tar_of(files)) == plain


def test_a_compressed_archive_reads_as_the_plain_one(path: Path) -> None:
    data = tar_of(docker([ENTRY]))
    assert references(path, gzip.compress(data)) == references(path, data)


def test_every_tag_is_a_reference(path: Path) -> None:
    found = references(path, tar_of(docker([{**ENTRY, "RepoTags": ["b:1", "a.example/x"]}])))
    assert [name for name, _digest in found] == ["a.example/x:latest", "docker.io/library/b:1"]


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("a/b:1", "docker.io/a/b:1"),
        ("localhost/b:1", "localhost/b:1"),
        ("localhost:5000/b", "localhost:5000/b:latest"),
        ("index.docker.io/b:1", "docker.io/library/b:1"),
        ("quay.io/a/b:1", "quay.io/a/b:1"),
    ],
)
def test_names_are_completed_as_containerd_does(tag: str, name: str) -> None:
    assert complete_name(tag) == name


def test_an_absent_archive_is_said_to_be_absent(path: Path) -> None:
    with pytest.raises(BallastError) as raised:
        image_references(str(path))
    assert raised.value.id == "image-archive-missing"


def test_images_without_names_are_told_apart_from_damage(path: Path) -> None:
    assert refused(path, tar_of(docker([{**ENTRY, "RepoTags": None}]))).id == "image-archive-unnamed"


DAMAGED = {
    "nothing": b"",
    "text": b"hello world\n" * 100,
    "empty tar": tar_of({}),
    "another tar": tar_of({"etc/passwd": b"x"}),
    "no such layer": tar_of(docker([{**ENTRY, "Layers": ["2/layer.tar"]}])),
    "a dangling link": tar_of(docker([{**ENTRY, "Layers": ["2/layer.tar"]}], **{"2/layer.tar": "../3/layer.tar"})),
    "no such config": tar_of(docker([{**ENTRY, "Config": "../config"}])),
    "config of another type": tar_of(docker([{**ENTRY, "Config": 7}])),
    "not a list": tar_of({"manifest.json": b"{}"}),
    "not JSON": tar_of({"manifest.json": b"["}),
    "nested too deep": tar_of({"manifest.json": b"[" * 200_000}),
    "an option as name": tar_of(docker([{**ENTRY, "RepoTags": ["--help"]}])),
    "control characters": tar_of(docker([{**ENTRY, "RepoTags": ["a\x1b[2J:1"]}])),
    "a number as name": tar_of(docker([{**ENTRY, "RepoTags": [1]}])),
    "layout without index": tar_of({"oci-layout": b"{}"}),
    "index without blob": tar_of(
        {"oci-layout": b"{}", "index.json": json.dumps({"manifests": [{"digest": "sha256:00"}]}).encode()}
    ),
    "digest of another kind": tar_of(
        {"oci-layout": b"{}", "index.json": json.dumps({"manifests": [{"digest": "md5:00"}]}).encode()}
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damage_is_one_clear_error(path: Path, case: str) -> None:
    error = refused(path, DAMAGED[case])
    assert error.id == "image-archive-damaged"
    assert error.found


def test_a_name_that_is_there_twice_is_refused(path: Path) -> None:
    buffer = io.BytesIO(tar_of(docker([ENTRY])))
    with tarfile.open(fileobj=buffer, mode="a") as tar:
        tar.addfile(tarfile.TarInfo("./manifest.json"), io.BytesIO())
    assert "twice" in refused(path, buffer.getvalue()).found


def test_sizes_are_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_BYTES_MAX", 40)
    assert "40 bytes" in refused(path, tar_of(docker([ENTRY]))).found


def test_a_document_that_is_too_large_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_DOCUMENT_MAX", 40)
    assert "the limit is 40" in refused(path, tar_of(docker([ENTRY]))).found
