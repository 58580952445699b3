# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Does this object belong to us? A name never decides; a mark in the object does, and the journal of the feature that made
it.

The mark of a directory is the file `.ballast` in it. It records the owner (a feature), the path for which the directory was
made, and whether we made it or found it empty. A copy of a marked directory has another path, so it is not ours.

    claim(host, path, owner=)      make the directory, or take over an empty one, with the mark; refuse any other
    require_ours(host, path, ...)  refuse what `claim` would refuse, and change nothing
    adopt(host, path, owner=)      mark what an earlier version made, according to its journal
    remove_marked_directory(...)   remove a directory with its content, only if it is marked
    release(host, path)            remove the mark, and the directory if we made it and it is otherwise empty
    refuse_others(...)             refuse objects that exist although no journal lists them: links, namespaces, units
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Optional, Protocol, runtime_checkable

from ..host.host import Host, Stat
from ..host.names import MARK, MARKER
from ..host.safe_path import owners
from ..text.errors import HostError, shorten
from ..text.json_text import NotJson, parse_json
from ..text.run_messages import MESSAGES
from .plan import ABSENT, Recorded, Resource, Value

_MARK_BYTES = 4096  # a mark has about a hundred
_OTHERS_WRITE = 0o022
_JOURNAL, _PROGRESS = "ledger.jsonl", "events.jsonl"
_NOTES = {_PROGRESS, "outcome.json", "lock"}  # what an earlier version with nothing to undo may have left
_BOOKS = (_PROGRESS, "lock", _JOURNAL)  # in order of removal: the journal, which proves ownership, goes last
_EVENT = {"kind", "feature", "subject", "text", "seconds", "at"}
_UNITS = "/etc/systemd/system/"
_SHOWN = 5  # names of a list that a message repeats
DIRECTORY = "directory"  # owner of the directories that a journal lists; a state directory names its feature

ABSENT_PLACE, EMPTY, OURS, OF_JOURNAL = "absent", "empty", "ours", "of a journal"


@dataclass(frozen=True)
class Mark:
    """The content of `.ballast` in a directory. `made` is False if we took over an empty directory instead of making
    it."""

    owner: str
    path: str
    made: bool = True

    def as_bytes(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode() + b"\n"


@runtime_checkable
class Exclusive(Protocol):
    """A kind of resource that only the feature whose journal lists it may change or remove."""

    exclusive: bool


@runtime_checkable
class Adopting(Protocol):
    """A kind that marks what it makes, and that can mark what an earlier version made without a mark."""

    def adopt(self, host: Host, target: str) -> None:
        """Mark `target`, which an earlier version made according to its journal."""


@runtime_checkable
class Claiming(Protocol):
    """An engine that keeps a journal in its own state directory."""

    def claim(self, ctx: Any) -> None:
        """Make the state directory, or verify that it is this engine's. HostError if it is not."""


# Directories


def list_content(host: Host, path: str) -> list[str]:
    """The names in a directory, except our mark."""
    return [name for name in host.listdir(path) if name != MARKER]


def read_mark(host: Host, path: str) -> Optional[Mark]:
    """The mark of a directory; None where it has none. HostError if the mark cannot be trusted."""
    place = os.path.join(path, MARKER)
    stat = host.stat(place)
    if stat is None:
        return None
    reason = _reason_to_distrust(stat, "file")
    if not reason and stat.size > _MARK_BYTES:
        reason = f"it has {stat.size} bytes"
    try:
        row = {} if reason else parse_json(host.read(place) or b"")
        if not reason:
            return Mark(owner=str(row["owner"]), path=str(row["path"]), made=row["made"] is True)
    except (NotJson, KeyError, TypeError):
        reason = "it cannot be read"
    raise not_ours_error(path, f"{place}: {reason}")


def require_ours(host: Host, path: str, *, owner: str, record: str = "") -> str:
    """What a directory is to `owner`: absent, empty, ours, or the unmarked state directory of an earlier version. HostError
    `core-not-ours` for every other. `record` is a file that the journal of an earlier version must name."""
    require_private(host, os.path.dirname(path))
    stat = _behind_link(host, path)
    if stat is None:
        return ABSENT_PLACE
    reason = _reason_to_distrust(stat, "directory")
    if reason:
        raise not_ours_error(path, reason)
    mark = read_mark(host, path)
    if mark is not None:
        if mark.owner != owner or os.path.normpath(mark.path) != os.path.normpath(path):
            raise not_ours_error(path, f"its mark says {mark.path} of {mark.owner}")
        return OURS
    names = host.listdir(path)
    if not names:
        return EMPTY
    if _has_journal(host, path, record):
        return OF_JOURNAL
    raise not_ours_error(path, f"it lacks the mark of {owner}; {_list_names(names)}")


def claim(host: Host, path: str, *, owner: str, mode: int = 0o755, record: str = "") -> None:
    """Make `path` ours, or verify that it is. What an earlier version left is taken over by `adopt` instead."""
    state = require_ours(host, path, owner=owner, record=record)
    if state == ABSENT_PLACE:
        host.make_owned_directory(path, Mark(owner, path).as_bytes(), mode=mode)
    elif state == EMPTY:
        set_mark(host, path, owner=owner, made=False)


def set_mark(host: Host, path: str, *, owner: str = DIRECTORY, made: bool = True, as_path: str = "") -> None:
    """Mark a directory that is known to be ours. `as_path` is its final path, if it is to be renamed to that."""
    host.write(os.path.join(path, MARKER), Mark(owner, as_path or path, made).as_bytes(), mode=0o600)


def adopt(
    host: Host, path: str, recorded: Sequence[Recorded], kinds: Mapping[str, object], *, owner: str, record: str = ""
) -> None:
    """Mark what an earlier version made: each object in its journal that can carry a mark, and finally the directory
    itself."""
    if require_ours(host, path, owner=owner, record=record) != OF_JOURNAL:
        return
    for resource in recorded:
        kind = kinds.get(resource.kind)
        if resource.original == ABSENT and isinstance(kind, Adopting):
            kind.adopt(host, resource.target)
    link = host.readlink(path)
    set_mark(host, path, owner=owner, made=link is None)


def adopt_directory(host: Host, path: str) -> None:
    """Mark a directory that the journal of an earlier version lists."""
    stat = host.stat(path)
    if stat is not None and not _reason_to_distrust(stat, "directory") and read_mark(host, path) is None:
        set_mark(host, path)


def make_marked_directory(host: Host, path: str, *, mode: int) -> None:
    """Make a directory that is absent. HostError if something exists there by now."""
    host.make_owned_directory(path, Mark(DIRECTORY, path).as_bytes(), mode=mode)


def remove_marked_directory(host: Host, path: str) -> None:
    """Remove a directory with its content; absent is fine. If it is not empty, it must carry our mark or lie in a marked
    directory: a program that owns the content may have removed the mark, as the kubelet does in its log directory."""
    stat = host.stat(path)
    if stat is None:
        return
    if stat.kind == "directory" and not host.listdir(path):
        host.remove_directory(path)
        return
    if not _is_below_marked(host, path) and require_ours(host, path, owner=DIRECTORY) == OF_JOURNAL:
        # The state directory of another feature; nobody asked to adopt it here.
        raise not_ours_error(path, f"it lacks the mark of a {DIRECTORY}; {_list_names(host.listdir(path))}")
    host.remove_tree(path)


def _is_below_marked(host: Host, path: str) -> bool:
    above = os.path.dirname(path)
    while above != os.path.dirname(above):
        if is_ours(host, above):
            return True
        above = os.path.dirname(above)
    return False


def release(host: Host, path: str) -> None:
    """Remove the mark, and the directory if we made it and it is otherwise empty. Other files remain."""
    mark = read_mark(host, path)
    if mark is None:
        return
    if mark.made and not list_content(host, path):
        host.remove_tree(path)
    else:
        host.remove(os.path.join(path, MARKER))


def is_only_marked(host: Host, path: str) -> bool:
    """Whether a directory contains only our mark."""
    return host.listdir(path) == [MARKER]


def is_ours(host: Host, path: str, *, owner: str = DIRECTORY) -> bool:
    """Whether a directory exists and carries the mark of `owner`."""
    try:
        return require_ours(host, path, owner=owner) == OURS
    except HostError:
        return False


def discard(host: Host, path: str, *, owner: str, caches: Collection[str] = ()) -> None:
    """Remove the state directory of `owner` with its journal, whatever the journal still lists: all of that is gone. What is
    not ours is left alone. `caches` are subdirectories that programs of `owner` made."""
    try:
        state = require_ours(host, path, owner=owner)
    except HostError:
        return
    if state not in (OURS, OF_JOURNAL):
        return
    for name in caches:
        entry = host.stat(os.path.join(path, name))
        if entry is not None and entry.kind == "directory":
            host.remove_tree(os.path.join(path, name))
    for name in _BOOKS:
        entry = host.stat(os.path.join(path, name))
        if entry is not None and entry.kind == "file":
            host.remove(os.path.join(path, name))
    release(host, path)
    if state == OF_JOURNAL and not host.listdir(path):
        host.remove_directory(path)


def require_private(host: Host, path: str) -> None:
    """HostError if a directory of `path`, from the one named `ballast` on, exists and other users can write it: what it
    contains would then prove nothing."""
    parts = path.split("/")
    if MARK not in parts:
        return
    for number in range(parts.index(MARK) + 1, len(parts) + 1):
        place = "/".join(parts[:number])
        stat = _behind_link(host, place)
        if stat is None:
            return
        reason = "" if stat.kind == "file" and number == len(parts) else _reason_to_distrust(stat, "directory")
        if reason or not has_trusted_owner(stat):
            raise not_ours_error(place, reason or f"it belongs to user {stat.uid}, mode {stat.mode:04o}")


# Objects that must not exist already


def refuse_others(
    resources: Sequence[Resource],
    recorded: Collection[tuple[str, str]],
    values: Mapping[tuple[str, str], Value],
    kinds: Mapping[str, object],
) -> None:
    """HostError if a resource that only we may make exists and no journal of ours lists it."""
    for resource in resources:
        kind = kinds.get(resource.kind)
        # A unit file made by somebody else is never replaced by ours and restored later.
        is_unit = resource.kind in ("file", "symlink") and resource.target.startswith(_UNITS)
        is_exclusive = is_unit or (isinstance(kind, Exclusive) and kind.exclusive)
        if is_exclusive and resource.key not in recorded and values[resource.key] != ABSENT:
            value = shorten(json.dumps(values[resource.key], sort_keys=True))
            raise taken_error(resource.title, f"it exists, but no journal of this collection lists it: {value}")


def taken_error(what: str, reason: str) -> HostError:
    return HostError(**MESSAGES.texts("core-taken", found=reason, what=what))


def not_ours_error(path: str, reason: str) -> HostError:
    return HostError(**MESSAGES.texts("core-not-ours", found=reason, path=path))


# Helpers


def has_trusted_owner(stat: Stat) -> bool:
    """Whether the owner is root or this user, and nobody else can write it."""
    return stat.uid in owners() and not stat.mode & _OTHERS_WRITE


def _behind_link(host: Host, path: str) -> Optional[Stat]:
    """The stat of what a path leads to. For a symlink of another user, that of the link itself, since its owner can change the
    target at any time."""
    stat = host.stat(path)
    if stat is not None and stat.kind == "symlink" and stat.uid in owners():
        return host.stat(os.path.join(path, os.curdir)) or stat
    return stat


def _reason_to_distrust(stat: Stat, kind: str) -> str:
    """Why an entry cannot be ours; "" if nothing speaks against it."""
    if stat.kind != kind:
        return f"a {stat.kind}, not a {kind}"
    if stat.uid not in owners():
        return f"it belongs to user {stat.uid}"
    return f"other users can write it: mode {stat.mode:04o}" if stat.mode & _OTHERS_WRITE else ""


def _has_journal(host: Host, path: str, record: str) -> bool:
    """Whether an earlier version left a journal here, or only its progress log, having removed the journal."""
    data = _own_file(host, os.path.join(path, _JOURNAL))
    if data is not None:
        return _is_row(data, {"op"}) and (not record or json.dumps(os.path.join(path, record)).encode() in data)
    data = _own_file(host, os.path.join(path, _PROGRESS))
    return data is not None and _is_row(data, _EVENT) and set(host.listdir(path)) <= _NOTES


def _own_file(host: Host, path: str) -> Optional[bytes]:
    stat = host.stat(path)
    return host.read(path) if stat is not None and not _reason_to_distrust(stat, "file") else None


def _is_row(data: bytes, keys: Collection[str]) -> bool:
    """Whether the first line is a JSON object with these keys."""
    try:
        first = parse_json(data[: data.find(b"\n") + 1])
    except NotJson:
        return False
    return isinstance(first, dict) and set(keys) <= first.keys()


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"it contains {shorten(', '.join(repr(name) for name in names[:_SHOWN]))}{more}"
