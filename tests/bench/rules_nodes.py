# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes of the benchmark of service rules: network namespaces, each with rules of its own, and a client and a server beside it.

client 10.244.1.10 -- pod0 10.244.1.1 | node | eth1 10.50.0.1 -- server 10.50.0.2, which answers for every endpoint
                                        | eth0: bridge of the control plane, where a kube-proxy is to run
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.rules_cluster import ENDPOINT_NETWORK, TARGET_PORT
from tests.integration import adhoc
from tests.integration.kube_proxy import BRIDGE, KubeProxy, NodeHost
from tests.integration.supervised_proxy import link_iptables
from tests.integration.wire import entered, namespace

CLIENT, CLIENT_GATEWAY = "10.244.1.10", "10.244.1.1"
SERVER, SERVER_GATEWAY = "10.50.0.2", "10.50.0.1"
_POLL_SECONDS = 0.1
_MODULE_SECONDS = 3600  # iptables-nft may have to write 10,000 Services

# It says which endpoint it is; a client that only measures its connection has ended it before.
_SERVE = f"""
import contextlib, socket
listening = socket.create_server(("0.0.0.0", {TARGET_PORT}), backlog=4096)
print("ready", flush=True)
while True:
    connection = listening.accept()[0]
    with connection, contextlib.suppress(OSError):
        connection.sendall(connection.getsockname()[0].encode())
"""

# Linger 0 ends a connection by a reset: no TIME_WAIT keeps a port. Ports are bound one after the other, so that no
# two connections to a place have the same, and each is a new one to connection tracking.
_CONNECT = """
import json, socket, struct, sys, time
asked = json.load(sys.stdin)
linger = struct.pack("ii", 1, 0)
port, found = asked["first_port"], [[] for _target in asked["targets"]]
for _turn in range(asked["turns"]):
    port += 1
    for number, (address, to) in enumerate(asked["targets"]):
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            one.settimeout(None)
            one.bind(("", port))
            begun = time.perf_counter_ns()
            one.connect((address, to))
            found[number].append(time.perf_counter_ns() - begun)
json.dump(found, sys.stdout)
"""


@dataclass
class Node:
    name: str  # of its namespace
    host: NodeHost
    client: NodeHost  # itself where there is no traffic
    ports: int = 10000  # up to here its client has used them

    def connect(self, targets: Sequence[tuple[str, int]], turns: int) -> list[list[int]]:
        """Nanoseconds of each connection to each of `targets`, which take turns."""
        asked = {"targets": targets, "turns": turns, "first_port": self.ports}
        self.ports += turns
        argv = [sys.executable, "-IS", "-c", _CONNECT]
        done = self.client.run(argv, stdin=json.dumps(asked).encode(), timeout=300)
        found: list[list[int]] = json.loads(done.stdout)
        return found


@contextmanager
def node(name: str, *, address: str = "", traffic: bool = False) -> Iterator[Node]:
    """`address` on the control plane's network, where there is one; with `traffic`, a client and a server."""
    with ExitStack() as undo:
        host = NodeHost(undo.enter_context(namespace(f"bench-{name}")).namespace)
        made = Node(host.namespace, host, host)
        host.run(["sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0"], timeout=10)
        if address:
            outer = f"ballast-b{address.rpartition('.')[2]}"
            _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
            _ip("link", "set", outer, "master", BRIDGE, "up")
            _give(host, "eth0", f"{address}/24")
        if traffic:
            made.client = _beside(undo, made, "client", "pod0", f"{CLIENT_GATEWAY}/24", f"{CLIENT}/24", CLIENT_GATEWAY)
            server = _beside(undo, made, "server", "eth1", f"{SERVER_GATEWAY}/24", f"{SERVER}/24", SERVER_GATEWAY)
            network = str(ENDPOINT_NETWORK)
            host.run(["ip", "route", "add", network, "via", SERVER], timeout=10)
            server.run(["ip", "route", "add", "local", network, "dev", "lo"], timeout=10)
            made.client.run(["sysctl", "-qw", "net.ipv4.ip_local_port_range=60000 65000"], timeout=10)
            _serve(undo, server)
        yield made


def _beside(undo: ExitStack, made: Node, what: str, link: str, here: str, there: str, gateway: str) -> NodeHost:
    other = NodeHost(undo.enter_context(namespace(f"{made.name.removeprefix('ballast-test-')}-{what}")).namespace)
    words = ["ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", other.namespace]
    made.host.run(words, timeout=10)
    _give(made.host, link, here)
    _give(other, "eth0", there)
    other.run(["ip", "route", "add", "default", "via", gateway], timeout=10)
    return other


def _give(host: NodeHost, link: str, address: str) -> None:
    host.run(["ip", "address", "add", address, "dev", link], timeout=10)
    host.run(["ip", "link", "set", link, "up"], timeout=10)


def _serve(undo: ExitStack, host: NodeHost) -> None:
    argv = ["ip", "netns", "exec", host.namespace, sys.executable, "-IS", "-c", _SERVE]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    undo.callback(process.wait)
    undo.callback(process.kill)
    assert process.stdout is not None
    undo.callback(process.stdout.close)
    if process.stdout.readline() != "ready\n":
        raise RuntimeError("the server of the benchmark does not start")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, timeout=30)


# kube-proxy

NFTABLES, LEGACY, NFT = "nftables", "iptables-legacy", "iptables-nft"
_SYNC = re.compile(
    r'^I\d{4} (\d\d):(\d\d):(\d\d\.\d+) .*"SyncProxyRules complete" ipFamily="?IPv4"? elapsed="([^"]+)"', re.MULTILINE
)
_DURATION = re.compile(r"([0-9.]+)(h|ms|m|s|µs|us|ns)")
_UNIT_SECONDS = {"h": 3600, "m": 60, "s": 1, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class Sync:
    seconds: float
    ended_after: float  # seconds since kube-proxy was started


@dataclass
class Running:
    """A kube-proxy that runs. Its log says of each synchronisation of a family how long it took, without the time in which
    it waited for events or for minSyncPeriod. (Its metrics have sums only.)"""

    log: Path
    begun: float  # seconds since 1970

    def synced(self, *, since: float, timeout: float) -> Sync:
        """The first of IPv4 that began after `since`, a time.time(), when it has ended."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for sync in self._syncs():
                if sync.ended_after - sync.seconds >= since - self.begun:
                    return sync
            time.sleep(_POLL_SECONDS)
        raise RuntimeError(f"kube-proxy synchronised nothing in {timeout} s: see {self.log}")

    def _syncs(self) -> list[Sync]:
        text = self.log.read_text(encoding="utf-8", errors="replace")
        started = time.localtime(self.begun)
        of_day = started.tm_hour * 3600 + started.tm_min * 60 + started.tm_sec + self.begun % 1
        found = []
        for hour, minute, second, elapsed in _SYNC.findall(text):
            at = int(hour) * 3600 + int(minute) * 60 + float(second)
            found.append(Sync(seconds(elapsed), (at - of_day) % 86400))
        return found


def seconds(duration: str) -> float:
    """Of a duration as Go writes it: 1m2.5s."""
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _DURATION.findall(duration))


@contextmanager
def running(proxy: KubeProxy, made: Node, kind: str) -> Iterator[Running]:
    """kube-proxy on a node until the block ends. `kind` is NFTABLES, LEGACY or NFT."""
    shutil.rmtree(proxy.place, ignore_errors=True)
    proxy.place.mkdir()
    mode = NFTABLES if kind == NFTABLES else "iptables"
    with _variant(proxy.place / "bin", kind):
        begun = time.time()
        with proxy.running(made.host, mode):
            yield Running(proxy.place / f"kube-proxy-{mode}.log", begun)


@contextmanager
def _variant(place: Path, kind: str) -> Iterator[None]:
    """kube-proxy takes the iptables that it finds first."""
    link_iptables(place, "legacy" if kind == LEGACY else "nft")
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{place}:{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


# Our modules

_TIMED = """#!/bin/sh
begun=$(date +%s.%N)
{python} "$@"
status=$?
echo "$begun $(date +%s.%N)" >> {to}
exit $status
"""


@dataclass(frozen=True)
class ModuleRun:
    result: dict[str, Any]
    process_seconds: float  # of the module's process, from the start of its Python to its end
    wall_seconds: float  # of the command `ansible`, which starts up by itself first


def run_module(made: Node, module: str, options: dict[str, Any], place: Path) -> ModuleRun:
    """As a user runs it on the node."""
    timed, times = place / "python", place / "times"
    times.unlink(missing_ok=True)
    timed.write_text(_TIMED.format(python=sys.executable, to=times), encoding="utf-8")
    timed.chmod(0o755)
    begun = time.monotonic()
    with entered(made.name):
        result = adhoc.module(module, python=str(timed), seconds=_MODULE_SECONDS, **options)
    wall = time.monotonic() - begun
    spent = [float(end) - float(begun) for begun, end in (line.split() for line in times.read_text().splitlines())]
    return ModuleRun(result, round(max(spent), 3), round(wall, 3))
