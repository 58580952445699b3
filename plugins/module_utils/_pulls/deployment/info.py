# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `image_pull_proxy_info` returns, with `readiness: true` also the verdicts of production readiness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from ..._agent.installation import as_text
from ..._agent.program import PROGRAM_KINDS
from ..._core.engine.context import Context
from ..._core.engine.journal import Journal, journal_path
from ..._core.engine.kinds import fields
from ..._core.engine.plan import ABSENT
from ..._core.engine.readiness import Reading, off_reading
from ..._core.engine.readiness_common import read_open_files, unknown_reading
from ..._core.host.host import Host
from ..._core.host.sockets import is_listening
from ..._core.text.errors import BallastError, PeerError
from ..._core.text.exposition import Sample, parse_exposition
from ..._core.text.json_text import mapping_in, rows_in
from ..._core.text.packages import install_command, read_distribution
from .engine import ENGINE
from .installation import INSTALLATION, RUNNING
from .readiness_answers import METRICS, NAME, Facts, Status, reading_of
from .request import SETTINGS

_SECONDS = 5
_SHORT = 12  # characters of a digest, enough to distinguish programs


def read_params(host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
    result = {**ENGINE.read(host, params), "options": _options(host)}
    return {**result, "readiness": _reading(host, params, result).as_json()} if params["readiness"] else result


def _options(host: Host) -> Optional[Mapping[str, Any]]:
    """The options from which the module writes exactly the present file of settings; None if there are none."""
    document = RUNNING.document(host)
    if document is None or not set(document) <= set(SETTINGS):
        return None
    return document if as_text(document).encode() == host.read(INSTALLATION.config) else None


def _reading(host: Host, params: Mapping[str, Any], levels: Mapping[str, Any]) -> Reading:
    path = journal_path(params["state_dir"])
    try:
        journal = Journal(path, host=host, kinds=ENGINE.kinds)
    except BallastError as error:
        return unknown_reading(NAME, error, path)
    if not journal.recorded and not journal.open:
        return off_reading(NAME, "the collection installed no pull proxy on this host", f"{path}, which does not exist")
    status = mapping_in(levels, "status")
    unlike, problem = _compare_settings(host, status)
    address = mapping_in(status, "settings").get("metrics")
    facts = Facts(
        state_dir=params["state_dir"],
        recorded=journal.recorded,
        unfinished=journal.open,
        pid=levels["pid"],
        log=INSTALLATION.log,
        config=INSTALLATION.config,
        status=Status.parse(status),
        unlike=unlike,
        config_problem=problem,
        missing_packages=tuple(levels["missing_packages"]),
        install=install_command(read_distribution(host), levels["missing_packages"]),
        runtimes_away=_find_runtimes_away(host, status),
        metrics=_metrics(host, address),
        metrics_place=_url(address),
        open_files=read_open_files(host, "the pull proxy", levels["pid"]),
        version=_version(host),
    )
    return reading_of(facts)


def _compare_settings(host: Host, status: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    """The settings in which the running proxy differs from its file, and why the file cannot be read ("" if it can)."""
    running = mapping_in(status, "settings")
    try:
        settings = RUNNING.file_settings(host)
    except BallastError as error:
        return (), error.in_one_line
    return tuple(sorted(key for key in settings if running and running.get(key) != settings[key])), ""


def _find_runtimes_away(host: Host, status: Mapping[str, Any]) -> dict[str, str]:
    away = {}
    for row in rows_in(status, "listeners"):
        path = str(row.get("runtime") or "")
        if path.startswith("/") and not is_listening(host, path, timeout=_SECONDS):
            away[str(row.get("name"))] = path
    return away


def _metrics(host: Host, address: object) -> Optional[tuple[Sample, ...]]:
    url = _url(address)
    if not url:
        return None
    try:
        answer = host.request(url, timeout=_SECONDS)
    except PeerError:
        return None
    return parse_exposition(answer.body.decode(errors="replace"), METRICS) if answer.status == 200 else None


def _url(address: object) -> str:
    """The URL of the metrics, from the proxy's setting `metrics` (address and port); "" if it is unset."""
    if not isinstance(address, list) or len(address) != 2 or not isinstance(address[1], int):
        return ""
    host = f"[{address[0]}]" if ":" in str(address[0]) else address[0]
    return f"http://{host}:{address[1]}/metrics"


def _version(host: Host) -> str:
    """The installed program's version: the start of the digest of its sources."""
    value = PROGRAM_KINDS["program"].read(Context(None, host), INSTALLATION.program)
    return "" if value == ABSENT else str(fields(value)["digest"])[:_SHORT]
