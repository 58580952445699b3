# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `service_proxy_info` returns, with `readiness: true` also the verdicts of production readiness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from ..._agent.program import PROGRAM_KINDS
from ..._core.engine.context import Context
from ..._core.engine.journal import Journal, journal_path
from ..._core.engine.kinds import fields
from ..._core.engine.plan import ABSENT
from ..._core.engine.readiness import Reading, off_reading
from ..._core.engine.readiness_common import read_open_files, unknown_reading
from ..._core.host.host import Host
from ..._core.text.errors import BallastError, PeerError
from ..._core.text.exposition import Sample, parse_exposition
from ..._core.text.json_text import mapping_in
from ..._core.text.packages import install_command, read_distribution
from ..configuration import format_place
from .engine import ENGINE
from .installation import INSTALLATION
from .readiness_answers import METRICS, NAME, Facts, Status, reading_of

_SECONDS = 5
_SHORT = 12  # characters of a digest, enough to distinguish programs


def read_params(host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
    result = ENGINE.read(host, params)
    return {**result, "readiness": _reading(host, params, result).as_json()} if params["readiness"] else result


def _reading(host: Host, params: Mapping[str, Any], levels: Mapping[str, Any]) -> Reading:
    path = journal_path(params["state_dir"])
    try:
        journal = Journal(path, host=host, kinds=ENGINE.kinds)
    except BallastError as error:
        return unknown_reading(NAME, error, path)
    if not journal.recorded and not journal.open:
        return off_reading(
            NAME, "the collection installed no service proxy on this node", f"{path}, which does not exist"
        )
    status = mapping_in(levels, "status")
    unlike, problem = _compare_settings(host, status)
    url = _url(mapping_in(status, "settings").get("metrics"))
    missing = levels["missing_packages"]
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
        missing_packages=tuple(missing),
        install=install_command(read_distribution(host), missing),
        metrics=_metrics(host, url),
        metrics_place=url,
        open_files=read_open_files(host, "the service proxy", levels["pid"]),
        version=_version(host),
    )
    return reading_of(facts)


def _compare_settings(host: Host, status: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    """The settings in which the running program differs from its file, and why the file cannot be read ("" if it can)."""
    running = mapping_in(status, "settings")
    try:
        settings = ENGINE.running.file_settings(host)
    except BallastError as error:
        return (), error.in_one_line
    return tuple(sorted(key for key in settings if running and running.get(key) != settings[key])), ""


def _metrics(host: Host, url: str) -> Optional[tuple[Sample, ...]]:
    if not url:
        return None
    try:
        answer = host.request(url, timeout=_SECONDS)
    except PeerError:
        return None
    return parse_exposition(answer.body.decode(errors="replace"), METRICS) if answer.status == 200 else None


def _url(address: object) -> str:
    """Of the metrics, from the program's setting `metrics` (address and port); "" if it has none."""
    if not isinstance(address, list) or len(address) != 2 or not isinstance(address[1], int):
        return ""
    return f"http://{format_place((str(address[0]), address[1]))}/metrics"


def _version(host: Host) -> str:
    """The installed program's version: the start of the digest of its sources."""
    value = PROGRAM_KINDS["program"].read(Context(None, host), INSTALLATION.program)
    return "" if value == ABSENT else str(fields(value)["digest"])[:_SHORT]
