# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Data that a restore replaced: moved aside, recorded, and kept until the control plane is removed."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from ..._core.engine.plan import Recorded

_PREFIX = "before-restore-"


def replaced_data_path(state_dir: str, now: float) -> str:
    """The directory for data that is replaced at this moment (Unix time)."""
    return os.path.join(state_dir, _PREFIX + time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now)))


def without_replaced_data(recorded: Sequence[Recorded]) -> tuple[Recorded, ...]:
    """The recorded resources that a plan may remove when they are no longer requested."""
    return tuple(old for old in recorded if not os.path.basename(old.target).startswith(_PREFIX))
