# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of a megabyte that would take gigabytes, given to each feature that reads archives."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.memory import MIB, measured

MODULE_UTILS = "ansible_collections.ballast.kube.plugins.module_utils"
LOCAL = f"from {MODULE_UTILS}._core.host.local_host import LocalHost\n"
READERS = {
    "backup": (
        f"{LOCAL}from {MODULE_UTILS}._control_plane.operations.archive import read_manifest",
        "read_manifest(LocalHost(), sys.argv[1])",
        "plane-archive-unsound",
    ),
    "image": (
        f"from {MODULE_UTILS}._images.archive import image_references",
        "image_references(sys.argv[1])",
        "image-archive-damaged",
    ),
    "image of ours": (
        f"{LOCAL}from {MODULE_UTILS}._images.engine import read_facts",
        "read_facts(LocalHost(), sys.argv[1])",
        "DamagedArchive",
    ),
    "release": (
        f"from {MODULE_UTILS}._binaries.release import archive_member",
        "archive_member(open(sys.argv[1], 'rb').read(), 'backup.json')",
        "Damaged",
    ),
}


def zeros(head: bytes) -> bytes:
    """A member of a gibibyte, compressed."""
    return gzip.compress(head + bytes(16 * MIB)) + gzip.compress(bytes(16 * MIB)) * 63


def member(name: str, *, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


BOMBS: dict[str, Callable[[], bytes]] = {
    "manifest": lambda: zeros(member("backup.json", size=2**30 - 512)),
    "other": lambda: zeros(member("x", size=2**30 - 512)),
    "header of pax": lambda: zeros(member("x", size=2**30 - 512, kind=tarfile.XHDTYPE)),
    "long name": lambda: zeros(member("x", size=2**30 - 512, kind=tarfile.GNUTYPE_LONGNAME)),
    "headers in headers": lambda: gzip.compress(member("x", size=0, kind=tarfile.XHDTYPE) * 30_000),
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("reader", READERS)
def test_a_bomb_is_an_error_that_takes_no_memory(tmp_path: Path, reader: str, bomb: str) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(BOMBS[bomb]())
    assert path.stat().st_size < 2 * MIB
    prepare, act, expected = READERS[reader]
    said, size = measured(prepare, act, str(path))
    assert (said, size < 50 * MIB) == (expected, True), size


@pytest.mark.parametrize("name", ["backup.json", "etcd.db", "x"])
def test_a_backup_that_is_a_hole_of_gigabytes_takes_no_memory_and_no_disk(tmp_path: Path, name: str) -> None:
    """It is not compressed, and takes a few KiB on the disk: a size in a header costs nothing."""
    files = {one: hashlib.sha256(b"").hexdigest() for one in ("etcd.db", "ca.crt", "ca.key", "sa.key", "sa.pub")}
    fields = dict.fromkeys(("name", "profile", "shape", "service_network", "taken_at"), "x")
    fields |= dict.fromkeys(("kubernetes_version", "etcd_version"), "1.2.3")
    manifest = {"format": 1, **fields, "revision": 1, "keys": 1, "hash": 1, "size_bytes": 5, "files": files}
    text = json.dumps(manifest).encode()
    with open(tmp_path / "backup", "wb") as file:
        if name != "backup.json":
            file.write(member("backup.json", size=len(text)) + text + bytes(-len(text) % 512))
        file.write(member(name, size=2**33 - 512))
        file.truncate(2**33)
    prepare = f"{LOCAL}from {MODULE_UTILS}._control_plane.operations.archive import read_manifest, unpack"
    act = "unpack(LocalHost(), sys.argv[1], read_manifest(LocalHost(), sys.argv[1]), sys.argv[2])"
    (tmp_path / "to").mkdir()
    said, size = measured(prepare, act, str(tmp_path / "backup"), str(tmp_path / "to"))
    assert (said, size < 50 * MIB) == ("plane-archive-unsound", True), size
    assert os.listdir(tmp_path / "to") == []


def test_a_backup_of_any_size_is_unpacked_in_pieces(tmp_path: Path) -> None:
    data = {"etcd.db": bytes(200 * MIB), "ca.crt": b"1", "ca.key": b"2", "sa.key": b"3", "sa.pub": b"4"}
    fields = dict.fromkeys(("name", "profile", "shape", "service_network", "taken_at"), "x")
    fields |= dict.fromkeys(("kubernetes_version", "etcd_version"), "1.2.3")
    sums = {name: hashlib.sha256(one).hexdigest() for name, one in data.items()}
    sizes = {"revision": 1, "keys": 1, "hash": 1, "size_bytes": 200 * MIB}
    manifest = json.dumps({"format": 1, **fields, **sizes, "files": sums}).encode()
    with tarfile.open(tmp_path / "backup", "w") as tar:
        for name, one in {"backup.json": manifest, **data}.items():
            info = tarfile.TarInfo(name)
            info.size = len(one)
            tar.addfile(info, io.BytesIO(one))
    prepare = f"{LOCAL}from {MODULE_UTILS}._control_plane.operations.archive import pack, read_manifest, unpack"
    act = (
        "host = LocalHost(); top = sys.argv[1]; unpack(host, top + '/backup', read_manifest(host, top + '/backup'), "
        "top + '/to'); pack(host, top + '/to', top + '/again')"
    )
    (tmp_path / "to").mkdir()
    said, size = measured(prepare, act, str(tmp_path))
    assert (said, size < 50 * MIB) == ("done", True), size
    assert sorted(os.listdir(tmp_path / "to")) == sorted(data)
    with tarfile.open(tmp_path / "again") as tar:
        assert [one.name for one in tar] == sorted(data)
