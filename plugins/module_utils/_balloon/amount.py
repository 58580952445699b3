# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CPU and memory together, in whole millicores and bytes. Integers alone: a node is never sold twice by a rounding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True)
class Amount:
    """`cpu` in millicores, `memory` in bytes. A difference may be negative."""

    cpu: int
    memory: int

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.cpu + other.cpu, self.memory + other.memory)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.cpu - other.cpu, self.memory - other.memory)

    def fits_in(self, other: Amount) -> bool:
        return self.cpu <= other.cpu and self.memory <= other.memory

    def most(self, other: Amount) -> Amount:
        """The larger of each."""
        return Amount(max(self.cpu, other.cpu), max(self.memory, other.memory))

    def least(self, other: Amount) -> Amount:
        """The smaller of each."""
        return Amount(min(self.cpu, other.cpu), min(self.memory, other.memory))

    def as_quantities(self) -> dict[str, str]:
        """As a pod's resources have it: `{"cpu": "1750m", "memory": "7168Mi"}`."""
        whole = self.memory % MIB == 0
        return {"cpu": f"{self.cpu}m", "memory": f"{self.memory // MIB}Mi" if whole else str(self.memory)}

    def __str__(self) -> str:
        """For people: memory in MiB, to a tenth where it is not whole."""
        sign, tenths = "-" if self.memory < 0 else "", abs(self.memory) * 10 // MIB
        whole = self.memory % MIB == 0
        return f"{self.cpu}m cpu, {sign}{tenths // 10}{'' if whole else f'.{tenths % 10}'}Mi memory"


NONE = Amount(0, 0)
# What a balloon is at least: a request of nothing would make its pod BestEffort, and the QoS class of a pod cannot
# change (KEP-1287).
FLOOR = Amount(1, 16 * MIB)


def total(amounts: Iterable[Amount]) -> Amount:
    return sum(amounts, NONE)
