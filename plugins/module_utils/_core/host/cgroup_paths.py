# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Paths of cgroups on this machine."""

from __future__ import annotations

import os

from ..text.errors import HostError
from ..text.host_messages import MESSAGES
from .host import Host


def slice_unit(cgroup: str) -> str:
    """The systemd unit of a cgroup: `ballast-lab-n1.slice`, which systemd nests in ballast.slice and ballast-lab.slice."""
    return f"{cgroup}.slice"


def cgroup_hierarchies(host: Host) -> list[str]:
    """The mount points in which our cgroups are made: the v1 hierarchies, then v2, which runc uses too."""
    mounts = (host.read("/proc/self/mounts") or b"").decode().splitlines()
    rows = [line.split() for line in mounts]
    v1 = [row[1] for row in rows if row[2] == "cgroup" and row[1].startswith("/sys/fs/cgroup/")]
    v2 = [row[1] for row in rows if row[2] == "cgroup2" and row[1].startswith("/sys/fs/cgroup")]
    if not v1 and not v2:
        raise HostError(**MESSAGES.texts("core-no-cgroup"))
    return sorted(v1) + v2


def cgroup_directories(host: Host, cgroup: str) -> list[str]:
    """The directories of a cgroup, one per hierarchy. Under systemd a slice lies inside the slices named by its prefixes."""
    levels = cgroup.split("-")
    slices = [slice_unit("-".join(levels[: depth + 1])) for depth in range(len(levels))]
    place = os.path.join(*slices) if host.is_systemd() else cgroup
    return [os.path.join(root, place) for root in cgroup_hierarchies(host)]
