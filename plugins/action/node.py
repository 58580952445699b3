# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the module of this name, whose engines the host keeps (module_utils/_ansible/engine_cache/start.py); sends their sources if the
host lacks them."""

# Its base class has no annotations.
# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Optional

from ansible.plugins.action import ActionBase

from ansible_collections.ballast.kube.plugins.module_utils._agent.program import build_archive
from ansible_collections.ballast.kube.plugins.module_utils._ansible.engine_cache.start import MISSING, PARAMETER
from ansible_collections.ballast.kube.plugins.module_utils._core.host.names import ENGINES_DIRECTORY
from ansible_collections.ballast.kube.plugins.module_utils._node.kept import MAIN, PACKAGES

TaskVars = Optional[dict[str, Any]]
# At import, as Ansible loads a plugin once for all hosts.
ARCHIVE = build_archive(MAIN, PACKAGES)
DIGEST = hashlib.sha256(ARCHIVE).hexdigest()  # compared by the host with what it has, before it runs any of it


class ActionModule(ActionBase):
    _supports_async = True

    def run(self, tmp: Optional[str] = None, task_vars: TaskVars = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        # For an asynchronous task it is unknown before its end whether the host lacks the sources, so they are sent at once.
        outcome = self._run_module(self._send() if self._task.async_val else "", task_vars)
        if outcome.pop(MISSING, False):
            outcome = self._run_module(self._send(), task_vars)
        return {**result, **outcome}

    def _run_module(self, sources: str, task_vars: TaskVars) -> dict[str, Any]:
        engines = {
            "digest": DIGEST,
            "directory": ENGINES_DIRECTORY,
            "sources": sources,
            "keep": not self._task.check_mode and not _is_removal(self._task.args),
        }
        result: dict[str, Any] = self._execute_module(
            module_args={**self._task.args, PARAMETER: engines},
            task_vars=task_vars,
            wrap_async=bool(self._task.async_val) and not self._connection.has_native_async,
        )
        return result

    def _send(self) -> str:
        """Send the sources; returns their path on the host, where they stay until the task has ended."""
        shell = self._connection._shell
        if shell.tmpdir is None:
            self._make_tmp_path()
        path = str(shell.join_path(shell.tmpdir, "engines.zip"))
        self._transfer_data(path, ARCHIVE)
        self._fixup_perms2((shell.tmpdir, path))
        return path


def _is_removal(arguments: Mapping[str, Any]) -> bool:
    """Whether all requested features are removed, so that no engines need to be kept."""
    features = [value for value in arguments.values() if isinstance(value, dict)]
    return bool(features) and all(value.get("state") == "absent" for value in features)
