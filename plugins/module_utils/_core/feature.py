# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A feature as the run loop takes it: its options, what they ask for, and the engine that brings it about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .engine import Engine

D = TypeVar("D")


@dataclass(frozen=True)
class Feature(Generic[D]):
    name: str
    spec: Mapping[str, Mapping[str, Any]]
    desired: Callable[[Mapping[str, Any]], D]  # raises Problems with every input error
    engine: Engine[D, Any, Any]
    required_if: Sequence[tuple[str, object, Sequence[str]]] = ()
