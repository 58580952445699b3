# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request for a node's service proxy: its options, and the KubeProxyConfiguration built from them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..._agent.deployment import ABSENT, PRESENT
from ..._agent.installation import as_text, without_unset
from ..._core.engine.events import PROGRESS_LOG
from ..._core.text.decode import show
from ..._core.text.errors import BallastError, Problems, UserError
from ..._rules.config_keys import API_VERSION, KIND
from ..configuration import parse_configuration
from ..configuration_messages import MESSAGES
from ..messages import AGENT

USER = AGENT.name
STOP_SECONDS = 60  # a transaction in progress is finished
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)

_STATE_DIR: dict[str, Any] = {"state_dir": {"type": "path", "default": "/var/lib/ballast/service-proxy"}}
INFO_SPEC: dict[str, Any] = {**_STATE_DIR, "readiness": {"type": "bool", "default": False}}
SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": PRESENT, "choices": [PRESENT, ABSENT]},
    "config": {"type": "dict"},
    "service_proxy_name": {"type": "str", "default": ""},
    **_STATE_DIR,
    **PROGRESS_LOG,
}
REQUIRED_IF = [("state", PRESENT, ("config",))]


@dataclass(frozen=True)
class Deployment:
    """`document` is the content of the configuration file, empty for ABSENT; `warnings` are about settings without effect.
    `user` is the user that the program becomes; "" if it stays root, with the same capability."""

    state: str
    state_dir: str
    document: Mapping[str, Any]
    service_proxy_name: str = ""  # "": Services without the label
    warnings: tuple[BallastError, ...] = ()
    user: str = ""
    stop_seconds: int = STOP_SECONDS

    @property
    def kubeconfig(self) -> str:
        """The path in the configuration; "" for ABSENT."""
        path: str = self.document.get("clientConnection", {}).get("kubeconfig", "")
        return path

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Deployment:
        """Raises all errors of the options together, in the words of the program itself."""
        if params["state"] == ABSENT:
            return cls(ABSENT, params["state_dir"], {})
        document = {"apiVersion": API_VERSION, "kind": KIND, **without_unset(params["config"])}
        problems: list[BallastError] = []
        name = params["service_proxy_name"]
        if not is_label_value(name):
            problems.append(MESSAGES.error("service-proxy-name", value=show(name)))
        connection = document.get("clientConnection", {})
        if isinstance(connection, Mapping) and not connection.get("kubeconfig"):
            problems.append(MESSAGES.error("service-proxy-kubeconfig"))
        warnings: tuple[BallastError, ...] = ()
        try:
            warnings = parse_configuration(as_text(document), name="config").warnings
        except UserError as error:
            problems += Problems.of(error)
        Problems.raise_if(problems)
        return cls(PRESENT, params["state_dir"], document, name, warnings, USER)


def is_label_value(text: str) -> bool:
    """Whether the API server accepts the text as the value of a label; it accepts ""."""
    return bool(_LABEL_VALUE.fullmatch(text))
