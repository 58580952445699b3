# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The images of all archives, imported once for all instances of a host.

    STATE_DIR/.images/root        what a containerd has imported and unpacked
    STATE_DIR/.images/store.json  the archives that it holds; written last

A new instance gets the images before its containerd starts: databases as copies, layers and unpacked files as hard links,
which neither containerd nor a container writes to. So a hundred nodes take the disk space, time and page cache of one
import. An instance that already has images imports later archives separately (images.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from .._core.engine.context import Context
from .._core.engine.kinds import Kind, directory, fields
from .._core.engine.plan import ABSENT, Resource, Value
from .._core.host.host import Host
from .._core.text.errors import CommandFailed
from .._core.text.json_text import parse_object
from .._core.text.toml_text import toml_string
from .messages import MESSAGES
from .model import Archive

_IMPORT_SECONDS = 600
_COPY_SECONDS = 120
_DATABASE = "io.containerd.metadata.v1.bolt"
_CONFIG = """version = 3
root = {root}
state = {state}
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"]

[grpc]
address = {socket}

[plugins."io.containerd.internal.v1.opt"]
path = {opt}
"""
# Prefix for a script: the script is killed with this process. The next run uses the same directory and must not find it running.
_WITH_US = ("setpriv", "--pdeathsig", "KILL", "sh", "-c")
# Arguments: configuration, directory of the socket, directory of programs, archives. Runs with mounts of its own.
_IMPORT = """set -eu
umask 022
config=$1 run=$2 bin=$3
shift 3
mkdir -p "$run"
setpriv --pdeathsig KILL "$bin/containerd" --config "$config" >"$run/log" 2>&1 &
pid=$!
ask() { "$bin/ctr" --address "$run/containerd.sock" --namespace k8s.io "$@"; }
until ask version >/dev/null 2>&1; do
  kill -0 "$pid" || { cat "$run/log" >&2; exit 1; }
  sleep 0.05
done
for archive; do ask images import --local "$archive"; done
kill "$pid"
wait "$pid" || true
rm -rf "$run"
"""
# Arguments: root of the store, and root of the instance. The metadata database comes last: it marks the rest as complete.
_SEED = """set -eu
cd "$2"
rm -rf .new
mkdir .new
for part in io.containerd.content.v1.content io.containerd.snapshotter.v1.overlayfs io.containerd.metadata.v1.bolt; do
  cp --archive --link "$1/$part" .new/
done
for file in .new/io.containerd.snapshotter.v1.overlayfs/metadata.db .new/io.containerd.metadata.v1.bolt/meta.db; do
  cp --archive "$file" "$file.copy"
  mv "$file.copy" "$file"
done
for part in io.containerd.content.v1.content io.containerd.snapshotter.v1.overlayfs io.containerd.metadata.v1.bolt; do
  rm -rf "$part"
  mv ".new/$part" .
done
rmdir .new
"""


class ImageStoreKind:
    """`{programs, archives}`: containerd's directory, and for each archive path the digests of its images by name. The target is
    `DIRECTORY RUN`; `RUN` holds the socket, whose path must be short."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        store, _run = target.split(" ")
        recorded = parse_object(ctx.host.read(_record_path(store)))
        if recorded is not None and ctx.host.stat(f"{_root(store)}/{_DATABASE}/meta.db") is not None:
            return recorded
        return ABSENT if ctx.host.stat(_root(store)) is None else {"archives": "half imported"}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        store, run = target.split(" ")
        value, missing = fields(after), _missing(after, before)
        ctx.host.remove(_record_path(store))
        for left in (run, *([] if missing is not None else [_root(store)])):
            ctx.host.remove_tree(left)
        paths = {"root": _root(store), "state": run, "socket": f"{run}/containerd.sock", "opt": f"{_root(store)}/opt"}
        config = f"{store}/containerd.toml"
        ctx.host.write(config, _CONFIG.format_map({name: toml_string(path) for name, path in paths.items()}).encode())
        archives = fields(value["archives"]) if missing is None else missing
        script = [*_WITH_US, _IMPORT, "sh", config, run, str(value["programs"]), *archives]
        _fill(ctx.host, store, ["unshare", "--mount", *script], seconds=_IMPORT_SECONDS)
        ctx.host.write(_record_path(store), json.dumps(after).encode())

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        """Nothing: its directory, which a stop keeps, is removed with it. Instances have their own links to its files."""


class SeedKind:
    """`{}`: containerd's directory of an instance has a database of images. The target is `DIRECTORY STORE`."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        place, _store = target.split(" ")
        return ABSENT if ctx.host.stat(f"{place}/{_DATABASE}/meta.db") is None else {}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        place, store = target.split(" ")
        _fill(ctx.host, place, [*_WITH_US, _SEED, "sh", _root(store), place], seconds=_COPY_SECONDS)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        """Removed with the instance's containerd directory."""


IMAGE_STORE_KINDS: Mapping[str, Kind] = {"image-store": ImageStoreKind(), "image-seed": SeedKind()}


def image_store(state_dir: str, run: str, archives: Sequence[Archive], programs: str, *, group: str) -> list[Resource]:
    """`run` is a directory that a restart of the host empties. No resources without archives."""
    if not archives:
        return []
    store = _store(state_dir)
    value: Value = {"programs": programs, "archives": {archive.path: dict(archive.images) for archive in archives}}
    return [
        directory(store, mode=0o700, group=group),
        Resource("image-store", f"{store} {run}/.images", value, title="images of all archives", group=group),
    ]


def image_seed(state_dir: str, place: str, archives: Sequence[Archive], *, group: str) -> list[Resource]:
    """`place` is containerd's directory of the instance."""
    if not archives:
        return []
    return [Resource("image-seed", f"{place} {_store(state_dir)}", {}, title=f"images in {place}", group=group)]


def _missing(after: Value, before: Value) -> Optional[Mapping[str, Value]]:
    """The archives that a store lacks. None where the store must be made from scratch: it is incomplete, or another containerd made
    it. Images of archives that are no longer requested stay in it."""
    if before == ABSENT or fields(before).get("programs") != fields(after)["programs"]:
        return None
    there = fields(fields(before)["archives"])
    return {path: images for path, images in fields(fields(after)["archives"]).items() if there.get(path) != images}


def _fill(host: Host, place: str, argv: Sequence[str], *, seconds: float) -> None:
    """Run a script that puts images into `place`. The HostError has the script's output, not its text."""
    try:
        host.run(argv, timeout=seconds)
    except CommandFailed as error:
        raise MESSAGES.error("instance-images", place=place, found=error.found) from error


def _store(state_dir: str) -> str:
    return os.path.join(state_dir, ".images")


def _root(store: str) -> str:
    return f"{store}/root"


def _record_path(store: str) -> str:
    return f"{store}/store.json"
