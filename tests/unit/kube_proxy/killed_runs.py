# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs that are killed at each of their effects in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tests.unit.fakes import Killed
from tests.unit.kube_proxy.fake_node import Node

N = TypeVar("N", bound=Node)


def kill_at_every_effect(fresh: Callable[[], N], act: Callable[[N], object], then: Callable[[N, str], None]) -> int:
    """Run `act` on a fresh node, killed at each of its effects in turn, each time followed by `then`, which gets the node and
    where that was. The number of kills."""
    number = 1
    while True:
        node = fresh()
        node.host.fail_at(number, torn=True)
        try:
            act(node)
        except Killed:
            node.host.calm()
            then(node, f"killed at effect {number}, after {node.host.effects[-1] if node.host.effects else 'none'}")
        else:
            return number - 1
        number += 1
