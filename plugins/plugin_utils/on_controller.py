# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Modules of this collection that run on the controller itself are started from their files.

Ansible packs a module with all that it imports, for each task again, and the host compiles that again: about a second for a module
of a lab, ten for a run that changes nothing. Anywhere else than on the controller they are packed as any module.
"""

# The action that this one extends has no annotations.
# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from ansible.module_utils.common.json import Direction, get_module_encoder
from ansible.plugins.action import ActionBase

from ansible_collections.ballast.kube.plugins.plugin_utils.shown import run_shown

_MODULES = "ansible_collections.ballast.kube.plugins.modules"
_ROOT = Path(__file__).parents[5]  # which has ansible_collections
# As a module is started by hand (Ansible's developer guide): it reads its arguments from standard input.
_START = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module(sys.argv.pop(1), run_name='__main__')"
)
_PROFILE = "legacy"  # of the JSON that it then reads and writes


class OnController(ActionBase):
    """An action for a module of this collection, which runs it by `_run_module`."""

    def _run_module(
        self, arguments: dict[str, Any], task_vars: Optional[Mapping[str, Any]], *, wrap_async: bool = False
    ) -> dict[str, Any]:
        """The module of the task, with its progress while it runs on this machine. `wrap_async`: it goes on in the background."""
        variables = task_vars or {}

        def run() -> dict[str, Any]:
            if not wrap_async and self._is_on_controller(variables):
                return self._start_from_files(dict(arguments), variables)
            packed: dict[str, Any] = self._execute_module(
                module_args=arguments, task_vars=variables, wrap_async=wrap_async
            )
            return packed

        is_followed = self._connection.transport == "local" and not wrap_async and not self._task.check_mode
        return run_shown(events_path(arguments) if is_followed else "", run)

    def _is_on_controller(self, variables: Mapping[str, Any]) -> bool:
        """By the Python that runs this. As another user only where arguments may come from standard input."""
        if self._connection.transport != "local":
            return False
        if self._connection.become is not None and not self._connection.is_pipelining_enabled():
            return False
        return bool(self._templar.template(variables.get("ansible_python_interpreter")) == sys.executable)

    def _start_from_files(self, arguments: dict[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
        name = str(self._task.action)
        self._update_module_args(name, arguments, variables)
        encoder = get_module_encoder(_PROFILE, Direction.CONTROLLER_TO_MODULE)
        given = json.dumps({"ANSIBLE_MODULE_ARGS": arguments}, cls=encoder)
        # -P: nothing is imported from the directory that a playbook lies in. -B: root leaves no file among those of a user.
        options = ["-P"] if self._connection.become is None else ["-P", "-B"]
        command = [sys.executable, *options, "-c", _START, str(_ROOT), f"{_MODULES}.{name.rpartition('.')[2]}"]
        line = f"{self._compute_environment_string()} {shlex.join(command)}".strip()
        outcome: dict[str, Any] = self._parse_returned_data(
            self._low_level_execute_command(line, in_data=given.encode()), _PROFILE
        )
        return outcome


def events_path(arguments: Mapping[str, Any]) -> str:
    """Where a module with these arguments writes its progress; empty where it has no such options."""
    given, state_dir = arguments.get("events"), arguments.get("state_dir")
    return str(given) if given else f"{state_dir}/events.jsonl" if state_dir else ""


class OnControllerModule(OnController):
    """The action of a module that needs nothing else."""

    _supports_async = True

    def run(self, tmp: Optional[str] = None, task_vars: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        wrap_async = bool(self._task.async_val) and not self._connection.has_native_async
        result.update(self._run_module(self._task.args, task_vars, wrap_async=wrap_async))
        if not wrap_async:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        return result
