# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A running program as one resource: its file of settings and its service, which hold only together.

Most settings are told to the running one (HUP). A change of the others (`restart_keys`), of the program or of the service
starts it anew. Either is over when the program says that it works with these settings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Optional, Union

from ..engine import Finding
from ..errors import BallastError, PeerError, last_lines
from ..events import NullSink, Progress
from ..host import Host
from ..kinds import fields
from ..plan import ABSENT, Resource, Value
from ..service import SERVICE_KINDS, Service, reload_service
from ..wait import Pending, Ready, wait
from .deployment import Installation, as_text
from .place import control_path

_MODE = 0o600
_STATUS_SECONDS = 20
_EFFECT_SECONDS = 60
_ASK_AGAIN_SECONDS = 0.5
_SHOWN_LINES = 5
_SERVICE = SERVICE_KINDS["service"]
Settings = Mapping[str, Any]  # every setting, those by default too, as the program tells them: JSON data


class AgentKind:
    """`{settings, service, in_effect}`: the content of the file, the service (`Service.as_value`, null where there is
    none), and whether the running program works with these settings. The target is that of the service."""

    def __init__(self, installation: Installation) -> None:
        self._it = installation

    def resource(self, target: str, document: Mapping[str, Any], wanted: Service) -> Resource:
        value: Value = {"settings": document, "service": wanted.as_value(), "in_effect": True}
        return Resource(self._it.kind, target, value, title=f"service {wanted.name}", group=self._it.group)

    def read(self, host: Host, target: str) -> Value:
        service, document = _SERVICE.read(host, target), self.document(host)
        if service == ABSENT and document is None and host.stat(self._it.config) is None:
            return ABSENT
        running = service != ABSENT and bool(fields(service)["running"])
        effective = document is not None and running and self.in_effect(host)
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
        host.remove(self._it.config)

    def status(self, host: Host) -> Optional[dict[str, Any]]:
        """What the running program says of itself; None where none answers."""
        # Asked as its command `status` asks: to start that takes a hundred times as long, and each run asks three times.
        told = host.hear(control_path(self._it.sockets), timeout=_STATUS_SECONDS)
        try:
            found = None if told is None else json.loads(told)
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def running_settings(self, host: Host) -> Optional[Settings]:
        """Those that the running program works with; None where none answers."""
        found = (self.status(host) or {}).get("settings")
        return found if isinstance(found, dict) else None

    def file_settings(self, host: Host) -> Settings:
        """Those that a program takes from the file; raises what is wrong with it."""
        data = host.read(self._it.config) or b""
        made: Any = self._it.parse(data.decode(errors="replace"), self._it.config)
        found: Settings = json.loads(json.dumps(asdict(made)))
        return found

    def document(self, host: Host) -> Optional[dict[str, Any]]:
        """The content of the file; None where it is none of ours, or others may read it."""
        found = host.stat(self._it.config)
        if found is None or found.kind != "file" or found.mode != _MODE:
            return None
        try:
            document = json.loads(host.read(self._it.config) or b"")
        except ValueError:
            return None
        return document if isinstance(document, dict) else None

    def in_effect(self, host: Host) -> bool:
        try:
            return self.running_settings(host) == self.file_settings(host)
        except BallastError:  # the file is none that the program takes
            return False

    def finding(self, host: Host, progress: Progress) -> list[Finding]:
        """Empty where the program works with the settings of its file."""
        try:
            self.wait_until_in_effect(host, progress)
        except PeerError as error:
            return [Finding(error.id, self._it.agent.name, error.in_one_line, error.remedy)]
        return []

    def wait_until_in_effect(self, host: Host, progress: Optional[Progress] = None) -> None:
        wanted = self.file_settings(host)

        def probe() -> Union[Ready[None], Pending]:
            found = self.running_settings(host)
            if found == wanted:
                return Ready(None)
            return Pending("it does not answer" if found is None else "it works with other settings")

        it = self._it
        said = progress or Progress(NullSink(), feature=it.agent.short)
        try:
            wait(host, said, it.agent.name, probe, deadline_seconds=_EFFECT_SECONDS, interval=0.2)
        except PeerError as error:
            log = last_lines((host.read(it.log) or b"").decode(errors="replace"), limit=_SHOWN_LINES)
            shown = {"path": it.config, "seconds": _EFFECT_SECONDS, "log": it.log}
            found = "\n".join([error.found, log] if log else [error.found])
            raise it.agent.error("deploy-settings", found=found, **shown) from error

    def _write_file(self, host: Host, document: Value) -> None:
        if document is None:
            host.remove(self._it.config)
        elif self.document(host) != document:
            host.write(self._it.config, as_text(fields(document)).encode(), mode=_MODE)

    def _bring_into_effect(self, host: Host, target: str, wanted: Mapping[str, Value], before: Value) -> None:
        if before == wanted["service"] and not self._starts_anew(host):
            reload_service(host, target)
        else:
            # What was there is not told, so that one which is defined as it should be is started anew too.
            known = before if before != ABSENT and not fields(before)["running"] else ABSENT
            _SERVICE.write(host, target, wanted["service"], known)
        if wanted["in_effect"]:
            self.wait_until_in_effect(host)

    def _starts_anew(self, host: Host) -> bool:
        """Whether a reload would not do. One that runs and does not answer is of no use to anybody, but that of a busy host
        has work under way, which a new start would break off: it gets its time."""
        deadline = host.monotonic() + _EFFECT_SECONDS
        running = self.running_settings(host)
        while running is None and host.monotonic() < deadline:
            host.sleep(_ASK_AGAIN_SECONDS)
            running = self.running_settings(host)
        if running is None:
            return True
        wanted = self.file_settings(host)
        of_another_version = running.keys() != wanted.keys()
        return of_another_version or any(running[key] != wanted[key] for key in self._it.restart_keys)
