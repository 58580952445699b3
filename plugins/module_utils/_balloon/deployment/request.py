# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The requested reconciler of a machine: the options, and the settings file made from them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..._agent.deployment import ABSENT, PRESENT
from ..._agent.installation import as_text, without_unset
from ..._core.engine.events import PROGRESS_LOG
from ..agent.settings import Settings, parse_settings

# Time to finish a request under way, and to revert growth.
_STOP_SECONDS = 60

_NODE: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "slice": {"type": "str"},
    "qmp": {"type": "path"},
}
_RESERVE: dict[str, Any] = {name: {"type": "str", "required": True} for name in ("cpu", "memory")}
_RETRY: dict[str, Any] = {"first": {"type": "str", "default": "10s"}, "most": {"type": "str", "default": "600s"}}
_SETTINGS: dict[str, Any] = {
    "kubeconfig": {"type": "path"},
    "context": {"type": "str"},
    "namespace": {"type": "str"},
    "nodes": {"type": "list", "elements": "dict", "options": _NODE},
    "reserve": {"type": "dict", "options": _RESERVE},
    "slices": {"type": "bool"},
    "vm": {"type": "bool"},
    "interval": {"type": "str", "default": "60s"},
    "grow_timeout": {"type": "str", "default": "30s"},
    "retry": {"type": "dict", "options": _RETRY},
    "metrics": {"type": "str"},
}
INFO_SPEC: dict[str, Any] = {"state_dir": {"type": "path", "default": "/var/lib/ballast/balloons"}}
SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": PRESENT, "choices": [PRESENT, ABSENT]},
    **_SETTINGS,
    **INFO_SPEC,
    **PROGRESS_LOG,
}
REQUIRED_IF = [("state", PRESENT, ("kubeconfig",))]


@dataclass(frozen=True)
class Deployment:
    """`document` is the content of the settings file, `settings` its parsed form; both are empty for ABSENT."""

    state: str
    state_dir: str
    document: Mapping[str, Any]
    settings: Settings
    stop_seconds: int = _STOP_SECONDS

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Deployment:
        """Raises every error of the settings at once, as the reconciler itself reports them."""
        if params["state"] == ABSENT:
            return cls(ABSENT, params["state_dir"], {}, Settings(kubeconfig=""))
        document = without_unset({name: params[name] for name in _SETTINGS})
        settings = parse_settings(as_text(document), name="balloon_reconciler")
        if settings.nodes:  # their order has no meaning, so changing it is no change
            document["nodes"].sort(key=lambda row: row["name"])
        return cls(PRESENT, params["state_dir"], document, settings)
