# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prints what a playbook reports as plain lines, whichever callback the user has."""

# Its base class has no annotations.
# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False

from __future__ import annotations

import os
from typing import Any, Optional

from ansible import constants
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.ballast.kube.plugins.plugin_utils.render import message_text

# Callbacks besides which this plugin prints. `progress` prints the message itself; others print data, which text would break.
_FOR_PEOPLE = {"default", "ansible.builtin.default", "minimal", "ansible.builtin.minimal"}
_RUNNER = "awx_display"  # of ansible-runner, and so of AWX; it prints what the user's callback prints


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False
    _VALID_ARGS = frozenset({"msg"})

    def run(self, tmp: Optional[str] = None, task_vars: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, arguments = self.validate_argument_spec({"msg": {"type": "raw", "required": True}})
        message = arguments["msg"]
        if _shown_by() in _FOR_PEOPLE:
            Display().display(message_text(message))
        return {**result, "changed": False, "msg": message}


def _shown_by() -> str:
    callback = str(constants.DEFAULT_STDOUT_CALLBACK)  # type: ignore[attr-defined]
    return os.environ.get("ORIGINAL_STDOUT_CALLBACK", "default") if callback == _RUNNER else callback
