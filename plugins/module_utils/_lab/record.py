# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of a lab, and whether a directory is a lab's."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any, Optional

from .._core.engine.ownership import is_ours, require_ours
from .._core.host.host import Host
from .._core.text.errors import BallastError, HostError, Whole
from .._core.text.json_text import parse_json
from .._registry.names import list_directories
from .lost import find_lost
from .messages import MESSAGES
from .parts import parts
from .resolve import VERSION, Lab

OWNER = "lab"  # in the mark of a lab's directory
RECORD = "lab.json"  # in LAB_DIR
# State directories of parts in the order of their removal: the owner of each, and the module that removes it.
PART_MODULES = {
    "vms": ("vm", "lab_vm"),
    "nodes": ("instance", "kubelet_instance"),
    "plane": ("plane", "control_plane"),
    "network": ("network", "instance_network"),
}


def record_path(lab_dir: str) -> str:
    return os.path.join(lab_dir, RECORD)


def read_record(host: Host, lab_dir: str) -> Optional[Lab]:
    """The record; None when there is no lab."""
    data = host.read(record_path(lab_dir))
    if data is None:
        return None
    try:
        record: Lab = parse_json(data)
        if record["version"] != VERSION:
            raise ValueError(f"version {record['version']}")
    except (ValueError, KeyError, TypeError) as error:
        raise MESSAGES.error("lab-record", path=record_path(lab_dir), found=str(error)) from error
    return record


def read_lab(host: Host, lab_dir: str) -> dict[str, Any]:
    """The record, with what is derived from it; UserError when there is no lab."""
    lab = read_record(host, lab_dir.rstrip("/"))
    if lab is None:
        raise no_lab(host, lab_dir)
    return {"lab": lab, "parts": parts(lab)}


def no_lab(host: Host, lab_dir: str) -> BallastError:
    """The error for a directory without a lab: it names the labs of this host, or the lab whose record was deleted."""
    lost = find_lost(host, lab_dir.rstrip("/"), RECORD)
    if lost:
        return MESSAGES.error("lab-lost", directory=lab_dir, name=lost)
    return MESSAGES.error("lab-none", directory=lab_dir, labs=list_labs(host))


def require_lab_directory(host: Host, lab_dir: str) -> None:
    """HostError when the directory holds files of others."""
    try:
        require_ours(host, lab_dir, owner=OWNER, record=RECORD)
    except HostError as error:
        if error.id != "core-not-ours":
            raise
        modules = {
            part: module
            for part, (owner, module) in PART_MODULES.items()
            if is_ours(host, f"{lab_dir}/{part}", owner=owner)
        }
        if modules:
            raise _parts_error(lab_dir, error.found, modules) from error
        raise MESSAGES.error("lab-directory", directory=lab_dir, found=error.found, labs=list_labs(host)) from error


def list_labs(host: Host) -> str:
    """The labs and control planes of this host, with their directories."""
    return Whole(", ".join(f"{name} in {directory}" for name, directory in list_directories(host)) or "none")


def _parts_error(lab_dir: str, listing: str, modules: Mapping[str, str]) -> BallastError:
    """For what a run made after another one had removed the lab. `modules` by part."""
    commands = " && ".join(
        shlex.join(
            ["ansible", "localhost", "-m", f"ballast.kube.{module}", "-a", f"state=absent state_dir={lab_dir}/{part}"]
        )
        for part, module in modules.items()
    )
    return MESSAGES.error(
        "lab-parts", directory=lab_dir, parts=", ".join(modules), found=listing, commands=Whole(commands)
    )
