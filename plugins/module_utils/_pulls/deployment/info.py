# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `image_pull_proxy_info` returns; with `readiness: true` including the verdicts on production readiness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from ..._agent.installation import as_text
from ..._agent.readiness import read_reading
from ..._core.engine.readiness import Reading
from ..._core.host.host import Host
from ..._core.host.sockets import is_listening
from ..._core.text.json_text import mapping_in, rows_in
from .engine import ENGINE
from .installation import INSTALLATION, RUNNING
from .readiness_answers import METRICS, NAME, Status, reading_of
from .request import SETTINGS

_SECONDS = 5


def read_params(host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
    result = {**ENGINE.read(host, params), "options": _options(host)}
    return {**result, "readiness": _reading(host, params, result).as_json()} if params["readiness"] else result


def _options(host: Host) -> Optional[Mapping[str, Any]]:
    """The options for which the module would write exactly the present settings file; None if there are none."""
    document = RUNNING.document(host)
    if document is None or not set(document) <= set(SETTINGS):
        return None
    return document if as_text(document).encode() == host.read(INSTALLATION.config) else None


def _reading(host: Host, params: Mapping[str, Any], levels: Mapping[str, Any]) -> Reading:
    return read_reading(
        host,
        ENGINE,
        params["state_dir"],
        levels,
        feature=NAME,
        process="the pull proxy",
        absent="the collection installed no pull proxy on this host",
        parse=Status.parse,
        metrics=METRICS,
        judge=lambda facts: reading_of(facts, _find_runtimes_away(host, mapping_in(levels, "status"))),
    )


def _find_runtimes_away(host: Host, status: Mapping[str, Any]) -> dict[str, str]:
    """By listener, the socket on which no runtime answers."""
    away = {}
    for row in rows_in(status, "listeners"):
        path = str(row.get("runtime") or "")
        if path.startswith("/") and not is_listening(host, path, timeout=_SECONDS):
            away[str(row.get("name"))] = path
    return away
