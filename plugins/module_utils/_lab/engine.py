# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's record, which is its desired state (lab.json), and its name among the labs of this host.

Every other part is made from the record; the journal of each part says what was made.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .._binaries.families import DEFAULT_KUBERNETES
from .._binaries.request import GO
from .._core.engine.context import Context
from .._core.engine.engine import Finding, ResourceEngine
from .._core.engine.events import PROGRESS_LOG
from .._core.engine.kinds import BASE_KINDS, Kind, file
from .._core.engine.ownership import discard, is_ours
from .._core.engine.plan import Plan, Recorded, Resource, State
from .._core.engine.prune_directories import remove_emptied
from .._core.engine.shared_directory import SHARED_KINDS
from .._core.host.host import Host
from .._core.host.names import join_name
from .._core.host.tables import read_meminfo
from .._core.text.errors import BallastError, Problems
from .._core.text.ip_families import Network, join, parse_networks, split
from .._core.text.json_text import parse_json
from .._core.text.naming import format_name
from .._images.archive import image_references
from .._registry.names import (
    find_registered_name,
    list_leftovers,
    list_registered_names,
    read_registration,
    registration,
)
from .addons.catalog import ADDONS
from .arguments import find_reserved_arguments
from .host_services import choose_service_network, fence_services, parse_route, reach_services, read_held
from .ip_family import IP_FAMILIES, IPV4, VERSIONS
from .lost import LOST_KINDS, find_lost, lost_resources, remaining_resources
from .messages import MESSAGES
from .networks import list_networks
from .packets import Paths
from .parts import parts
from .place import find_namespace_problems
from .preflight import find_missing_mounts, preflight, try_features
from .programs import SPEC as PROGRAMS_SPEC
from .programs import announce, choose_for, find_program_problems, find_python_problems, read_programs, record_of
from .record import OWNER, RECORD, list_labs, read_record, record_path, require_lab_directory
from .resolve import LOCAL, HostFacts, Lab, resolve
from .topology import BOOTSTRAPS, KUBEADM, TARGETS, parse_request
from .trial import Trial
from .versions import NO_VERSIONS, LabVersions, find_version_problems, read_versions, upgrade_turns

DEFAULT_HOSTS = 2
ARCHIVES, LOGS = "archives", "logs"  # in LAB_DIR
RESTORING = "restoring.json"  # in LAB_DIR while a restore of a snapshot is not finished
SNAPSHOTS = "snapshots"  # in LAB_DIR, and the owner of that directory
RESULTS = (RESTORING, "summary.json", "events.jsonl", "admin.kubeconfig")
PROGRAMS_LINK = "bin"
# State directories whose recorded objects were removed with the API, and the owner of each.
GONE_WITH_API = {"api": "nodes", "check": "check", "kube-proxy": "kube-proxy", "addons": "addons", "drain": "drain"}
SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
    "lab_dir": {"type": "path", "default": "/var/lib/ballast/lab"},
    "name": {"type": "str"},
    "nodes": {"type": "int"},
    "topology": {"type": "dict"},
    "target": {"type": "str", "choices": list(TARGETS)},
    "bootstrap": {"type": "str", "choices": list(BOOTSTRAPS)},
    "hosts": {"type": "int"},
    "kubernetes_version": {"type": "str"},
    "addons": {"type": "list", "elements": "str"},
    "ip_family": {"type": "str", "choices": list(IP_FAMILIES)},
    "resize": {
        "type": "list",
        "elements": "dict",
        "options": {"name": {"type": "str", "required": True}, "cpu": {"type": "str"}, "memory": {"type": "str"}},
    },
    **PROGRAMS_SPEC,
    "archive": {"type": "path"},
    **PROGRESS_LOG,
}

INFO_SPEC: dict[str, Any] = {"lab_dir": {"type": "path", "default": "/var/lib/ballast/lab"}}


@dataclass(frozen=True)
class LabRequest:
    state: str
    state_dir: str  # LAB_DIR
    name: str
    lab: Optional[Lab]  # None for absent
    new_nodes: int = 0
    new_addons: tuple[str, ...] = ()
    node_names: tuple[str, ...] = ()  # of the lab to be removed
    archives: tuple[str, ...] = ()  # image archives of that lab
    is_lost: bool = False  # its directory was deleted, but the lab itself was not removed
    announced: tuple[str, ...] = ()  # what will be downloaded and built
    problems: tuple[BallastError, ...] = ()  # missing parts that builds and downloads need
    versions: LabVersions = NO_VERSIONS


def desired_from_params(params: Mapping[str, Any], host: Host) -> LabRequest:
    """The request, completed with what this host has and what an earlier run recorded."""
    lab_dir = params["lab_dir"].rstrip("/") or "/"
    lost = find_lost(host, lab_dir, RECORD)
    if lost and params["state"] == "absent":
        return LabRequest(state="absent", state_dir=lab_dir, name=lost, lab=None, is_lost=True)
    if lost:
        raise MESSAGES.error("lab-lost", directory=lab_dir, name=lost)
    require_lab_directory(host, lab_dir)  # a record in another program's directory does not count
    previous = read_record(host, lab_dir)
    if params["state"] == "absent":
        names = tuple(node["name"] for node in previous["nodes"]) if previous else ()
        name = previous["name"] if previous else ""
        archives = tuple(row["path"] for row in previous.get("archives", ())) if previous else ()
        return LabRequest(state="absent", state_dir=lab_dir, name=name, lab=None, node_names=names, archives=archives)
    sizes = _merge_sizes(params, previous)
    effective = {**_with_recorded(params, lab_dir, previous), "sizes": sizes}
    versions_of_ip = _versions(effective)
    facts = _read_facts(host, lab_dir, previous, versions_of_ip)
    effective["service_cidr"] = (
        previous["service_cidr"] if previous else _choose_services(host, lab_dir, facts, versions_of_ip)
    )
    programs = read_programs(params, previous, str(effective["kubernetes_version"]).lstrip("v"), host, os.environ)
    chooses_addons = not previous and params["addons"] is None and "addons" not in (params["topology"] or {})
    if chooses_addons and effective["bootstrap"] != KUBEADM:
        effective["default_addons"] = programs.default_addons()
    request = parse_request(effective)
    choices = choose_for(programs, request.bootstrap, request.addons)
    versions = host.listdir(params["toolchain_dir"]) if params["toolchain_dir"] else []
    for version in filter(None, (request.kubernetes_version, request.upgrade_to)):
        if versions and version not in versions and programs.source_of("kubernetes") == GO:
            raise MESSAGES.error("lab-version", value=version, versions=", ".join(sorted(versions)))
    current = read_versions(host, lab_dir, previous)
    how = {"target": request.target, "bootstrap": request.bootstrap}
    Problems.raise_if(find_version_problems(request.kubernetes_version, current, **how, buildable=versions))
    if params["archive"] and request.bootstrap == KUBEADM:
        wanted = "only for nodes of a lab without kubeadm: import it with ctr instead"
        raise MESSAGES.error("lab-value", path="archive", value=params["archive"], wanted=wanted)
    other = read_registration(host, request.name)
    if other is not None and other != lab_dir:
        raise MESSAGES.error("lab-name-taken", name=request.name, directory=other)
    if previous is not None and previous["name"] != request.name:
        raise MESSAGES.error("lab-fixed", path="name", value=request.name, recorded=previous["name"])
    lab = resolve(request, previous, facts)
    held = read_held(host, lab, _read_other_labs(host, lab_dir))
    lab["host_services"] = reach_services(lab, held)
    lab["fenced_services"] = fence_services(lab, held)
    lab["topology"] = params["topology"] or (previous or {}).get("topology")
    lab["sizes"] = {node["name"]: sizes[node["name"]] for node in lab["nodes"] if node["name"] in sizes}
    lab["archives"] = _merge_archives(params["archive"], previous)
    lab["programs"] = record_of(programs)
    Problems.raise_if([*_find_clashes(host, lab), *find_reserved_arguments(lab)])
    known = {node["name"] for node in previous["nodes"]} if previous else set()
    new_nodes = sum(node["name"] not in known for node in lab["nodes"])
    new_addons = tuple(name for name in request.addons if name not in (previous or {}).get("addons", ()))
    left_out = programs.left_out() if effective.get("default_addons") is not None else []
    return LabRequest(
        state="present",
        state_dir=lab_dir,
        name=request.name,
        lab=lab,
        new_nodes=new_nodes,
        new_addons=new_addons,
        announced=tuple(announce(choices, left_out)),
        problems=tuple(find_program_problems(choices, host, params, os.environ)),
        versions=current,
    )


def _with_recorded(params: Mapping[str, Any], lab_dir: str, previous: Optional[Lab]) -> dict[str, Any]:
    """Omitted options keep their recorded values, so a plain run starts the lab as it is recorded."""
    effective = {**params, "lab_dir": lab_dir, "balloons": False}
    recorded: Mapping[str, Any] = previous or {}
    if not params["topology"]:
        effective["topology"] = recorded.get("topology")
        effective["balloons"] = recorded.get("balloons", False)
        effective["nodes"] = _or_default(params["nodes"], len(recorded["nodes"]) if recorded else None)
    if "addons" not in (params["topology"] or {}):
        effective["addons"] = _or_default(params["addons"], recorded.get("addons", []) if recorded else None)
    effective["target"] = params["target"] or recorded.get("target", TARGETS[0])
    effective["bootstrap"] = params["bootstrap"] or recorded.get("bootstrap", BOOTSTRAPS[0])
    effective["default_addons"] = None
    in_topology = "ip_family" in (params["topology"] or {})
    effective["ip_family"] = params["ip_family"] or (None if in_topology else recorded.get("ip_family"))
    machines = sum(host["connection"] != "local" for host in recorded.get("hosts", []))
    effective["hosts"] = _or_default(params["hosts"], machines or DEFAULT_HOSTS)
    for key, default in (("name", None), ("kubernetes_version", DEFAULT_KUBERNETES)):
        in_file = (params["topology"] or {}).get(key)
        effective[key] = params[key] or (recorded.get(key, default) if in_file is None else in_file)
    return effective


def _merge_sizes(params: Mapping[str, Any], previous: Optional[Lab]) -> dict[str, dict[str, str]]:
    """The sizes that `resize` has set, in this run and earlier ones. A topology in the options replaces all of them."""
    recorded = {} if params["topology"] else (previous or {}).get("sizes", {})
    sizes = {name: dict(size) for name, size in recorded.items()}
    known = {node["name"] for node in previous["nodes"]} if previous else set()
    for row in params["resize"] or []:
        if row["name"] not in known:
            raise MESSAGES.error("lab-resize-node", name=row["name"], nodes=", ".join(sorted(known)) or "none yet")
        given = {key: row[key] for key in ("cpu", "memory") if row[key]}
        if not given:
            raise MESSAGES.error("lab-resize-nothing", name=row["name"])
        sizes.setdefault(row["name"], {}).update(given)
    return sizes


def _or_default(value: Optional[int], otherwise: Optional[int]) -> Optional[int]:
    return otherwise if value is None else value  # 0 is a value too, and refused later


def _merge_archives(path: Optional[str], previous: Optional[Lab]) -> list[dict[str, Any]]:
    """Image archives that every node has besides the lab's own: the recorded ones, and `path`."""
    recorded = [row for row in (previous or {}).get("archives", []) if row["path"] != path]
    if not path:
        return recorded
    images = {reference.name: reference.digest for reference in image_references(path)}
    return [*recorded, {"path": path, "images": images}]


class LabEngine(ResourceEngine[LabRequest]):
    name = OWNER
    kinds: Mapping[str, Kind] = {**BASE_KINDS, **SHARED_KINDS, **LOST_KINDS}
    record = RECORD

    def wanted(self, ctx: Context[LabRequest]) -> list[Resource]:
        desired = ctx.desired
        if desired.lab is None:
            return []
        record = json.dumps(desired.lab, indent=2, sort_keys=True) + "\n"
        title = f"name {desired.name} in this host's list of labs"
        return [
            *registration(desired.name, desired.state_dir, group="lab", title=title),
            file(record_path(desired.state_dir), record, title="record of the lab", group="lab"),
        ]

    def read_recorded(self, ctx: Context[LabRequest]) -> tuple[Recorded, ...]:
        if ctx.desired.is_lost:
            return lost_resources(ctx.host, ctx.desired.name, ctx.desired.state_dir)
        require_lab_directory(ctx.host, ctx.desired.state_dir)
        return super().read_recorded(ctx)

    def require(self, ctx: Context[LabRequest], state: State) -> None:
        desired = ctx.desired
        restored = None if desired.lab is None else read_unfinished_restore(ctx.host, desired.state_dir)
        if restored is not None:
            raise MESSAGES.error("lab-restore-unfinished", name=restored, directory=desired.state_dir)
        others = [*desired.problems, *_find_mount_problems(ctx.host, desired)]
        if desired.lab is not None and not desired.new_nodes:
            # Existing nodes may have to be started, which makes their namespaces again.
            hidden = find_namespace_problems(ctx.host) if desired.lab["target"] == "host" else []
            Problems.raise_if([*try_features(ctx.host, _needs(desired)), *hidden, *others])
        elif desired.lab is not None:
            preflight(
                ctx.host,
                lab_dir=desired.state_dir,
                paths=list(_paths(desired.lab)),
                target=desired.lab["target"],
                new_nodes=desired.new_nodes,
                backends=sorted({node["proxy_backend"] for node in desired.lab["nodes"]}),
                members=desired.lab["control_plane"].get("members", 1),
                runtimes=sorted({node["runtime"] for node in desired.lab["nodes"] if "runtime" in node}),
                needs=_needs(desired),
                others=[*others, *find_python_problems()],
            )

    def apply(self, plan: Plan, ctx: Context[LabRequest]) -> Plan:
        desired, host = ctx.desired, ctx.host
        if desired.is_lost:
            return self._remove_lost(plan, ctx)
        is_removal = desired.lab is None and bool(desired.name)
        if is_removal:
            require_lab_directory(host, desired.state_dir)
            _remove_results(host, desired)
            self._remove_remains(ctx)
        done = super().apply(plan, ctx)
        if is_removal:
            remove_emptied(host, desired.state_dir)
        return done

    def claim(self, ctx: Context[LabRequest]) -> None:
        if not ctx.desired.is_lost:
            super().claim(ctx)

    def _remove_lost(self, plan: Plan, ctx: Context[LabRequest]) -> Plan:
        """Without a journal, which is lost: the next run finds again what a killed run leaves behind."""
        for step in plan.steps:
            ctx.progress.started(step.group, f"{step.verb} {step.title}")
            self.change(step, ctx, after=step.after, before=step.before)
        return plan

    def _remove_remains(self, ctx: Context[LabRequest]) -> None:
        desired, listed = ctx.desired, {record.key for record in self.journal(ctx).recorded}
        lost = remaining_resources(ctx.host, desired.name, desired.state_dir, desired.node_names, listed)
        self._remove_lost(self.plan_steps((), State(lost, self.values(ctx, lost, ()), ())), ctx)

    def verify(self, ctx: Context[LabRequest]) -> list[Finding]:
        """Findings after a removal: what is left behind."""
        desired = ctx.desired
        if desired.lab is not None or not desired.name:
            return []
        stayed = list(
            list_leftovers(ctx.host, name=desired.name, directory=desired.state_dir, nodes=desired.node_names)
        )
        if not stayed:
            return []
        error = MESSAGES.error("lab-left", name=desired.name, count=len(stayed))
        text = f"{error.text}: {', '.join(stayed)}"  # complete: a shortened list would hide what to remove
        return [Finding(id=error.id, subject=format_name("lab", desired.name), text=text, remedy=error.remedy)]

    def preview(self, ctx: Context[LabRequest]) -> dict[str, object]:
        lab = ctx.desired.lab
        made = parts(lab) if lab else None
        name = ctx.desired.name or find_registered_name(ctx.host, ctx.desired.state_dir)
        return {
            "name": name,
            "lab": lab,
            "parts": made,
            "announced": list(ctx.desired.announced),
            "turns": upgrade_turns(lab, made["hosts"][LOCAL]["instances"], ctx.desired.versions)
            if lab and made
            else [],
            "is_lost": ctx.desired.is_lost,
            "labs": list_labs(ctx.host),
        }


ENGINE = LabEngine()


def _remove_results(host: Host, desired: LabRequest) -> None:
    """Remove files that runs wrote for people. Called before the record is removed, as it marks the directory as a lab's, and after
    the directory was checked. Each directory below must have its own mark, and each archive be in the record."""
    lab_dir = desired.state_dir
    for name, kind in (*((name, "file") for name in RESULTS), (PROGRAMS_LINK, "symlink")):
        stat = host.stat(os.path.join(lab_dir, name))
        if stat is not None and stat.kind == kind:
            host.remove(os.path.join(lab_dir, name))
    archives = os.path.join(lab_dir, ARCHIVES)
    for path in desired.archives:
        if os.path.dirname(path) == archives:
            host.remove(path)
    if host.stat(archives) is not None and not host.listdir(archives):
        host.remove_directory(archives)
    for name, owner in GONE_WITH_API.items():
        discard(host, os.path.join(lab_dir, name), owner=owner, caches=("kubectl",))
    if is_ours(host, os.path.join(lab_dir, SNAPSHOTS), owner=SNAPSHOTS):
        host.remove_tree(os.path.join(lab_dir, SNAPSHOTS))
    if is_ours(host, os.path.join(lab_dir, LOGS)):
        host.remove_tree(os.path.join(lab_dir, LOGS))


def read_unfinished_restore(host: Host, lab_dir: str) -> Optional[str]:
    """The name of the snapshot; None when no restore was interrupted."""
    data = host.read(os.path.join(lab_dir, RESTORING))
    return None if data is None else str(parse_json(data)["snapshot"])


def _needs(desired: LabRequest) -> list[Trial]:
    """What new add-ons need of the kernel. Not for virtual machines, which have their own kernel."""
    if desired.lab is None or desired.lab["target"] != "host":
        return []
    return [trial for name in desired.new_addons for trial in ADDONS[name].needs]


def _find_mount_problems(host: Host, desired: LabRequest) -> list[BallastError]:
    """Missing sources of mounts. Not for virtual machines, which have their own files."""
    if desired.lab is None or desired.lab["target"] != "host":
        return []
    return find_missing_mounts(host, desired.lab["nodes"])


def _paths(lab: Lab) -> Iterator[Paths]:
    """Paths for each IP family. The API server listens on an address of the primary one."""
    plane = lab["control_plane"]
    for gateway, pod_cidr in zip(split(lab["gateway"]), split(lab["pod_cidr"])):
        is_here = plane["address"] == gateway.partition("/")[0]
        yield Paths(lab["bridge"], gateway, pod_cidr, plane["port"] if is_here else None)


def _find_clashes(host: Host, lab: Lab) -> list[BallastError]:
    """Node names that clash on this host: node b-c of lab a, and node c of lab a-b."""
    units = {join_name(lab["name"], node["name"]): node["name"] for node in lab["nodes"]}
    problems = []
    for other in _read_other_labs(host, lab["lab_dir"]):
        for node in other["nodes"]:
            unit = join_name(other["name"], node["name"])
            if unit in units:
                shown = {"node": units[unit], "unit": unit, "other": node["name"], "lab": other["name"]}
                problems.append(MESSAGES.error("lab-node-clash", **shown))
    return problems


def _read_other_labs(host: Host, lab_dir: str) -> Iterator[Lab]:
    """Records of the other labs of this host."""
    for name in sorted(list_registered_names(host)):
        directory = read_registration(host, name)
        record = read_record(host, directory) if directory and directory != lab_dir else None
        if record is not None:
            yield record


def _versions(effective: Mapping[str, Any]) -> tuple[int, ...]:
    """IP versions of the lab; IPv4 for a value that `parse_request` will refuse."""
    family = effective["ip_family"] or (effective["topology"] or {}).get("ip_family")
    return VERSIONS.get(family, VERSIONS[IPV4]) if isinstance(family, str) else VERSIONS[IPV4]


def _read_facts(host: Host, lab_dir: str, previous: Optional[Lab], versions: Sequence[int]) -> HostFacts:
    """`versions` are the IP versions of the lab."""
    networks = [] if previous else [*_read_routes(host, lab_dir, versions), *_read_lab_networks(host, lab_dir)]
    return HostFacts(
        cpu_millis=1000 * (os.cpu_count() or 1),
        memory_bytes=read_meminfo(host)["MemTotal"],
        networks=tuple(dict.fromkeys(networks)),
    )


def _choose_services(host: Host, lab_dir: str, facts: HostFacts, versions: Sequence[int]) -> str:
    used = [*facts.networks, *_read_service_networks(host, lab_dir)]
    return join(choose_service_network(used, version) for version in versions)


def _read_service_networks(host: Host, lab_dir: str) -> list[Network]:
    """Service networks of other labs. A topology may name the same: `reach_services` decides which lab the host reaches by it."""
    return [network for lab in _read_other_labs(host, lab_dir) for network in parse_networks(lab["service_cidr"])]


def _read_routes(host: Host, lab_dir: str, versions: Sequence[int]) -> Iterator[Network]:
    services = {str(network) for network in _read_service_networks(host, lab_dir)}
    for version in versions:
        rows = parse_json(host.run(["ip", "-j", f"-{version}", "route", "show"], timeout=30).stdout or "[]")
        for row in rows:
            if row["dst"] not in services:
                yield from parse_route(row["dst"])


def _read_lab_networks(host: Host, lab_dir: str) -> Iterator[Network]:
    """Networks of other labs, also of stopped ones, which have no routes."""
    for lab in _read_other_labs(host, lab_dir):
        yield from list_networks(lab)
