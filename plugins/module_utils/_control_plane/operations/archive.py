# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The archive of a backup: one tar file that only root may read, of flat names, with a manifest that names each file.

    backup.json        the manifest: format, what it is a backup of, and the SHA-256 of every other file
    etcd.db            the snapshot of etcd
    ca.crt, ca.key, front-proxy-ca.crt, front-proxy-ca.key, sa.key, sa.pub, encryption.json

Beside the snapshot it has the keys that the data needs, or that others trust:
  - the encryption configuration with its key: Secrets cannot be read without it;
  - the key pair of ServiceAccounts: it signed every issued token;
  - the authority of the cluster: kubelets, administrators and every namespace's kube-root-ca.crt trust it;
  - the authority of the front proxy: extension API servers trust it.
It lacks the authority of etcd, which only the API server trusts: a restored control plane makes its own. It also lacks leaf
certificates, which the authority signs again.

An archive is untrusted input. It is uncompressed and read in pieces. Every member must be a regular file that the manifest
names once, with the size and digest of the manifest. The manifest may only name files that we write. Anything else refuses
the whole archive.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from ..._archives.tarred import FILE, Damaged, Member, read_members
from ..._core.host.bounded import file_sha256, read_pieces
from ..._core.host.host import Host
from ..._core.text.errors import BallastError, HostError
from ..._core.text.json_text import parse_json
from .messages import MESSAGES

FORMAT = 1
MANIFEST, SNAPSHOT, ENCRYPTION = "backup.json", "etcd.db", "encryption.json"
# File in the archive: its place in the state directory.
KEPT: Mapping[str, str] = {
    "ca.crt": "pki/ca.crt",
    "ca.key": "pki/ca.key",
    "front-proxy-ca.crt": "pki/front-proxy-ca.crt",
    "front-proxy-ca.key": "pki/front-proxy-ca.key",
    "sa.key": "pki/sa.key",
    "sa.pub": "pki/sa.pub",
    ENCRYPTION: "config/encryption.json",
}
NEEDED = (SNAPSHOT, "ca.crt", "ca.key", "sa.key", "sa.pub")
SECONDS = 600  # for a command that reads or writes the whole archive
_SMALL = 2**20  # bytes of a file other than the snapshot, whose size is in the manifest
_BYTES = 2**40
_ENTRIES = 64  # some versions of tar put a header with times before each file
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_VERSION = re.compile(r"\d{1,4}\.\d{1,4}\.\d{1,4}", re.ASCII)


@dataclass(frozen=True)
class Manifest:
    format: int
    name: str
    profile: str
    shape: str  # the deployment mode, under the key of earlier versions, whose archives are read too
    kubernetes_version: str
    etcd_version: str
    service_network: str  # from which the API server allocates; empty if it does not
    revision: int
    keys: int  # at this revision
    hash: int  # as `etcdutl snapshot status` prints it
    size_bytes: int  # of the snapshot
    taken_at: str  # "2026-11-22T10:14:31Z"
    files: Mapping[str, str]  # name in the archive: SHA-256

    def as_text(self) -> str:
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"


def describe_manifest(manifest: Manifest) -> dict[str, object]:
    """The fields of the manifest that a module returns."""
    names = {"shape": "deployment_mode"}
    rows = {name: value for name, value in asdict(manifest).items() if name not in ("format", "files")}
    return {names.get(name, name): value for name, value in rows.items()}


def pack(host: Host, directory: str, archive: str) -> None:
    """All files of `directory` as a tar file, the manifest first, on the disk when this returns."""
    names = sorted(host.listdir(directory), key=lambda name: (name != MANIFEST, name))
    with _report_full_disk(archive):
        host.write(archive, _tar_blocks(host, directory, names), mode=0o600)


def read_manifest(host: Host, archive: str) -> Manifest:
    """BallastError when it is missing, is no backup, or has the format of a later version."""
    with _open_members(host, archive) as entries:
        return _read_first(archive, entries)


def unpack(host: Host, archive: str, manifest: Manifest, directory: str) -> None:
    """Write the files into an empty directory, checking size and digest of each. BallastError when a file differs from the
    manifest, is not named in it, or is missing."""
    left = dict(manifest.files)
    with _open_members(host, archive) as entries:
        if _read_first(archive, entries) != manifest:
            raise unsound_archive(archive, "it was replaced meanwhile")
        for member in entries:
            name, digest = ascii(member.name)[1:-1], left.pop(member.name, None)
            if digest is None:
                raise unsound_archive(archive, f"{name} is in it, which its manifest does not name, or names once")
            if member.kind != FILE:
                raise unsound_archive(archive, f"{name} is not a file")
            most = manifest.size_bytes if name == SNAPSHOT else _SMALL
            if member.size > most or (name == SNAPSHOT and member.size != most):
                raise unsound_archive(archive, f"{name} has {member.size} bytes, where {most} are allowed")
            with _report_full_disk(os.path.join(directory, name)):
                host.write(os.path.join(directory, name), _verified_pieces(archive, member, digest), mode=0o600)
    if left:
        raise unsound_archive(archive, f"{', '.join(sorted(left))} is missing in it")


def sha256(host: Host, path: str) -> str:
    """In hexadecimal; empty when there is no file."""
    return file_sha256(host, path) or ""


def description_path(archive: str) -> str:
    """The small file that describes an archive for people and programs; it holds no secret."""
    return f"{archive}.json"


def read_description(host: Host, archive: str) -> dict[str, Any]:
    """The content of the description, with `archive_sha256`; empty when there is none that we wrote."""
    try:
        description = parse_json(host.read(description_path(archive)) or b"")
    except ValueError:
        return {}
    return description if isinstance(description, dict) and isinstance(description.get("archive_sha256"), str) else {}


def unsound_archive(archive: str, reason: str) -> BallastError:
    """`reason` completes a sentence: what is wrong with the archive."""
    return MESSAGES.error("plane-archive-unsound", path=archive, found=reason)


def no_space(path: str, *, needed: object = "more") -> BallastError:
    """The error for a full disk at `path`."""
    return MESSAGES.error("plane-backup-space", path=os.path.dirname(path), needed=needed)


@contextmanager
def _open_members(host: Host, archive: str) -> Iterator[Iterator[Member]]:
    """The members of the archive. It is not compressed, so no member grows when it is read."""
    try:
        with host.reading(archive) as file:
            if file is None:
                raise MESSAGES.error("plane-archive-missing", path=archive)
            yield read_members(file, entries=_ENTRIES, size=_BYTES)
    except Damaged as error:
        raise unsound_archive(archive, str(error)) from error


def _read_first(archive: str, entries: Iterator[Member]) -> Manifest:
    member = next(entries, None)
    if member is None or (member.name, member.kind) != (MANIFEST, FILE) or member.size > _SMALL:
        raise unsound_archive(archive, f"it does not begin with a {MANIFEST} that can be read")
    try:
        value = parse_json(b"".join(member.pieces()))
    except ValueError as error:
        raise unsound_archive(archive, f"it has no {MANIFEST} that can be read") from error
    return _parse_manifest(archive, value)


def _verified_pieces(archive: str, member: Member, digest: str) -> Iterator[bytes]:
    """The content, in pieces. Raises at its end when the digest differs, so no file is made of it."""
    sha = hashlib.sha256()
    for piece in member.pieces():
        sha.update(piece)
        yield piece
    if sha.hexdigest() != digest:
        raise unsound_archive(archive, f"{member.name} is another than the one that was backed up")


def _tar_blocks(host: Host, directory: str, names: Sequence[str]) -> Iterator[bytes]:
    for name in names:
        path = os.path.join(directory, name)
        member, stat = tarfile.TarInfo(name), host.stat(path)
        member.size, member.mode, member.mtime = 0 if stat is None else stat.size, 0o600, int(host.now())
        yield member.tobuf(tarfile.GNU_FORMAT)
        with host.reading(path) as file:
            yield from read_pieces(file)
        yield bytes(-member.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


@contextmanager
def _report_full_disk(path: str) -> Iterator[None]:
    try:
        yield
    except HostError as error:
        if error.id in ("core-enospc", "core-edquot"):
            raise no_space(path) from error
        raise


def _parse_manifest(archive: str, value: object) -> Manifest:
    if not isinstance(value, dict) or not isinstance(value.get("format"), int):
        raise unsound_archive(archive, f"{MANIFEST} has no format")
    if value["format"] != FORMAT:
        raise MESSAGES.error("plane-archive-format", path=archive, format=value["format"])
    try:
        manifest = Manifest(**value)
    except TypeError as error:
        raise unsound_archive(archive, f"{MANIFEST} has other fields than ours") from error
    faults = _faults(manifest)
    if faults:
        raise unsound_archive(archive, f"in {MANIFEST}: {', '.join(faults)}")
    return manifest


def _faults(manifest: Manifest) -> list[str]:
    """Fields with values that we do not write."""
    texts = ("name", "profile", "shape", "kubernetes_version", "etcd_version", "service_network", "taken_at")
    numbers = ("revision", "keys", "hash", "size_bytes")
    faults = [name for name in texts if not isinstance(getattr(manifest, name), str)]
    faults += [name for name in numbers if not _is_count(getattr(manifest, name))]
    faults += [
        name for name in ("kubernetes_version", "etcd_version") if not _VERSION.fullmatch(str(getattr(manifest, name)))
    ]
    files = manifest.files
    if not isinstance(files, dict) or not set(NEEDED) <= set(files) <= {SNAPSHOT, *KEPT}:
        return [*faults, "files"]
    return [*faults, *(name for name, digest in files.items() if not _SHA256.fullmatch(str(digest)))]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
