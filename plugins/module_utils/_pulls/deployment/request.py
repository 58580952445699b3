# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request for a host's pull proxy: the options, and the settings file made from them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..._agent.deployment import ABSENT, PRESENT
from ..._agent.installation import as_text, without_unset
from ..._core.engine.events import PROGRESS_LOG
from ..proxy.settings import Settings, parse_settings

# Longer than the default of `drain`, so that most changes of `drain` leave the service unchanged and need no restart.
_STOP_SECONDS = 60
_AFTER_DRAIN_SECONDS = 15

_LISTENER: dict[str, Any] = {
    "socket": {"type": "str", "required": True},
    "runtime": {"type": "str", "required": True},
    "name": {"type": "str"},
}
_RETRY: dict[str, Any] = {"attempts": {"type": "int", "default": 3}, "interval": {"type": "str", "default": "10s"}}
_PRIORITY: dict[str, Any] = {
    "annotation": {"type": "str"},
    "namespaces": {"type": "dict"},
    "ageing": {"type": "str", "default": "60s"},
}
SETTINGS: dict[str, Any] = {
    "listeners": {"type": "list", "elements": "dict", "options": _LISTENER},
    "max_in_flight": {"type": "int"},
    "on_full": {"type": "str", "choices": ["block", "retry"], "default": "block"},
    "retry": {"type": "dict", "options": _RETRY},
    "join": {"type": "bool", "default": True},
    "present": {"type": "str", "choices": ["pass", "succeed"], "default": "pass"},
    "order": {"type": "str", "choices": ["fifo", "priority"], "default": "fifo"},
    "priority": {"type": "dict", "options": _PRIORITY},
    "metrics": {"type": "str"},
    "drain": {"type": "str", "default": "30s"},
}
_WHERE: dict[str, Any] = {"state_dir": {"type": "path", "default": "/var/lib/ballast/pull-proxy"}}
INFO_SPEC: dict[str, Any] = {**_WHERE, "readiness": {"type": "bool", "default": False}}
SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": PRESENT, "choices": [PRESENT, ABSENT]},
    **SETTINGS,
    **_WHERE,
    **PROGRESS_LOG,
}
REQUIRED_IF = [("state", PRESENT, ("listeners", "max_in_flight"))]


@dataclass(frozen=True)
class Deployment:
    """`document` is the content of the settings file, `settings` its parsed form; both are empty for ABSENT."""

    state: str
    state_dir: str
    document: Mapping[str, Any]
    settings: Settings

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Deployment:
        """Raises all errors of the settings at once, worded as the proxy itself words them."""
        if params["state"] == ABSENT:
            return cls(ABSENT, params["state_dir"], {}, Settings(listeners=(), max_in_flight=0))
        document = without_unset({name: params[name] for name in SETTINGS})
        parse_settings(as_text(document), name="image_pull_proxy")
        # The order has no meaning, so changing it must not restart the proxy.
        document["listeners"].sort(key=lambda row: row["socket"])
        settings = parse_settings(as_text(document), name="image_pull_proxy")
        return cls(PRESENT, params["state_dir"], document, settings)

    @property
    def stop_seconds(self) -> int:
        """The drain, and time for the answers after it; at least a minute."""
        return max(_STOP_SECONDS, math.ceil(self.settings.drain) + _AFTER_DRAIN_SECONDS)
