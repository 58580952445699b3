# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `service_proxy_info` returns, including, with `readiness: true`, its production readiness report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._agent.readiness import read_reading
from ..._core.engine.readiness import Reading
from ..._core.host.host import Host
from .engine import ENGINE
from .readiness_answers import METRICS, NAME, Status, reading_of


def read_params(host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
    result = ENGINE.read(host, params)
    return {**result, "readiness": _reading(host, params, result).as_json()} if params["readiness"] else result


def _reading(host: Host, params: Mapping[str, Any], levels: Mapping[str, Any]) -> Reading:
    return read_reading(
        host,
        ENGINE,
        params["state_dir"],
        levels,
        feature=NAME,
        process="the service proxy",
        absent="the collection installed no service proxy on this node",
        parse=Status.parse,
        metrics=METRICS,
        judge=reading_of,
    )
