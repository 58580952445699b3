# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asks whether a slice of a fleet run may begin another batch, see module_utils/_fleet_run/boundary.py."""

# Its base class has no annotations.
# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False

from __future__ import annotations

from typing import Any, Optional

from ansible.plugins.action import ActionBase

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.slice import slice_boundary


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False
    _VALID_ARGS = frozenset({"batch", "failed"})

    def run(self, tmp: Optional[str] = None, task_vars: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, arguments = self.validate_argument_spec(
            {
                "batch": {"type": "list", "elements": "str", "required": True},
                "failed": {"type": "list", "elements": "str", "default": []},
            }
        )
        variables = task_vars or {}
        if not variables.get("fleet_slice"):
            return {**result, "stop": False, "why": ""}
        try:
            boundary = slice_boundary(variables)
            if arguments["failed"]:
                boundary.count(failed=arguments["failed"])
            answer = boundary.may_begin(arguments["batch"])
        except BallastError as error:
            return {**result, "failed": True, "msg": str(error), "id": error.id}
        return {**result, "stop": answer.stop, "why": answer.why}
