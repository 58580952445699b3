# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `image_pull_proxy_info` returns, and what a reading of production readiness takes besides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from ..._core.agent.deployment import as_text
from ..._core.errors import BallastError, PeerError
from ..._core.exposition import Sample, parse_exposition
from ..._core.host import Host
from ..._core.kinds import fields
from ..._core.ledger import Ledger, ledger_path
from ..._core.plan import ABSENT
from ..._core.program import PROGRAM_KINDS
from ..._core.readiness import Reading, off
from ..._core.surveying import read_open_files, unread
from .engine import ENGINE
from .installation import INSTALLATION, RUNNING
from .readings import METRICS, NAME, Facts, Status, reading_of
from .request import SETTINGS

_SECONDS = 5
_SHORT = 12  # characters of a digest that tell one program from another


def read_params(host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
    found = {**ENGINE.read(host, params), "options": _options(host)}
    return {**found, "readiness": _reading(host, params, found).as_json()} if params["readiness"] else found


def _options(host: Host) -> Optional[Mapping[str, Any]]:
    """By which the module makes the file of settings as it is, to the byte; None where no options make it."""
    document = RUNNING.document(host)
    if document is None or not set(document) <= set(SETTINGS):
        return None
    return document if as_text(document).encode() == host.read(INSTALLATION.config) else None


def _reading(host: Host, params: Mapping[str, Any], found: Mapping[str, Any]) -> Reading:
    path = ledger_path(params["state_dir"])
    try:
        ledger = Ledger(path, host=host, kinds=ENGINE.kinds)
    except BallastError as error:
        return unread(NAME, error, path)
    if not ledger.recorded and not ledger.open:
        return off(NAME, "no pull proxy of ours is installed on this host", f"{path}, which is not there")
    told = found["status"] if isinstance(found["status"], Mapping) else {}
    unlike, problem = _unlike(host, told)
    address = _mapping(told.get("settings")).get("metrics")
    facts = Facts(
        state_dir=params["state_dir"],
        recorded=ledger.recorded,
        unfinished=ledger.open,
        pid=found["pid"],
        log=INSTALLATION.log,
        config=INSTALLATION.config,
        status=Status.parse(told),
        unlike=unlike,
        config_problem=problem,
        missing_packages=tuple(found["missing_packages"]),
        runtimes_away=_runtimes_away(host, told),
        metrics=_metrics(host, address),
        metrics_place=_url(address),
        open_files=read_open_files(host, "the pull proxy", found["pid"]),
        version=_version(host),
    )
    return reading_of(facts)


def _unlike(host: Host, told: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    """The settings in which the running one differs from its file, and why the file cannot be read."""
    running = _mapping(told.get("settings"))
    try:
        wanted = RUNNING.file_settings(host)
    except BallastError as error:
        return (), error.in_one_line
    return tuple(sorted(key for key in wanted if running and running.get(key) != wanted[key])), ""


def _runtimes_away(host: Host, told: Mapping[str, Any]) -> dict[str, str]:
    rows = told.get("listeners")
    found = {}
    for row in rows if isinstance(rows, list) else []:
        path = str(_mapping(row).get("runtime") or "")
        if path.startswith("/") and not _answers(host, path):
            found[str(_mapping(row).get("name"))] = path
    return found


def _answers(host: Host, path: str) -> bool:
    """A socket file stays when its program was killed, so that it is asked. A runtime speaks HTTP/2 alone, and hangs up."""
    try:
        host.request(f"unix://{path}:/", timeout=_SECONDS)
    except PeerError as error:
        refused, cause = (ConnectionRefusedError, FileNotFoundError, TimeoutError), error.__cause__
        return not isinstance(cause, refused)
    return True


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
    """Of the setting `metrics` as the proxy tells it, address and port; "" where it has none."""
    if not isinstance(address, list) or len(address) != 2 or not isinstance(address[1], int):
        return ""
    host = f"[{address[0]}]" if ":" in str(address[0]) else address[0]
    return f"http://{host}:{address[1]}/metrics"


def _version(host: Host) -> str:
    """Of the program that is installed: the beginning of the digest of its sources."""
    value = PROGRAM_KINDS["program"].read(host, INSTALLATION.program)
    return "" if value == ABSENT else str(fields(value)["digest"])[:_SHORT]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
