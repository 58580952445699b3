# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The input of a playbook: variables and the inventory, in the form that its checks use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LOCALHOST = "localhost"
Match = Callable[[str], list[str]]  # a pattern to the hosts of the inventory that it matches, in inventory order


@dataclass(frozen=True)
class Given:
    """Variables of the playbook's controller and of the hosts, as the user gave them; values are evaluated by Ansible."""

    value: Callable[[str], Any]  # None where the variable is not given
    host_value: Callable[[str, str], Any]  # None if the variable is not set
    match: Match
    group: Callable[[str], list[str]] = lambda name: []  # hosts of the group; empty if there is no such group
    extra: Collection[str] = ()  # names of variables given with -e
    inventory: Callable[[Sequence[str]], Collection[str]] = lambda hosts: ()  # names of all variables of these hosts
    is_check: bool = False

    def is_true(self, host: str, name: str) -> bool:
        """Whether the host's variable has one of the spellings of true. False when it is not set."""
        return str(self.host_value(host, name)).lower() in ("true", "yes", "1", "on")


def plain(value: Any) -> Any:
    """Ansible's values, which are evaluated when they are read, as JSON data."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value
