# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the modules have in common that do one thing to a control plane, where the engine of it says what should be."""

from __future__ import annotations

from typing import Generic, TypeVar

from ..._core.engine import Finding
from ..._core.events import Progress
from ..._core.host import Host
from ..._core.plan import Plan
from ..._core.told import plan_difference, steps_told

D_contra = TypeVar("D_contra", contravariant=True)


class Operation(Generic[D_contra]):
    """The shape of _core.engine.Engine; `observe`, `plan`, `require`, `apply` and `report` are those of the operation.

    It shares the lock of the control plane's own runs, so that neither changes what the other is at work on.
    """

    name = "plane"
    planning = "plan"

    def told(self, plan: Plan) -> dict[str, object]:
        return {"steps": steps_told(plan)}

    def difference(self, plan: Plan) -> list[dict[str, str]]:
        return plan_difference(plan)

    def verify(self, desired: D_contra, host: Host, progress: Progress) -> list[Finding]:
        """Nothing: each checks its work before it puts it in place."""
        return []

    def preview(self, desired: D_contra) -> dict[str, object]:
        return {}
