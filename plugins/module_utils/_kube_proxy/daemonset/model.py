# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request: which mode for which DaemonSet, and where its API server is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..._core.engine.events import PROGRESS_LOG
from ..._core.kube import connection
from ..._core.text.decode import show
from ..._core.text.errors import BallastError, Problems
from ..._rules.config_keys import check_config
from ..._rules.reading import LABEL, SUBDOMAIN
from .messages import MESSAGES

CANARY, FINAL, ABSENT = "canary", "final", "absent"
MODES = ("iptables", "ipvs", "nftables")
_NAME_MAX = 54  # NAME-nftables is used as a label value, which may have 63 characters

SPEC: dict[str, Any] = {
    **connection.SPEC,
    "namespace": {"type": "str", "default": "kube-system"},
    "name": {"type": "str", "default": "kube-proxy"},
    "mode": {"type": "str", "required": True, "choices": list(MODES)},
    "config": {"type": "dict", "default": {}},
    "state": {"type": "str", "default": CANARY, "choices": [CANARY, FINAL, ABSENT]},
    **PROGRESS_LOG,
}


@dataclass(frozen=True)
class DaemonSetRequest:
    kubeconfig: str  # "" as in connection.py
    namespace: str
    name: str
    mode: str
    config: Mapping[str, Any]  # changes to KubeProxyConfiguration; None removes a key
    state: str
    context: str = ""

    @property
    def canary(self) -> str:
        """The name of the mode's ConfigMap and DaemonSet."""
        return f"{self.name}-{self.mode}"

    @property
    def pods_path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def revisions_path(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/controllerrevisions"

    def set_path(self, name: str) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/daemonsets/{name}"

    def map_path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps/{name}"

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> DaemonSetRequest:
        problems: list[BallastError] = []
        for option, form in (("namespace", LABEL), ("name", SUBDOMAIN)):
            _check(option, params[option], form, problems)
        if "mode" in params["config"]:
            shown = {"value": show(params["config"]["mode"]), "wanted": "a key of config: use the option mode"}
            problems.append(MESSAGES.error("daemonset-option", path="config.mode", **shown))
        check_config(params["config"], problems)
        Problems.raise_if(problems)
        return cls(
            kubeconfig=params["kubeconfig"] or "",
            context=params["context"] or "",
            namespace=params["namespace"],
            name=params["name"],
            mode=params["mode"],
            config=params["config"],
            state=params["state"],
        )


def _check(option: str, value: str, form: re.Pattern[str], problems: list[BallastError]) -> None:
    if not form.fullmatch(value) or len(value) > _NAME_MAX:
        form_text = f"a name of at most {_NAME_MAX} letters in lower case, digits and -"
        problems.append(MESSAGES.error("daemonset-option", path=option, value=show(value), wanted=form_text))
