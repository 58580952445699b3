# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked of the pull proxy of a host: the options, and the file of settings that they make. Pure.

/usr/local/bin/ballast-pull-proxy                the command
/usr/local/lib/ballast-pull-proxy/               the program, one file
/etc/ballast/pull-proxy.json                     its settings; JSON is YAML, and needs no PyYAML
/run/ballast-pull-proxy/                         sockets of its own; others are where a listener says
/var/log/ballast-pull-proxy/pull-proxy.log       a line for each pull
STATE_DIR                                        the record of all this
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..proxy.settings import Settings, parse_settings

PRESENT, ABSENT = "present", "absent"
NAME = "ballast-pull-proxy"  # of the service, the command, the directories
COMMAND = f"/usr/local/bin/{NAME}"
LIBRARY = f"/usr/local/lib/{NAME}"
CONFIG_DIRECTORY = "/etc/ballast"
CONFIG = f"{CONFIG_DIRECTORY}/pull-proxy.json"
SOCKETS = f"/run/{NAME}"
LOGS = f"/var/log/{NAME}"
LOG = f"{LOGS}/pull-proxy.log"

_LISTENER: dict[str, Any] = {
    "socket": {"type": "str", "required": True},
    "runtime": {"type": "str", "required": True},
    "name": {"type": "str"},
}
_RETRY: dict[str, Any] = {"attempts": {"type": "int"}, "interval": {"type": "str"}}
_PRIORITY: dict[str, Any] = {
    "annotation": {"type": "str"},
    "namespaces": {"type": "dict"},
    "ageing": {"type": "str"},
}
_SETTINGS: dict[str, Any] = {
    "listeners": {"type": "list", "elements": "dict", "options": _LISTENER},
    "max_in_flight": {"type": "int"},
    "on_full": {"type": "str", "choices": ["block", "retry"]},
    "retry": {"type": "dict", "options": _RETRY},
    "join": {"type": "bool"},
    "present": {"type": "str", "choices": ["pass", "succeed"]},
    "order": {"type": "str", "choices": ["fifo", "priority"]},
    "priority": {"type": "dict", "options": _PRIORITY},
    "metrics": {"type": "str"},
    "drain": {"type": "str"},
}
INFO_SPEC: dict[str, Any] = {"state_dir": {"type": "path", "default": "/var/lib/ballast/pull-proxy"}}
SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": PRESENT, "choices": [PRESENT, ABSENT]},
    **_SETTINGS,
    **INFO_SPEC,
    "events": {"type": "path"},
}
REQUIRED_IF = [("state", PRESENT, ("listeners", "max_in_flight"))]


@dataclass(frozen=True)
class Deployment:
    """`document` is the content of the file of settings, `settings` what the proxy makes of it; neither for ABSENT."""

    state: str
    state_dir: str
    document: Mapping[str, Any]
    settings: Settings

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Deployment:
        """Every fault of the settings at once, as the proxy itself would tell them."""
        if params["state"] == ABSENT:
            return cls(ABSENT, params["state_dir"], {}, Settings(listeners=(), max_in_flight=0))
        document = _given({name: params[name] for name in _SETTINGS})
        parse_settings(as_text(document), name="image_pull_proxy")
        # Their order means nothing: another one is no change, for which a proxy would be started anew.
        document["listeners"].sort(key=lambda row: row["socket"])
        settings = parse_settings(as_text(document), name="image_pull_proxy")
        return cls(PRESENT, params["state_dir"], document, settings)


def as_text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"


def _given(value: Any) -> Any:
    """Without what was left out: the defaults are the proxy's."""
    if isinstance(value, Mapping):
        return {name: _given(part) for name, part in value.items() if part is not None}
    return [_given(part) for part in value] if isinstance(value, list) else value
