# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Supervised services: systemd units where PID 1 is systemd, else runit with a `runsvdir` that we start ourselves.

Under runit one supervisor serves one SV_DIR. At its start it starts everything in it, but later looks for new services only
every 5 seconds. So services are written first, and the supervisor's resource comes after them.
"""

from __future__ import annotations

import os
from typing import Any, Optional

from ..engine.context import Context
from ..engine.kinds import Kind, fields
from ..engine.plan import ABSENT, Value
from ..host.host import Host, Process
from ..text.json_text import parse_json
from .runit import Runit, SupervisorKind
from .service import Service, Supervisor, definition_path, incomplete
from .systemd import Systemd

_LOG_MODE = 0o640
_LOG_KEPT_BYTES = 1024 * 1024  # how much is kept of a log that an earlier version made world-readable


class ServiceKind:
    """Value: `Service.as_value()`."""

    is_process = True

    def read(self, ctx: Context[Any], target: str) -> Value:
        return _supervisor(ctx.host).read(ctx.host, target)

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        if after == incomplete(target):  # an undo or a removal of a part: there never was a complete service
            self.remove(ctx, target, before)
            return
        service = Service.from_value(after)
        known = before != ABSENT and Service.from_value(before) == service
        _make_log(ctx.host, service)
        _supervisor(ctx.host).write(
            ctx.host, target, service, running=bool(fields(after)["running"]), definition_known=known
        )

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        defined = ctx.host.read(definition_path(target))
        _supervisor(ctx.host).remove(ctx.host, target)
        log = "" if defined is None else Service.from_value(parse_json(defined)).log
        # A log with content is kept for diagnosis.
        if log and ctx.host.read_end(log, 1) == b"":
            ctx.host.remove(log)


def _make_log(host: Host, service: Service) -> None:
    """Create the log with our mode before the supervisor opens it with its own umask."""
    log_directory = os.path.dirname(service.log)
    if host.stat(log_directory) is None:
        host.make_directory(log_directory, mode=0o750)
    stat = host.stat(service.log)
    if stat is None or (stat.kind == "file" and stat.mode & 0o137):
        host.write(service.log, host.read_end(service.log, _LOG_KEPT_BYTES) or b"", mode=_LOG_MODE)


SERVICE_KINDS: dict[str, Kind] = {"service": ServiceKind(), "supervisor": SupervisorKind()}


def reload_service(host: Host, target: str) -> None:
    """Make a running service that has `reloads` read its settings again; does not wait for it."""
    _supervisor(host).reload(host, target)


def service_process(host: Host, target: str) -> Optional[Process]:
    """The process of a service; None when it is down."""
    return _supervisor(host).process(host, target)


def service_pid(host: Host, target: str) -> Optional[int]:
    """The pid, for display or measurement. Code that acts on the process uses `service_process`."""
    process = service_process(host, target)
    return None if process is None else process.pid


def is_to_run(host: Host, target: str) -> bool:
    """Whether its supervisor keeps it running: true for a service that was killed, false for one that we stopped."""
    return _supervisor(host).is_to_run(host, target)


def _supervisor(host: Host) -> Supervisor:
    return Systemd() if host.is_systemd() else Runit()
