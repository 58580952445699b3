# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machines from the cases as data: processes with their cgroups, files, who listens on which socket, and units."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.unit.fakes import Answer, Call, FakeHost, Process

CASES = Path(__file__).with_name("cases")
_LISTENS, _CONNECTED = "00010000", "00000000"


def read_cases(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))
    return cases


def machine(case: Mapping[str, Any]) -> FakeHost:
    host = FakeHost(systemd=case.get("systemd", True))
    for path, to in case.get("links", {}).items():
        host.given_link(path, to)
    for path, text in case.get("files", {}).items():
        host.given(path, text)
    for pid, known in case["processes"].items():
        row = {**known, "argv": tuple(known["argv"]), "cgroups": tuple(known["cgroups"])}
        host.processes[int(pid)] = Process(**row)
    given_sockets(host, case.get("sockets", {}))
    units = case.get("units", {})  # the path of the file of each
    host.on("systemctl", "show", answer=lambda call: _show(host, call, units), reads=True)
    return host


def given_sockets(host: FakeHost, sockets: Mapping[str, Sequence[int]]) -> None:
    """The first to be listed under a path is the row that a user made up, where there are two of it."""
    rows = ["Num       RefCount Protocol Flags    Type St Inode Path"]
    for number, (path, pids) in enumerate(sockets.items()):
        inode = 5000 + number
        rows.append(f"0000000000000000: 00000002 00000000 {_LISTENS} 0001 01 {inode} {path}")
        rows.append(f"0000000000000000: 00000003 00000000 {_CONNECTED} 0001 03 {inode + 100} {path}")
        for pid in pids:
            host.given_link(f"/proc/{pid}/fd/9", f"socket:[{inode}]")
    rows += ["cut short", "x: 1 1 zz 1 1 1 /y"]
    host.given("/proc/net/unix", "\n".join(rows) + "\n")


def _show(host: FakeHost, call: Call, units: Mapping[str, str]) -> Answer:
    """Each unit that a process is in exists, and its first process is the main one."""
    name = f"{call.argv[-1]}.service"
    pids = [pid for pid, process in sorted(host.processes.items()) if process.cgroups[0].endswith(f"/{name}")]
    if not pids:
        return "LoadState=not-found\nMainPID=0\n"
    group = host.processes[pids[0]].cgroups[0]
    path = units.get(call.argv[-1], "")
    return f"LoadState=loaded\nMainPID={pids[0]}\nControlGroup={group}\nFragmentPath={path}\n"
