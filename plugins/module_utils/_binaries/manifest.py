# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The manifest of a build: its recipe, and each binary with its SHA-256.

`read_program` hashes the whole content: all binaries (0.6 GB) take half a second with SHA instructions and two seconds without.
`Hashed` avoids that if the kernel reports that a file was not changed since it was hashed. This does not reveal a block that the
disk corrupted, so it is valid for a day. A copied or restored cache has new files, which are hashed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Optional

from .._core.engine.plan import ABSENT, Value
from .._core.host.bounded import file_sha256
from .._core.host.host import Host
from .._core.text.errors import HostError
from .._core.text.json_text import NotJson, parse_json, parse_object
from .messages import MESSAGES

_HASHED_SECONDS = 24 * 3600
_TICK_SECONDS = 2


@dataclass(frozen=True)
class Program:
    """A binary as it was recorded. `size` is in bytes."""

    sha256: str
    size: int
    version: str  # as reported by the binary: "v1.37.1+lab"
    seconds: str  # how long it took to make, with one decimal


@dataclass(frozen=True)
class Manifest:
    recipe: Mapping[str, Value]
    programs: Mapping[str, Program]

    def with_program(self, name: str, program: Program) -> Manifest:
        return replace(self, programs={**self.programs, name: program})

    def without(self, name: str) -> Manifest:
        """The manifest without this binary, which it need not have."""
        return replace(self, programs={key: program for key, program in self.programs.items() if key != name})


def manifest_path(directory: str) -> str:
    return os.path.join(directory, "manifest.json")


def read_manifest(host: Host, directory: str) -> Optional[Manifest]:
    """The manifest; None for a build without a finished binary."""
    path = manifest_path(directory)
    data = host.read(path)
    if data is None:
        return None
    try:
        entry = parse_json(data)
        programs = {name: Program(**program) for name, program in entry["programs"].items()}
        return Manifest(recipe=dict(entry["recipe"]), programs=programs)
    except NotJson as error:
        raise MESSAGES.error("binaries-manifest", found=error.found, path=path, directory=directory) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MESSAGES.error("binaries-manifest", found=str(error), path=path, directory=directory) from error


def write_manifest(host: Host, directory: str, manifest: Manifest) -> None:
    text = json.dumps(asdict(manifest), indent=2, sort_keys=True) + "\n"
    host.write(manifest_path(directory), text.encode())


class Hashed:
    """SHA-256 of binaries from earlier runs, in `hashed.json` beside the manifest. `keep` saves what this run has hashed."""

    def __init__(self) -> None:
        self._new: dict[str, dict[str, Value]] = {}  # by path

    def sha256(self, host: Host, path: str) -> Optional[str]:
        """The SHA-256 of a file; None when it does not exist."""
        stat = host.stat(path)
        version = "" if stat is None or stat.kind != "file" else stat.version
        directory, name = os.path.split(path)
        row = (parse_object(host.read(_hashed_path(directory))) or {}).get(name)
        if version and isinstance(row, Mapping) and row.get("version") == version and _is_recent(host, row.get("at")):
            return str(row.get("sha256"))
        sha256 = file_sha256(host, path)
        # After a recent write, a second change within one tick of the kernel's clock would be invisible, so it is not kept.
        if stat is not None and version and sha256 is not None and host.now() - stat.mtime > _TICK_SECONDS:
            self._new[path] = {"version": version, "sha256": sha256, "at": int(host.now())}
        return sha256

    def keep(self, host: Host) -> None:
        """Save what `sha256` has hashed since the last call. Fails silently: the next run then hashes again."""
        new, self._new = self._new, {}
        for directory in sorted({os.path.dirname(path) for path in new}):
            manifest = read_manifest(host, directory)
            if manifest is None:
                continue
            rows = parse_object(host.read(_hashed_path(directory))) or {}
            kept = {name: row for name, row in rows.items() if name in manifest.programs}
            added = {name: new[path] for name in manifest.programs if (path := os.path.join(directory, name)) in new}
            text = json.dumps({**kept, **added}, indent=2, sort_keys=True) + "\n"
            with suppress(HostError):  # for example a full disk: the next run hashes again
                host.write(_hashed_path(directory), text.encode())


def _hashed_path(directory: str) -> str:
    return os.path.join(directory, "hashed.json")


def _is_recent(host: Host, at: object) -> bool:
    return isinstance(at, int) and 0 <= host.now() - at < _HASHED_SECONDS


def read_program(host: Host, path: str, hashed: Optional[Hashed] = None) -> Value:
    """The recipe of an intact binary; `{damaged: ...}` when the file differs from the manifest; ABSENT when either is missing."""
    directory, name = os.path.split(path)
    manifest = read_manifest(host, directory)
    if manifest is None or name not in manifest.programs:
        return ABSENT
    sha256 = file_sha256(host, path) if hashed is None else hashed.sha256(host, path)
    if sha256 is None:
        return ABSENT
    recorded = manifest.programs[name].sha256
    if recorded != sha256:
        return {"damaged": f"recorded {recorded}, found {sha256}"}
    return manifest.recipe


def add_program(
    host: Host, path: str, data: bytes, *, recipe: Mapping[str, Value], version: str, seconds: float
) -> Program:
    """Put a binary in its place, then record it. A run killed in between leaves a file that nothing refers to."""
    directory, name = os.path.split(path)
    host.make_directory(directory)
    manifest = read_manifest(host, directory) or Manifest(recipe=recipe, programs={})
    if name in manifest.programs:  # made again: the old checksum must not describe the new file
        manifest = manifest.without(name)
        write_manifest(host, directory, manifest)
    host.write(path, data, mode=0o755)
    program = Program(
        sha256=hashlib.sha256(data).hexdigest(), size=len(data), version=version, seconds=f"{seconds:.1f}"
    )
    write_manifest(host, directory, manifest.with_program(name, program))
    return program


def remove_program(host: Host, path: str) -> None:
    """Remove a binary and its record, and the directory with its last binary."""
    directory, name = os.path.split(path)
    host.remove(path)
    manifest = read_manifest(host, directory)
    left = manifest.without(name) if manifest else None
    if left and left.programs:
        write_manifest(host, directory, left)
        return
    host.remove(manifest_path(directory))
    host.remove(_hashed_path(directory))
    if not host.listdir(directory):
        host.remove_directory(directory)
