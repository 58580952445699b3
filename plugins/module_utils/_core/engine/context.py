# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run passes to every part of an engine that reads or changes the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from ..host.host import Host
from .events import NullSink, Progress

D_co = TypeVar("D_co", covariant=True)
SILENT = Progress(NullSink(), feature="")


@dataclass(frozen=True)
class Context(Generic[D_co]):
    """`desired` is what the module's options ask for, `host` the machine, `progress` where events go (nowhere by
    default)."""

    desired: D_co
    host: Host
    progress: Progress = SILENT
