# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Composes a playbook's report from what modules returned on its hosts, see plugin_utils/fleet/reports.py."""

# Its base class has no annotations.
# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False

from __future__ import annotations

from typing import Any, Optional

from ansible.plugins.action import ActionBase

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.report import Results
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.reports import REPORTS, Facts, plan_text
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.request import Request
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.slice import slice_boundary, with_other_slices


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False
    _VALID_ARGS = frozenset({"report", "request", "batch"})

    def run(self, tmp: Optional[str] = None, task_vars: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, arguments = self.validate_argument_spec(
            {
                "report": {"type": "str", "required": True, "choices": list(REPORTS)},
                "request": {"type": "dict", "required": True},
                "batch": {"type": "list", "elements": "str", "default": []},
            }
        )
        variables = task_vars or {}
        request = Request.from_result(arguments["request"])
        hosts = dict.fromkeys([*request.hosts, *request.details.get("machines", [])])
        rows = {host: variables["hostvars"].raw_get(host) for host in hosts}

        def results(name: str) -> Results:
            return {host: row.get(name) for host, row in rows.items()}

        facts = Facts(
            request,
            results=results,
            value=variables.get,
            local=variables["hostvars"].raw_get("localhost").get,
            batch=arguments["batch"],
            is_check=bool(self._task.check_mode),
        )
        compose = REPORTS[arguments["report"]]
        try:
            composed = compose(facts)
            if "failed_so_far" in composed.facts and variables.get("fleet_slice"):
                composed = with_other_slices(slice_boundary(variables), facts, compose)
            report = composed.as_result()
            plan = report.pop("plan", None)
            if plan is not None and request.plan_file:
                LocalHost().write(request.plan_file, plan_text(plan), mode=0o600)
        except BallastError as error:
            return {**result, "failed": True, "msg": str(error), "id": error.id}
        return {**result, **report}
