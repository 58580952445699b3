# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading image archives: OCI layouts and what `docker save` writes, compressed or not.

An archive comes from anywhere, so it is read once, front to back, nothing of it is unpacked, and sizes are bounded.

    image_references(path)  the images in it, as containerd names them after an import
    inspect(path)           the same with what our own archives say of themselves; checks every digest
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, Optional

from .definitions import NAME
from .layout import DEFINITIONS_ANNOTATION, NAME_ANNOTATION, PACKAGES_LABEL, TAG_ANNOTATION
from .messages import MESSAGES

_BYTES_MAX = 64 * 2**30  # unpacked; a compressed archive could else go on for ever
_MEMBERS_MAX = 20_000  # docker's older form has four for each layer, and an image at most 127 layers
_DOCUMENT_MAX = 4 * 2**20  # containerd's own limit for a manifest is 8 MiB; real ones are below 100 KiB
_DOCUMENTS_MAX = 64 * 2**20  # all documents that are kept
_CHUNK = 2**20

_DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
_DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar"


class ImageReference(NamedTuple):
    name: str  # in full: docker.io/library/busybox:1
    digest: str  # as `ctr images ls` shows it once the image is imported


@dataclass(frozen=True)
class ImageFacts:
    name: str
    digest: str  # of the manifest
    config_digest: str  # which the runtime's CRI calls the image's id
    packages: tuple[str, ...] = ()  # NAME=VERSION, of our own archives


@dataclass(frozen=True)
class ArchiveFacts:
    size: int
    images: tuple[ImageFacts, ...]
    definitions: Any  # JSON, as given to the module; None where the archive is not ours


class DamagedArchive(ValueError):
    """What is wrong, in a few words."""


def image_references(path: str) -> list[ImageReference]:
    """The images in an archive, sorted by name. UserError when it is absent, damaged, or names no image."""
    try:
        with open(path, "rb") as file:
            references = sorted(_references(_scan(file)))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise MESSAGES.error("image-archive-missing", path=path) from error
    except DamagedArchive as error:
        raise MESSAGES.error("image-archive-damaged", path=path, found=str(error)) from error
    if not references:
        raise MESSAGES.error("image-archive-unnamed", path=path)
    return references


def inspect(file: BinaryIO, *, size: int) -> ArchiveFacts:
    """All there is to say about an OCI layout. DamagedArchive unless every blob has the digest it is named after."""
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
        definitions = None if text is None else json.loads(text)
    except (TypeError, ValueError) as error:
        raise DamagedArchive(f"annotation {DEFINITIONS_ANNOTATION}: {error}") from error
    return ArchiveFacts(size=size, images=images, definitions=definitions)


@dataclass(frozen=True)
class _Member:
    size: int
    digest: str  # sha256, hexadecimal
    data: Optional[bytes]  # of documents; None where it was too large to be one
    compressed: bool


def _scan(file: BinaryIO) -> dict[str, _Member]:
    """Every regular file of the tar by its name; links to one count as it."""
    members: dict[str, _Member] = {}
    links: dict[str, str] = {}
    total = kept = count = 0
    try:
        with tarfile.open(fileobj=file, mode="r|*") as tar:
            for info in tar:
                count += 1
                total += info.size
                if count > _MEMBERS_MAX or total > _BYTES_MAX:
                    raise DamagedArchive(f"more than {_MEMBERS_MAX} entries or {_BYTES_MAX} bytes")
                name = _clean(info.name)
                if info.issym() or info.islnk():
                    links[name] = _link_target(name, info)
                if not info.isreg():
                    continue
                if name in members:
                    raise DamagedArchive(f"{name} is in it twice")
                members[name] = _read(tar, info, keep=info.size <= _DOCUMENT_MAX and kept + info.size <= _DOCUMENTS_MAX)
                kept += len(members[name].data or b"")
    except (tarfile.TarError, EOFError, OSError, UnicodeError, ValueError) as error:
        if isinstance(error, DamagedArchive):
            raise
        raise DamagedArchive(f"no readable tar: {error}") from error
    # A tar that a cut shortened between two entries has no end marker, and tarfile says nothing: the documents
    # name what they need, and it is missing then.
    for name, target in links.items():
        if target in members:
            members.setdefault(name, members[target])
    return members


def _read(tar: tarfile.TarFile, info: tarfile.TarInfo, *, keep: bool) -> _Member:
    source = tar.extractfile(info)
    if source is None:
        raise DamagedArchive(f"{info.name} cannot be read")
    digest, parts, size, head = hashlib.sha256(), [], 0, b""
    while True:
        chunk = source.read(_CHUNK)
        if not chunk:
            break
        head = head or chunk[:4]
        size += len(chunk)
        digest.update(chunk)
        if keep:
            parts.append(chunk)
    if size != info.size:
        raise DamagedArchive(f"{info.name} ends after {size} of {info.size} bytes")
    compressed = head[:2] == b"\x1f\x8b" or head == b"\x28\xb5\x2f\xfd"  # gzip, zstd
    return _Member(size=size, digest=digest.hexdigest(), data=b"".join(parts) if keep else None, compressed=compressed)


def _clean(name: str) -> str:
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def _link_target(name: str, info: tarfile.TarInfo) -> str:
    """Where a link inside the tar leads: symbolic ones are relative to their directory, hard ones to the top."""
    parts = [] if info.islnk() else name.split("/")[:-1]
    for part in info.linkname.split("/"):
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
    raise DamagedArchive("neither oci-layout nor manifest.json in it")


def _oci_references(contents: Mapping[str, _Member]) -> Iterator[ImageReference]:
    for descriptor in _list(_mapping(_document(contents, "index.json")).get("manifests")):
        found = _mapping(descriptor)
        annotations = _mapping(found.get("annotations") or {})
        name = annotations.get(NAME_ANNOTATION) or annotations.get(TAG_ANNOTATION)
        _blob(contents, found)
        # A bare tag is no name: containerd would make one up from the day's date.
        if isinstance(name, str) and set(name) & set("/:@"):
            yield ImageReference(name=_name(name), digest=str(found["digest"]))


def _docker_references(contents: Mapping[str, _Member]) -> Iterator[ImageReference]:
    for entry in _list(_document(contents, "manifest.json")):
        found = _mapping(entry)
        config = _file(contents, found.get("Config"))
        layers = [_file(contents, layer) for layer in _list(found.get("Layers"))]
        digest = _converted_digest(config, layers)
        for tag in _list(found.get("RepoTags") or []):
            if not isinstance(tag, str):
                raise DamagedArchive(f"{tag!r} is not an image name")
            yield ImageReference(name=_name(complete_name(tag)), digest=digest)


def _converted_digest(config: _Member, layers: list[_Member]) -> str:
    """Of the manifest that containerd writes for an image of docker's form (importer.go; the order of keys is Go's)."""

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
    """`busybox` is docker.io/library/busybox:latest (distribution/reference, ParseDockerRef)."""
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
        raise DamagedArchive(f"{name} has {member.size} bytes; more than {_DOCUMENT_MAX} are not read")
    try:
        return json.loads(member.data)
    except (ValueError, RecursionError) as error:
        raise DamagedArchive(f"{name}: {error}") from error


def _blob(contents: Mapping[str, _Member], descriptor: Mapping[str, Any]) -> _Member:
    digest = descriptor.get("digest")
    if not isinstance(digest, str) or not digest.startswith("sha256:"):
        raise DamagedArchive(f"{digest!r} is not a sha256 digest")
    return _file(contents, f"blobs/sha256/{digest.partition(':')[2]}")


def _file(contents: Mapping[str, _Member], name: object) -> _Member:
    if not isinstance(name, str) or _clean(name) not in contents:
        raise DamagedArchive(f"{name} is missing in it")
    return contents[_clean(name)]


def _name(name: str) -> str:
    """Refuses what is no image name, before anybody puts it on a command line or into a table."""
    plain, _at, _digest = name.partition("@")
    if len(name) > 300 or not (NAME.fullmatch(plain) or NAME.fullmatch(f"{plain}:tag")):
        raise DamagedArchive(f"{name[:80]!r} is not an image name")
    return name


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DamagedArchive("a JSON document in it has another form")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise DamagedArchive("a JSON document in it has another form")
    return value
