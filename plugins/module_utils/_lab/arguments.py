# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Arguments that a topology gives to programs of the control plane, checked before anything is made of the lab. Pure.

The control plane checks them again, and whether its programs have them, when the programs are there.
"""

from __future__ import annotations

import os

from .._control_plane.processes.components import checked_flags
from .._control_plane.request import ControlPlaneRequest
from .._control_plane.spec import MAKE
from .._core.text.errors import BallastError, Problems
from .resolve import Lab


def find_reserved_arguments(lab: Lab) -> list[BallastError]:
    """An error for each argument that the lab's control plane sets itself, or that is for a program it does not have."""
    if not any(lab["arguments"].values()):
        return []
    plane = lab["control_plane"]
    options = {
        "state": "present",
        "state_dir": os.path.join(lab["lab_dir"], "plane"),
        "name": lab["name"],
        "kubernetes_version": lab["kubernetes_version"],
        "bin_dir": os.path.join(lab["lab_dir"], "bin"),
        "address": plane["address"],
        "secure_port": plane["port"],
        "members": plane["members"],
        **{option: lab[option] for option in ("arguments", "audit", "encryption", "pod_cidr", "service_cidr")},
    }
    request = ControlPlaneRequest.from_params({**{name: row.get("default") for name, row in MAKE.items()}, **options})
    try:
        checked_flags(request, prefix="")
    except BallastError as error:
        return [*Problems.of(error)]
    return []
