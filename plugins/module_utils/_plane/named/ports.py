# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ports for planes that live side by side on one address."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Optional

from ..._core.host import Host
from ..._core.sockets import LISTENING, parse_sockets
from ..desired import PORTS

STRIDE = 10  # etcd's two ports and the two of controller manager and scheduler are less than this apart
_TRIES = 200
_EVERYWHERE = ("0.0.0.0", "::")


def listening(host: Host, address: str) -> set[int]:
    """The TCP ports on which nobody else can listen at this address."""
    texts = [(host.read(path) or b"").decode(errors="replace") for path in ("/proc/net/tcp", "/proc/net/tcp6")]
    found = (one for text in texts for one in parse_sockets(text))
    return {one.port for one in found if one.state == LISTENING and one.address in (address, *_EVERYWHERE)}


def free_ports(taken: Collection[int]) -> Optional[dict[str, int]]:
    """The usual ports, or all of them moved up by as little as is needed; None when nothing is free.

    They move together, so that the port of the API server says which plane the others belong to.
    """
    for number in range(_TRIES):
        moved = {option: port + number * STRIDE for option, port in PORTS.items()}
        if not set(moved.values()) & set(taken):
            return moved
    return None


def kept(recorded: Mapping[str, int], free: Mapping[str, int]) -> dict[str, int]:
    """Those recorded; a free one for an option that an earlier release did not have."""
    return {option: int(recorded.get(option, port)) for option, port in free.items()}


def tried() -> tuple[int, int]:
    """The first and the last port that is tried for the API server."""
    first = PORTS["secure_port"]
    return first, first + (_TRIES - 1) * STRIDE
