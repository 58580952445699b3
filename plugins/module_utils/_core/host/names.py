# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of what the project makes on a machine. Each begins with `ballast`, which marks it as ours."""

from __future__ import annotations

import hashlib
import re

MARK = "ballast"
MARKER = f".{MARK}"  # the file that marks a directory as ours, see ownership.py
LINK_NAME_MAX = 15  # IFNAMSIZ minus the terminating NUL, linux/if.h
STATE_DIRECTORY = f"/var/lib/{MARK}"  # parent of the state directories of features, unless an option says otherwise
ENGINES_DIRECTORY = f"/var/cache/{MARK}/engines"  # caches that speed up later runs; they record no state of the host
# A lab or node name: a DNS label, since it becomes a Node name, a unit name and part of a link name.
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", re.ASCII)
# A node instance has a second path to its own files, this link to `/`, which exists only there (`_instance/engine.py`).
_ENTRY = re.compile(rf"\A/\.{MARK}-[^/]+(?=/)", re.ASCII)


def is_name(text: str) -> bool:
    """Whether the text may be the name of a lab or a node."""
    return NAME.fullmatch(text) is not None


def join_name(*parts: str) -> str:
    """`ballast-lab-n1`: for units, network namespaces and tables, which have no tight limit."""
    return "-".join([MARK, *parts])


def entry(unit: str) -> str:
    """The link of the instance `ballast-lab-n1`: `/.ballast-lab-n1`."""
    return f"/.{unit}"


def without_entry(path: str) -> str:
    """The path without the instance's link, as it is valid on the host too: for paths that outlive the task."""
    return _ENTRY.sub("", path)


def link_name(*parts: str) -> str:
    """`ballast-lab-n1`, or `ballast-` and a hash where that exceeds the limit for link names."""
    name = join_name(*parts)
    if len(name) <= LINK_NAME_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{MARK}-{digest}"[:LINK_NAME_MAX]


def run_directory(name: str) -> str:
    """The runtime directory of a lab or control plane; it is gone after a reboot."""
    return f"/run/{MARK}/{name}"
