# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that define a service: the `run` script of runit, the systemd unit."""

from __future__ import annotations

import os
import shlex

from ..host.cgroup_paths import cgroup_hierarchies, slice_unit
from ..host.host import PATH, Host
from .sandbox import paths_in, runit_words, setpriv_words, unit_lines
from .service import Service

MARK = "# ballast: "  # a unit file that does not begin with this is not ours


def _command(service: Service, *, by_systemd: bool) -> list[str]:
    """The service's command line, entering the namespaces that the supervisor does not enter itself."""
    enter = []
    if service.netns and not by_systemd:
        enter.append(f"--net={service.netns}")
    if service.mountns:
        # With NetworkNamespacePath= systemd gives the unit its own mount namespace (for /sys), and the kernel does not copy
        # mounts that hold a mount namespace into another one: there the file is empty. It is intact in PID 1's namespace.
        root = "/proc/1/root" if by_systemd and service.netns else ""
        enter.append(f"--mount={root}{service.mountns}")
    return [*(["/usr/bin/nsenter", *enter, "--"] if enter else []), *_confined_argv(service, by_systemd=by_systemd)]


def _confined_argv(service: Service, *, by_systemd: bool) -> list[str]:
    if service.sandbox is None or (by_systemd and not service.sandbox.host):
        return list(service.argv)
    if by_systemd:
        return [*setpriv_words(service.sandbox), *service.argv]
    log_directory = os.path.dirname(service.log)
    return [*runit_words(service.sandbox, log_directory=log_directory, paths=_paths(service)), *service.argv]


def _paths(service: Service) -> list[str]:
    return [service.log, *paths_in(service.argv), *(text for _name, text in service.env if text.startswith("/"))]


def run_script(host: Host, service: Service) -> str:
    """runit's `run` script. It first kills what a killed supervisor left of this service: processes in the service's own
    cgroup that run its program."""
    leaves = [os.path.join(root, service.cgroup) for root in cgroup_hierarchies(host)]
    environment = [f"{name}={value}" for name, value in (("PATH", PATH), *service.env)]
    command = ["/usr/bin/env", "-i", *environment, *_with_env_file(service), *_command(service, by_systemd=False)]
    return f"""#!/bin/sh
# ballast: {service.name}
umask 027
exec >>{shlex.quote(service.log)} 2>&1
umask 022
for pid in $(cat {shlex.quote(leaves[0])}/cgroup.procs 2>/dev/null); do
  [ "$(readlink "/proc/$pid/exe")" = "$(readlink -f {shlex.quote(service.argv[0])})" ] && kill -KILL "$pid"
done
for leaf in {shlex.join(leaves)}; do
  # Not with its parents: made here, after those were removed, they would admit nobody.
  [ -d "$leaf" ] || mkdir "$leaf" || exit 1
  echo $$ >"$leaf/cgroup.procs" || exit 1
done
ulimit -n "$(ulimit -Hn)"
cd /
exec {shlex.join(command)}
"""


def _with_env_file(service: Service) -> list[str]:
    """A shell that reads the file, so that its content is on no command line."""
    if service.env_file is None:
        return []
    return ["/bin/sh", "-c", 'set -a; . "$0" || exit 1; set +a; exec "$@"', service.env_file]


def unit_text(service: Service) -> str:
    log, netns = _systemd_path(service.log), _systemd_path(service.netns or "")
    lines = [
        MARK + service.name,
        "[Unit]",
        f"Description=ballast: {service.name}",
        *(
            f"{name}={' '.join(units)}"
            for name, units in (("After", service.after), ("Before", service.before))
            if units
        ),
        "StartLimitIntervalSec=0",
        "[Service]",
        f"ExecStart={' '.join(systemd_word(word, of_command=True) for word in _command(service, by_systemd=True))}",
        *(["ExecReload=/bin/kill -HUP $MAINPID"] if service.reloads else []),
        *(f"Environment={systemd_word(f'{name}={value}', of_command=False)}" for name, value in service.env),
        *([f"EnvironmentFile={_systemd_path(service.env_file)}"] if service.env_file else []),
        f"Slice={slice_unit(os.path.dirname(service.cgroup))}",
        *([f"NetworkNamespacePath={netns}"] if service.netns else []),
        f"KillMode={'process' if service.keep_children else 'control-group'}",
        "Delegate=yes",
        "Restart=always",
        "RestartSec=1",
        f"TimeoutStopSec={service.stop_seconds}",
        "LimitNOFILE=1048576",
        *_sandbox_lines(service),
        f"StandardOutput=append:{log}",
        f"StandardError=append:{log}",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def _sandbox_lines(service: Service) -> list[str]:
    if service.sandbox is None:
        return []
    return unit_lines(service.sandbox, log_directory=os.path.dirname(service.log), paths=_paths(service))


def systemd_word(word: str, *, of_command: bool) -> str:
    """Quote as systemd.syntax(7): double quotes and C escapes. % is doubled (systemd.unit(5)); in commands, but not in
    Environment=, $ is doubled too (systemd.service(5))."""
    quoted = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    quoted = "".join(f"\\x{ord(sign):02x}" if ord(sign) < 0x20 or ord(sign) == 0x7F else sign for sign in quoted)
    return f'"{quoted.replace("$", "$$") if of_command else quoted}"'


def _systemd_path(path: str) -> str:
    """For settings that take the rest of their line, where only % is special."""
    return path.replace("%", "%%")
