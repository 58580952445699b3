# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Collects a lab's diagnostics into one archive: events, logs, consoles, API objects, network state.

The archive holds only what belongs to the lab: the logs of its own services, named for the nodes and machines of its record, and the
processes of those services by their cgroups. Each entry is bounded and redacted.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from .._control_plane.pki.identities import LAB_LOGS
from .._control_plane.record import LOAD_BALANCER, load_record
from .._control_plane.request import MEMBERS
from .._control_plane.rights import ensure_rights
from .._core.engine.ownership import OF_JOURNAL, OURS, make_marked_directory, require_ours
from .._core.host.cgroup_paths import cgroup_directories
from .._core.host.host import Host
from .._core.host.names import is_name, join_name
from .._core.host.processes import age_seconds, is_of_root, read_command
from .._core.service.cgroup import list_processes
from .._core.text.errors import BallastError, HostError
from .._core.text.json_text import parse_json
from .._core.text.redaction import redact, redact_argv, redact_json
from .._instance.model import KUBE_PROXY, SERVICE_PROXY
from .engine import LOGS
from .record import OWNER, RECORD, read_record

_LOG_BYTES = 4 * 2**20  # the end of each log and of each command's output
_ALL_BYTES = 128 * 2**20
_API_BYTES = 16 * 2**20  # of one list of objects
_SECONDS = 30
_FILES = ("lab.json", "summary.json", "events.jsonl")
_COMPONENTS = (
    *("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
    *("generic-apiserver", "hyper-mini", "aggregation"),
)
# Including a control plane with several members; not all of them exist.
_PROCESSES = (
    *(
        f"{component}{end}"
        for end in ("", *(f"-{number}" for number in range(2, MEMBERS[-1] + 1)))
        for component in _COMPONENTS
    ),
    LOAD_BALANCER,
)
_SERVICES = ("containerd", "kubelet", KUBE_PROXY, SERVICE_PROXY)  # a node has one of the last two
# In a node's directory, besides the logs of its services.
_NODE_LOGS = (
    "sv/supervisor.log",
    "kube-proxy/events.jsonl",
    "kube-proxy/guard/guard.log",
    "image-pulls/events.jsonl",
)
_MACHINE_LOGS = ("console.log", "host.log")
_POD_LOGS = 200  # files of the pods of one node
_API = {
    "nodes.json": "/api/v1/nodes",
    "pods.json": "/api/v1/pods",
    "events.json": "/api/v1/events",
    "services.json": "/api/v1/services",
    "endpointslices.json": "/apis/discovery.k8s.io/v1/endpointslices",
}
_NETWORK = {
    "addresses": ("ip", "-br", "addr"),
    "routes": ("ip", "route"),
    "routes-ipv6": ("ip", "-6", "route"),
    "rules-nftables": ("nft", "list", "ruleset"),
    "rules-iptables": ("iptables-save",),
    "conntrack": ("conntrack", "-L"),
}

SPEC: dict[str, Any] = {"lab_dir": {"type": "path", "default": "/var/lib/ballast/lab"}}


@dataclass(frozen=True)
class Entry:
    """A file in the archive; `name` is its path there."""

    name: str
    text: str


def collect(host: Host, lab_dir: str) -> str:
    """Write the archive and return its path; empty when there is no lab. The archive names what could not be read."""
    lab_dir = lab_dir.rstrip("/")
    try:
        if require_ours(host, lab_dir, owner=OWNER, record=RECORD) not in (OURS, OF_JOURNAL):
            return ""
    except HostError:
        return ""  # files of others: nothing is copied
    directory = os.path.join(lab_dir, LOGS)
    if host.stat(directory) is None:
        make_marked_directory(host, directory, mode=0o700)
    host.make_directory(directory, mode=0o700)
    name = _choose_name(host, directory)
    buffer, left = io.BytesIO(), _ALL_BYTES
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for entry in _collect_entries(host, lab_dir):
            data = entry.text.encode(errors="replace")[:left]
            left -= len(data)
            member = tarfile.TarInfo(f"{name}/{entry.name}")
            member.size, member.mtime, member.mode = len(data), int(host.now()), 0o600
            archive.addfile(member, io.BytesIO(data))
    path = os.path.join(directory, f"{name}.tar.gz")
    host.write(path, buffer.getvalue(), mode=0o600)
    return path


def _choose_name(host: Host, directory: str) -> str:
    """A name for a new archive; two archives of one second get different names."""
    name = f"lab-{time.strftime('%Y%m%d-%H%M%S', time.gmtime(host.now()))}"
    taken, number = set(host.listdir(directory)), 1
    while f"{name}.tar.gz" in taken:
        number += 1
        name = f"{name.rpartition('_')[0] or name}_{number}"
    return name


def _collect_entries(host: Host, lab_dir: str) -> Iterator[Entry]:
    lab: Mapping[str, Any] = {"nodes": []}
    try:
        lab = read_record(host, lab_dir) or lab
    except BallastError as error:
        yield Entry("lab.json.missing", str(error))
    nodes = [node["name"] for node in lab["nodes"]] or _list_names(host, os.path.join(lab_dir, "nodes"))
    machines = _list_names(host, os.path.join(lab_dir, "vms"))
    for name in _list_log_names(host, lab_dir, nodes, machines):
        data = host.read_end(os.path.join(lab_dir, name), _LOG_BYTES)
        if data is not None:
            yield Entry(name, _redact_file(name, data))
    yield from _read_api(host, lab_dir)
    yield from (_run_command(host, f"host/{name}", argv) for name, argv in _NETWORK.items())
    yield _run_command(host, "host/kernel", ("dmesg",))
    yield Entry("host/processes.txt", _list_processes(host, str(lab.get("name", "")), nodes))
    for node in lab["nodes"]:
        # A kubeadm node is a whole virtual machine.
        if "netns" in node and host.stat(node["netns"]):
            enter = ("nsenter", f"--net={node['netns']}", "--")
            netns = join_name(lab["name"], node["name"])
            yield from (_run_command(host, f"{netns}/{name}", (*enter, *argv)) for name, argv in _NETWORK.items())


def _list_names(host: Host, directory: str) -> list[str]:
    """Names of nodes or machines, each of which has a directory."""
    return [name for name in host.listdir(directory) if is_name(name)]


def _list_log_names(host: Host, lab_dir: str, nodes: list[str], machines: list[str]) -> Iterator[str]:
    """Paths below the lab's directory; not all of them exist."""
    yield from _FILES
    yield from (f"plane/log/{process}.log" for process in _PROCESSES)
    yield "plane/sv/supervisor.log"
    for node in nodes:
        yield from (f"nodes/{node}/log/{service}.log" for service in _SERVICES)
        yield from (f"nodes/{node}/{name}" for name in _NODE_LOGS)
        yield from _list_pod_logs(host, lab_dir, f"nodes/{node}/log/pods")
    yield "nodes/sv/supervisor.log"
    yield from (f"vms/{machine}/{name}" for machine in machines for name in _MACHINE_LOGS)


def _list_pod_logs(host: Host, lab_dir: str, place: str) -> list[str]:
    """Paths of pod logs, in the kubelet's layout: pods/NAMESPACE_POD_UID/CONTAINER/0.log."""
    logs, open_ = [], [place]
    for depth in range(3):
        below = [f"{at}/{name}" for at in open_ for name in host.listdir(os.path.join(lab_dir, at))]
        logs += [name for name in below if depth and name.endswith(".log")]
        open_ = [name for name in below if _is_directory(host, os.path.join(lab_dir, name))]
    return logs[:_POD_LOGS]


def _is_directory(host: Host, path: str) -> bool:
    stat = host.stat(path)
    return stat is not None and stat.kind == "directory"


def _redact_file(name: str, data: bytes) -> str:
    text = data.decode(errors="replace")
    if name.endswith(".json"):
        return _redact_json(text)
    if name.endswith(".jsonl"):
        return "".join(f"{_redact_json(line, indent=None)}\n" for line in text.splitlines())
    return redact(text)


def _redact_json(text: str, *, indent: Optional[int] = 1) -> str:
    try:
        return json.dumps(redact_json(parse_json(text)), indent=indent)
    except ValueError:
        return redact(text)


def _read_api(host: Host, lab_dir: str) -> Iterator[Entry]:
    record = load_record(host, os.path.join(lab_dir, "plane"))
    if record is None:
        return
    for name, path in _API.items():
        try:
            ensure_rights(host, record, LAB_LOGS)
            body = record.ask(host, path, identity=LAB_LOGS).body
        except BallastError as error:
            yield Entry(f"api/{name}.missing", str(error))
            return  # the other requests would wait as long and fail alike
        yield Entry(f"api/{name}", _redact_objects(body))


def _redact_objects(body: bytes) -> str:
    """A list of objects, redacted: without variables, commands and annotations."""
    if len(body) > _API_BYTES:
        return f"left out: {len(body)} bytes, more than {_API_BYTES}\n"
    try:
        objects = parse_json(body)
        for item in objects["items"]:
            item.get("metadata", {}).pop("managedFields", None)
        return json.dumps(redact_json(objects), indent=1)
    except (ValueError, KeyError, TypeError, AttributeError):
        return redact(body.decode(errors="replace"))


def _list_processes(host: Host, lab: str, nodes: list[str]) -> str:
    """The lab's own services, each by its cgroup; no pods, and nothing else of this machine."""
    services = [
        (join_name(lab, node), join_name(lab, node, service), service) for node in nodes for service in _SERVICES
    ]
    plane = join_name(lab.replace("-", "_"), "plane")
    services += [(plane, join_name(lab, process), process) for process in _PROCESSES]
    rows = ["pid state rss_kib age_seconds command"]
    for cgroup, unit, leaf in services if lab else []:
        for pid in _list_pids(host, cgroup, f"{unit}.service" if host.is_systemd() else leaf):
            process = host.process(pid)
            if process is None or not is_of_root(process):
                continue
            status, argv = dict(_read_status(host, pid)), read_command(host, process.id)
            age = age_seconds(host, pid)
            numbers = [str(pid), status.get("State", "?")[:1], status.get("VmRSS", "0").split()[0]]
            rows.append(" ".join([*numbers, "?" if age is None else f"{age:.0f}", *redact_argv(argv)]))
    return "\n".join(rows) + "\n"


def _list_pids(host: Host, cgroup: str, leaf: str) -> list[int]:
    try:
        places = cgroup_directories(host, cgroup)
    except BallastError:  # this machine has no cgroups
        return []
    return sorted({pid for place in places for pid in list_processes(host, os.path.join(place, leaf))})


def _read_status(host: Host, pid: int) -> Iterator[tuple[str, str]]:
    for row in (host.read(f"/proc/{pid}/status") or b"").decode(errors="replace").splitlines():
        name, _colon, value = row.partition(":")
        yield name, value.strip() or "?"


def _run_command(host: Host, name: str, argv: tuple[str, ...]) -> Entry:
    try:
        done = host.run(argv, timeout=_SECONDS, check=False)
        return Entry(f"{name}.txt", redact((done.stdout + done.stderr)[-_LOG_BYTES:]))
    except BallastError as error:
        return Entry(f"{name}.missing", str(error))
