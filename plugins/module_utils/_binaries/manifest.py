# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The manifest of a build: its recipe, and each program with its SHA-256.

Every read hashes the whole content. Size and time of a file would be cheaper, but they do not show a block that the disk corrupted, and a
restored or copied cache has new times. Hashing all programs (0.6 GB) takes half a second with SHA instructions and two seconds without.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Optional

from .._core.engine.plan import ABSENT, Value
from .._core.host.bounded import file_sha256
from .._core.host.host import Host
from .._core.text.json_text import NotJson, parse_json
from .messages import MESSAGES


@dataclass(frozen=True)
class Program:
    sha256: str
    size: int
    version: str  # as the program reports it: "v1.37.1+lab"
    seconds: str  # that it took to make, with one decimal


@dataclass(frozen=True)
class Manifest:
    recipe: Mapping[str, Value]
    programs: Mapping[str, Program]

    def with_program(self, name: str, program: Program) -> Manifest:
        return replace(self, programs={**self.programs, name: program})

    def without(self, name: str) -> Manifest:
        return replace(self, programs={key: program for key, program in self.programs.items() if key != name})


def manifest_path(directory: str) -> str:
    return os.path.join(directory, "manifest.json")


def read_manifest(host: Host, directory: str) -> Optional[Manifest]:
    """None for a build whose first program is not finished."""
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


def read_program(host: Host, path: str) -> Value:
    """The recipe of an intact program; `{damaged: ...}` when the file differs from the manifest; ABSENT when either is missing."""
    directory, name = os.path.split(path)
    manifest = read_manifest(host, directory)
    if manifest is None or name not in manifest.programs:
        return ABSENT
    sha256 = file_sha256(host, path)
    if sha256 is None:
        return ABSENT
    recorded = manifest.programs[name].sha256
    if recorded != sha256:
        return {"damaged": f"recorded {recorded}, found {sha256}"}
    return manifest.recipe


def add_program(
    host: Host, path: str, data: bytes, *, recipe: Mapping[str, Value], version: str, seconds: float
) -> Program:
    """Put a program in its place, then record it. A run killed in between leaves a file that nothing refers to."""
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
    """Remove a program and its record, and the directory with its last program."""
    directory, name = os.path.split(path)
    host.remove(path)
    manifest = read_manifest(host, directory)
    left = manifest.without(name) if manifest else None
    if left and left.programs:
        write_manifest(host, directory, left)
        return
    host.remove(manifest_path(directory))
    if not host.listdir(directory):
        host.remove_directory(directory)
