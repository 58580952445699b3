# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""After a restart of a host with systemd: what a kernel forgets is made again, and the services find it.

    STATE_DIR/restore.json    the resources that do not survive, as the last run of the module wanted them
    STATE_DIR/restore.pyz     this package as one file, since no Ansible is there when a host boots
    ballast-LAB-PART-restore  the unit that runs one with the other; the services try each second until it has

Without systemd nobody starts anything at boot, and `state: present` does all of it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence

from .._core.host import Host, LocalHost
from .._core.kinds import BASE_KINDS, Kind, file
from .._core.names import joined
from .._core.plan import Resource, Value
from .._core.program import PROGRAM_KINDS, program
from .._core.service import UNIT_DIRECTORY
from .._core.shared import SHARED_KINDS, shared_directory
from .mounts import MOUNT_KINDS
from .network import NETWORK_KINDS

# In the ledger's order these stand before the services; slices are units, which systemd keeps. Shared directories are
# here because /run is a tmpfs.
FORGOTTEN = (
    *("sysctl-minimum", "bridge", "masquerade", "shared-directory"),
    *("private-directory", "run-directory", "netns", "veth", "route", "mountns"),
)
_KINDS: Mapping[str, Kind] = {**BASE_KINDS, **SHARED_KINDS, **MOUNT_KINDS, **NETWORK_KINDS}
_PACKAGES = ("_core", "_instance")
_MAIN = "_instance.restore.main"


RESTORE_KINDS: dict[str, Kind] = {**SHARED_KINDS, **PROGRAM_KINDS}


def restored(state_dir: str, lab: str, part: str, resources: Sequence[Resource], *, after: str = "") -> list[Resource]:
    """What brings back those of `resources` that a restart takes away. `after` is the part that must be back before."""
    rows = [
        {"kind": resource.kind, "target": resource.target, "value": resource.value}
        for resource in resources
        if resource.kind in FORGOTTEN
    ]
    path, wanted = os.path.join(state_dir, "restore.pyz"), os.path.join(state_dir, "restore.json")
    name = f"{joined(lab, part, 'restore')}.service"
    unit, at_boot = os.path.join(UNIT_DIRECTORY, name), os.path.join(UNIT_DIRECTORY, "multi-user.target.wants")
    return [
        program(path, packages=_PACKAGES, main=_MAIN, group="restart"),
        file(wanted, json.dumps(rows, indent=1) + "\n", group="restart"),
        file(unit, _unit(lab, part, path, wanted, after=after), group="restart"),
        shared_directory(at_boot, holder=state_dir, group="restart"),
        Resource(
            kind="symlink",
            target=os.path.join(at_boot, name),
            value={"to": unit},
            title=f"unit {name} at boot",
            group="restart",
        ),
    ]


def restore(host: Host, rows: Sequence[Mapping[str, Value]]) -> list[str]:
    """Make those that are not there, in order; answers what was made."""
    made = []
    for row in rows:
        kind, target = _KINDS[str(row["kind"])], str(row["target"])
        found = kind.read(host, target)
        if found != row["value"]:
            kind.write(host, target, row["value"], found)
            made.append(f"{row['kind']} {target}")
    return made


def main() -> None:
    """`python3 restore.pyz restore.json`, as the unit runs it."""
    host = LocalHost()
    for line in restore(host, json.loads(host.read(sys.argv[1]) or b"[]")):
        sys.stderr.write(f"made {line}\n")


def _unit(lab: str, part: str, path: str, wanted: str, *, after: str) -> str:
    order = f"After={joined(lab, after, 'restore')}.service\n" if after else ""
    return f"""[Unit]
Description=ballast: make again what a restart took from {part} of lab {lab}
{order}[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/python3 {path} {wanted}
[Install]
WantedBy=multi-user.target
"""
