# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of what the project makes on a machine. Every one begins with `ballast`, the mark by which it is ours."""

from __future__ import annotations

import hashlib
import re

MARK = "ballast"
MARKER = f".{MARK}"  # the file in a directory that says that it is ours: ownership.py
LINK_NAME_MAX = 15  # IFNAMSIZ less the closing NUL, linux/if.h
STATE_DIRECTORY = f"/var/lib/{MARK}"  # what features keep is below it, where nobody says otherwise
ENGINES_DIRECTORY = f"/var/cache/{MARK}/engines"  # what hosts keep to be quicker, and what tells nothing of them
# A lab or node name: a DNS label, since it becomes a Node name, a unit name and part of a link name.
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", re.ASCII)
# By this link to `/` a node instance has its files once more, and nobody else has them so (`_instance/engine.py`).
_ENTRY = re.compile(rf"\A/\.{MARK}-[^/]+(?=/)", re.ASCII)


def is_name(text: str) -> bool:
    return NAME.fullmatch(text) is not None


def join_name(*parts: str) -> str:
    """`ballast-lab-n1`: for units, network namespaces and tables, which have no tight limit."""
    return "-".join([MARK, *parts])


def entry(unit: str) -> str:
    """`/.ballast-lab-n1`, of the instance `ballast-lab-n1`."""
    return f"/.{unit}"


def without_entry(path: str) -> str:
    """A path in an instance as its host has it too: for what outlives the task."""
    return _ENTRY.sub("", path)


def link_name(*parts: str) -> str:
    """`ballast-lab-n1`, or where that is longer than a link's name may be, `ballast-` and a hash of it."""
    name = join_name(*parts)
    if len(name) <= LINK_NAME_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{MARK}-{digest}"[:LINK_NAME_MAX]


def run_directory(name: str) -> str:
    """Of a lab or of a control plane: what ends with the boot."""
    return f"/run/{MARK}/{name}"
