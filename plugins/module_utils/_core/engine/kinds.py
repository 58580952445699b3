# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kinds of resource that all features use: directories, files, links, kernel settings."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Optional, Protocol, Union

from ..host.host import Host
from ..text.errors import Bug, HostError
from ..text.host_messages import MESSAGES as HOST_MESSAGES
from ..text.json_text import parse_json
from ..text.run_messages import MESSAGES as RUN_MESSAGES
from .context import Context
from .ownership import adopt_directory, make_marked_directory, remove_marked_directory, require_private
from .plan import ABSENT, Resource, Value

_LOCK_SECONDS = 10


class Kind(Protocol):
    """How to read, make and remove one kind of resource. `write` gets the value before, so that it changes only what it
    must.

    A program may be killed in the middle of `write` or `remove`. So `read` returns ABSENT only if nothing of the resource
    exists, and some value that nobody asks for if a part does; `write` and `remove` finish the job from any such part; and
    whatever `read` relies on is made last and removed last.

    A kind whose resources are processes has `is_process = True` and values `{"running": bool, ...}`.
    """

    def read(self, ctx: Context[Any], target: str) -> Value: ...

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None: ...

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None: ...


def fields(value: Value) -> Mapping[str, Value]:
    """`value` as the mapping that its kind guarantees; Bug for anything else."""
    if not isinstance(value, Mapping):
        raise Bug(**RUN_MESSAGES.texts("core-value", expected="a mapping", value=repr(value)))
    return value


class DirectoryKind:
    """`{mode}`. The directory carries our mark, so everything in it is ours and is removed with it."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        stat = ctx.host.stat(target)
        if stat is None:
            return ABSENT
        if stat.kind != "directory":
            raise _other_kind_error(target, expected="directory", actual=stat.kind)
        return {"mode": stat.mode}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        mode = int(str(fields(after)["mode"]))
        if before == ABSENT:
            make_marked_directory(ctx.host, target, mode=mode)
        else:
            ctx.host.make_directory(target, mode=mode)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        remove_marked_directory(ctx.host, target)

    def adopt(self, host: Host, target: str) -> None:
        adopt_directory(host, target)


class FileKind:
    """`{content, mode}`."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        stat = ctx.host.stat(target)
        if stat is None:
            return ABSENT
        if stat.kind != "file":
            raise _other_kind_error(target, expected="file", actual=stat.kind)
        data = ctx.host.read(target) or b""
        return {"content": data.decode(errors="surrogateescape"), "mode": stat.mode}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        value = fields(after)
        content = str(value["content"]).encode(errors="surrogateescape")
        ctx.host.write(target, content, mode=int(str(value["mode"])))

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        ctx.host.remove(target)


class SymlinkKind:
    """`{to}`."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        stat = ctx.host.stat(target)
        if stat is None:
            return ABSENT
        if stat.kind != "symlink":
            raise _other_kind_error(target, expected="symlink", actual=stat.kind)
        return {"to": ctx.host.readlink(target)}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        ctx.host.symlink(target, str(fields(after)["to"]))

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        ctx.host.remove(target)


def _other_kind_error(path: str, *, expected: str, actual: str) -> HostError:
    return HostError(**HOST_MESSAGES.texts(f"core-not-a-{expected}", found=f"a {actual}", path=path))


class SysctlMinimumKind:
    """`{at_least}` of the target `NAME HOLDER`: a minimum for a host-wide setting that several labs may need. A NAME with
    slashes belongs to a network link; the link may disappear at any time, and the setting with it.

    The holders of a setting are listed in /run/ballast/sysctl, which, like the setting, does not survive a reboot. The last
    holder to leave restores the original, unless somebody else has set it since.
    """

    directory = "/run/ballast/sysctl"
    _lock_path = f"{directory}/lock"

    def read(self, ctx: Context[Any], target: str) -> Value:
        name, holder = target.split(" ", 1)
        held = self._entry(ctx.host, name)["holders"].get(holder)
        if held is None:
            return ABSENT
        current = self._current(ctx.host, name)
        return {"lacking": True} if current is None else {"at_least": min(held, current)}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        name, holder = target.split(" ", 1)
        minimum = int(str(fields(after)["at_least"]))
        current = self._current(ctx.host, name)
        with self._lock(ctx.host):
            entry = self._entry(ctx.host, name)
            entry["holders"][holder] = minimum
            is_low = current is not None and current < minimum
            if is_low:
                # Recorded before the setting is raised: after a kill in between, the original is still right.
                entry["original"] = current if current != entry["raised_to"] else entry["original"]
                entry["raised_to"] = minimum
            ctx.host.write(self._path(name), json.dumps(entry).encode())
            if is_low:
                ctx.host.write_kernel_file(sysctl_path(name), f"{minimum}\n")

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        name, holder = target.split(" ", 1)
        with self._lock(ctx.host):
            entry = self._entry(ctx.host, name)
            entry["holders"].pop(holder, None)
            if entry["holders"]:
                ctx.host.write(self._path(name), json.dumps(entry).encode())
                return
            if entry["raised_to"] is not None and self._current(ctx.host, name) == entry["raised_to"]:
                ctx.host.write_kernel_file(sysctl_path(name), f"{entry['original']}\n")
            last = self._path(name)
            for parent in (self.directory, os.path.dirname(self.directory)):
                if {os.path.join(parent, other) for other in ctx.host.listdir(parent)} <= {last, self._lock_path}:
                    last = parent
            if last == self._path(name):
                ctx.host.remove(last)
            else:
                ctx.host.remove_tree(last)

    @contextmanager
    def _lock(self, host: Host) -> Iterator[None]:
        """Serializes labs that start at the same time. Each holds the lock for a few milliseconds only."""
        deadline = host.monotonic() + _LOCK_SECONDS
        with ExitStack() as held:
            while True:
                if host.stat(self.directory) is None:
                    host.make_directory(self.directory)
                try:
                    held.enter_context(host.lock(self._lock_path))
                    break
                except HostError as error:  # core-enoent: the last holder has just removed the directory
                    if error.id not in ("core-locked", "core-enoent") or host.monotonic() > deadline:
                        raise
                host.sleep(0.02)
            yield

    def _entry(self, host: Host, name: str) -> dict[str, Any]:
        """`original`: the value before it was raised to `raised_to`; `holders`: the minimum that each holder asked for."""
        require_private(host, self._path(name))
        data = host.read(self._path(name))
        entry: dict[str, Any] = parse_json(data) if data else {"original": None, "raised_to": None, "holders": {}}
        return entry

    def _current(self, host: Host, name: str) -> Optional[int]:
        """The value now; None for the setting of a network link that is gone."""
        data = host.read(sysctl_path(name))
        if data is None and "/" in name:
            return None
        if data is None:
            raise HostError(**RUN_MESSAGES.texts("core-no-sysctl", name=name))
        return int(data)

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, f"{name.replace('/', ':')}.json")


def list_held_settings(host: Host) -> Iterator[str]:
    """The names of the settings that labs on this host hold."""
    for entry in host.listdir(SysctlMinimumKind.directory):
        name, extension = os.path.splitext(entry.replace(":", "/"))
        if extension == ".json":
            yield name


def sysctl_path(name: str) -> str:
    """The file of a setting. In a `name` with slashes, dots are part of a component, as in the name of a VLAN link."""
    return "/proc/sys/" + (name if "/" in name else name.replace(".", "/"))


def digest(*parts: Union[str, bytes]) -> str:
    """A short digest of contents, to restart a service when one of them changes."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()[:16]


BASE_KINDS: dict[str, Kind] = {
    "directory": DirectoryKind(),
    "file": FileKind(),
    "symlink": SymlinkKind(),
    "sysctl-minimum": SysctlMinimumKind(),
}


def directory(path: str, *, mode: int = 0o755, group: str = "") -> Resource:
    return Resource(kind="directory", target=path, value={"mode": mode}, title=f"directory {path}", group=group)


def file(path: str, content: str, *, mode: int = 0o644, group: str = "", title: Optional[str] = None) -> Resource:
    value: Value = {"content": content, "mode": mode}
    return Resource(kind="file", target=path, value=value, title=title or f"file {path}", group=group)


def sysctl_minimum(name: str, minimum: int, *, holder: str) -> Resource:
    """The setting `name` (as in `sysctl_path`), at least `minimum` for as long as `holder` has this resource."""
    return Resource(
        kind="sysctl-minimum",
        target=f"{name} {holder}",
        value={"at_least": minimum},
        title=f"setting {name} at least {minimum}",
        group="host settings",
    )
