# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""In the place of a module: answers as BALLAST_STAND_IN/answers.json has it, for the host and the module."""

# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any, Optional

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

# Modules after which one that reads answers as "NAME after" has it.
CHANGES = ("kube_proxy_change", "image_pull_proxy", "image_pulls")


class ActionModule(ActionBase):
    _requires_connection = False

    def run(self, tmp: Optional[str] = None, task_vars: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        host = (task_vars or {})["inventory_hostname"]
        module = self._task.action.rpartition(".")[2]
        place = Path(os.environ["BALLAST_STAND_IN"])
        options = {**self._task.args, "check": self._task.check_mode, "become": self._task.become}
        earlier = (place / "calls.jsonl").read_text().splitlines() if (place / "calls.jsonl").exists() else []
        with (place / "calls.jsonl").open("a") as log:
            fcntl.flock(log, fcntl.LOCK_EX)
            log.write(json.dumps([host, module, options]) + "\n")
        answers = json.loads((place / "answers.json").read_text()).get(host, {})
        is_changed = any(self._is_change(json.loads(row), host) for row in earlier)
        answer = answers.get(f"{module} after", {}) if is_changed else {}
        answer = answer or answers.get(module, {})
        answer = answer.get(f"state {options.get('state')}", answer)
        if not self._task.check_mode:
            answer = answer.get("acting", answer)
        if answer.get("lost"):
            raise AnsibleConnectionFailure(answer["lost"])
        return {**result, "changed": False, **answer}

    def _is_change(self, call: tuple[str, str, dict[str, Any]], host: str) -> bool:
        return call[0] == host and call[1] in CHANGES and not call[2]["check"]
