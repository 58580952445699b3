# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Supervised services: systemd units where PID 1 is systemd, else runit, whose `runsvdir` we start ourselves.

Under runit one supervisor serves one SV_DIR. It starts all that lies there at once, but looks for additions only
every 5 seconds; so services are written first, and the supervisor's resource follows them.
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
_LOG_KEPT_BYTES = 1024 * 1024  # of one that an earlier version made for everyone to read


class ServiceKind:
    """Value: `Service.as_value()`."""

    is_process = True

    def read(self, ctx: Context[Any], target: str) -> Value:
        return _supervisor(ctx.host).read(ctx.host, target)

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        if after == incomplete(target):  # what an undo or a removal may ask for: there never was a whole one
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
        # What was written is kept, for diagnosis.
        if log and ctx.host.read_end(log, 1) == b"":
            ctx.host.remove(log)


def _make_log(host: Host, service: Service) -> None:
    """Its log, before its supervisor opens it, with a mask of its own."""
    log_directory = os.path.dirname(service.log)
    if host.stat(log_directory) is None:
        host.make_directory(log_directory, mode=0o750)
    stat = host.stat(service.log)
    if stat is None or (stat.kind == "file" and stat.mode & 0o137):
        host.write(service.log, host.read_end(service.log, _LOG_KEPT_BYTES) or b"", mode=_LOG_MODE)


SERVICE_KINDS: dict[str, Kind] = {"service": ServiceKind(), "supervisor": SupervisorKind()}


def reload_service(host: Host, target: str) -> None:
    """Make a running service that `reloads` read its settings again, without waiting for it."""
    _supervisor(host).reload(host, target)


def service_process(host: Host, target: str) -> Optional[Process]:
    """A running service, None when it is down."""
    return _supervisor(host).process(host, target)


def service_pid(host: Host, target: str) -> Optional[int]:
    """For a person to read, or to measure by. What acts on the process takes `service_process`."""
    process = service_process(host, target)
    return None if process is None else process.pid


def is_to_run(host: Host, target: str) -> bool:
    """Whether its supervisor is to keep it up: not so for a service that we stopped, but for one that was killed."""
    return _supervisor(host).is_to_run(host, target)


def _supervisor(host: Host) -> Supervisor:
    return Systemd() if host.is_systemd() else Runit()
