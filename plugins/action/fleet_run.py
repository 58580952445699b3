# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gives the module of this name the hosts of the request with their variables, and runs it on the controller."""

# The action that this one extends has no annotations.
# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False

from __future__ import annotations

import json
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.inventory import own_variables
from ansible_collections.ballast.kube.plugins.plugin_utils.on_controller import OnController


class ActionModule(OnController):
    def run(self, tmp: Optional[str] = None, task_vars: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        if arguments.get("request"):
            inventory = self._inventory(arguments["request"]["hosts"], task_vars or {})
            # One text: Ansible keeps each value of what is secret out of all that a module prints, names of hosts too.
            arguments["inventory"] = json.dumps(inventory)
        result.update(self._run_module(arguments, task_vars))
        self._remove_tmp_path(self._connection._shell.tmpdir)
        return result

    def _inventory(self, names: list[str], variables: dict[str, Any]) -> dict[str, Any]:
        """Untemplated: expressions are for the workers."""
        manager = self._task.get_variable_manager()
        rows = {
            name: manager.get_vars(host=manager._inventory.get_host(name), include_hostvars=False) for name in names
        }
        return {
            "hosts": {name: own_variables(row) for name, row in rows.items()},
            "groups": {name: list(members) for name, members in variables["groups"].items()},
            "extra": own_variables(manager.extra_vars),
        }
