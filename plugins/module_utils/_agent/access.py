# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of root that a service with its own user must read, such as a kubeconfig: they are given to its group.

The owner stays the same, so that the service cannot change them and whoever reads them as their owner still can. The
previous group and mode are in the journal and are restored when the service is removed.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple, Optional

from .._core.engine.context import Context
from .._core.engine.kinds import fields
from .._core.engine.plan import ABSENT, Resource, Value
from .._core.host.host import Host

_READ_BY_GROUP, _READ_BY_ALL, _ENTER_BY_ALL = 0o040, 0o004, 0o001
_UNKNOWN = "UNKNOWN"  # printed by stat(1) for a group without a name
_SECONDS = 30


class Access(NamedTuple):
    group: str
    mode: int


class GroupAccessKind:
    """`{group, mode}` of a file, also through links. `group` is our service's: a file that somebody has given to another
    group since then is left alone."""

    def __init__(self, group: str) -> None:
        self._group = group

    def read(self, ctx: Context[Any], target: str) -> Value:
        current = read_access(ctx.host, target)
        return ABSENT if current is None else current._asdict()

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        """Set group and mode. No other group can read the file in between."""
        value, current = fields(after), read_access(ctx.host, target)
        if current is None or self._group not in (value["group"], current.group):
            return
        mode = int(str(value["mode"]))
        if current.group != value["group"]:
            ctx.host.run(["chmod", "g-r", "--", target], timeout=_SECONDS)
            ctx.host.run(["chgrp", str(value["group"]), "--", target], timeout=_SECONDS)
        ctx.host.run(["chmod", f"{mode:o}", "--", target], timeout=_SECONDS)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        """Nothing to remove: a file that did not exist before us belongs to whoever created it."""


def group_access(path: str, to: str, current: Access, *, group: str) -> Resource:
    """Give the group `to` read access to the file `path`, whose present access is `current`."""
    after = Access(to, current.mode | _READ_BY_GROUP)
    return Resource("group-access", path, after._asdict(), title=f"group of {path}", group=group)


def read_access(host: Host, path: str) -> Optional[Access]:
    """The group and mode of a file, also through links; None if it is absent. A group without a name is a number."""
    if host.stat(path) is None:
        return None
    words = host.run(["stat", "--dereference", "--format=%G %g %a", "--", path], timeout=_SECONDS).stdout.split()
    name, number, mode = words
    return Access(number if name == _UNKNOWN else name, int(mode, 8))


def is_open_to_all(current: Access) -> bool:
    return bool(current.mode & _READ_BY_ALL)


def is_of_another_group(current: Access, group_name: str) -> bool:
    """Whether a group other than root's and this one can read the file now."""
    return bool(current.mode & _READ_BY_GROUP) and current.group not in (group_name, "root")


def closed_directory(host: Host, path: str) -> str:
    """The first directory on the path to a file that other users cannot enter; "" if there is none."""
    parts = os.path.dirname(path).split("/")
    for number in range(2, len(parts) + 1):
        directory = "/".join(parts[:number])
        stat = host.stat(os.path.join(directory, os.curdir))
        if stat is not None and not stat.mode & _ENTER_BY_ALL:
            return directory
    return ""
