# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The common part of one-off operations on a control plane (backup, restore), which have no desired state."""

from __future__ import annotations

from typing import Generic, TypeVar

from ..._core.engine.context import Context
from ..._core.engine.engine import BaseEngine, Desired, Finding
from ..._core.engine.ownership import claim
from ..._core.engine.plan import Plan
from ..._core.engine.plan_report import plan_diff, steps_as_result

D = TypeVar("D", bound=Desired)
S = TypeVar("S")


class Operation(BaseEngine[D, S, Plan], Generic[D, S]):
    """`observe`, `plan`, `require`, `apply` and `report` are those of the operation. Its one step is not journaled.

    It shares the lock of the control plane's own runs, so that the two never work at once.
    """

    name = "plane"

    def claim(self, ctx: Context[D]) -> None:
        claim(ctx.host, ctx.desired.state_dir, owner=self.name)

    def as_result(self, plan: Plan) -> dict[str, object]:
        return {"steps": steps_as_result(plan)}

    def diff(self, plan: Plan) -> list[dict[str, str]]:
        return plan_diff(plan)

    def verify(self, ctx: Context[D]) -> list[Finding]:
        """Nothing: each operation checks its work before it puts the work in place."""
        return []
