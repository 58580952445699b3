# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kinds of resource that every feature uses: directories, files, links, kernel settings."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Optional, Protocol, Union

from .errors import Bug, HostError
from .host import Host
from .plan import ABSENT, Resource, Value

_LOCK_SECONDS = 10


class Kind(Protocol):
    """How one kind of resource is read and made. `write` is told what was there, so that it does only what it must.

    A program may be killed in the middle of `write` or `remove`. So `read` answers ABSENT only when nothing of the
    resource is there, and for a part of it some value that nobody asks for; `write` and `remove` finish the job from
    any part; and what `read` goes by is made last and removed last.
    """

    def read(self, host: Host, target: str) -> Value: ...

    def write(self, host: Host, target: str, after: Value, before: Value) -> None: ...

    def remove(self, host: Host, target: str, before: Value) -> None: ...


def fields(value: Value) -> Mapping[str, Value]:
    """The value as the mapping that its kind promises."""
    if not isinstance(value, Mapping):
        raise Bug(f"expected a mapping, not {value!r}", id="core-value")
    return value


class DirectoryKind:
    """`{mode}`: ours with all that lies in it, since we made it; it is removed with its content."""

    def read(self, host: Host, target: str) -> Value:
        found = host.stat(target)
        if found is None:
            return ABSENT
        if found.kind != "directory":
            raise _other_kind_error(target, wanted="directory", found=found.kind)
        return {"mode": found.mode}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        host.make_directory(target, mode=int(str(fields(after)["mode"])))

    def remove(self, host: Host, target: str, before: Value) -> None:
        host.remove_tree(target)


class FileKind:
    """`{content, mode}`."""

    def read(self, host: Host, target: str) -> Value:
        found = host.stat(target)
        if found is None:
            return ABSENT
        if found.kind != "file":
            raise _other_kind_error(target, wanted="file", found=found.kind)
        data = host.read(target) or b""
        return {"content": data.decode(errors="surrogateescape"), "mode": found.mode}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        wanted = fields(after)
        content = str(wanted["content"]).encode(errors="surrogateescape")
        host.write(target, content, mode=int(str(wanted["mode"])))

    def remove(self, host: Host, target: str, before: Value) -> None:
        host.remove(target)


class SymlinkKind:
    """`{to}`."""

    def read(self, host: Host, target: str) -> Value:
        found = host.stat(target)
        if found is None:
            return ABSENT
        if found.kind != "symlink":
            raise _other_kind_error(target, wanted="symlink", found=found.kind)
        return {"to": host.readlink(target)}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        host.symlink(target, str(fields(after)["to"]))

    def remove(self, host: Host, target: str, before: Value) -> None:
        host.remove(target)


def _other_kind_error(path: str, *, wanted: str, found: str) -> HostError:
    return HostError(
        f"{path} should be a {wanted}",
        id=f"core-not-a-{wanted}",
        found=f"a {found}",
        remedy="move it away, then run the same command again",
        page="docs/errors.md",
    )


class SysctlMinimumKind:
    """A host-wide setting that several labs may need raised: `NAME HOLDER`, value `{at_least}`.

    The holders of a setting are listed in /run/ballast/sysctl, which, like the setting itself, does not survive a
    restart. The last holder that leaves puts the original back, unless somebody else has set it since.
    """

    directory = "/run/ballast/sysctl"
    _lock_path = f"{directory}/lock"

    def read(self, host: Host, target: str) -> Value:
        name, holder = target.split(" ", 1)
        held = self._entry(host, name)["holders"].get(holder)
        return ABSENT if held is None else {"at_least": min(held, self._current(host, name))}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        name, holder = target.split(" ", 1)
        minimum = int(str(fields(after)["at_least"]))
        current = self._current(host, name)
        with self._lock(host):
            entry = self._entry(host, name)
            entry["holders"][holder] = minimum
            if current < minimum:
                # Written before it is raised: a kill in between leaves an original that still holds.
                entry["original"] = current if current != entry["raised_to"] else entry["original"]
                entry["raised_to"] = minimum
            host.write(self._path(name), json.dumps(entry).encode())
            if current < minimum:
                host.poke(sysctl_path(name), f"{minimum}\n")

    def remove(self, host: Host, target: str, before: Value) -> None:
        name, holder = target.split(" ", 1)
        with self._lock(host):
            entry = self._entry(host, name)
            entry["holders"].pop(holder, None)
            if entry["holders"]:
                host.write(self._path(name), json.dumps(entry).encode())
                return
            if entry["raised_to"] is not None and self._current(host, name) == entry["raised_to"]:
                host.poke(sysctl_path(name), f"{entry['original']}\n")
            last = self._path(name)
            for parent in (self.directory, os.path.dirname(self.directory)):
                if {os.path.join(parent, other) for other in host.listdir(parent)} <= {last, self._lock_path}:
                    last = parent
            if last == self._path(name):
                host.remove(last)
            else:
                host.remove_tree(last)

    @contextmanager
    def _lock(self, host: Host) -> Iterator[None]:
        """Two labs may come up at once; each holds the entries for some milliseconds only."""
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
        """`original`: the value before it was raised to `raised_to`; `holders`: the minimum each asked for."""
        data = host.read(self._path(name))
        entry: dict[str, Any] = json.loads(data) if data else {"original": None, "raised_to": None, "holders": {}}
        return entry

    def _current(self, host: Host, name: str) -> int:
        data = host.read(sysctl_path(name))
        if data is None:
            raise HostError(
                f"this kernel has no setting {name}",
                id="core-no-sysctl",
                remedy="use a kernel with the feature it belongs to",
                page="docs/errors.md",
            )
        return int(data)

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, f"{name}.json")


def sysctl_path(name: str) -> str:
    return "/proc/sys/" + name.replace(".", "/")


def digest(*parts: Union[str, bytes]) -> str:
    """A short digest of contents, for "restart when one of these changes"."""
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
    return Resource(
        kind="sysctl-minimum",
        target=f"{name} {holder}",
        value={"at_least": minimum},
        title=f"setting {name} at least {minimum}",
        group="host settings",
    )
