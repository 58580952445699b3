# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads which controllers run."""

from __future__ import annotations

import re
from typing import Optional

from ..._core.host.host import Host
from ..._core.text.errors import PeerError
from ..profiles.profiles import CONTROLLER_MANAGER, HYPER_MINI
from ..record import Member, Record
from .processes import parse_flags, read_argv

# The controller manager has a health check for each controller that it runs, under the controller's name.
_CHECK = re.compile(r"^\[[+-]\]([a-z0-9-]{1,100}-controller)\b", re.ASCII | re.MULTILINE)


def read_running_controllers(host: Host, record: Record) -> Optional[tuple[str, ...]]:
    """Names as kube-controller-manager's --help has them, sorted; None when nothing that runs controllers answers."""
    managers = [member for member in record.members if member.component == CONTROLLER_MANAGER]
    # Of several managers only the leader runs controllers.
    answers = [_of_controller_manager(host, record, member) for member in managers]
    answers += [_of_hyper_mini(host, member) for member in record.members if member.component == HYPER_MINI]
    known = [names for names in answers if names is not None]
    return tuple(sorted({name for names in known for name in names})) if known else None


def _of_controller_manager(host: Host, record: Record, member: Member) -> Optional[tuple[str, ...]]:
    try:
        answer = record.ask_health(host, member, query="?verbose")
    except PeerError:
        return None
    return tuple(sorted(set(_CHECK.findall(answer.body.decode(errors="replace")))))


def _of_hyper_mini(host: Host, member: Member) -> Optional[tuple[str, ...]]:
    """hyper-mini exits when a controller does, so its flag names the controllers that run."""
    argv = read_argv(host, member)
    if not argv:
        return None
    named = ",".join(parse_flags(argv).get("controllers", ()))
    return tuple(sorted(name for name in named.split(",") if name))
