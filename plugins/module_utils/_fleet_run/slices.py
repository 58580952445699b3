# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Divides the hosts of a fleet into slices, and makes the inventory of each. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._core.host.host import NOTHING

CANARY, SLICE = "canary", "slice"
_SHARED = "ballast_fleet_slice"  # group of all hosts of a slice, with their common variables


@dataclass(frozen=True)
class Slices:
    """Hosts by slice. `canary` is empty when nothing is to be changed."""

    canary: tuple[str, ...]
    slices: tuple[tuple[str, ...], ...]

    @property
    def by_name(self) -> dict[str, tuple[str, ...]]:
        """Hosts by name of the slice, in the order of work."""
        named = {slice_name(SLICE, index): hosts for index, hosts in enumerate(self.slices)}
        return {**({slice_name(CANARY, 0): self.canary} if self.canary else {}), **named}


def slice_name(job: str, index: int) -> str:
    """`slice-3`: index 3 of the Job of slices."""
    return f"{job}-{index}"


def divide(hosts: Sequence[str], canaries: Sequence[str], count: int, *, acts: bool) -> Slices:
    """Neighbours in the inventory get different slices, as a rack often is one range of names. If the run acts and no canary is named, the
    first host is the canary."""
    canary = (tuple(canaries) or tuple(hosts[:1])) if acts else ()
    chosen = set(canary)
    others = [host for host in hosts if host not in chosen]
    count = min(count, len(others))
    return Slices(canary, tuple(tuple(others[index::count]) for index in range(count)))


def slice_inventory(
    hosts: Sequence[str],
    variables: Mapping[str, Mapping[str, Any]],
    groups: Mapping[str, Sequence[str]],
    own: Mapping[str, Any],
    local: Mapping[str, Any] = NOTHING,
) -> dict[str, Any]:
    """An inventory for Ansible's inventory plugin `yaml`. `variables` are by host; those that are equal for all are written once, in a
    group, as variables of `all` would also apply to localhost, which has `local`. `own` apply to all hosts and override theirs."""
    rows = {host: {name: value for name, value in variables[host].items() if name not in own} for host in hosts}
    shared = _common_variables(list(rows.values()))
    chosen = set(hosts)
    members = {name: [host for host in listed if host in chosen] for name, listed in groups.items()}
    return {
        "all": {
            "hosts": {
                host: {name: value for name, value in row.items() if name not in shared} for host, row in rows.items()
            },
            "vars": dict(local),
            "children": {
                **{
                    name: {"hosts": dict.fromkeys(listed, {})}
                    for name, listed in members.items()
                    if listed and name not in ("all", "ungrouped")
                },
                _SHARED: {"hosts": dict.fromkeys(hosts, {}), "vars": {**shared, **own}},
            },
        }
    }


def inventory_of(hosts: Collection[str], inventory: Mapping[str, Any]) -> dict[str, Any]:
    """A result of slice_inventory with only these hosts. A host pattern cannot do this for names with a colon."""
    whole = inventory["all"]
    groups = {name: {**group, "hosts": _keep(group["hosts"], hosts)} for name, group in whole["children"].items()}
    return {"all": {**whole, "hosts": _keep(whole["hosts"], hosts), "children": groups}}


def _keep(rows: Mapping[str, Any], hosts: Collection[str]) -> dict[str, Any]:
    return {host: row for host, row in rows.items() if host in hosts}


def _common_variables(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not rows:
        return {}
    same = dict(rows[0])
    for row in rows[1:]:
        same = {name: value for name, value in same.items() if name in row and _is_same(row[name], value)}
    return same


def _is_same(one_value: Any, other: Any) -> bool:
    """Compares as JSON, so that True is not equal to 1."""
    return json.dumps(one_value, sort_keys=True) == json.dumps(other, sort_keys=True)
