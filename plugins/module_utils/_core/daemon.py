# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services of a host that somebody else made: a unit of systemd, or the directory of a runit service.

Which of the two it is, its name says: a path is a directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Optional

from .host import Host
from .service import stop_runit

_STOP_SECONDS = 30
_PROPERTIES = ("LoadState", "MainPID", "FragmentPath", "DropInPaths", "EnvironmentFiles", "NetworkNamespacePath")
_ENVIRONMENT_FILE = re.compile(r"(\S+) \(ignore_errors=(?:yes|no)\)")


def daemon_exists(host: Host, service: str) -> bool:
    if _by_runit(service):
        return host.stat(os.path.join(service, "run")) is not None
    return _unit(host, service).get("LoadState") == "loaded"


def daemon_pid(host: Host, service: str) -> Optional[int]:
    """None while it does not run."""
    if not _by_runit(service):
        return int(_unit(host, service).get("MainPID", "0") or 0) or None
    state = (host.read(os.path.join(service, "supervise", "stat")) or b"").strip()
    pid = (host.read(os.path.join(service, "supervise", "pid")) or b"").strip()
    return int(pid) if state == b"run" and pid.isdigit() else None


def stop_daemon(host: Host, service: str) -> None:
    """Until it has ended. One that does not run is well."""
    if _by_runit(service):
        stop_runit(host, service)
    else:
        host.run(["systemctl", "stop", service], timeout=3 * _STOP_SECONDS)


def start_daemon(host: Host, service: str) -> None:
    """Without a wait: one that ends again and again is hardly ever seen up, and who starts it waits until it is well."""
    if _by_runit(service):
        host.run(["sv", "up", service], timeout=_STOP_SECONDS)
    else:
        host.run(["systemctl", "start", service], timeout=3 * _STOP_SECONDS)


def restart_daemon(host: Host, service: str) -> None:
    if _by_runit(service):
        stop_daemon(host, service)
        start_daemon(host, service)
    else:  # at once, for systemd would stop what requires it, and not start that again
        host.run(["systemctl", "restart", service], timeout=6 * _STOP_SECONDS)


def daemon_network(host: Host, service: str) -> Optional[str]:
    """Path of the network namespace that systemd starts it in, where that is not systemd's own."""
    return None if _by_runit(service) else _unit(host, service).get("NetworkNamespacePath") or None


def daemon_files(host: Host, service: str) -> list[str]:
    """The files that its command line is made of."""
    if _by_runit(service):
        return [os.path.join(service, "run")]
    unit = _unit(host, service)
    found = [unit.get("FragmentPath", ""), *unit.get("DropInPaths", "").split()]
    found += _ENVIRONMENT_FILE.findall(unit.get("EnvironmentFiles", ""))
    return [path for path in found if path]


def command_line(host: Host, pid: int) -> list[str]:
    """Of a process; empty where it has ended."""
    return (host.read(f"/proc/{pid}/cmdline") or b"").decode(errors="replace").split("\0")[:-1]


def flag_value(argv: Sequence[str], flag: str) -> Optional[str]:
    """Go's flags: --flag=value or --flag value, with one dash or two, underscores as dashes; the last counts. None where it
    is not given, "" where it has no value."""
    found: Optional[str] = None
    for at, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name.startswith("-") and name.lstrip("-").replace("_", "-") == flag.lstrip("-"):
            after = argv[at + 1] if at + 1 < len(argv) else ""
            found = value if equals else "" if after.startswith("-") else after
    return found


def _by_runit(service: str) -> bool:
    return service.startswith("/")


def _unit(host: Host, name: str) -> dict[str, str]:
    """A property that has several values is printed once for each."""
    argv = ["systemctl", "show", "--property", ",".join(_PROPERTIES), name]
    lines = host.run(argv, timeout=30).stdout.splitlines()
    found: dict[str, str] = {}
    for line in lines:
        key, equals, value = line.partition("=")
        if equals:
            found[key] = f"{found[key]} {value}" if key in found else value
    return found
