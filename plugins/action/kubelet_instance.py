# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the module of this name; while it runs on another machine, its progress is shown here."""

# Its base class has no annotations.
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
        # A path on this machine. There the log is in the state directory, and the module still warns about the former option name.
        arguments.update({name: None for name in PROGRESS_LOG_NAMES if name in arguments})

        def run() -> dict[str, Any]:
            with relayed(self._reading(os.path.join(str(state_dir), "events.jsonl")), _sink(here)):
                return self._run_module(arguments, task_vars)

        return {**result, **run_shown(here, run)}

    def _reading(self, path: str) -> Read:
        """A reader of a file on the other machine while the module runs there."""
        # A become plugin remembers the last command of its connection, so this reader uses copies of both.
        aside = copy.copy(self)
        aside._connection = copy.copy(self._connection)
        aside._connection.become = copy.copy(self._connection.become)

        def read(offset: int) -> bytes:
            completed = aside._low_level_execute_command(shlex.join(["tail", "-c", f"+{offset + 1}", "--", path]))
            # A connection that may ask for a password uses a terminal, which adds carriage returns.
            return str(completed["stdout"]).replace("\r\n", "\n").encode() if completed["rc"] == 0 else b""

        return read


def _sink(path: str) -> Sink:
    """The log; without the right to write beside root's lab, nothing, so that only the end of the module is shown."""
    try:
        return FileSink(path)
    except HostError:
        return NullSink()
