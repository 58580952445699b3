# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the benchmark of service rules does once: each function measures one thing and answers its seconds."""

from __future__ import annotations

import json
import os
import queue
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._rules.config import parse_config
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables import transaction
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.compile import compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Table
from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import parse_snapshot
from tests.bench import rules_cluster as cluster
from tests.bench.rules_nodes import NFTABLES, Node, Running, run_module, running
from tests.integration.kube_proxy import CONFIG, NODE, NODE_IP, KubeProxy
from tests.integration.wire import entered

FIRST_SYNC_SECONDS = 1500
CHANGE_SECONDS = 600
# linux/netlink.h, linux/netfilter/nfnetlink.h and nf_tables.h
_NETLINK_NETFILTER, _SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP, _GROUP_NFTABLES = 12, 270, 1, 7
_NEW_GENERATION = 10 << 8 | 15  # NFNL_SUBSYS_NFTABLES, NFT_MSG_NEWGEN
_MODULE = {"backend": "nftables", "node_name": NODE, "config": CONFIG}


def compiled(snapshot: Mapping[str, Any]) -> Table:
    view = parse_snapshot(snapshot, node_name=NODE, node_ips=[NODE_IP]).view(4)
    return compile_rules(view, parse_config(CONFIG, backend="nftables", family=4, node=view.node).rules)


# The whole


def program(made: Node, snapshot: Path, place: Path) -> dict[str, Any]:
    """Our module on a node without rules, then once more: parse, compile, read, compare, apply."""
    options = {**_MODULE, "snapshot_path": str(snapshot)}
    first = run_module(made, "service_rules", options, place)
    again = run_module(made, "service_rules", options, place)
    return {
        "process": first.process_seconds,
        "wall": first.wall_seconds,
        "stages": first.result["seconds"],
        "operations": sum(first.result["operations"].values()),
        "again_process": again.process_seconds,
        "again_operations": sum(again.result["operations"].values()),
    }


@dataclass(frozen=True)
class Load:
    seconds: float
    peak_rss_bytes: int  # of nft
    slab_bytes: int  # what the kernel's own memory grew by

    @property
    def told(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "peak_rss_bytes": self.peak_rss_bytes, "slab_bytes": self.slab_bytes}


def load(made: Node, text: bytes, place: Path) -> Load:
    """The kernel's part alone: `nft -f` of all rules at once."""
    path = place / "rules.nft"
    path.write_bytes(text)
    slab = _slab_bytes()
    with entered(made.name):
        begun = time.perf_counter()
        with path.open("rb") as file:  # as the module hands it over: nft reads a file by its name more slowly
            process = subprocess.Popen(["nft", "-f", "-"], stdin=file)
        _pid, status, usage = os.wait4(process.pid, 0)
        spent = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"nft -f {path}: status {process.returncode}")
    path.unlink()
    return Load(round(spent, 4), usage.ru_maxrss * 1024, _slab_bytes() - slab)


def _slab_bytes() -> int:
    """And what is allocated by pages: the buckets of large sets."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    values = dict(line.split(":") for line in lines)
    return sum(int(values[key].split()[0]) * 1024 for key in ("Slab", "VmallocUsed"))


def all_of(table: Table) -> bytes:
    return transaction.render(transaction.plan(table, None)).encode()


def audit(made: Node, snapshot: Path, place: Path) -> dict[str, Any]:
    """Our audit of what a kube-proxy has written."""
    options = {**_MODULE, "snapshot_path": str(snapshot), "owner": "kube-proxy", "audit_rules": True}
    run = run_module(made, "service_rules_info", options, place)
    found = [one["id"] for one in run.result["findings"]]
    return {"process": run.process_seconds, "stages": run.result["seconds"], "findings": found}


# kube-proxy


def first_sync(proxy: Running) -> dict[str, float]:
    """Seconds of its first synchronisation, and from its start until that has ended."""
    sync = proxy.synced(since=proxy.begun, timeout=FIRST_SYNC_SECONDS)
    return {"sync": round(sync.seconds, 4), "from_start": round(sync.ended_after, 3)}


def start(proxy: KubeProxy, made: Node, kind: str, *, services: int) -> dict[str, float]:
    """A kube-proxy that starts on a node without rules, until all are there; then it is ended, and they stay."""
    with running(proxy, made, kind) as peer:
        found = first_sync(peer)
        check_complete(made, kind, services)
    return found


def check_complete(made: Node, kind: str, services: int) -> None:
    held = len(destinations(made, kind))
    if held < services:
        raise RuntimeError(f"{kind}: {held} destinations in the kernel after the first synchronisation, not {services}")


def destinations(made: Node, kind: str) -> list[str]:
    """Cluster IPs in the order in which a packet is compared with them, as far as there is one."""
    if kind == NFTABLES:
        listed = made.host.run(["nft", "-j", "list", "map", "ip", "kube-proxy", "service-ips"], timeout=300).stdout
        elements = next(one["map"]["elem"] for one in json.loads(listed)["nftables"] if "map" in one)
        return sorted(pair[0]["concat"][0] for pair in elements)
    save = f"{kind.replace('iptables-', 'xtables-')}-multi"
    lines = made.host.run([save, "iptables-save", "-t", "nat"], timeout=300).stdout.splitlines()
    words = [line.split() for line in lines if line.startswith("-A KUBE-SERVICES -d ")]
    return [one[3].partition("/")[0] for one in words]


# Changes


class Changes:
    """The same changes of the cluster, one after the other for a kube-proxy that runs and for us on another node."""

    def __init__(self, loader: cluster.Loader, base: Mapping[str, Any], made: Node) -> None:
        self.loader = loader
        self.now = base
        self.made = made
        self.table = compiled(base)
        with entered(made.name):
            transaction.commit(transaction.plan(self.table, None), LocalHost())

    def run(self, peer: Running, generation: int, number: int) -> dict[str, dict[str, Any]]:
        """`number` is a Service of which an endpoint moves."""
        service, endpoint, rollout = cluster.added(), cluster.moved(number, generation), cluster.rolled(generation)
        done = {
            "service": self._both(peer, service, lambda: self.loader.create([service])),
            "endpoint": self._both(peer, endpoint, lambda: self.loader.replace(endpoint)),
            "rollout": self._both(peer, rollout, lambda: self.loader.replace(rollout)),
        }
        begun = time.time()
        self.loader.delete(service)
        peer.synced(since=begun, timeout=CHANGE_SECONDS)
        self._ours(cluster.without(self.now, service))
        return done

    def _both(self, peer: Running, item: cluster.Item, change: Callable[[], None]) -> dict[str, Any]:
        begun = time.time()
        change()
        theirs = peer.synced(since=begun, timeout=CHANGE_SECONDS).seconds
        return {"kube_proxy": round(theirs, 4), **self._ours(cluster.changed(self.now, item))}

    def _ours(self, snapshot: Mapping[str, Any]) -> dict[str, Any]:
        self.now, wanted = snapshot, compiled(snapshot)
        operations = transaction.plan(wanted, self.table)
        with entered(self.made.name), _commits() as committed:
            begun = time.perf_counter()
            transaction.commit(operations, LocalHost())
            spent = time.perf_counter() - begun
        self.table = wanted
        return {"ours": round(spent, 5), "in_force": round(committed() - begun, 5), "operations": len(operations)}


@contextmanager
def _commits() -> Iterator[Callable[[], float]]:
    """Answers when the kernel told, to who listens in this namespace, that it had committed a transaction: the rules hold
    from then on. nft ends later, when the kernel has freed what was deleted."""
    told: queue.Queue[float] = queue.Queue()

    def listen(heard: socket.socket) -> None:
        kind = 0
        while kind != _NEW_GENERATION:
            _length, kind = struct.unpack_from("=IH", heard.recv(65536))
        told.put(time.perf_counter())

    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER) as heard:
        heard.bind((0, 0))
        heard.setsockopt(_SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP, _GROUP_NFTABLES)
        threading.Thread(target=listen, args=(heard,), daemon=True).start()
        yield lambda: told.get(timeout=10)


# Packets


@dataclass
class Road:
    """A node with rules, and the destinations that are asked of it."""

    rules: str
    services: int
    made: Node
    targets: Mapping[str, tuple[str, int]]  # "first", "middle", "last"


def places(addresses: Sequence[str], port: int = cluster.PORT) -> dict[str, tuple[str, int]]:
    return {
        "first": (addresses[0], port),
        "middle": (addresses[len(addresses) // 2], port),
        "last": (addresses[-1], port),
    }


def packets(roads: Sequence[Road], *, rounds: int, turns: int) -> list[dict[str, Any]]:
    """Connections over every road in turn, so that what else the machine does meets all alike."""
    found: dict[int, dict[str, list[int]]] = {at: {name: [] for name in road.targets} for at, road in enumerate(roads)}
    for number in range(rounds + 1):
        for at, road in enumerate(roads):
            measured = road.made.connect(list(road.targets.values()), turns)
            if number:  # the first warms caches up
                for name, one in zip(road.targets, measured):
                    found[at][name].extend(one)
    return [{"rules": road.rules, "services": road.services, "nanoseconds": found[at]} for at, road in enumerate(roads)]
