# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads image archives: OCI layouts and archives of `docker save`, compressed or not.

An archive is untrusted, so it is read once, front to back, without unpacking, and sizes are bounded.

    image_references(path)  the images in it, named as containerd names them after an import
    inspect(file)           also the definitions that our own archives contain; verifies every digest
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

from .._archives.tarred import FILE, LINK, SYMLINK, Damaged, Source, decompress
from .._archives.tarred import Member as TarMember
from .._archives.tarred import read_members as tar_members
from .._core.host.bounded import open_file
from .._core.host.local_files import host_error
from .._core.text.json_text import parse_json
from .definitions import NAME
from .layout import DEFINITIONS_ANNOTATION, NAME_ANNOTATION, PACKAGES_LABEL, TAG_ANNOTATION
from .messages import MESSAGES

_BYTES_MAX = 64 * 2**30  # unpacked; a compressed archive could otherwise be endless
_MEMBERS_MAX = 20_000  # docker's older form has four members per layer, and an image at most 127 layers
_DOCUMENT_MAX = 4 * 2**20  # containerd's own limit for a manifest is 8 MiB; real ones have less than 100 KiB
_DOCUMENTS_MAX = 64 * 2**20  # all documents that are kept

_DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
_DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar"


class ImageReference(NamedTuple):
    name: str  # in full: docker.io/library/busybox:1
    digest: str  # as `ctr images ls` shows it after the import


@dataclass(frozen=True)
class ImageFacts:
    name: str
    digest: str  # of the manifest
    config_digest: str  # the image's id in the runtime's CRI
    packages: tuple[str, ...] = ()  # NAME=VERSION; only in our own archives


@dataclass(frozen=True)
class ArchiveFacts:
    """`size` is that of the file, in bytes."""

    size: int
    images: tuple[ImageFacts, ...]
    definitions: Any  # JSON, as given to the module; None when the archive is not ours


class DamagedArchive(ValueError):
    """The text is the problem, in a few words."""


def image_references(path: str) -> list[ImageReference]:
    """The images in an archive, sorted by name. Raises UserError when it is absent, damaged, or names no image."""
    try:
        with open_file(path) as file:
            references = sorted(_references(_scan(file)))
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            raise host_error("read", path, error) from error
        raise MESSAGES.error("image-archive-missing", path=path) from error
    except DamagedArchive as error:
        raise MESSAGES.error("image-archive-damaged", path=path, found=str(error)) from error
    if not references:
        raise MESSAGES.error("image-archive-unnamed", path=path)
    return references


def inspect(file: Source, *, size: int) -> ArchiveFacts:
    """The facts of an OCI layout. Raises DamagedArchive unless every blob matches the digest in its name."""
    contents = _scan(file)
    for name, member in contents.items():
        if name.startswith("blobs/sha256/") and member.digest != name.rpartition("/")[2]:
            raise DamagedArchive(f"{name} has the digest {member.digest}")
    index = _mapping(_document(contents, "index.json"))
    images = tuple(_facts(contents, reference) for reference in _oci_references(contents))
    docker = {reference.name for reference in _docker_references(contents)}
    if docker != {image.name for image in images}:
        raise DamagedArchive("index.json and manifest.json name different images")
    text = _mapping(index.get("annotations") or {}).get(DEFINITIONS_ANNOTATION)
    try:
        definitions = None if text is None else parse_json(text)
    except (TypeError, ValueError) as error:
        raise DamagedArchive(f"annotation {DEFINITIONS_ANNOTATION} is not JSON") from error
    return ArchiveFacts(size=size, images=images, definitions=definitions)


@dataclass(frozen=True)
class _Member:
    size: int
    digest: str  # sha256, hexadecimal
    data: Optional[bytes]  # None when it is too large for a JSON document
    compressed: bool


def _scan(file: Source) -> dict[str, _Member]:
    """Every regular file in the tar, by name; links resolve to their file."""
    members: dict[str, _Member] = {}
    links: dict[str, str] = {}
    kept = 0
    try:
        for member in tar_members(decompress(file), entries=_MEMBERS_MAX, size=_BYTES_MAX):
            name = _clean(member.name)
            if member.kind in (SYMLINK, LINK):
                links[name] = _link_target(name, member)
            if member.kind != FILE:
                continue
            if name in members:
                raise DamagedArchive(f"it contains {name} twice")
            members[name] = _read(member, keep=member.size <= _DOCUMENT_MAX and kept + member.size <= _DOCUMENTS_MAX)
            kept += len(members[name].data or b"")
    except Damaged as error:
        raise DamagedArchive(f"it is not a readable tar file: {error}") from error
    except OSError as error:
        raise DamagedArchive(f"it cannot be read: {error.strerror or error}") from error
    # A tar that was cut between two entries lacks the end marker. That is no error here: a document then names a file
    # that is missing.
    for name, target in links.items():
        if target in members:
            members.setdefault(name, members[target])
    return members


def _read(member: TarMember, *, keep: bool) -> _Member:
    digest, parts, head = hashlib.sha256(), [], b""
    for piece in member.pieces():
        head = (head + piece[:4])[:4]
        digest.update(piece)
        if keep:
            parts.append(piece)
    compressed = head[:2] == b"\x1f\x8b" or head == b"\x28\xb5\x2f\xfd"  # gzip, zstd
    return _Member(
        size=member.size, digest=digest.hexdigest(), data=b"".join(parts) if keep else None, compressed=compressed
    )


def _clean(name: str) -> str:
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def _link_target(name: str, member: TarMember) -> str:
    """Where a link inside the tar leads: symbolic links are relative to their directory, hard links to the top."""
    parts = [] if member.kind == LINK else name.split("/")[:-1]
    for part in member.target.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    return "/".join(parts)


def _references(contents: Mapping[str, _Member]) -> list[ImageReference]:
    # containerd: "If OCI layout was given, interpret the tar as an OCI layout" (core/images/archive/importer.go).
    if "oci-layout" in contents:
        return list(_oci_references(contents))
    if "manifest.json" in contents:
        return list(_docker_references(contents))
    raise DamagedArchive("it has neither oci-layout nor manifest.json")


def _oci_references(contents: Mapping[str, _Member]) -> Iterator[ImageReference]:
    for descriptor in _list(_mapping(_document(contents, "index.json")).get("manifests")):
        entry = _mapping(descriptor)
        annotations = _mapping(entry.get("annotations") or {})
        name = annotations.get(NAME_ANNOTATION) or annotations.get(TAG_ANNOTATION)
        _blob(contents, entry)
        # A bare tag is no name: containerd would invent a name from the current date.
        if isinstance(name, str) and set(name) & set("/:@"):
            yield ImageReference(name=_name(name), digest=str(entry["digest"]))


def _docker_references(contents: Mapping[str, _Member]) -> Iterator[ImageReference]:
    for entry in _list(_document(contents, "manifest.json")):
        image = _mapping(entry)
        config = _file(contents, image.get("Config"))
        layers = [_file(contents, layer) for layer in _list(image.get("Layers"))]
        digest = _converted_digest(config, layers)
        for tag in _list(image.get("RepoTags") or []):
            if not isinstance(tag, str):
                raise DamagedArchive(f"{tag!r} is not an image name")
            yield ImageReference(name=_name(complete_name(tag)), digest=digest)


def _converted_digest(config: _Member, layers: list[_Member]) -> str:
    """The digest of the manifest that containerd writes for a docker image (importer.go; keys in Go's order)."""

    def descriptor(media_type: str, member: _Member) -> dict[str, object]:
        return {"mediaType": media_type, "digest": f"sha256:{member.digest}", "size": member.size}

    manifest = {
        "schemaVersion": 2,
        "mediaType": _DOCKER_MANIFEST,
        "config": descriptor(_DOCKER_CONFIG, config),
        "layers": [descriptor(_DOCKER_LAYER + (".gzip" if layer.compressed else ""), layer) for layer in layers],
    }
    return "sha256:" + hashlib.sha256(json.dumps(manifest, separators=(",", ":")).encode()).hexdigest()


def complete_name(tag: str) -> str:
    """The full name: `busybox` is docker.io/library/busybox:latest (distribution/reference, ParseDockerRef)."""
    domain, slash, rest = tag.partition("/")
    if not slash or not (set(domain) & set(".:") or domain == "localhost"):
        domain, rest = "docker.io", tag
    if domain in ("docker.io", "index.docker.io"):
        domain, rest = "docker.io", rest if "/" in rest else f"library/{rest}"
    return f"{domain}/{rest}" + ("" if set(rest) & set(":@") else ":latest")


def _facts(contents: Mapping[str, _Member], reference: ImageReference) -> ImageFacts:
    manifest = _mapping(_document(contents, f"blobs/sha256/{reference.digest.partition(':')[2]}"))
    described = _mapping(manifest.get("config"))
    _blob(contents, described)
    for layer in _list(manifest.get("layers")):
        _blob(contents, _mapping(layer))
    config_digest = str(described["digest"])
    config = _mapping(_document(contents, f"blobs/sha256/{config_digest.partition(':')[2]}"))
    labels = _mapping(_mapping(config.get("config") or {}).get("Labels") or {})
    packages = tuple(str(labels.get(PACKAGES_LABEL, "")).split())
    return ImageFacts(name=reference.name, digest=reference.digest, config_digest=config_digest, packages=packages)


def _document(contents: Mapping[str, _Member], name: str) -> object:
    member = _file(contents, name)
    if member.data is None:
        raise DamagedArchive(f"{name} has {member.size} bytes; the limit is {_DOCUMENT_MAX}")
    try:
        return parse_json(member.data)
    except ValueError as error:
        raise DamagedArchive(f"{name} is not JSON") from error


def _blob(contents: Mapping[str, _Member], descriptor: Mapping[str, Any]) -> _Member:
    digest = descriptor.get("digest")
    if not isinstance(digest, str) or not digest.startswith("sha256:"):
        raise DamagedArchive(f"{digest!r} is not a sha256 digest")
    return _file(contents, f"blobs/sha256/{digest.partition(':')[2]}")


def _file(contents: Mapping[str, _Member], name: object) -> _Member:
    if not isinstance(name, str) or _clean(name) not in contents:
        raise DamagedArchive(f"it lacks {name}")
    return contents[_clean(name)]


def _name(name: str) -> str:
    """Refuse anything but an image name, before it gets into a command line or a table."""
    plain, _at, _digest = name.partition("@")
    if len(name) > 300 or not (NAME.fullmatch(plain) or NAME.fullmatch(f"{plain}:tag")):
        raise DamagedArchive(f"{name[:80]!r} is not an image name")
    return name


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DamagedArchive("a JSON document in it has an unexpected form")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise DamagedArchive("a JSON document in it has an unexpected form")
    return value
