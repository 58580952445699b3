# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The archive of a backup: one tar file that only root may read, of flat names, with a manifest that names each file.

    backup.json        the manifest: format, what it is a backup of, and the SHA-256 of every other file
    etcd.db            the snapshot of etcd
    ca.crt, ca.key, front-proxy-ca.crt, front-proxy-ca.key, sa.key, sa.pub, encryption.json

Beside the snapshot stands what the data is worth nothing without, or what others hold on to:
  - the encryption configuration with its key: Secrets cannot be read without it;
  - the key pair of ServiceAccounts: every token that was given out is signed with it;
  - the authority of the cluster: kubelets, administrators and every namespace's kube-root-ca.crt trust it;
  - the authority of the front proxy: extension API servers trust it.
The authority of etcd is not there: the API server alone trusts it, and a restored plane makes its own. Nor are leaf
certificates, which the authority signs anew.

An archive comes from elsewhere: nothing in it is believed before its digest is as the manifest says, and the manifest is
not believed where it names a file that we do not write.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..._core.errors import BallastError, CommandFailed
from ..._core.host import Host
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
SECONDS = 600  # for a command that reads or writes the whole of it
_NO_SPACE = "No space left"  # as the C library and coreutils say it
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_VERSION = re.compile(r"\d{1,4}\.\d{1,4}\.\d{1,4}", re.ASCII)


@dataclass(frozen=True)
class Manifest:
    format: int
    name: str
    profile: str
    shape: str
    kubernetes_version: str
    etcd_version: str
    service_network: str  # that the API server allocates from; empty where it does not
    revision: int
    keys: int  # at this revision
    hash: int  # as etcdutl snapshot status tells it
    size_bytes: int  # of the snapshot
    taken_at: str  # "2026-11-22T10:14:31Z"
    files: Mapping[str, str]  # name in the archive: SHA-256

    def as_text(self) -> str:
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"


def told(manifest: Manifest) -> dict[str, object]:
    """What a module returns of it."""
    return {name: value for name, value in asdict(manifest).items() if name not in ("format", "files")}


def pack(host: Host, directory: str, archive: str) -> None:
    """All files of `directory` as a tar file, on the disk when this returns. `archive` is not read by others meanwhile."""
    host.write(archive, b"", mode=0o600)  # tar keeps the mode of what is there
    names = host.listdir(directory)
    owner = ["--owner=0", "--group=0", "--numeric-owner", "--mode=0600"]
    try:
        host.run(
            ["tar", "--create", f"--file={archive}", f"--directory={directory}", *owner, "--", *names], timeout=SECONDS
        )
    except CommandFailed as error:
        if _NO_SPACE in error.output:
            raise no_space(archive) from error
        raise
    host.run(["sync", "--", archive], timeout=SECONDS)


def read_manifest(host: Host, archive: str) -> Manifest:
    """BallastError when it is not there, is no backup, or has a format of a later version."""
    if host.stat(archive) is None:
        raise MESSAGES.error("plane-archive-missing", path=archive)
    done = host.run(
        ["tar", "--extract", "--to-stdout", f"--file={archive}", "--", MANIFEST], timeout=SECONDS, check=False
    )
    try:
        found = json.loads(done.stdout)
    except ValueError as error:
        raise unsound(archive, f"it has no {MANIFEST} that can be read") from error
    return _manifest(archive, found)


def unpack(host: Host, archive: str, manifest: Manifest, directory: str) -> None:
    """The files into an empty directory, each checked. BallastError when one is not what the manifest says."""
    names = sorted(manifest.files)
    words = ["--no-same-owner", "--no-same-permissions", "--delay-directory-restore", f"--directory={directory}"]
    try:
        host.run(["tar", "--extract", f"--file={archive}", *words, "--", *names], timeout=SECONDS)
    except CommandFailed as error:
        if _NO_SPACE in error.output:
            raise no_space(directory) from error
        raise unsound(archive, error.found) from error
    for name in names:
        path = os.path.join(directory, name)
        found = host.stat(path)
        if found is None or found.kind != "file":
            raise unsound(archive, f"{name} is not a file")
        if sha256(host, path) != manifest.files[name]:
            raise unsound(archive, f"{name} is another than the one that was backed up")


def sha256(host: Host, path: str) -> str:
    return host.run(["sha256sum", "--", path], timeout=SECONDS).stdout.lstrip("\\").partition(" ")[0]


def beside(archive: str) -> str:
    """The small file that describes an archive for people and programs; it holds no secret."""
    return f"{archive}.json"


def described(host: Host, archive: str) -> dict[str, Any]:
    """What the file beside an archive says, with `archive_sha256`; empty when there is none of ours."""
    try:
        found = json.loads(host.read(beside(archive)) or b"")
    except ValueError:
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("archive_sha256"), str) else {}


def unsound(archive: str, found: str) -> BallastError:
    return MESSAGES.error("plane-archive-unsound", path=archive, found=found)


def no_space(path: str, *, needed: object = "more") -> BallastError:
    """There is no room where `path` was to be written."""
    return MESSAGES.error("plane-backup-space", path=os.path.dirname(path), needed=needed)


def _manifest(archive: str, found: object) -> Manifest:
    if not isinstance(found, dict) or not isinstance(found.get("format"), int):
        raise unsound(archive, f"{MANIFEST} has no format")
    if found["format"] != FORMAT:
        raise MESSAGES.error("plane-archive-format", path=archive, format=found["format"])
    try:
        manifest = Manifest(**found)
    except TypeError as error:
        raise unsound(archive, f"{MANIFEST} has other fields than ours") from error
    faults = _faults(manifest)
    if faults:
        raise unsound(archive, f"in {MANIFEST}: {', '.join(faults)}")
    return manifest


def _faults(manifest: Manifest) -> list[str]:
    """Fields that we do not write so."""
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
