# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Directories of a host that several labs share and none owns."""

from __future__ import annotations

import json
import os
from typing import Any

from ..host.host import Host
from ..text.json_text import parse_json
from .context import Context
from .ownership import require_private
from .plan import ABSENT, Resource, Value

HOLDERS = "/var/lib/ballast/shared"
_SECONDS = 30


class SharedDirectoryKind:
    """Target `PATH HOLDER`. The first holder makes the directory if it is absent; the last holder removes what the first one
    made, if it is empty by then.

    That order matters for a mount point: rmdir(2) of a directory detaches what other namespaces have mounted on it.
    """

    def read(self, ctx: Context[Any], target: str) -> Value:
        path, holder = target.split(" ", 1)
        if holder not in self._entry(ctx.host, path)["holders"]:
            return ABSENT
        return {} if ctx.host.stat(path) else {"lacking": True}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        if after != {}:  # not so for a removal or undo of a part that existed before the first run
            self.remove(ctx, target, before)
            return
        path, holder = target.split(" ", 1)
        entry = self._entry(ctx.host, path)
        if not entry["holders"]:
            entry["made"] = _absent_part(ctx.host, path)
        entry["holders"] = sorted({*entry["holders"], holder})
        ctx.host.make_directory(HOLDERS)
        ctx.host.write(_entry_path(path), json.dumps(entry).encode())
        if ctx.host.stat(path) is None:
            ctx.host.make_directory(path)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        path, holder = target.split(" ", 1)
        entry = self._entry(ctx.host, path)
        entry["holders"] = [name for name in entry["holders"] if name != holder]
        if entry["holders"]:
            ctx.host.write(_entry_path(path), json.dumps(entry).encode())
            return
        if entry["made"] and _is_mount(ctx.host, path):
            ctx.host.run(["umount", path], timeout=_SECONDS)  # `ip netns` mounts its directory
        _remove_empty(ctx.host, path, top=entry["made"])
        ctx.host.remove(_entry_path(path))  # last: without this entry, nobody would own the directory
        _remove_empty(ctx.host, HOLDERS, top=os.path.dirname(HOLDERS))

    def _entry(self, host: Host, path: str) -> dict[str, Any]:
        require_private(host, _entry_path(path))
        data = host.read(_entry_path(path))
        entry: dict[str, Any] = parse_json(data) if data else {"made": "", "holders": []}
        return entry


def _entry_path(path: str) -> str:
    return os.path.join(HOLDERS, path.strip("/").replace("/", "-") + ".json")


def _absent_part(host: Host, path: str) -> str:
    """The topmost directory of `path` that does not exist yet; "" if all of them exist."""
    absent = ""
    while path != "/" and host.stat(path) is None:
        absent, path = path, os.path.dirname(path)
    return absent


def _remove_empty(host: Host, path: str, *, top: str) -> None:
    """Remove `path` and its parents up to `top`, as long as they are empty."""
    while top and (path == top or path.startswith(f"{top}/")) and not host.listdir(path):
        host.remove_directory(path)
        path = os.path.dirname(path)


def _is_mount(host: Host, path: str) -> bool:
    lines = (host.read("/proc/self/mountinfo") or b"").decode().splitlines()
    return any(line.split(" ")[4] == path for line in lines)


def shared_directory(path: str, *, holder: str, group: str) -> Resource:
    return Resource(
        kind="shared-directory", target=f"{path} {holder}", value={}, title=f"directory {path}", group=group
    )


SHARED_KINDS = {"shared-directory": SharedDirectoryKind()}
