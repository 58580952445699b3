# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts modules of this collection that run on the controller itself from their files.

For each task, Ansible packs a module with all its imports, and the host compiles them again: this takes about a second for a module
of a lab, and ten for a run that changes nothing. On other machines modules are packed as usual.
"""

# Its base class has no annotations.
# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from ansible import constants
from ansible.module_utils.common.json import Direction, get_module_encoder
from ansible.plugins.action import ActionBase

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import PROGRESS_LOG
from ansible_collections.ballast.kube.plugins.module_utils._core.host.names import without_entry
from ansible_collections.ballast.kube.plugins.plugin_utils import module_server
from ansible_collections.ballast.kube.plugins.plugin_utils.shown import run_shown

_MODULES = "ansible_collections.ballast.kube.plugins.modules"
_ROOT = Path(__file__).parents[5]  # the directory that contains ansible_collections
# How a module is started by hand (Ansible's developer guide): it reads its arguments from standard input.
_START = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module(sys.argv.pop(1), run_name='__main__')"
)
_PROFILE = "legacy"  # profile of the JSON that the module then reads and writes
# Former names come first: if both are set, Ansible uses the former one.
PROGRESS_LOG_NAMES = tuple(name for option, row in PROGRESS_LOG.items() for name in (*row["aliases"], option))


class OnController(ActionBase):
    """Base class of actions for modules of this collection, which run them with `_run_module`."""

    def _run_module(
        self, arguments: dict[str, Any], task_vars: Optional[Mapping[str, Any]], *, wrap_async: bool = False
    ) -> dict[str, Any]:
        """Run the task's module, showing its progress if it runs on this machine. `wrap_async`: it continues in the background."""
        variables = task_vars or {}

        def run() -> dict[str, Any]:
            if not wrap_async and self._is_on_controller(variables):
                return self._start_from_files(dict(arguments), variables)
            packed: dict[str, Any] = self._execute_module(
                module_args=arguments, task_vars=variables, wrap_async=wrap_async
            )
            return packed

        is_followed = self._connection.transport == "local" and not wrap_async and not self._task.check_mode
        return run_shown(progress_log_path(arguments) if is_followed else "", run)

    def _is_on_controller(self, variables: Mapping[str, Any]) -> bool:
        """Whether the module runs here, with Ansible's own Python. With another user only if arguments may come from standard input."""
        if self._connection.transport != "local":
            return False
        if self._connection.become is not None and not self._connection.is_pipelining_enabled():
            return False
        return without_entry(self._interpreter(variables)) == sys.executable

    def _interpreter(self, variables: Mapping[str, Any]) -> str:
        return str(self._templar.template(variables.get("ansible_python_interpreter")))

    def _start_from_files(self, arguments: dict[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
        name = str(self._task.action)
        self._update_module_args(name, arguments, variables)
        encoder = get_module_encoder(_PROFILE, Direction.CONTROLLER_TO_MODULE)
        given = json.dumps({"ANSIBLE_MODULE_ARGS": arguments}, cls=encoder).encode()
        module = f"{_MODULES}.{name.rpartition('.')[2]}"
        outcome: dict[str, Any] = self._parse_returned_data(
            self._run_python(module, given, self._interpreter(variables)), _PROFILE
        )
        return outcome

    def _run_python(self, module: str, given: bytes, interpreter: str) -> dict[str, Any]:
        """Run the module; returns its output and exit status. By this run's server if nothing is between this process and the module."""
        environment = self._compute_environment_string().strip()
        if self._connection.become is None and not environment:
            directory = constants.DEFAULT_LOCAL_TMP  # type: ignore[attr-defined]
            ended = module_server.run_module(module, given, directory, owner=os.getppid())
            if ended is not None:
                texts = {name: getattr(ended, name).decode(errors="replace") for name in ("stdout", "stderr")}
                return {"rc": ended.status, **texts}
        # -P: import nothing from the directory of a playbook. -B: root writes no bytecode files among a user's files.
        options = ["-P"] if self._connection.become is None else ["-P", "-B"]
        command = [interpreter, *options, "-c", _START, str(_ROOT), module]
        line = f"{environment} {shlex.join(command)}".strip()
        found: dict[str, Any] = self._low_level_execute_command(line, in_data=given)
        return found


def given_progress_log(arguments: Mapping[str, Any]) -> str:
    """The task's option, by either name; "" if it is omitted."""
    return next((str(arguments[name]) for name in PROGRESS_LOG_NAMES if arguments.get(name)), "")


def progress_log_path(arguments: Mapping[str, Any]) -> str:
    """The path to which a module with these arguments writes its progress; "" if it has no such options."""
    state_dir = arguments.get("state_dir")
    return given_progress_log(arguments) or (f"{state_dir}/events.jsonl" if state_dir else "")


class OnControllerModule(OnController):
    """The action of a module without special needs."""

    _supports_async = True

    def run(self, tmp: Optional[str] = None, task_vars: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        wrap_async = bool(self._task.async_val) and not self._connection.has_native_async
        result.update(self._run_module(self._task.args, task_vars, wrap_async=wrap_async))
        if not wrap_async:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        return result
