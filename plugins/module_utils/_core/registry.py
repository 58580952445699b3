# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Labs and control planes that have a name: their names are from one list of this host, and begin what they make on it.

registration       what holds a name for a directory
registered         the directory of a name
registered_names   all of them, running or stopped
left               what is still there of one that was removed
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator
from typing import Optional

from .cgroup_paths import cgroup_hierarchies, slice_unit
from .errors import HostError
from .host import Host
from .kinds import file
from .names import MARK, joined, link_name, run_directory
from .plan import Resource
from .processes import commands
from .shared import shared_directory

REGISTRY = "/var/lib/ballast/labs"
_SUFFIX = ".json"
_SECONDS = 30  # for a command that only asks this machine's kernel
_PARTS = ("nodes", "plane", "vms")  # directories of the parts that have processes


def registration(name: str, directory: str, *, group: str, title: str) -> list[Resource]:
    """`directory` is that of the lab or plane, which holds the list's own directory too."""
    # The key says lab, also of a plane: labs had the list first.
    entry = json.dumps({"lab_dir": directory}) + "\n"
    return [
        shared_directory(REGISTRY, holder=directory, group=group),
        file(_path(name), entry, title=title, group=group),
    ]


def registered(host: Host, name: str) -> Optional[str]:
    """The directory of the one of this name; None when none of this host has it. HostError where that cannot be read."""
    path = _path(name)
    data = host.read(path)
    if data is None:
        return None
    try:
        return str(json.loads(data)["lab_dir"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise HostError(
            f"{path} does not say which directory the name {name} stands for",
            id="core-registry",
            found=str(error),
            remedy='write {"lab_dir": "DIRECTORY"} into it, or remove it when nothing of that name is left',
            page="docs/errors.md",
        ) from error


def registered_names(host: Host) -> list[str]:
    return [name[: -len(_SUFFIX)] for name in host.listdir(REGISTRY) if name.endswith(_SUFFIX)]


def left(host: Host, *, name: str, directory: str, nodes: Collection[str] = ()) -> Iterator[str]:
    """What is still there of one that was removed. `nodes` are the names of a lab's nodes."""
    mark = joined(name)
    # The mark of the lab `lab-2` begins with the one of the lab `lab`.
    others = tuple(f"{joined(other)}-" for other in registered_names(host) if other.startswith(f"{name}-"))

    def is_ours(thing: str) -> bool:
        return f"{thing}-".startswith(f"{mark}-") and not f"{thing}-".startswith(others)

    links = json.loads(host.run(["ip", "-j", "link", "show"], timeout=_SECONDS).stdout or "[]")
    short = {link_name(name), *(link_name(name, node) for node in nodes)}
    yield from (f"link {row['ifname']}" for row in links if row["ifname"] in short or is_ours(row["ifname"]))
    yield from (f"namespace {netns}" for netns in host.listdir("/run/netns") if is_ours(netns))
    mounts = [line.split()[1] for line in (host.read("/proc/self/mounts") or b"").decode().splitlines()]
    places = (f"{directory}/", f"{run_directory(name)}/")
    yield from (f"mount {path}" for path in mounts if f"{path}/".startswith(places))
    for place in (directory, run_directory(name)):
        if host.stat(place):
            yield f"directory {place}"
    cgroup = "-".join([MARK, name.replace("-", "_")])
    for root in cgroup_hierarchies(host):
        # Under systemd a slice lies in the slices that its name begins with.
        for place in (root, os.path.join(root, slice_unit(MARK), slice_unit(cgroup))):
            yield from (f"cgroup {place}/{group}" for group in host.listdir(place) if group.startswith(f"{cgroup}-"))
    yield from _processes(host, tuple(os.path.join(directory, part, "") for part in _PARTS))


def _processes(host: Host, places: tuple[str, ...]) -> Iterator[str]:
    """Those with a path below `places` among their arguments, as a whole or after `=` or `:`."""
    for pid, words in commands(host):
        if any(part.startswith(places) for word in words for part in re.split("[=:]", word)):
            yield f"process {pid} ({words[0]})"


def _path(name: str) -> str:
    return f"{REGISTRY}/{name}{_SUFFIX}"
