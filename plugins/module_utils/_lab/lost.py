# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A lab whose directory, with the journals of its parts, was deleted while the lab existed.

The list of labs, which only root can write, still has its name and directory. Everything whose name begins with the lab's belongs to
it: no other lab gets the name, and no lab is made while something with that prefix exists. So a removal finds the lab's resources
by name, and its processes by the paths in its directory that they use.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from .._agent.installation import CONFIG_DIRECTORY
from .._core.engine.context import Context
from .._core.engine.journal import journal_path
from .._core.engine.kinds import BASE_KINDS, Kind, list_held_settings
from .._core.engine.ownership import has_trusted_owner, list_content, release
from .._core.engine.plan import ABSENT, Recorded, Value
from .._core.engine.shared_directory import SHARED_KINDS
from .._core.engine.wait import wait_until
from .._core.host.cgroup_paths import cgroup_hierarchies
from .._core.host.host import Host, Process, ProcessId
from .._core.host.names import MARK, join_name, run_directory
from .._core.host.processes import OWN_UIDS, has_ended, is_of, is_of_root, list_processes, program, read_command
from .._core.service import supervisor_cgroup
from .._core.service.cgroup import CGROUP_KINDS
from .._core.service.supervisor_cgroup import SUPERVISORS
from .._core.service.systemd import UNIT_DIRECTORY
from .._core.text.errors import HostError
from .._core.text.naming import format_name
from .._core.text.service_messages import MESSAGES
from .._instance.engine import KERNEL_MODULES
from .._instance.hostnet import PUBLISHED
from .._instance.mounts import MOUNT_KINDS
from .._instance.network import NETWORK_KINDS, ip_json
from .._instance.node_ports import NODE_PORT_KINDS
from .._instance.node_ports import TABLE as NODE_PORTS
from .._instance.restore import AT_BOOT
from .._instance.view import MOUNT_POINTS
from .._registry.names import PARTS, REGISTRY, find_registered_name, is_named_after, list_leftovers, registration

_KILL_SECONDS = 10
_UNIT_SECONDS = 120
_HOLDERS = (
    "",
    "/network",
    *(f"/{part}" for part in PARTS),
)  # state directories that hold settings and shared directories
_SLICE = ".slice"
_SUPERVISORS = ("runsvdir", "runsv")


def find_lost(host: Host, lab_dir: str, record: str) -> str:
    """The lab's name, if the list has the directory, which lacks `record` and a journal; "" if no lab is lost."""
    name = find_registered_name(host, lab_dir)
    kept = [path for path in (os.path.join(lab_dir, record), journal_path(lab_dir)) if host.stat(path) is not None]
    return "" if kept else name


def lost_resources(host: Host, name: str, lab_dir: str) -> tuple[Recorded, ...]:
    """The lab's resources in the order of creation, so that a removal ends its processes first and releases its name last."""
    rows = [
        *((part.kind, part.target, part.title) for part in registration(name, lab_dir, group="", title=f"name {name}")),
        *_uses_of_directories(lab_dir),
        *_uses_of_settings(host, lab_dir),
        ("lost-supervisors", SUPERVISORS, f"cgroup {SUPERVISORS}"),
        ("lost-place", lab_dir, f"directory {lab_dir}"),
        *(("lost-part", path, f"directory {path}") for path in (os.path.join(lab_dir, part) for part in PARTS)),
        ("private-directory", run_directory(name), f"directory {run_directory(name)}"),
        *(("mountns", path, f"mount namespace {path}") for path in _mount_namespaces(host, name)),
        *(
            (f"{kind}{end}", table, f"nftables table {family} {table}")
            for end, family in (("", "ip"), ("-ipv6", "ip6"))
            for kind, table in (("masquerade", join_name(name)), ("published-ports", join_name(name, PUBLISHED)))
        ),
        (NODE_PORTS, join_name(name, NODE_PORTS), f"nftables table ip {join_name(name, NODE_PORTS)}"),
        *(
            ("netns", netns, f"network namespace {netns}")
            for netns in host.listdir("/run/netns")
            if is_named_after(host, name, netns)
        ),
        *(("lost-link", link, f"link {link}") for link in _links(host, name)),
        *(("cgroup", group, f"cgroup {group}") for group in _cgroups(host, name)),
        *(("lost-unit", unit, f"unit {unit}") for unit in _units(host, name, lab_dir)),
        *(("lost-process", *row) for row in _programs(host, name, lab_dir)),
    ]
    candidates = dict.fromkeys(rows)
    ctx = Context(None, host)
    there = [row for row in candidates if LOST_KINDS[row[0]].read(ctx, row[1]) != ABSENT]
    return tuple(Recorded(kind, target, title, ABSENT, group=format_name("lab", name)) for kind, target, title in there)


def remaining_resources(
    host: Host, name: str, lab_dir: str, nodes: Collection[str], listed: Collection[tuple[str, str]]
) -> tuple[Recorded, ...]:
    """What is left of a lab whose parts were removed, but not its record: resources of parts whose directories, with their journals, were
    deleted before. Without resources `listed` in the record's own journal. Empty while a part has its journal: that part must be
    removed first."""
    if any(host.stat(journal_path(f"{lab_dir}{holder}")) is not None for holder in _HOLDERS if holder):
        return ()
    leftovers = list_leftovers(host, name=name, directory=lab_dir, nodes=nodes)
    if all(row.startswith(f"directory {lab_dir} ") for row in leftovers):
        return ()
    lost = lost_resources(host, name, lab_dir)
    return tuple(row for row in lost if row.kind != "lost-place" and row.key not in listed)


def _uses_of_directories(lab_dir: str) -> Iterator[tuple[str, str, str]]:
    for path in (REGISTRY, AT_BOOT, CONFIG_DIRECTORY, KERNEL_MODULES, *MOUNT_POINTS):
        for holder in _HOLDERS:
            yield "shared-directory", f"{path} {lab_dir}{holder}", f"use of directory {path}"


def _uses_of_settings(host: Host, lab_dir: str) -> Iterator[tuple[str, str, str]]:
    for setting in list_held_settings(host):
        for holder in _HOLDERS:
            yield "sysctl-minimum", f"{setting} {lab_dir}{holder}", f"setting {setting}"


def _mount_namespaces(host: Host, name: str) -> Iterator[str]:
    """Also namespaces that a killed run left incomplete: while they exist, the directory cannot be unmounted."""
    for entry in host.listdir(run_directory(name)):
        path = os.path.join(run_directory(name), entry.removesuffix(".new"))
        if path.endswith(".mnt"):
            yield path


def _links(host: Host, name: str) -> Iterator[str]:
    """The bridge and what is attached: taps, and the host's ends of veth pairs, whose names may be too long to begin with the lab's."""
    links = ip_json(host, "link", "show") or []
    bridges = {row["ifname"] for row in links if is_named_after(host, name, row["ifname"])}
    yield from sorted(bridges)
    yield from sorted(row["ifname"] for row in links if row.get("master") in bridges and row["ifname"] not in bridges)


def _cgroups(host: Host, name: str) -> Iterator[str]:
    mark = f"{MARK}-{name.replace('-', '_')}-"
    if host.is_systemd():
        for entry in host.listdir(UNIT_DIRECTORY):
            if entry.startswith(mark) and entry.endswith(_SLICE):
                yield entry[: -len(_SLICE)]
    else:
        for root in cgroup_hierarchies(host):
            yield from (entry for entry in host.listdir(root) if entry.startswith(mark))


def _units(host: Host, name: str, lab_dir: str) -> Iterator[str]:
    """systemd units that are named after the lab and work in its directory."""
    for entry in host.listdir(UNIT_DIRECTORY) if host.is_systemd() else ():
        path = os.path.join(UNIT_DIRECTORY, entry)
        is_named = entry.endswith(".service") and is_named_after(host, name, entry)
        if is_named and f"{lab_dir}/".encode() in (host.read(path) or b""):
            yield path


def _programs(host: Host, name: str, lab_dir: str) -> list[tuple[str, str]]:
    """Supervisors come last, since nobody is to start them again; what they supervise ends with its cgroup."""
    places = tuple(os.path.join(lab_dir, part, "") for part in PARTS)
    rows_by_program: dict[str, list[tuple[str, str]]] = {"": [], **{word: [] for word in reversed(_SUPERVISORS)}}
    for process in list_processes(host):
        kind = _kind_of(host, name, process, places)
        if kind is not None:
            row = f"{process.pid} {process.id.started}", f"process {process.pid} ({program(process)})"
            rows_by_program[kind].append(row)
    return [row for rows in rows_by_program.values() for row in rows]


def _kind_of(host: Host, name: str, process: Process, places: tuple[str, ...]) -> Any:
    """The kind of supervisor if it is one of the lab's; "" for the process of a virtual machine; None for any other process."""
    if is_of(process, OWN_UIDS):
        return "" if _names_path(read_command(host, process.id), places) else None
    if not is_of_root(process):
        return None
    words = read_command(host, process.id)
    called = os.path.basename(words[0]) if words else ""
    if called == "runsvdir" and words[-1].startswith(places):
        return called
    # The lab's directory may have been moved, and with it the supervisor's working directory.
    return called if called == "runsv" and is_named_after(host, name, words[-1]) else None


def _names_path(words: Iterable[str], places: tuple[str, ...]) -> bool:
    return any(part.startswith(places) for word in words for part in word.replace("=", ":").split(":"))


class _Removable:
    """A resource that is only read and removed."""

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        """Never called: nothing lost is made again."""


class LostProcessKind(_Removable):
    """`PID START`: a process by its ID and start time."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        process_id = _process_id(target)
        process = ctx.host.process(process_id.pid)
        return {"running": True} if process is not None and process.id == process_id else ABSENT

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        process = _process_id(target)
        ctx.host.signal(process, 9)
        if not wait_until(ctx.host, lambda: has_ended(ctx.host, process), seconds=_KILL_SECONDS, interval=0.05):
            raise HostError(**MESSAGES.texts("core-processes-stay", what=f"process {process.pid}"))


class LostUnitKind(_Removable):
    """A systemd unit file."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        return ABSENT if ctx.host.stat(target) is None else {}

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        unit = os.path.basename(target)
        ctx.host.run(["systemctl", "disable", "--now", unit], timeout=_UNIT_SECONDS, check=False)
        ctx.host.remove(os.path.join(AT_BOOT, unit))  # made by the collection, not by systemctl
        ctx.host.remove(target)
        ctx.host.run(["systemctl", "daemon-reload"], timeout=_UNIT_SECONDS)
        ctx.host.run(["systemctl", "reset-failed", unit], timeout=_UNIT_SECONDS, check=False)


class LostLinkKind(_Removable):
    def read(self, ctx: Context[Any], target: str) -> Value:
        return {} if ip_json(ctx.host, "link", "show", "dev", target) else ABSENT

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        if self.read(ctx, target) != ABSENT:  # one end of a veth pair is removed with its namespace
            ctx.host.run(["ip", "link", "del", target], timeout=_KILL_SECONDS, check=False)


class LostSupervisorsKind(_Removable):
    """The cgroup of all supervisors of this host, which stays while another lab has some."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        return {} if supervisor_cgroup.exists(ctx.host) else ABSENT

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        supervisor_cgroup.leave(ctx.host)


class LostPartKind(_Removable):
    """The directory of a part, which programs that were still writing made again."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        stat = ctx.host.stat(target)
        is_theirs = stat is not None and stat.kind == "directory" and has_trusted_owner(stat)
        return {} if is_theirs else ABSENT

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        ctx.host.remove_tree(target)


class LostPlaceKind(_Removable):
    """The directory of the lab. Files that are not the lab's stay."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        return LostPartKind().read(ctx, target)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        release(ctx.host, target)
        if ctx.host.stat(target) is not None and not list_content(ctx.host, target):
            ctx.host.remove_directory(target)


LOST_KINDS: Mapping[str, Kind] = {
    **BASE_KINDS,
    **CGROUP_KINDS,
    **MOUNT_KINDS,
    **NETWORK_KINDS,
    **NODE_PORT_KINDS,
    **SHARED_KINDS,
    "lost-link": LostLinkKind(),
    "lost-part": LostPartKind(),
    "lost-place": LostPlaceKind(),
    "lost-process": LostProcessKind(),
    "lost-supervisors": LostSupervisorsKind(),
    "lost-unit": LostUnitKind(),
}


def _process_id(target: str) -> ProcessId:
    pid, started = target.split(" ")
    return ProcessId(int(pid), int(started))
