# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs a module whose engines its host keeps (module_utils/_ansible/kept.py): sends their sources where they are not there."""

# The action that this one extends has no annotations.
# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible.plugins.action import ActionBase

from ansible_collections.ballast.kube.plugins.module_utils._ansible.kept import MISSING, PARAMETER
from ansible_collections.ballast.kube.plugins.module_utils._core.names import ENGINES_DIRECTORY
from ansible_collections.ballast.kube.plugins.module_utils._core.program import archive, sources_digest

TaskVars = Optional[dict[str, Any]]


@dataclass(frozen=True)
class Engines:
    """Those that `main` imports of the packages. Made when a plugin is loaded, which Ansible does once for all hosts."""

    main: str
    packages: Sequence[str]
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", sources_digest(self.main, self.packages))

    def archive(self) -> bytes:
        return archive(self.main, self.packages)


class EnginesAction(ActionBase):
    """A subclass names its engines, and says by `removes` when a task leaves nothing that they would be kept for."""

    engines: Engines
    _supports_async = True

    def removes(self, arguments: dict[str, Any]) -> bool:
        raise NotImplementedError

    def run(self, tmp: Optional[str] = None, task_vars: TaskVars = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        # Whether they are missing there is not to be seen before an asynchronous task has ended.
        found = self._run_module(self._send() if self._task.async_val else "", task_vars)
        if found.pop(MISSING, False):
            found = self._run_module(self._send(), task_vars)
        return {**result, **found}

    def _run_module(self, sources: str, task_vars: TaskVars) -> dict[str, Any]:
        arguments = dict(self._task.args)
        arguments[PARAMETER] = {
            "digest": self.engines.digest,
            "directory": ENGINES_DIRECTORY,
            "sources": sources,
            "keep": not self._task.check_mode and not self.removes(arguments),
        }
        wrap_async = bool(self._task.async_val) and not self._connection.has_native_async
        found: dict[str, Any] = self._execute_module(module_args=arguments, task_vars=task_vars, wrap_async=wrap_async)
        return found

    def _send(self) -> str:
        """Where they lie on the host until the task has ended."""
        shell = self._connection._shell
        if shell.tmpdir is None:
            self._make_tmp_path()
        path = str(shell.join_path(shell.tmpdir, "engines.zip"))
        self._transfer_data(path, self.engines.archive())
        self._fixup_perms2((shell.tmpdir, path))
        return path
