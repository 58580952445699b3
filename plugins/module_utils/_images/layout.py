# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Formats files as an image archive. Pure, and byte-stable: the same input gives the same bytes.

The archive is an OCI image layout (image-layout.md of opencontainers/image-spec) that also has docker's manifest.json, so that
`ctr images import`, `docker load` and `podman load` can read it. Each image has one uncompressed layer, as the bytes of a
compressed layer depend on the compressor's version.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

from .definitions import Image, parents

INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"

NAME_ANNOTATION = "io.containerd.image.name"
TAG_ANNOTATION = "org.opencontainers.image.ref.name"
DEFINITIONS_ANNOTATION = "ballast.kube/definitions"  # of the index: the definitions from which the archive was made
PACKAGES_LABEL = "ballast.kube/packages"  # of an image: "catatonit=0.1.7-1+b2"

# Offset of index.json in the tar (after oci-layout's header and block, and its own header), and its first bytes.
INDEX_AT = 3 * 512
INDEX_START = b'{"annotations":{"' + DEFINITIONS_ANNOTATION.encode() + b'":'

_EPOCH = "1970-01-01T00:00:00Z"


@dataclass(frozen=True)
class FileEntry:
    path: str
    data: bytes
    mode: int


@dataclass(frozen=True)
class LinkEntry:
    path: str
    to: str


@dataclass(frozen=True)
class DirectoryEntry:
    """Only for empty directories and modes other than 0755: parents of entries are added automatically."""

    path: str
    mode: int


Entry = Union[FileEntry, LinkEntry, DirectoryEntry]


@dataclass(frozen=True)
class FilledImage:
    """An image with its files from packages."""

    image: Image
    entries: tuple[Entry, ...]
    packages: tuple[str, ...]  # NAME=VERSION


def format_layer(entries: Iterable[Entry]) -> bytes:
    """A tar of the entries and their directories, sorted by path, owned by root, with one date."""
    members: dict[str, tuple[tarfile.TarInfo, bytes]] = {}
    for entry in entries:
        for directory in parents(entry.path):
            members.setdefault(directory, (_member(directory, kind=tarfile.DIRTYPE, mode=0o755), b""))
        if isinstance(entry, LinkEntry):
            link = _member(entry.path, kind=tarfile.SYMTYPE, mode=0o777)
            link.linkname = entry.to
            members[entry.path] = (link, b"")
        elif isinstance(entry, DirectoryEntry):
            members[entry.path] = (_member(entry.path, kind=tarfile.DIRTYPE, mode=entry.mode), b"")
        else:
            members[entry.path] = (_member(entry.path, kind=tarfile.REGTYPE, mode=entry.mode), entry.data)
    return _format_tar(members[path] for path in sorted(members))


def format_archive(images: Sequence[FilledImage], *, architecture: str) -> bytes:
    """`architecture` is Go's name, such as amd64."""
    blobs: dict[str, bytes] = {}
    manifests = []
    docker = []
    for filled in images:
        layer = _blob(blobs, format_layer(filled.entries), LAYER_TYPE)
        config = _blob(blobs, _json(_config(filled, layer, architecture=architecture)), CONFIG_TYPE)
        manifest = _blob(
            blobs,
            _json({"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": [layer]}),
            MANIFEST_TYPE,
        )
        name = filled.image.name
        annotations = {NAME_ANNOTATION: name, TAG_ANNOTATION: name.rpartition(":")[2]}
        platform = {"architecture": architecture, "os": "linux"}
        manifests.append({**manifest, "annotations": annotations, "platform": platform})
        docker.append({"Config": _path(config), "RepoTags": [name], "Layers": [_path(layer)]})
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX_TYPE,
        "manifests": manifests,
        "annotations": {
            DEFINITIONS_ANNOTATION: _json([filled.image.as_value() for filled in images]).decode(),
        },
    }
    files = {
        "index.json": _json(index),
        "manifest.json": _json(docker),
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        **{f"blobs/sha256/{digest}": data for digest, data in blobs.items()},
    }
    # containerd reads the tar from the beginning, so the layout comes first, as in skopeo's archives.
    first = ("oci-layout", "index.json", "manifest.json")
    order = [*first, *sorted(name for name in files if name not in first)]
    return _format_tar((_member(f"/{name}", kind=tarfile.REGTYPE, mode=0o644), files[name]) for name in order)


def _config(filled: FilledImage, layer: Mapping[str, object], *, architecture: str) -> dict[str, object]:
    image = filled.image
    run: dict[str, object] = {
        "Entrypoint": list(image.entrypoint),
        "Cmd": list(image.cmd),
        "Env": [f"{name}={value}" for name, value in image.env],
        "StopSignal": image.stop_signal,
        "User": image.user,
        "WorkingDir": image.working_dir,
        "Labels": {PACKAGES_LABEL: " ".join(filled.packages)},
    }
    return {
        "architecture": architecture,
        "os": "linux",
        "created": _EPOCH,
        "config": {key: value for key, value in run.items() if value},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
        "history": [{"created": _EPOCH, "created_by": "ballast.kube.image_archive"}],
    }


def _blob(blobs: dict[str, bytes], data: bytes, media_type: str) -> dict[str, object]:
    """Store `data` and return its descriptor."""
    digest = hashlib.sha256(data).hexdigest()
    blobs[digest] = data
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}


def _path(descriptor: Mapping[str, object]) -> str:
    return f"blobs/sha256/{str(descriptor['digest']).partition(':')[2]}"


def _member(path: str, *, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path.lstrip("/"))
    member.type = kind
    member.mode = mode
    return member  # uid, gid and mtime are 0


def _format_tar(members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8") as tar:
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
