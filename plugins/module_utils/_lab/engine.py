# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's record: what it is to be (lab.json), and its name among the labs of this host.

The record is what every other part is made from, and the ledger of each part says what it made.
"""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from .._core.emptied import remove_emptied
from .._core.engine import Finding, ResourceEngine
from .._core.errors import BallastError, Problems
from .._core.events import Progress
from .._core.host import Host, LocalHost
from .._core.kinds import BASE_KINDS, Kind, file
from .._core.names import joined
from .._core.plan import Plan, Resource, Step
from .._core.registry import left, registered, registered_names, registration
from .._core.shared import SHARED_KINDS
from .._images.archive import image_references
from .messages import MESSAGES
from .parts import parts
from .preflight import preflight
from .resolve import VERSION, HostFacts, Lab, resolve
from .topology import TARGETS, parse_request

DEFAULT_KUBERNETES_VERSION = "1.37.1"
DEFAULT_HOSTS = 2
RESULTS = ("summary.json", "events.jsonl", "admin.kubeconfig", "bin")
# Ledgers of what went with the API, archives that were loaded, evidence.
RESULT_DIRECTORIES = ("api", "archives", "check", "kube-proxy", "logs")

SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
    "lab_dir": {"type": "path", "default": "/var/lib/ballast/lab"},
    "name": {"type": "str"},
    "nodes": {"type": "int"},
    "topology": {"type": "dict"},
    "target": {"type": "str", "choices": list(TARGETS)},
    "hosts": {"type": "int"},
    "kubernetes_version": {"type": "str"},
    "resize": {
        "type": "list",
        "elements": "dict",
        "options": {"name": {"type": "str", "required": True}, "cpu": {"type": "str"}, "memory": {"type": "str"}},
    },
    "toolchain_dir": {"type": "path"},
    "archive": {"type": "path"},
    "events": {"type": "path"},
}

INFO_SPEC: dict[str, Any] = {"lab_dir": {"type": "path", "default": "/var/lib/ballast/lab"}}


@dataclass(frozen=True)
class Desired:
    state: str
    state_dir: str  # LAB_DIR
    name: str
    lab: Optional[Lab]  # None for absent
    new_nodes: int = 0
    node_names: tuple[str, ...] = ()  # of the lab that is removed


def desired_from_params(params: Mapping[str, Any]) -> Desired:
    """Resolved against what this host has and what an earlier run wrote down."""
    host = LocalHost()
    lab_dir = params["lab_dir"].rstrip("/") or "/"
    previous = read_record(host, lab_dir)
    if params["state"] == "absent":
        names = tuple(node["name"] for node in previous["nodes"]) if previous else ()
        name = previous["name"] if previous else ""
        return Desired(state="absent", state_dir=lab_dir, name=name, lab=None, node_names=names)
    sizes = _sizes(params, previous)
    request = parse_request({**_effective(params, lab_dir, previous), "sizes": sizes})
    versions = host.listdir(params["toolchain_dir"]) if params["toolchain_dir"] else []
    if versions and request.kubernetes_version not in versions:
        raise MESSAGES.error("lab-version", value=request.kubernetes_version, versions=", ".join(sorted(versions)))
    other = registered(host, request.name)
    if other is not None and other != lab_dir:
        raise MESSAGES.error("lab-name-taken", name=request.name, directory=other)
    if previous is not None and previous["name"] != request.name:
        raise MESSAGES.error("lab-fixed", path="name", value=request.name, recorded=previous["name"])
    lab = resolve(request, previous, _facts(host, lab_dir, previous))
    lab["topology"] = params["topology"] or (previous or {}).get("topology")
    lab["sizes"] = _of_nodes(sizes, lab)
    lab["archives"] = _archives(params["archive"], previous)
    Problems.raise_if(_clashes(host, lab))
    known = {node["name"] for node in previous["nodes"]} if previous else set()
    new_nodes = sum(node["name"] not in known for node in lab["nodes"])
    return Desired(state="present", state_dir=lab_dir, name=request.name, lab=lab, new_nodes=new_nodes)


def _effective(params: Mapping[str, Any], lab_dir: str, previous: Optional[Lab]) -> dict[str, Any]:
    """What is not said stays as it was; so a plain run starts the lab as it is recorded."""
    effective = {**params, "lab_dir": lab_dir, "balloons": False}
    recorded: Mapping[str, Any] = previous or {}
    if not params["topology"]:
        effective["topology"] = recorded.get("topology")
        effective["balloons"] = recorded.get("balloons", False)
        effective["nodes"] = _said(params["nodes"], len(recorded["nodes"]) if recorded else None)
    effective["target"] = params["target"] or recorded.get("target", TARGETS[0])
    machines = sum(host["connection"] != "local" for host in recorded.get("hosts", []))
    effective["hosts"] = _said(params["hosts"], machines or DEFAULT_HOSTS)
    for key, default in (("name", None), ("kubernetes_version", DEFAULT_KUBERNETES_VERSION)):
        in_file = (params["topology"] or {}).get(key)
        effective[key] = params[key] or in_file or recorded.get(key, default)
    return effective


def _sizes(params: Mapping[str, Any], previous: Optional[Lab]) -> dict[str, dict[str, str]]:
    """What nodes were given after they were made, and are given now. A topology that is given says all anew."""
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


def _of_nodes(sizes: Mapping[str, dict[str, str]], lab: Lab) -> dict[str, dict[str, str]]:
    return {node["name"]: sizes[node["name"]] for node in lab["nodes"] if node["name"] in sizes}


def _said(value: Optional[int], otherwise: Optional[int]) -> Optional[int]:
    return otherwise if value is None else value  # 0 is said too, and refused later


def _archives(path: Optional[str], previous: Optional[Lab]) -> list[dict[str, Any]]:
    """Image archives that every node has besides the lab's own: those recorded, and `path`."""
    recorded = [row for row in (previous or {}).get("archives", []) if row["path"] != path]
    if not path:
        return recorded
    images = {reference.name: reference.digest for reference in image_references(path)}
    return [*recorded, {"path": path, "images": images}]


class LabEngine(ResourceEngine[Desired]):
    name = "lab"
    kinds: Mapping[str, Kind] = {**BASE_KINDS, **SHARED_KINDS}

    def resources(self, desired: Desired) -> list[Resource]:
        if desired.lab is None:
            return []
        record = json.dumps(desired.lab, indent=2, sort_keys=True) + "\n"
        title = f"name {desired.name} among the labs of this host"
        return [
            *registration(desired.name, desired.state_dir, group="lab", title=title),
            file(record_path(desired.state_dir), record, title="record of the lab", group="lab"),
        ]

    def require(self, desired: Desired, host: Host) -> None:
        if desired.lab is not None and desired.new_nodes:
            preflight(
                host,
                lab_dir=desired.state_dir,
                bridge=desired.lab["bridge"],
                target=desired.lab["target"],
                new_nodes=desired.new_nodes,
                backends=sorted({node["proxy_backend"] for node in desired.lab["nodes"]}),
                runtimes=sorted({node["runtime"] for node in desired.lab["nodes"]}),
            )

    def apply(self, plan: Plan, desired: Desired, host: Host, progress: Progress) -> tuple[Step, ...]:
        if desired.lab is None and desired.name:  # without the record of a lab, nothing in the directory is ours
            _remove_results(host, desired.state_dir)
        done = super().apply(plan, desired, host, progress)
        if desired.lab is None and desired.name:
            remove_emptied(host, desired.state_dir)
        return done

    def verify(self, desired: Desired, host: Host, progress: Progress) -> list[Finding]:
        """After a removal: what stayed."""
        if desired.lab is not None or not desired.name:
            return []
        stayed = list(left(host, name=desired.name, directory=desired.state_dir, nodes=desired.node_names))
        if not stayed:
            return []
        error = MESSAGES.error("lab-left", name=desired.name, count=len(stayed))
        text = f"{error.text}: {', '.join(stayed)}"  # all of it: what is left out here would be looked for in vain
        return [Finding(id=error.id, subject=f"lab {desired.name}", text=text, remedy=error.remedy)]

    def preview(self, desired: Desired) -> dict[str, object]:
        return {"lab": desired.lab, "parts": parts(desired.lab) if desired.lab else None}

    def report(self, desired: Desired, host: Host) -> dict[str, object]:
        return self.preview(desired)


ENGINE = LabEngine()


def _remove_results(host: Host, lab_dir: str) -> None:
    """What runs wrote for people to read. Before the record goes, by which a later run would know that it is ours."""
    for name in RESULTS:
        host.remove(os.path.join(lab_dir, name))
    for name in RESULT_DIRECTORIES:
        host.remove_tree(os.path.join(lab_dir, name))


def record_path(lab_dir: str) -> str:
    return os.path.join(lab_dir, "lab.json")


def read_record(host: Host, lab_dir: str) -> Optional[Lab]:
    """None when there is no lab."""
    data = host.read(record_path(lab_dir))
    if data is None:
        return None
    try:
        record: Lab = json.loads(data)
        if record["version"] != VERSION:
            raise ValueError(f"version {record['version']}")
    except (ValueError, KeyError, TypeError) as error:
        raise MESSAGES.error("lab-record", path=record_path(lab_dir), found=str(error)) from error
    return record


def read_lab(host: Host, lab_dir: str) -> dict[str, Any]:
    """The record with what is made from it; UserError when there is no lab."""
    lab = read_record(host, lab_dir.rstrip("/"))
    if lab is None:
        raise MESSAGES.error("lab-none", directory=lab_dir)
    return {"lab": lab, "parts": parts(lab)}


def _clashes(host: Host, lab: Lab) -> list[BallastError]:
    """Node b-c of lab a and node c of lab a-b would be one name on this host."""
    units = {joined(lab["name"], node["name"]): node["name"] for node in lab["nodes"]}
    problems = []
    for other in sorted(registered_names(host)):
        directory = registered(host, other)
        record = read_record(host, directory) if directory and directory != lab["lab_dir"] else None
        for node in record["nodes"] if record else ():
            unit = joined(other, node["name"])
            if unit in units:
                shown = {"node": units[unit], "unit": unit, "other": node["name"], "lab": other}
                problems.append(MESSAGES.error("lab-node-clash", **shown))
    return problems


def _facts(host: Host, lab_dir: str, previous: Optional[Lab]) -> HostFacts:
    lines = (host.read("/proc/meminfo") or b"").decode().splitlines()
    total = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:"))
    networks = [] if previous else [*_routes(host), *_networks_of_labs(host, lab_dir)]
    return HostFacts(
        cpu_millis=1000 * (os.cpu_count() or 1), memory_bytes=total, networks=tuple(dict.fromkeys(networks))
    )


def _routes(host: Host) -> Iterator[ipaddress.IPv4Network]:
    rows = json.loads(host.run(["ip", "-j", "-4", "route", "show"], timeout=30).stdout or "[]")
    for row in rows:
        if row["dst"] != "default":
            yield ipaddress.IPv4Network(row["dst"], strict=False)


def _networks_of_labs(host: Host, lab_dir: str) -> Iterator[ipaddress.IPv4Network]:
    """Also of labs that are stopped, which have no routes."""
    for name in registered_names(host):
        other = registered(host, name)
        record = read_record(host, other) if other and other != lab_dir else None
        if record is not None:
            yield ipaddress.IPv4Network(record["node_cidr"])
            yield ipaddress.IPv4Network(record["pod_cidr"])
            yield from (ipaddress.IPv4Interface(one["gateway"]).network for one in record["hosts"])
