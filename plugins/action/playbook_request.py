# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks all variables of a playbook of this collection together, before any host is contacted."""

# Its base class has no annotations.
# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False

from __future__ import annotations

from typing import Any, Optional

from ansible.plugins.action import ActionBase

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.given import LOCALHOST, Given
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.request import PLAYBOOKS, read_request
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.variables import known_names

TaskVars = dict[str, Any]


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False
    _VALID_ARGS = frozenset({"playbook"})

    def run(self, tmp: Optional[str] = None, task_vars: Optional[TaskVars] = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, arguments = self.validate_argument_spec(
            {"playbook": {"type": "str", "required": True, "choices": list(PLAYBOOKS)}}
        )
        variables = task_vars or {}
        given = Given(
            value=variables["hostvars"][LOCALHOST].get,
            host_value=lambda host, name: variables["hostvars"][host].get(name),
            match=lambda pattern: self._match(variables, pattern),
            group=lambda name: list(variables["groups"].get(name, [])),
            extra=self._task.get_variable_manager().extra_vars,
            inventory=lambda hosts: {name for host in hosts for name in variables["hostvars"].raw_get(host)},
            is_check=bool(self._task.check_mode),
        )
        name = arguments["playbook"]
        try:
            known = known_names(LocalHost(), PLAYBOOKS[name].all_prefixes)
            return {**result, **read_request(name, given, known).as_result()}
        except BallastError as error:
            return {**result, "failed": True, "msg": str(error), "id": error.id}

    def _match(self, variables: TaskVars, pattern: str) -> list[str]:
        """Hosts that match the pattern, in the order of the inventory."""
        lookup = self._shared_loader_obj.lookup_loader.get(
            "ansible.builtin.inventory_hostnames", loader=self._loader, templar=self._templar
        )
        hosts: list[str] = lookup.run([pattern], variables=variables)
        return hosts
