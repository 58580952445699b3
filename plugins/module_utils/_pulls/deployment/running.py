# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The running pull proxy as one resource: its file of settings and its service, which hold only together.

A change of limits is told to the running one (HUP), which ends no pull. A change of what it listens on, of the program or
of the service starts it anew. Either is over when the proxy says that it works with these settings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Optional, Union

from ..._core.engine import Finding
from ..._core.errors import BallastError, PeerError, last_lines
from ..._core.events import NullSink, Progress
from ..._core.host import Host
from ..._core.kinds import fields
from ..._core.plan import ABSENT, Resource, Value
from ..._core.service import SERVICE_KINDS, Service, reload_service
from ..._core.wait import Pending, Ready, wait
from ..proxy.settings import Listener, Priority, Retry, Settings, needs_restart, parse_settings
from .messages import MESSAGES
from .request import COMMAND, CONFIG, LOG, NAME, as_text

_MODE = 0o600
_STATUS_SECONDS = 20
_EFFECT_SECONDS = 60
_ASK_AGAIN_SECONDS = 0.5
_SHOWN_LINES = 5
_SERVICE = SERVICE_KINDS["service"]


def proxy_resource(service_target: str, document: Mapping[str, Any], wanted: Service) -> Resource:
    value: Value = {"settings": document, "service": wanted.as_value(), "in_effect": True}
    return Resource("pull-proxy", service_target, value, title=f"service {NAME}", group="pull proxy")


class PullProxyKind:
    """`{settings, service, in_effect}`: the content of the file, the service (`Service.as_value`, null where there is
    none), and whether the running proxy works with these settings. The target is that of the service."""

    def read(self, host: Host, target: str) -> Value:
        service, document = _SERVICE.read(host, target), _document(host)
        if service == ABSENT and document is None and host.stat(CONFIG) is None:
            return ABSENT
        running = service != ABSENT and bool(fields(service)["running"])
        effective = document is not None and running and in_effect(host)
        return {"settings": document, "service": service, "in_effect": effective}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        wanted = fields(after)
        if wanted["service"] == ABSENT:
            _SERVICE.remove(host, target, ABSENT)
        self._write_file(host, wanted["settings"])
        if wanted["service"] != ABSENT:
            self._bring_into_effect(host, target, wanted, ABSENT if before == ABSENT else fields(before)["service"])

    def remove(self, host: Host, target: str, before: Value) -> None:
        _SERVICE.remove(host, target, ABSENT)
        host.remove(CONFIG)

    def _write_file(self, host: Host, document: Value) -> None:
        if document is None:
            host.remove(CONFIG)
        elif _document(host) != document:
            host.write(CONFIG, as_text(fields(document)).encode(), mode=_MODE)

    def _bring_into_effect(self, host: Host, target: str, wanted: Mapping[str, Value], before: Value) -> None:
        if before == wanted["service"] and not self._starts_anew(host):
            reload_service(host, target)
        else:
            # What was there is not told, so that one which is defined as it should be is started anew too.
            known = before if before != ABSENT and not fields(before)["running"] else ABSENT
            _SERVICE.write(host, target, wanted["service"], known)
        if wanted["in_effect"]:
            _wait_until_in_effect(host)

    def _starts_anew(self, host: Host) -> bool:
        """Whether a reload would not do. One that runs and does not answer is of no use to anybody, but that of a busy host
        has pulls in flight, which a new start would break off: it gets its time."""
        deadline = host.monotonic() + _EFFECT_SECONDS
        running = running_settings(host)
        while running is None and host.monotonic() < deadline:
            host.sleep(_ASK_AGAIN_SECONDS)
            running = running_settings(host)
        return running is None or needs_restart(running, _settings(host)) != ()


def in_effect(host: Host) -> bool:
    try:
        return running_settings(host) == _settings(host)
    except BallastError:  # the file is none that a proxy takes
        return False


def status(host: Host) -> Optional[dict[str, Any]]:
    """What the running proxy says of itself; None where none answers."""
    argv = [COMMAND, "status", "--config", CONFIG, "--json"]
    try:
        done = host.run(argv, timeout=_STATUS_SECONDS, check=False)
        found = json.loads(done.stdout) if done.status == 0 else None
    except (BallastError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def running_settings(host: Host) -> Optional[Settings]:
    """Those that the running proxy works with; None where none answers."""
    found = (status(host) or {}).get("settings")
    try:
        rows = dict(found or {})
        return Settings(
            **{
                **rows,
                "listeners": tuple(Listener(**row) for row in rows["listeners"]),
                "retry": Retry(**rows["retry"]),
                "priority": Priority(**rows["priority"]),
                "metrics": None if rows["metrics"] is None else tuple(rows["metrics"]),
            }
        )
    except (KeyError, TypeError, ValueError):  # one of another version
        return None


def finding(host: Host, progress: Progress) -> list[Finding]:
    """Empty where the proxy works with the settings of its file."""
    try:
        _wait_until_in_effect(host, progress)
    except PeerError as error:
        return [Finding(error.id, NAME, error.in_one_line, error.remedy)]
    return []


def _wait_until_in_effect(host: Host, progress: Optional[Progress] = None) -> None:
    wanted = _settings(host)

    def probe() -> Union[Ready[None], Pending]:
        found = running_settings(host)
        if found == wanted:
            return Ready(None)
        return Pending("it does not answer" if found is None else "it works with other settings")

    said = progress or Progress(NullSink(), feature="pull-proxy")
    try:
        wait(host, said, NAME, probe, deadline_seconds=_EFFECT_SECONDS, interval=0.2)
    except PeerError as error:
        log = last_lines((host.read(LOG) or b"").decode(errors="replace"), limit=_SHOWN_LINES)
        shown = {"path": CONFIG, "seconds": _EFFECT_SECONDS, "log": LOG}
        found = "\n".join([error.found, log] if log else [error.found])
        raise MESSAGES.error("pulls-deploy-settings", found=found, **shown) from error


def _document(host: Host) -> Optional[dict[str, Any]]:
    """The content of the file; None where it is none of ours, or others may read it."""
    found = host.stat(CONFIG)
    if found is None or found.kind != "file" or found.mode != _MODE:
        return None
    try:
        document = json.loads(host.read(CONFIG) or b"")
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _settings(host: Host) -> Settings:
    data = host.read(CONFIG) or b""
    return parse_settings(data.decode(errors="replace"), name=CONFIG)
