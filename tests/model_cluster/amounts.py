# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CPU and memory as the model counts them: pairs of whole millicores and bytes, read by arithmetic of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

_MEMORY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "": 1}


class Pair(NamedTuple):
    cpu: int
    memory: int

    def plus(self, other: Pair) -> Pair:
        return Pair(self.cpu + other.cpu, self.memory + other.memory)

    def minus(self, other: Pair) -> Pair:
        return Pair(self.cpu - other.cpu, self.memory - other.memory)

    def most(self, other: Pair) -> Pair:
        return Pair(max(self.cpu, other.cpu), max(self.memory, other.memory))

    def least(self, other: Pair) -> Pair:
        return Pair(min(self.cpu, other.cpu), min(self.memory, other.memory))

    def fits(self, other: Pair) -> bool:
        return self.cpu <= other.cpu and self.memory <= other.memory

    def quantities(self) -> dict[str, str]:
        return {"cpu": f"{self.cpu}m", "memory": str(self.memory)}


ZERO = Pair(0, 0)


def pair(quantities: Mapping[str, Any]) -> Pair:
    """Of `{"cpu": "1750m", "memory": "7Gi"}`; what is not there is 0."""
    cpu, memory = str(quantities.get("cpu", "0")), str(quantities.get("memory", "0"))
    millicores = int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000
    unit = memory[-2:] if memory[-2:] in _MEMORY else ""
    return Pair(millicores, int(memory[: len(memory) - len(unit)]) * _MEMORY[unit])
