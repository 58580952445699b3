# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module of this name, with its progress shown here while it runs on another machine."""

# The action that this one extends has no annotations.
# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False

from __future__ import annotations

import copy
import os
import shlex
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import FileSink, NullSink, Sink
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from ansible_collections.ballast.kube.plugins.plugin_utils.on_controller import (
    PROGRESS_LOG_NAMES,
    OnController,
    given_progress_log,
)
from ansible_collections.ballast.kube.plugins.plugin_utils.relay import Read, relayed
from ansible_collections.ballast.kube.plugins.plugin_utils.shown import run_shown


class ActionModule(OnController):
    def run(self, tmp: Optional[str] = None, task_vars: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        here, state_dir = given_progress_log(arguments), arguments.get("state_dir")
        if self._connection.transport == "local" or not here or not state_dir or self._task.check_mode:
            return {**result, **self._run_module(arguments, task_vars)}
        # A path of this machine. There, the log is in the state directory, and the module still warns of the former name.
        arguments.update({name: None for name in PROGRESS_LOG_NAMES if name in arguments})

        def run() -> dict[str, Any]:
            with relayed(self._reading(os.path.join(str(state_dir), "events.jsonl")), _sink(here)):
                return self._run_module(arguments, task_vars)

        return {**result, **run_shown(here, run)}

    def _reading(self, path: str) -> Read:
        """Reads a file of the other machine while the module runs there."""
        # One connection's way to become another user remembers the command that it was last asked for.
        aside = copy.copy(self)
        aside._connection = copy.copy(self._connection)
        aside._connection.become = copy.copy(self._connection.become)

        def read(offset: int) -> bytes:
            completed = aside._low_level_execute_command(shlex.join(["tail", "-c", f"+{offset + 1}", "--", path]))
            # A connection that may ask for a password goes through a terminal, which adds carriage returns.
            return str(completed["stdout"]).replace("\r\n", "\n").encode() if completed["rc"] == 0 else b""

        return read


def _sink(path: str) -> Sink:
    """Without the right to write beside a lab of root, only the end of the module is shown."""
    try:
        return FileSink(path)
    except HostError:
        return NullSink()
