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

import io
import json
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence

from .._core.host import Host, LocalHost
from .._core.kinds import BASE_KINDS, Kind, digest, file
from .._core.names import joined
from .._core.plan import ABSENT, Resource, Value
from .._core.service import UNIT_DIRECTORY
from .._core.shared import SHARED_KINDS, shared_directory
from .mounts import MOUNT_KINDS
from .network import NETWORK_KINDS

# In the ledger's order these stand before the services; slices are units, which systemd keeps. Shared directories are
# here because /run is a tmpfs.
FORGOTTEN = (
    *("sysctl-minimum", "bridge", "masquerade", "shared-directory"),
    *("private-directory", "netns", "veth", "route", "mountns"),
)
_KINDS: Mapping[str, Kind] = {**BASE_KINDS, **SHARED_KINDS, **MOUNT_KINDS, **NETWORK_KINDS}
_PACKAGES = ("_core", "_instance")
_MAIN = "from ballast._instance.restore import main\n\nmain()\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive can hold


class ProgramKind:
    """`{digest}` of the sources: the package as one file that Python runs."""

    def read(self, host: Host, target: str) -> Value:
        data = host.read(target)
        if data is None:
            return ABSENT
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                return {"digest": archive.comment.decode(errors="replace")}
        except zipfile.BadZipFile:
            return {"digest": ""}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        sources = dict(_sources())
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", compression=zipfile.ZIP_DEFLATED) as archive:
            for name, data in sorted({"__main__.py": _MAIN.encode(), "ballast/__init__.py": b"", **sources}.items()):
                archive.writestr(zipfile.ZipInfo(name, date_time=_EPOCH), data)
            archive.comment = sources_digest().encode()
        host.write(target, buffer.getvalue())

    def remove(self, host: Host, target: str, before: Value) -> None:
        host.remove(target)


RESTORE_KINDS: dict[str, Kind] = {**SHARED_KINDS, "program": ProgramKind()}


def restored(state_dir: str, lab: str, part: str, resources: Sequence[Resource], *, after: str = "") -> list[Resource]:
    """What brings back those of `resources` that a restart takes away. `after` is the part that must be back before."""
    rows = [
        {"kind": resource.kind, "target": resource.target, "value": resource.value}
        for resource in resources
        if resource.kind in FORGOTTEN
    ]
    program, wanted = os.path.join(state_dir, "restore.pyz"), os.path.join(state_dir, "restore.json")
    name = f"{joined(lab, part, 'restore')}.service"
    unit, at_boot = os.path.join(UNIT_DIRECTORY, name), os.path.join(UNIT_DIRECTORY, "multi-user.target.wants")
    title = f"program {program}"
    return [
        Resource(kind="program", target=program, value={"digest": sources_digest()}, title=title, group="restart"),
        file(wanted, json.dumps(rows, indent=1) + "\n", group="restart"),
        file(unit, _unit(lab, part, program, wanted, after=after), group="restart"),
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


def sources_digest() -> str:
    return digest(*(part for name, data in sorted(_sources()) for part in (name, data)))


def _unit(lab: str, part: str, program: str, wanted: str, *, after: str) -> str:
    order = f"After={joined(lab, after, 'restore')}.service\n" if after else ""
    return f"""[Unit]
Description=ballast: make again what a restart took from {part} of lab {lab}
{order}[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/python3 {program} {wanted}
[Install]
WantedBy=multi-user.target
"""


def _sources() -> Iterator[tuple[str, bytes]]:
    """Name in the program and content of each source of this package and of what it uses.

    On a node the package lies in the archive that Ansible brought, elsewhere in a directory.
    """
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    archive, inside = _split_archive(top)
    if archive:
        with zipfile.ZipFile(archive) as opened:
            for name in opened.namelist():
                below = name[len(inside) + 1 :]
                if name.startswith(f"{inside}/") and below.split("/")[0] in _PACKAGES and name.endswith(".py"):
                    yield f"ballast/{below}", opened.read(name)
        return
    for package in _PACKAGES:
        for entry in sorted(os.listdir(os.path.join(top, package))):
            if entry.endswith(".py"):
                with open(os.path.join(top, package, entry), "rb") as opened_file:
                    yield f"ballast/{package}/{entry}", opened_file.read()


def _split_archive(path: str) -> tuple[str, str]:
    """The archive that `path` leads into, and the rest of the path; two empty texts when it is a real one."""
    rest: list[str] = []
    while path != "/" and not os.path.exists(path):
        path, name = os.path.split(path)
        rest.insert(0, name)
    return (path, "/".join(rest)) if rest and os.path.isfile(path) else ("", "")
