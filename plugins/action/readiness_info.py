# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module of this name, given what is written down about each feature: the documents are on the Ansible control node alone."""

# Its base class has no annotations.
# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False

from __future__ import annotations

from typing import Any, Optional

from ansible.plugins.action import ActionBase

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness.features import PARAMETER
from ansible_collections.ballast.kube.plugins.plugin_utils.readiness import read_documents


class ActionModule(ActionBase):
    _supports_async = True

    def run(self, tmp: Optional[str] = None, task_vars: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        try:
            documents = read_documents(LocalHost())
        except BallastError as error:
            return {**result, "failed": True, "msg": str(error), "id": error.id}
        returned: dict[str, Any] = self._execute_module(
            module_args={**self._task.args, PARAMETER: documents},
            task_vars=task_vars,
            wrap_async=bool(self._task.async_val) and not self._connection.has_native_async,
        )
        returned.get("invocation", {}).get("module_args", {}).pop(PARAMETER, None)  # users did not give these arguments
        return {**result, **returned}
