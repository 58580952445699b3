# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the module of this name on the controller, with the hosts of the request and their variables."""

# Its base class has no annotations.
# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False

from __future__ import annotations

import json
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.given import LOCALHOST
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.inventory import own_variables, variables_of_localhost
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.messages import MESSAGES
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.request import PLAYBOOKS
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.variables import known_names
from ansible_collections.ballast.kube.plugins.plugin_utils.on_controller import OnController


class ActionModule(OnController):
    def run(self, tmp: Optional[str] = None, task_vars: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        if arguments.get("request"):
            request = arguments["request"]
            left_out = self._left_out(request["hosts"])
            if left_out:
                error = MESSAGES.error("fleet-limit", hosts=", ".join(left_out))
                return {**result, "failed": True, "msg": str(error), "id": error.id}
            inventory = self._inventory(request["hosts"], request["playbook"], task_vars or {})
            # As one text: Ansible masks each value of a secret option in everything that a module prints, including names of hosts.
            arguments["inventory"] = json.dumps(inventory)
        result.update(self._run_module(arguments, task_vars))
        self._remove_tmp_path(self._connection._shell.tmpdir)
        return result

    def _left_out(self, names: list[str]) -> list[str]:
        """Hosts of the request that --limit excludes: a play would not reach them, but workers have no limit."""
        inventory = self._task.get_variable_manager()._inventory
        limited = {host.name for host in inventory.get_hosts(ignore_restrictions=True)}
        return [name for name in names if name not in limited]

    def _inventory(self, names: list[str], playbook: str, variables: dict[str, Any]) -> dict[str, Any]:
        """Variables untemplated, as the workers evaluate expressions."""
        manager = self._task.get_variable_manager()
        rows = {
            name: manager.get_vars(host=manager._inventory.get_host(name), include_hostvars=False)
            for name in (*names, LOCALHOST)
        }
        of_the_run = known_names(LocalHost(), PLAYBOOKS["fleet_run"].all_prefixes)
        own = {name: own_variables(row, of_the_run) for name, row in rows.items()}
        # The module refuses other playbooks.
        prefixes = PLAYBOOKS[playbook].all_prefixes if playbook in PLAYBOOKS else ()
        known = set(known_names(LocalHost(), prefixes))
        extra = own_variables(manager.extra_vars, of_the_run)
        return {
            "hosts": {name: own[name] for name in names},
            "groups": {name: list(members) for name, members in variables["groups"].items()},
            "local": variables_of_localhost(own[LOCALHOST], known, extra),
            "extra": extra,
        }
