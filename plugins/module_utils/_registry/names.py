# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Labs and control planes with a name: one list per host has their names, with which the names of all their objects begin.

registration            reserves a name for a directory
read_registration       the directory of a name
find_registered_name    the name of a directory
list_directories        all names with their directories
list_registered_names   all names, running or stopped
refuse_others_directory refuses a part whose directory belongs to a lab or control plane of another name
is_named_after          whether an object of this host has the name of a lab
list_leftovers          what is left of a removed lab or control plane
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Optional

from .._core.engine.kinds import file
from .._core.engine.ownership import not_ours_error, require_private
from .._core.engine.plan import Resource
from .._core.engine.shared_directory import shared_directory
from .._core.host.cgroup_paths import cgroup_hierarchies, slice_unit
from .._core.host.host import Host
from .._core.host.names import MARK, join_name, link_name, run_directory
from .._core.host.processes import OWN_UIDS, is_of, is_of_root, list_processes, read_command, started_for
from .._core.text.errors import HostError, shorten
from .._core.text.json_text import parse_json
from .._core.text.run_messages import MESSAGES

REGISTRY = "/var/lib/ballast/labs"
_SUFFIX = ".json"
_SECONDS = 30  # for a command that only asks this machine's kernel
PARTS = ("nodes", "plane", "vms")  # directories of the parts that run processes


def registration(name: str, directory: str, *, group: str, title: str) -> list[Resource]:
    """`directory` is the directory of the lab or control plane, which also holds the list's own directory."""
    # The key says lab for control planes too, as only labs had the list at first.
    entry = json.dumps({"lab_dir": directory}) + "\n"
    return [
        shared_directory(REGISTRY, holder=directory, group=group),
        file(_path(name), entry, title=title, group=group),
    ]


def read_registration(host: Host, name: str) -> Optional[str]:
    """The directory with this name; None when the name is free on this host. HostError when the entry cannot be read."""
    path = _path(name)
    require_private(host, path)
    data = host.read(path)
    if data is None:
        return None
    try:
        return str(parse_json(data)["lab_dir"])
    except (ValueError, KeyError, TypeError) as error:
        raise HostError(**MESSAGES.texts("core-registry", found=str(error), path=path, name=name)) from error


def list_directories(host: Host) -> list[tuple[str, str]]:
    """Name and directory of each lab and control plane of this host, sorted by name; without unreadable entries."""
    rows = []
    for name in sorted(list_registered_names(host)):
        with suppress(HostError):
            directory = read_registration(host, name)
            rows.append((name, directory or ""))
    return rows


def list_registered_names(host: Host) -> list[str]:
    """In no particular order. HostError when others could have written the list."""
    require_private(host, REGISTRY)
    return [name[: -len(_SUFFIX)] for name in host.listdir(REGISTRY) if name.endswith(_SUFFIX)]


def find_registered_name(host: Host, directory: str) -> str:
    """The name that is reserved for a directory; "" if there is none. After a killed removal the directory may lack its record."""
    return next((name for name in list_registered_names(host) if read_registration(host, name) == directory), "")


def refuse_others_directory(host: Host, path: str, *, name: str) -> None:
    """HostError when `path` is in the directory of a lab or control plane of this host that is not named `name`: a role with variables of
    another lab would remove what this lab has and the role does not list."""
    for other in list_registered_names(host):
        directory = read_registration(host, other)
        if other != name and directory is not None and f"{path}/".startswith(f"{directory}/"):
            raise not_ours_error(
                path, f"it is in {directory}, which {other} recorded as its own; this run is for {name}"
            )


def is_named_after(host: Host, name: str, thing: str) -> bool:
    """Whether the name of a link, a namespace or a unit begins with this lab's name, and not with that of another lab of this host."""
    # The prefix of the lab `lab-2` begins with that of the lab `lab`.
    others = tuple(f"{join_name(other)}-" for other in list_registered_names(host) if other.startswith(f"{name}-"))
    return f"{thing}-".startswith(f"{join_name(name)}-") and not f"{thing}-".startswith(others)


def list_leftovers(host: Host, *, name: str, directory: str, nodes: Collection[str] = ()) -> Iterator[str]:
    """What is left of a removed lab or control plane. `nodes` are the names of a lab's nodes."""

    def is_ours(thing: str) -> bool:
        return is_named_after(host, name, thing)

    links = parse_json(host.run(["ip", "-j", "link", "show"], timeout=_SECONDS).stdout or "[]")
    short = {link_name(name), *(link_name(name, node) for node in nodes)}
    yield from (f"link {row['ifname']}" for row in links if row["ifname"] in short or is_ours(row["ifname"]))
    yield from (f"namespace {netns}" for netns in host.listdir("/run/netns") if is_ours(netns))
    mounts = [line.split()[1] for line in (host.read("/proc/self/mounts") or b"").decode().splitlines()]
    places = (f"{directory}/", f"{run_directory(name)}/")
    yield from (f"mount {path}" for path in mounts if f"{path}/".startswith(places))
    names = host.listdir(directory)  # an empty directory may be older than the lab
    if names:
        yield f"directory {directory} ({' '.join(shorten(repr(entry)) for entry in names)})"
    if host.stat(run_directory(name)):
        yield f"directory {run_directory(name)}"
    cgroup = "-".join([MARK, name.replace("-", "_")])
    for root in cgroup_hierarchies(host):
        # Under systemd a slice is inside the slices whose names are prefixes of its own.
        for place in (root, os.path.join(root, slice_unit(MARK), slice_unit(cgroup))):
            yield from (f"cgroup {place}/{group}" for group in host.listdir(place) if group.startswith(f"{cgroup}-"))
    yield from _processes(host, tuple(os.path.join(directory, part, "") for part in PARTS))


def _processes(host: Host, places: tuple[str, ...]) -> Iterator[str]:
    """Processes of root and of our own users, as which a lab runs everything, with a path below `places` in their arguments: as a whole
    argument, or after `=` or `:`.

    Without the ancestors of this run: a shell script that names such paths may be waiting for it.
    """
    running = {process.pid: process for process in list_processes(host)}
    for pid in (int(host.readlink("/proc/self") or 0), started_for(host)):
        while pid in running:
            pid = running.pop(pid).parent
    for process in running.values():
        words = read_command(host, process.id) if is_of_root(process) or is_of(process, OWN_UIDS) else []
        if any(part.startswith(places) for word in words for part in re.split("[=:]", word)):
            yield f"process {process.pid} ({words[0]})"


def _path(name: str) -> str:
    return f"{REGISTRY}/{name}{_SUFFIX}"
