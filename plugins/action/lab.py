# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules that make a lab and what it is made of: `meta/runtime.yml` names them. Most of their tasks run on the controller."""

# The action that this one extends has no annotations.
# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False

from __future__ import annotations

from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.plugin_utils.on_controller import OnController


class ActionModule(OnController):
    _supports_async = True

    def run(self, tmp: Optional[str] = None, task_vars: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        wrap_async = bool(self._task.async_val) and not self._connection.has_native_async
        result.update(self._run_module(self._task.args, task_vars, wrap_async=wrap_async))
        if not wrap_async:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        return result
