# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CPU and memory together, in whole millicores and bytes. Integers only, as rounding must not overcommit a node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MIB = 2**20
PAGE = 2**16  # bytes, the largest memory page of kernels that run kubelets (arm64); most use 4096


@dataclass(frozen=True)
class Resources:
    """`cpu` in millicores, `memory` in bytes. A difference may be negative."""

    cpu: int
    memory: int

    def __add__(self, other: Resources) -> Resources:
        return Resources(self.cpu + other.cpu, self.memory + other.memory)

    def __sub__(self, other: Resources) -> Resources:
        return Resources(self.cpu - other.cpu, self.memory - other.memory)

    def fits_in(self, other: Resources) -> bool:
        """Whether neither CPU nor memory exceeds the other's."""
        return self.cpu <= other.cpu and self.memory <= other.memory

    def most(self, other: Resources) -> Resources:
        """The larger value of each resource."""
        return Resources(max(self.cpu, other.cpu), max(self.memory, other.memory))

    def least(self, other: Resources) -> Resources:
        """The smaller value of each resource."""
        return Resources(min(self.cpu, other.cpu), min(self.memory, other.memory))

    def as_quantities(self) -> dict[str, str]:
        """Quantities as in a pod's resources: `{"cpu": "1750m", "memory": "7168Mi"}`."""
        whole = self.memory % MIB == 0
        return {"cpu": f"{self.cpu}m", "memory": f"{self.memory // MIB}Mi" if whole else str(self.memory)}

    def __str__(self) -> str:
        """For people: memory in MiB, with one decimal unless it is whole."""
        sign, tenths = "-" if self.memory < 0 else "", abs(self.memory) * 10 // MIB
        whole = self.memory % MIB == 0
        return f"{self.cpu}m cpu, {sign}{tenths // 10}{'' if whole else f'.{tenths % 10}'}Mi memory"


NONE = Resources(0, 0)
# The smallest balloon: without a request its pod would be BestEffort, and the QoS class of a pod cannot change (KEP-1287).
FLOOR = Resources(1, 16 * MIB)


def total(amounts: Iterable[Resources]) -> Resources:
    return sum(amounts, NONE)
