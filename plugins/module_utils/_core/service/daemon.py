# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services of a host that we did not make: a systemd unit, or the directory of a runit service.

The name says which of the two: a path is a runit directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Optional

from ..host.host import Host, Process
from ..host.processes import is_run_by
from .runit import runit_process, stop_runit
from .systemd import unit_process

_STOP_SECONDS = 30
_UNIT = ".service"
_PROPERTIES = (
    "LoadState",
    "MainPID",
    "ControlGroup",
    "FragmentPath",
    "DropInPaths",
    "EnvironmentFiles",
    "NetworkNamespacePath",
)
_ENVIRONMENT_FILE = re.compile(r"(\S+) \(ignore_errors=(?:yes|no)\)")


def daemon_exists(host: Host, service: str) -> bool:
    """Whether the host has this service, running or not."""
    if _by_runit(service):
        return host.stat(os.path.join(service, "run")) is not None
    return _unit(host, service).get("LoadState") == "loaded"


def daemon_process(host: Host, service: str) -> Optional[Process]:
    """The process that root's supervisor started for the service; None while it is not running."""
    if _by_runit(service):
        return runit_process(host, service)
    unit = _unit(host, service)
    return unit_process(host, unit.get("MainPID", ""), unit.get("ControlGroup", ""))


def daemon_of(host: Host, process: Process) -> str:
    """The name of the service that a process runs in, as these functions take it; "" if it is in none."""
    if host.is_systemd():
        units = [part for path in process.cgroups for part in path.split("/") if part.endswith(_UNIT)]
        return units[0][: -len(_UNIT)] if units else ""
    directory = host.readlink(f"/proc/{process.parent}/cwd") or ""
    return directory if directory and is_run_by(host, process, directory) else ""


def stop_daemon(host: Host, service: str) -> None:
    """Stop the service and wait until it has ended. A service that is not running is fine."""
    if _by_runit(service):
        stop_runit(host, service)
    else:
        host.run(["systemctl", "stop", service], timeout=3 * _STOP_SECONDS)


def start_daemon(host: Host, service: str) -> None:
    """Start the service without waiting: a crashing service is hardly ever seen up, and callers wait until it is healthy."""
    if _by_runit(service):
        host.run(["sv", "up", service], timeout=_STOP_SECONDS)
    else:
        host.run(["systemctl", "start", service], timeout=3 * _STOP_SECONDS)


def restart_daemon(host: Host, service: str) -> None:
    """Restart the service; one that is not running is started."""
    if _by_runit(service):
        stop_daemon(host, service)
        start_daemon(host, service)
    else:  # one command, because stopping it would also stop the units that require it, and start would not bring those back
        host.run(["systemctl", "restart", service], timeout=6 * _STOP_SECONDS)


def daemon_network(host: Host, service: str) -> Optional[str]:
    """The path of the network namespace in which systemd starts it; None if that is systemd's own."""
    return None if _by_runit(service) else _unit(host, service).get("NetworkNamespacePath") or None


def daemon_files(host: Host, service: str) -> list[str]:
    """The files that determine its command line."""
    if _by_runit(service):
        return [os.path.join(service, "run")]
    unit = _unit(host, service)
    paths = [unit.get("FragmentPath", ""), *unit.get("DropInPaths", "").split()]
    paths += _ENVIRONMENT_FILE.findall(unit.get("EnvironmentFiles", ""))
    return [path for path in paths if path]


def flag_value(argv: Sequence[str], flag: str) -> Optional[str]:
    """The last value of a flag, parsed as Go does: --flag=value or --flag value, one dash or two, underscores equal to
    dashes. None if it is not given, "" if it has no value."""
    last: Optional[str] = None
    for at, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name.startswith("-") and name.lstrip("-").replace("_", "-") == flag.lstrip("-"):
            after = argv[at + 1] if at + 1 < len(argv) else ""
            last = value if equals else "" if after.startswith("-") else after
    return last


def _by_runit(service: str) -> bool:
    return service.startswith("/")


def _unit(host: Host, name: str) -> dict[str, str]:
    """The properties of a unit. systemctl prints a property with several values once per value; they are joined with
    blanks."""
    argv = ["systemctl", "show", "--property", ",".join(_PROPERTIES), name]
    lines = host.run(argv, timeout=30).stdout.splitlines()
    properties: dict[str, str] = {}
    for line in lines:
        key, equals, value = line.partition("=")
        if equals:
            properties[key] = f"{properties[key]} {value}" if key in properties else value
    return properties
