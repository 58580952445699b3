# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A running program as one resource: its settings file and its service, which are only valid together.

The running program reloads most settings on SIGHUP. A change of the others (`restart_keys`), of the program or of the
service restarts it. Either change is complete when the program reports that it uses these settings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Optional, Union

from .._core.engine.context import Context
from .._core.engine.engine import Finding
from .._core.engine.events import Progress
from .._core.engine.kinds import fields
from .._core.engine.plan import ABSENT, Resource, Value
from .._core.engine.wait import Pending, Ready, wait, wait_until
from .._core.host.host import LOG_LIMIT, Host
from .._core.service.service import Service
from .._core.service.services import SERVICE_KINDS, reload_service
from .._core.text.errors import BallastError, PeerError, last_lines
from .._core.text.json_text import parse_object
from .installation import Installation, as_text
from .place import control_path

_STATUS_SECONDS = 20
_EFFECT_SECONDS = 60
_ASK_AGAIN_SECONDS = 0.5
_SHOWN_LINES = 5
_SERVICE = SERVICE_KINDS["service"]
Settings = Mapping[str, Any]  # all settings including defaults, as the program reports them: JSON data


class AgentKind:
    """`{settings, service, in_effect}`: the content of the file, the service (`Service.as_value`, null if there is none),
    and whether the running program uses these settings. The target is that of the service."""

    def __init__(self, installation: Installation) -> None:
        self._it = installation

    def resource(self, target: str, document: Mapping[str, Any], service: Service) -> Resource:
        value: Value = {"settings": document, "service": service.as_value(), "in_effect": True}
        return Resource(self._it.kind, target, value, title=f"service {service.name}", group=self._it.group)

    def read(self, ctx: Context[Any], target: str) -> Value:
        service, document = _SERVICE.read(ctx, target), self.document(ctx.host)
        if service == ABSENT and document is None and ctx.host.stat(self._it.config) is None:
            return ABSENT
        running = service != ABSENT and bool(fields(service)["running"])
        effective = document is not None and running and self.in_effect(ctx.host)
        return {"settings": document, "service": service, "in_effect": effective}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        value = fields(after)
        if value["service"] == ABSENT:
            _SERVICE.remove(ctx, target, ABSENT)
        self._write_file(ctx.host, value["settings"])
        if value["service"] != ABSENT:
            self._bring_into_effect(ctx, target, value, ABSENT if before == ABSENT else fields(before)["service"])

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        _SERVICE.remove(ctx, target, ABSENT)
        ctx.host.remove(self._it.config)

    def status(self, host: Host) -> Optional[dict[str, Any]]:
        """The status that the running program reports; None if it does not respond."""
        # Reads the control socket directly, as the command `status` does: starting that command takes a hundred times as
        # long, and each run asks three times.
        answer = host.read_socket(control_path(self._it.sockets), timeout=_STATUS_SECONDS)
        return parse_object(answer)

    def running_settings(self, host: Host) -> Optional[Settings]:
        """The settings that the running program uses; None if it does not respond."""
        settings = (self.status(host) or {}).get("settings")
        return settings if isinstance(settings, dict) else None

    def file_settings(self, host: Host) -> Settings:
        """The settings that a program reads from the file; raises the file's errors."""
        data = host.read(self._it.config) or b""
        made: Any = self._it.parse(data.decode(errors="replace"), self._it.config)
        settings: Settings = json.loads(json.dumps(asdict(made)))
        return settings

    def document(self, host: Host) -> Optional[dict[str, Any]]:
        """The content of the file; None if it is not a file with our mode."""
        stat = host.stat(self._it.config)
        if stat is None or stat.kind != "file" or stat.mode != self._it.config_mode:
            return None
        return parse_object(host.read(self._it.config))

    def in_effect(self, host: Host) -> bool:
        """Whether the running program uses the settings in its file. False if it does not respond or would refuse the
        file."""
        try:
            return self.running_settings(host) == self.file_settings(host)
        except BallastError:  # the program would refuse the file
            return False

    def finding(self, host: Host, progress: Progress) -> list[Finding]:
        """Empty if the program uses the settings in its file."""
        try:
            self.wait_until_in_effect(host, progress)
        except PeerError as error:
            return [Finding(error.id, self._it.agent.name, error.in_one_line, error.remedy)]
        return []

    def wait_until_in_effect(self, host: Host, progress: Progress) -> None:
        """Raises the file's errors; `deploy-settings`, with the end of the program's log, if waiting takes too long."""
        configured = self.file_settings(host)

        def probe() -> Union[Ready[None], Pending]:
            running = self.running_settings(host)
            if running == configured:
                return Ready(None)
            return Pending("it does not respond" if running is None else "it runs with other settings")

        installation = self._it
        try:
            wait(host, progress, installation.agent.name, probe, deadline_seconds=_EFFECT_SECONDS, interval=0.2)
        except PeerError as error:
            log = last_lines(
                (host.read_end(installation.log, LOG_LIMIT) or b"").decode(errors="replace"), limit=_SHOWN_LINES
            )
            shown = {"path": installation.config, "seconds": _EFFECT_SECONDS, "log": installation.log}
            reason = "\n".join([error.found, log] if log else [error.found])
            raise installation.agent.error("deploy-settings", found=reason, **shown) from error

    def _write_file(self, host: Host, document: Value) -> None:
        if document is None:
            host.remove(self._it.config)
        elif self.document(host) != document:
            host.write(self._it.config, as_text(fields(document)).encode(), mode=self._it.config_mode)

    def _bring_into_effect(self, ctx: Context[Any], target: str, value: Mapping[str, Value], before: Value) -> None:
        if before == value["service"] and not self._must_restart(ctx.host):
            reload_service(ctx.host, target)
        else:
            # With ABSENT as the value before, a service is restarted even if its definition is unchanged.
            known = before if before != ABSENT and not fields(before)["running"] else ABSENT
            _SERVICE.write(ctx, target, value["service"], known)
        if value["in_effect"]:
            self.wait_until_in_effect(ctx.host, ctx.progress)

    def _must_restart(self, host: Host) -> bool:
        """Whether a reload would not be enough. A running program that does not respond is useless, but on a busy host it
        may have work in progress, which a restart would interrupt, so it gets some time."""
        running = wait_until(
            host, lambda: self.running_settings(host), seconds=_EFFECT_SECONDS, interval=_ASK_AGAIN_SECONDS
        )
        if running is None:
            return True
        configured = self.file_settings(host)
        of_another_version = running.keys() != configured.keys()
        return of_another_version or any(running[key] != configured[key] for key in self._it.restart_keys)
