# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""State that live rules cannot show: original values of kernel settings, and when endpoints began to drain.

One file in /run per network namespace and backend: a reboot resets what it describes, too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Optional

from .._core.engine.kinds import sysctl_path
from .._core.engine.ownership import make_marked_directory, require_private
from .._core.engine.prune_directories import remove_emptied
from .._core.host.host import Host
from .._core.host.names import MARK
from .._core.text.json_text import parse_json
from .backend import Settings
from .messages import MESSAGES

DIRECTORY = f"/run/{MARK}/service-rules"


@dataclass(frozen=True)
class Record:
    original_settings: Mapping[str, str] = field(default_factory=dict)  # name: value before our first change
    draining_since: Mapping[str, float] = field(default_factory=dict)  # real server: seconds since the epoch

    @property
    def is_empty(self) -> bool:
        return not self.original_settings and not self.draining_since


@dataclass(frozen=True)
class SettingChange:
    """A change of one kernel setting. An Operation like those of the backends."""

    target: str  # the setting's name
    before: str  # "" if the setting does not exist until a module is loaded
    after: str
    kind: str = "change setting"


def read_record(host: Host, backend: str) -> Record:
    """The record; empty if there is no file. `rules-record` if the file has another form."""
    require_private(host, _path(host, backend))
    data = host.read(_path(host, backend))
    if data is None:
        return Record()
    try:
        saved = parse_json(data)
        return Record(
            {str(name): str(value) for name, value in saved["original_settings"].items()},
            {str(name): float(value) for name, value in saved["draining_since"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MESSAGES.error("rules-record", path=_path(host, backend), found=repr(error)) from error


def write_record(host: Host, backend: str, record: Record) -> None:
    """Replace the record. An empty one removes the file."""
    path = _path(host, backend)
    if record.is_empty:
        host.remove(path)
        remove_emptied(host, DIRECTORY)
        return
    require_private(host, DIRECTORY)
    if host.stat(DIRECTORY) is None:
        make_marked_directory(host, DIRECTORY, mode=0o755)
    shown = {
        "original_settings": dict(record.original_settings),
        "draining_since": dict(record.draining_since),
    }
    host.write(path, json.dumps(shown).encode(), mode=0o600)


def plan_settings(required: Settings, current: Mapping[str, Optional[str]], record: Record) -> list[SettingChange]:
    """The settings to change, including those to restore because no rule needs them any more. Pure."""
    changes = []
    for name, value in required:
        there = current[name] or ""
        if there != value:
            changes.append(SettingChange(name, there, value))
    names = {name for name, _value in required}
    for name, original in sorted(record.original_settings.items()):
        now = current[name]
        if name not in names and now is not None and now != original:
            changes.append(SettingChange(name, now, original))
    return changes


def select_originals(required: Settings, changes: Sequence[SettingChange], record: Record) -> dict[str, str]:
    """The original value of each required setting that we changed."""
    changed = {change.target: change.before for change in changes}
    before = {name: record.original_settings.get(name, changed.get(name)) for name, _value in required}
    return {name: value for name, value in before.items() if value}


def add_late_originals(record: Record, changes: Sequence[SettingChange], host: Host) -> Record:
    """Add the original values of settings that did not exist until a module was loaded. HostError if one still does not
    exist."""
    late = {}
    for change in changes:
        if not change.before:
            value = read_setting(host, change.target)
            if value is None:
                raise MESSAGES.error("rules-setting-absent", name=change.target)
            late[change.target] = value
    return Record({**record.original_settings, **late}, record.draining_since)


def change_setting(host: Host, change: SettingChange) -> None:
    host.write_kernel_file(sysctl_path(change.target), f"{change.after}\n")


def read_setting(host: Host, name: str) -> Optional[str]:
    """The value of a kernel setting; None if this kernel lacks it."""
    data = host.read(sysctl_path(name))
    return None if data is None else data.decode().strip()


def _path(host: Host, backend: str) -> str:
    return os.path.join(DIRECTORY, f"{namespace_name(host)}-{backend}.json")


def namespace_name(host: Host) -> str:
    """The network namespace as part of a file name: instances on one host share /run."""
    # "net:[4026531840]"
    return "".join(sign for sign in host.readlink("/proc/self/ns/net") or "" if sign.isdigit()) or "host"
