# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ports of several control planes on one address."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Optional

from ..request import PORTS

STRIDE = 10  # etcd's two ports and the two of controller manager and scheduler are less than this apart
_TRIES = 200


def free_ports(taken: Collection[int]) -> Optional[dict[str, int]]:
    """The usual ports, or all of them moved up by as little as is needed; None when nothing is free.

    They move together, so that the port of the API server identifies the others of its control plane.
    """
    for number in range(_TRIES):
        moved = {option: port + number * STRIDE for option, port in PORTS.items()}
        if not set(moved.values()) & set(taken):
            return moved
    return None


def keep_recorded(recorded: Mapping[str, int], free: Mapping[str, int]) -> dict[str, int]:
    """The recorded ports; a free port for an option that an earlier release lacks."""
    return {option: int(recorded.get(option, port)) for option, port in free.items()}


def port_range() -> tuple[int, int]:
    """The first and the last port that `free_ports` tries for the API server."""
    first = PORTS["secure_port"]
    return first, first + (_TRIES - 1) * STRIDE
