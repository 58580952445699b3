# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One archive of what tells how a lab is, or why it is not: events, logs, consoles, API objects, network state.

No keys and no kubeconfigs go in: the archive is made to be shown to others.
"""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .._core.errors import BallastError
from .._core.host import Host
from .._core.names import joined
from .._plane.record import load_record
from .engine import read_record

_LOG_BYTES = 4 * 2**20  # the end of each log
_SECONDS = 30
_FILES = ("lab.json", "summary.json", "events.jsonl")
_LOG_ENDINGS = (".log", ".jsonl")
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
    "rules-nftables": ("nft", "list", "ruleset"),
    "rules-iptables": ("iptables-save",),
    "conntrack": ("conntrack", "-L"),
}

SPEC: dict[str, Any] = {"lab_dir": {"type": "path", "required": True}}


@dataclass(frozen=True)
class Entry:
    name: str
    data: bytes


def collect(host: Host, lab_dir: str) -> str:
    """Write the archive; answers its path, empty where nothing of a lab is. It names what could not be read."""
    lab_dir = lab_dir.rstrip("/")
    if host.stat(lab_dir) is None:
        return ""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(host.now()))
    path = os.path.join(lab_dir, "logs", f"lab-{stamp}.tar.gz")
    host.make_directory(os.path.dirname(path), mode=0o750)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for entry in _entries(host, lab_dir):
            member = tarfile.TarInfo(f"lab-{stamp}/{entry.name}")
            member.size, member.mtime, member.mode = len(entry.data), int(host.now()), 0o644
            archive.addfile(member, io.BytesIO(entry.data))
    host.write(path, buffer.getvalue(), mode=0o640)
    return path


def _entries(host: Host, lab_dir: str) -> Iterator[Entry]:
    for name in _FILES:
        data = host.read(os.path.join(lab_dir, name))
        if data is not None:
            yield Entry(name, data)
    yield from _logs(host, lab_dir, "")
    yield from _api(host, lab_dir)
    lab: Mapping[str, Any] = {"nodes": []}
    try:
        lab = read_record(host, lab_dir) or lab
    except BallastError as error:
        yield Entry("lab.json.missing", str(error).encode())
    yield from (_output(host, f"host/{name}", argv) for name, argv in _NETWORK.items())
    yield _output(host, "host/processes", ("ps", "axo", "pid,ppid,stat,rss,etime,args"))
    yield _output(host, "host/kernel", ("dmesg",))
    for node in lab["nodes"]:
        if host.stat(node["netns"]):
            enter = ("nsenter", f"--net={node['netns']}", "--")
            netns = joined(lab["name"], node["name"])
            yield from (_output(host, f"{netns}/{name}", (*enter, *argv)) for name, argv in _NETWORK.items())


def _logs(host: Host, top: str, below: str) -> Iterator[Entry]:
    """Logs and consoles below the lab's directory; the content of containers and volumes is not ours to copy."""
    for name in host.listdir(os.path.join(top, below)):
        path = os.path.join(below, name)
        found = host.stat(os.path.join(top, path))
        if found is None:
            continue
        if found.kind == "directory" and name not in ("containerd", "kubelet", "etcd", "pki", "archives", "logs"):
            yield from _logs(host, top, path)
        elif found.kind == "file" and name.endswith(_LOG_ENDINGS) and path not in _FILES and name != "ledger.jsonl":
            data = host.read(os.path.join(top, path)) or b""
            yield Entry(path, data[-_LOG_BYTES:])


def _api(host: Host, lab_dir: str) -> Iterator[Entry]:
    record = load_record(host, os.path.join(lab_dir, "plane"))
    if record is None:
        return
    for name, path in _API.items():
        try:
            yield Entry(f"api/{name}", record.ask(host, path).body)
        except BallastError as error:
            yield Entry(f"api/{name}.missing", str(error).encode())
            return  # the others would wait as long, for the same answer


def _output(host: Host, name: str, argv: tuple[str, ...]) -> Entry:
    try:
        done = host.run(argv, timeout=_SECONDS, check=False)
        return Entry(f"{name}.txt", (done.stdout + done.stderr).encode())
    except BallastError as error:
        return Entry(f"{name}.missing", str(error).encode())
