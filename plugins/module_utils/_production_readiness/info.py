# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `readiness_info` does: reads the report of an earlier run, judges what the hosts returned, and returns the report."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Optional

from .._core.host.host import Host
from .._core.text.errors import BallastError
from .exercises import KINDS, Exercise, latest_exercises, parse_exercises, parse_previous
from .features import PARAMETER, parse_features
from .fleet import parse_hosts
from .judge import judge
from .page import make_page
from .problems import failure_text, find_problems
from .report import make_report
from .summary import summary_lines

_REPORT_BYTES = 256 * 1024 * 1024  # far more than a report of a thousand hosts

SPEC: dict[str, Any] = {
    "hosts": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "reached": {"type": "bool", "default": True},
            "reason": {"type": "str", "default": ""},
            "features": {"type": "dict", "default": {}},
        },
    },
    "required_hosts": {"type": "list", "elements": "str", "default": []},
    "previous": {"type": "path"},
    "exercises": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "feature": {"type": "str", "required": True},
            "host": {"type": "str", "required": True},
            "kind": {"type": "str", "required": True, "choices": list(KINDS)},
            "at": {"type": "str", "required": True},
            "version": {"type": "str", "default": ""},
            "steps": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "title": {"type": "str", "required": True},
                    "seconds": {"type": "float", "required": True},
                    "ok": {"type": "bool", "required": True},
                    "text": {"type": "str", "default": ""},
                },
            },
        },
    },
    PARAMETER: {"type": "list", "elements": "raw", "default": []},
}


def read_readiness(host: Host, params: Mapping[str, Any]) -> dict[str, Any]:
    """The module's return values."""
    features = parse_features(params[PARAMETER])
    hosts = parse_hosts(params["hosts"], params["required_hosts"], features)
    done = parse_exercises(params["exercises"])
    former, unusable = _previous(host, params["previous"])
    exercises = latest_exercises(former, done)
    judged = judge(features, hosts, exercises)
    problems = find_problems(judged, hosts, unusable)
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(host.now()))
    report = make_report(judged, hosts, problems, exercises, at)
    return {
        "report": report,
        "page": make_page(report),
        "lines": summary_lines(report),
        "failure": failure_text(problems),
    }


def _previous(host: Host, path: Optional[str]) -> tuple[tuple[Exercise, ...], Optional[str]]:
    """The drills of the report at `path`, or why it cannot be used. That is no error, as the new report mentions it."""
    if path is None:
        return (), None
    try:
        stat = host.stat(path)
        if stat is None:
            return (), None
        if stat.size > _REPORT_BYTES:
            raise ValueError(f"it has {stat.size} bytes, at most {_REPORT_BYTES} are read")
        return parse_previous((host.read(path) or b"").decode()), None
    except (BallastError, ValueError) as error:
        return (), f"{path}: {error}"
