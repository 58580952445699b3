# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The labs of this host, with the present answers of their API servers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .._core.host.host import Host
from .._core.kube.connection import connect
from .._core.text.errors import BallastError, PeerError
from .._registry.names import list_directories
from .check import is_ready
from .cluster import KUBECONFIG
from .lost import find_lost
from .record import RECORD, read_record
from .summary import format_table

RUNNING, STOPPED, LOST, UNREADABLE = "running", "stopped", "lost", "unreadable"
SPEC: dict[str, Any] = {}
_NODES = "/api/v1/nodes"
_NONE = "this host has no lab. Create one: ansible-playbook ballast.kube.lab_up"


def read_labs(host: Host, params: Mapping[str, Any]) -> dict[str, Any]:
    """`labs`, sorted by name, and `ballast_summary`, the same for people. Control planes without a lab are left out."""
    rows = [_read_lab(host, name, directory) for name, directory in list_directories(host)]
    labs = [row for row in rows if row]
    return {"labs": labs, "ballast_summary": _format(labs)}


def _read_lab(host: Host, name: str, directory: str) -> dict[str, Any]:
    """The row of a lab; empty for a control plane without a lab, which the list of names also has."""
    row: dict[str, Any] = {"name": name, "lab_dir": directory, "kubernetes_version": "", "nodes": 0, "ready": 0}
    try:
        record = read_record(host, directory)
    except BallastError:
        return {**row, "state": UNREADABLE}
    if record is None:
        return {**row, "state": LOST} if find_lost(host, directory, RECORD) else {}
    row.update(kubernetes_version=record["kubernetes_version"], nodes=len(record["nodes"]))
    try:
        nodes = connect(host, os.path.join(directory, KUBECONFIG), environ={}).get(_NODES)["items"]
    except PeerError:
        return {**row, "state": STOPPED}
    except BallastError:
        return {**row, "state": UNREADABLE}
    return {**row, "ready": sum(map(is_ready, nodes)), "state": RUNNING}


def _format(labs: list[dict[str, Any]]) -> str:
    if not labs:
        return _NONE
    heads = ("NAME", "DIRECTORY", "KUBERNETES", "NODES", "STATE")
    rows = [
        (row["name"], row["lab_dir"], row["kubernetes_version"] or "-", _format_nodes(row), _format_state(row))
        for row in labs
    ]
    return "\n".join(format_table([heads, *rows]))


def _format_nodes(row: Mapping[str, Any]) -> str:
    return f"{row['ready']} of {row['nodes']} Ready" if row["state"] == RUNNING else str(row["nodes"] or "-")


def _format_state(row: Mapping[str, Any]) -> str:
    option = f"-e lab_dir={row['lab_dir']}"
    remedies = {
        STOPPED: f"; start it: ansible-playbook ballast.kube.lab_up {option}",
        LOST: f": its directory was deleted; remove the remains: ansible-playbook ballast.kube.lab_down {option}",
        UNREADABLE: f": find the damage: ansible-playbook ballast.kube.lab_status {option}",
    }
    return f"{row['state']}{remedies.get(row['state'], '')}"
