# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services as units of systemd."""

from __future__ import annotations

import os
from typing import Optional

from ..engine.plan import ABSENT, Value
from ..host.host import Host, Process
from ..host.processes import is_main_of_unit
from ..text.errors import HostError
from ..text.json_text import parse_json
from ..text.service_messages import MESSAGES
from .service import STOP_SECONDS, Service, definition_path, incomplete, stop_seconds, write_definition
from .service_text import MARK, unit_text

UNIT_DIRECTORY = "/etc/systemd/system"


class Systemd:
    """The `Supervisor` of a host with systemd. Also raises HostError `core-unit-taken` for a unit that is not ours."""

    def _own_unit(self, host: Host, target: str) -> Optional[bytes]:
        """The unit file, or None. HostError if it was not made by us, or belongs to a service whose directory `target` is
        missing: our services have that directory before, during and after their unit."""
        unit = host.read(self._path(target))
        if unit is None:
            return None
        if not unit.startswith(f"{MARK}{os.path.basename(target)}\n".encode()):
            raise unit_taken_error(self._path(target), "a unit file without this collection's mark in its first line")
        if host.stat(target) is None:
            raise unit_taken_error(self._path(target), f"a unit of another instance: there is no {target}")
        return unit

    def read(self, host: Host, target: str) -> Value:
        unit, data = self._own_unit(host, target), host.read(definition_path(target))
        if unit is None or data is None:
            return incomplete(target) if unit or host.stat(target) else ABSENT
        service = Service.from_value(parse_json(data))
        if unit != unit_text(service).encode():
            return incomplete(target)  # edited, or written by another version
        return service.as_value(running=self._show(host, target)["ActiveState"] == "active")

    def write(self, host: Host, target: str, service: Service, *, running: bool, definition_known: bool) -> None:
        name = os.path.basename(target)
        if not definition_known:
            host.make_directory(target)
            host.remove(definition_path(target))
            host.write(self._path(target), unit_text(service).encode())
            host.run(["systemctl", "daemon-reload"], timeout=60)
        if running:
            host.run(["systemctl", "enable", name], timeout=60)
            host.run(["systemctl", "start" if definition_known else "restart", name], timeout=3 * service.stop_seconds)
        else:
            host.run(["systemctl", "disable", "--now", name], timeout=3 * service.stop_seconds)
        if not definition_known:
            write_definition(host, target, service)

    def remove(self, host: Host, target: str) -> None:
        name = os.path.basename(target)
        self._own_unit(host, target)
        # The exit status is ignored: it is a failure for a unit that is not loaded.
        host.run(["systemctl", "disable", "--now", name], timeout=3 * stop_seconds(host, target), check=False)
        state = self._show(host, target)["ActiveState"]
        if state not in ("inactive", "failed"):
            fields = {"name": name, "action": "stop it", "where": f"systemctl status {name}"}
            raise HostError(**MESSAGES.texts("core-supervisor", found=f"its state is {state}", **fields))
        if state == "failed":
            host.run(["systemctl", "reset-failed", name], timeout=60, check=False)
        host.remove(self._path(target))
        host.run(["systemctl", "daemon-reload"], timeout=60)
        host.remove_tree(target)

    def process(self, host: Host, target: str) -> Optional[Process]:
        shown = self._show(host, target)
        return unit_process(host, shown["MainPID"], shown.get("ControlGroup", ""))

    def is_to_run(self, host: Host, target: str) -> bool:
        done = host.run(["systemctl", "is-enabled", os.path.basename(target)], timeout=30, check=False)
        return done.stdout.strip() == "enabled"

    def reload(self, host: Host, target: str) -> None:
        host.run(["systemctl", "reload", os.path.basename(target)], timeout=STOP_SECONDS)

    def _show(self, host: Host, target: str) -> dict[str, str]:
        argv = ["systemctl", "show", "--property", "ActiveState,MainPID,ControlGroup", os.path.basename(target)]
        lines = host.run(argv, timeout=30).stdout.splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def _path(self, target: str) -> str:
        return os.path.join(UNIT_DIRECTORY, f"{os.path.basename(target)}.service")


def unit_process(host: Host, main_pid: str, control_group: str) -> Optional[Process]:
    """The main process of a unit, given its MainPID and ControlGroup as systemd reports them; None if that is not the main
    process of that unit."""
    process = host.process(int(main_pid)) if main_pid.isdigit() and int(main_pid) else None
    return process if process is not None and is_main_of_unit(process, control_group) else None


def unit_taken_error(path: str, reason: str) -> HostError:
    return HostError(**MESSAGES.texts("core-unit-taken", found=reason, path=path))
