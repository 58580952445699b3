# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the rules of a node do not remember by themselves: settings as they were before, and since when endpoints drain.

Kept in /run, as what it is about does not survive a restart either, one file for each network namespace and backend.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Optional

from .._core.emptied import remove_emptied
from .._core.host import Host
from .._core.kinds import sysctl_path
from .._core.names import MARK
from .backends import Settings
from .messages import MESSAGES

DIRECTORY = f"/run/{MARK}/service-rules"


@dataclass(frozen=True)
class Record:
    original_settings: Mapping[str, str] = field(default_factory=dict)  # name: value before we set it
    draining_since: Mapping[str, float] = field(default_factory=dict)  # real server: seconds since the epoch

    @property
    def is_empty(self) -> bool:
        return not self.original_settings and not self.draining_since


@dataclass(frozen=True)
class SettingChange:
    """An Operation like those of the backends."""

    target: str  # the setting's name
    before: str  # "" where the kernel does not have it yet, as a module brings it
    after: str
    kind: str = "change setting"


def read_record(host: Host, backend: str) -> Record:
    data = host.read(_path(host, backend))
    if data is None:
        return Record()
    try:
        found = json.loads(data)
        return Record(
            {str(name): str(value) for name, value in found["original_settings"].items()},
            {str(name): float(value) for name, value in found["draining_since"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MESSAGES.error("rules-record", path=_path(host, backend), found=repr(error)) from error


def write_record(host: Host, backend: str, record: Record) -> None:
    path = _path(host, backend)
    if record.is_empty:
        host.remove(path)
        remove_emptied(host, DIRECTORY)
        return
    host.make_directory(DIRECTORY)
    shown = {
        "original_settings": dict(record.original_settings),
        "draining_since": dict(record.draining_since),
    }
    host.write(path, json.dumps(shown).encode(), mode=0o600)


def setting_changes(wanted: Settings, current: Mapping[str, Optional[str]], record: Record) -> list[SettingChange]:
    """What is to be set, and what to be put back because nothing wants it any more. Pure."""
    found = []
    for name, value in wanted:
        there = current[name] or ""
        if there != value:
            found.append(SettingChange(name, there, value))
    names = {name for name, _value in wanted}
    for name, original in sorted(record.original_settings.items()):
        now = current[name]
        if name not in names and now is not None and now != original:
            found.append(SettingChange(name, now, original))
    return found


def originals(wanted: Settings, changes: Sequence[SettingChange], record: Record) -> dict[str, str]:
    """What to remember: of each setting that is wanted and that we changed, its value before the first change."""
    changed = {change.target: change.before for change in changes}
    found = {name: record.original_settings.get(name, changed.get(name)) for name, _value in wanted}
    return {name: value for name, value in found.items() if value}


def with_late_originals(record: Record, changes: Sequence[SettingChange], host: Host) -> Record:
    """With the values of settings that a module has brought since the plan was made. HostError where one is lacking still."""
    late = {}
    for change in changes:
        if not change.before:
            value = read_setting(host, change.target)
            if value is None:
                raise MESSAGES.error("rules-setting-absent", name=change.target)
            late[change.target] = value
    return Record({**record.original_settings, **late}, record.draining_since)


def change_setting(host: Host, change: SettingChange) -> None:
    host.poke(sysctl_path(change.target), f"{change.after}\n")


def read_setting(host: Host, name: str) -> Optional[str]:
    data = host.read(sysctl_path(name))
    return None if data is None else data.decode().strip()


def _path(host: Host, backend: str) -> str:
    # "net:[4026531840]": instances on one host share /run.
    namespace = "".join(sign for sign in host.readlink("/proc/self/ns/net") or "" if sign.isdigit())
    return os.path.join(DIRECTORY, f"{namespace or 'host'}-{backend}.json")
