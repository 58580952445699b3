# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Restores what a restart of a host with systemd removes, so that its services start again.

    STATE_DIR/restore.json    the resources that do not survive, as the last run of the module wrote them
    STATE_DIR/restore.pyz     this package as one file, since a host boots without Ansible
    ballast-LAB-PART-restore  the unit that runs the program with the file; services retry each second until it has finished

Without systemd nothing starts at boot, and `state: present` restores everything.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence

from .._agent.program import PROGRAM_KINDS, program
from .._core.engine.context import Context
from .._core.engine.kinds import BASE_KINDS, Kind, file
from .._core.engine.plan import Resource, Value
from .._core.engine.shared_directory import SHARED_KINDS, shared_directory
from .._core.host.host import Host
from .._core.host.local_host import LocalHost
from .._core.host.names import join_name
from .._core.service.systemd import UNIT_DIRECTORY
from .._core.text.json_text import parse_json
from .mounts import MOUNT_KINDS
from .network import NETWORK_KINDS
from .node_ports import NODE_PORT_KINDS

# Kinds that the journal has before the services. systemd keeps slices, which are units; shared directories may be in /run, a tmpfs.
FORGOTTEN = (
    *("sysctl-minimum", "bridge", "masquerade", "masquerade-ipv6", "published-ports", "published-ports-ipv6"),
    *("node-ports", "loopback-route", "shared-directory", "private-directory", "run-directory"),
    *("netns", "netns-ipv6", "veth", "route", "mountns"),
)
_KINDS: Mapping[str, Kind] = {**BASE_KINDS, **SHARED_KINDS, **MOUNT_KINDS, **NETWORK_KINDS, **NODE_PORT_KINDS}
AT_BOOT = os.path.join(UNIT_DIRECTORY, "multi-user.target.wants")
_PACKAGES = ("_agent", "_core", "_instance")
_MAIN = "_instance.restore.main"


RESTORE_KINDS: dict[str, Kind] = {**SHARED_KINDS, **PROGRAM_KINDS}


def restore_resources(
    state_dir: str, lab: str, part: str, made: Sequence[Resource], *, after: str = ""
) -> list[Resource]:
    """The program and unit that restore those of `made` that a restart takes away, after the part `after`."""
    rows = [
        {"kind": resource.kind, "target": resource.target, "value": resource.value}
        for resource in made
        if resource.kind in FORGOTTEN
    ]
    path, resources_path = os.path.join(state_dir, "restore.pyz"), os.path.join(state_dir, "restore.json")
    name = f"{join_name(lab, part, 'restore')}.service"
    unit = os.path.join(UNIT_DIRECTORY, name)
    return [
        program(path, packages=_PACKAGES, main=_MAIN, group="restart"),
        file(resources_path, json.dumps(rows, indent=1) + "\n", group="restart"),
        file(unit, _unit(lab, part, path, resources_path, after=after), group="restart"),
        shared_directory(AT_BOOT, holder=state_dir, group="restart"),
        Resource(
            kind="symlink",
            target=os.path.join(AT_BOOT, name),
            value={"to": unit},
            title=f"unit {name} at boot",
            group="restart",
        ),
    ]


def restore(host: Host, rows: Sequence[Mapping[str, Value]]) -> list[str]:
    """Make the missing resources in order; return what was made."""
    made, ctx = [], Context(None, host)
    for row in rows:
        kind, target = _KINDS[str(row["kind"])], str(row["target"])
        before = kind.read(ctx, target)
        if before != row["value"]:
            kind.write(ctx, target, row["value"], before)
            made.append(f"{row['kind']} {target}")
    return made


def main() -> None:
    """Run `python3 restore.pyz restore.json`, as the unit does."""
    host = LocalHost()
    for line in restore(host, parse_json(host.read(sys.argv[1]) or b"[]")):
        sys.stderr.write(f"made {line}\n")


def _unit(lab: str, part: str, path: str, resources_path: str, *, after: str) -> str:
    order = f"After={join_name(lab, after, 'restore')}.service\n" if after else ""
    return f"""[Unit]
Description=ballast: restore {part} of lab {lab} after a restart
{order}[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/python3 {path} {resources_path}
[Install]
WantedBy=multi-user.target
"""
