# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Directories and files of the host that a user mounts into an instance."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Optional

from .._core.host.host import Host
from .._core.text.errors import BallastError
from .messages import MESSAGES
from .view import KEPT, MOUNT_POINTS, follow

_PATH = re.compile(r"(/(?!\.{1,2}(/|$))[^\s/\x00-\x1f\x7f]+)+")


@dataclass(frozen=True)
class NodeMount:
    host: str  # path on the host
    node: str  # path in the instance
    read_only: bool

    def as_value(self) -> dict[str, object]:
        return {"host": self.host, "node": self.node, "read_only": self.read_only}


def check_mounts(mounts: Iterable[NodeMount], own: Sequence[str], path: str, problems: list[BallastError]) -> None:
    """`own`: directories with files of instances. A mount on one of these, or above it, would hide its content."""
    seen: dict[str, str] = {}
    for number, mount in enumerate(mounts):
        place = f"{path}[{number}]"
        for name, text in (("host", mount.host), ("node", mount.node)):
            if not _PATH.fullmatch(text):
                problems.append(MESSAGES.error("instance-path", path=f"{place}.{name}", value=text))
        if not _PATH.fullmatch(mount.node):
            continue
        hidden = _find_hidden(mount.node, own)
        if hidden is not None:
            problems.append(MESSAGES.error("instance-mount-place", path=f"{place}.node", value=mount.node, kept=hidden))
        if mount.node in seen:
            problems.append(
                MESSAGES.error("instance-twice", path=f"{place}.node", value=mount.node, first=seen[mount.node])
            )
        seen.setdefault(mount.node, place)


def find_problems(mounts: Sequence[NodeMount], host: Host, path: str) -> list[BallastError]:
    """Sources that the host lacks, and targets that are reserved. Symbolic links of the host are followed: /var/run/x is /run/x."""
    problems = [
        MESSAGES.error("instance-mount-missing", path=f"{path}[{number}].host", value=mount.host)
        for number, (mount, real) in enumerate(zip(mounts, follow(host, [mount.host for mount in mounts])))
        if host.stat(real) is None
    ]
    for number, (mount, place) in enumerate(zip(mounts, follow(host, [mount.node for mount in mounts]))):
        hidden = _find_hidden(place, ())
        if hidden is not None:
            shown = f"{mount.node} (on this host {place})" if place != mount.node else place
            problems.append(
                MESSAGES.error("instance-mount-place", path=f"{path}[{number}].node", value=shown, kept=hidden)
            )
    return problems


def _find_hidden(place: str, own: Sequence[str]) -> Optional[str]:
    return next((kept for kept in (*KEPT, *MOUNT_POINTS, *own) if _overlap(place, kept)), None)


def _overlap(path: str, other: str) -> bool:
    return f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/")
