# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node in network namespaces, with pods, another node and clients around it, so that real packets meet its rules.

    client (172.16.5.5, ...) -- eth0 | node | cni0 -- pod0 (10.1.0.5), pod1, pod2, idle
    remote (192.168.1.20, 10.1.1.5, 10.1.1.6) -- eth2 |     | eth1 (10.50.0.10, no one beyond)

Addresses are those of tests/unit/rules/strategies.py, of both families. Everything goes by way of the node, answers too, as
no namespace has two of the places; pods do not reach each other over the bridge alone.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import READ_LIMIT, Completed
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import Packet
from tests.integration import journal
from tests.unit.rules.strategies import BRIDGE, POOLS, SECOND_LINK, UPLINK

ECHO = Path(__file__).with_name("echo.py")
REMOTE_LINK = "eth2"
_CLONE_NEWNET = 0x40000000
PODS = ("pod0", "pod1", "pod2", "idle")
# Node and neighbour on each of the node's links to the outside: IPv6 asks for an address on the link that has it alone.
_TRANSFER = {
    ("client", 4): ("169.254.9.1", "169.254.9.2"),
    ("client", 6): ("fd00:9::1", "fd00:9::2"),
    ("remote", 4): ("169.254.8.1", "169.254.8.2"),
    ("remote", 6): ("fd00:8::1", "fd00:8::2"),
}


class InNamespace(LocalHost):
    """The machine, with every command run in a network namespace. Files of the kernel whose paths begin with one of
    `inside` are read there too, as a program in it sees them."""

    inside: tuple[str, ...] = ()

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def run(self, argv: Sequence[str], *, timeout: float, **options: Any) -> Completed:
        return super().run(["ip", "netns", "exec", self.namespace, *argv], timeout=timeout, **options)

    def read(self, path: str, *, limit: int = READ_LIMIT) -> Optional[bytes]:
        if not self.inside or not path.startswith(self.inside):
            return super().read(path, limit=limit)
        done = self.run(["cat", path], timeout=60, check=False, limit=limit)
        return done.stdout.encode() if done.status == 0 else None


@contextmanager
def namespace(name: str) -> Iterator[InNamespace]:
    """A network namespace `ballast-test-NAME` with its loopback up."""
    full = f"ballast-test-{name}"
    host = InNamespace(full)
    with journal.network_namespace(full):
        host.run(["ip", "link", "set", "lo", "up"], timeout=60)
        yield host


@contextmanager
def entered(name: str) -> Iterator[None]:
    """This thread and what it starts, in a network namespace: without the milliseconds that `ip netns exec` takes."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net", "rb") as before, open(f"/run/netns/{name}", "rb") as inside:
        if libc.setns(inside.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {name}")
        try:
            yield
        finally:
            if libc.setns(before.fileno(), _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "cannot leave a network namespace")


class Wire:
    """The namespaces, once they are up. `node` is where rules are loaded."""

    def __init__(self, places: Mapping[str, InNamespace]) -> None:
        self.places = places
        self.node = places["node"]

    def place_of(self, packet: Packet) -> str:
        """The namespace that has to send `packet`."""
        if packet.node_local:
            return "node"
        pool = POOLS[packet.family]
        pods = dict(zip((*pool.local_pods, pool.idle_pod), PODS))
        return pods.get(packet.source) or ("client" if packet.source in pool.clients else "remote")

    def send(self, packets: Sequence[Packet]) -> list[str]:
        """What became of each: an answer as echo.py gives it, "refused" or "silent". All of one place at once."""
        found = [""] * len(packets)
        # What an earlier packet met under other rules would be met by one that happens to have its port.
        self.node.run(["conntrack", "-F"], timeout=60)

        def send_from(place: str) -> None:
            mine = [number for number, packet in enumerate(packets) if self.place_of(packet) == place]
            wanted = [
                {"source": one.source, "destination": one.destination, "port": one.port, "protocol": one.protocol}
                for one in (packets[number] for number in mine)
            ]
            argv = [sys.executable, "-IS", str(ECHO), "send"]
            done = self.places[place].run(argv, stdin=json.dumps(wanted).encode(), timeout=60)
            for number, answer in zip(mine, json.loads(done.stdout)):
                found[number] = answer

        with ThreadPoolExecutor() as pool:
            list(pool.map(send_from, sorted({self.place_of(packet) for packet in packets})))
        return found

    def send_sctp(self, packet: Packet, *, heard_in: str) -> str:
        """Who heard an SCTP packet, as `send` tells it. For kernels that translate SCTP but do not speak it; IPv4."""
        argv = ["ip", "netns", "exec", self.places[heard_in].namespace, sys.executable, "-IS", str(ECHO), "hear-sctp"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as hearing:
            assert hearing.stdout is not None
            assert hearing.stdout.readline() == "ready\n"
            words = [packet.source, packet.destination, str(packet.port)]
            argv = [sys.executable, "-IS", str(ECHO), "send-sctp", *words]
            self.places[self.place_of(packet)].run(argv, timeout=60)
            return hearing.stdout.readline().strip()

    def set_second_link(self, addresses: Sequence[str]) -> None:
        """Give eth1 exactly these, as a load balancer's address may be bound to it or not."""
        _ip(self.node, "address", "flush", "dev", SECOND_LINK, "scope", "global")
        for address in addresses:
            _ip(self.node, "address", "add", address, "dev", SECOND_LINK, *_no_dad(address))


@contextmanager
def wire(name: str) -> Iterator[Wire]:
    """Made, and taken down again whatever happens."""
    with ExitStack() as undo:
        places = {
            place: undo.enter_context(namespace(f"{name}-{place}")) for place in ("node", "client", "remote", *PODS)
        }
        node = places["node"]
        _sysctls(places)
        _links(places)
        for family, pool in POOLS.items():
            _address(node, UPLINK, (pool.primary,))
            _address(node, SECOND_LINK, (pool.second,))
            _address(node, BRIDGE, (pool.gateway,))
            _neighbour(places, "client", UPLINK, family, pool.clients)
            _neighbour(places, "remote", REMOTE_LINK, family, (pool.other_node, *pool.other_pods))
            _route(node, "default", UPLINK, via=_TRANSFER["client", family][1])
            for pod, address in zip(PODS, (*pool.local_pods, pool.idle_pod)):
                _address(places[pod], UPLINK, (address,))
                _route(places[pod], pool.gateway, UPLINK)
                _route(places[pod], "default", UPLINK, via=pool.gateway)
                _route(node, address, BRIDGE)
        servers = {"node": [pool.primary for pool in POOLS.values()]}
        servers["remote"] = [one for pool in POOLS.values() for one in (pool.other_node, *pool.other_pods)]
        for number, pod in enumerate(PODS[:3]):
            servers[pod] = [pool.local_pods[number] for pool in POOLS.values()]
        for place, addresses in servers.items():
            _serve(undo, places[place], addresses)
        yield Wire(places)


def _neighbour(places: Mapping[str, InNamespace], place: str, link: str, family: int, addresses: Sequence[str]) -> None:
    """Outside, with `addresses`, which the node reaches over `link`; everything else is behind the node."""
    here, there = _TRANSFER[place, family]
    _address(places["node"], link, (here,))
    _address(places[place], UPLINK, (there, *addresses))
    for address in (there, *addresses):
        _route(places["node"], address, link)
    _route(places[place], here, UPLINK)
    _route(places[place], "default", UPLINK, via=here)


def _links(places: Mapping[str, InNamespace]) -> None:
    node = places["node"]
    _ip(node, "link", "add", SECOND_LINK, "type", "bridge")  # not every kernel has dummy links
    _ip(node, "link", "add", BRIDGE, "type", "bridge")
    for link, place in ((UPLINK, "client"), (REMOTE_LINK, "remote"), *((f"veth-{pod}", pod) for pod in PODS)):
        other = places[place]
        _ip(node, "link", "add", link, "type", "veth", "peer", "name", UPLINK, "netns", other.namespace)
        _ip(other, "link", "set", UPLINK, "up")
        if place in PODS:
            _ip(node, "link", "set", link, "master", BRIDGE)
            _ip(node, "link", "set", link, "type", "bridge_slave", "isolated", "on")
        _ip(node, "link", "set", link, "up")
    for link in (SECOND_LINK, BRIDGE):
        _ip(node, "link", "set", link, "up")


def _sysctls(places: Mapping[str, InNamespace]) -> None:
    """Every refusal is told, at once: by default the kernel sends one such message a second to a place, and 50 at a time."""
    for place, host in places.items():
        values = {"net.ipv4.icmp_ratelimit": "0", "net.ipv6.icmp.ratelimit": "0", "net.ipv4.conf.all.rp_filter": "0"}
        values |= {"net.ipv4.conf.default.rp_filter": "0", "net.ipv6.conf.default.accept_dad": "0"}
        # Pods are told that they are neighbours, but are to reach each other by way of the node.
        values |= {f"net.{ip}.conf.{of}.accept_redirects": "0" for ip in ("ipv4", "ipv6") for of in ("all", "default")}
        if place == "node":
            values |= {"net.ipv4.ip_forward": "1", "net.ipv6.conf.all.forwarding": "1"}
            values |= {"net.ipv4.conf.all.send_redirects": "0", "net.ipv4.conf.default.send_redirects": "0"}
        # What not every kernel has. With the last two, the bridge would carry translated packets from pod to pod by itself.
        newer = {"net.ipv4.icmp_msgs_burst": "10000", "net.ipv4.icmp_msgs_per_sec": "100000"}
        newer |= {f"net.bridge.bridge-nf-call-{tables}": "0" for tables in ("iptables", "ip6tables")}
        for key, value in newer.items():
            if host.run(["sysctl", "-n", key], timeout=60, check=False).status == 0:
                values[key] = value
        host.run(["sysctl", "-qw", *(f"{key}={value}" for key, value in values.items())], timeout=60)


def _serve(undo: ExitStack, host: InNamespace, addresses: Sequence[str]) -> None:
    argv = ["ip", "netns", "exec", host.namespace, sys.executable, "-IS", str(ECHO), "serve", *addresses]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    undo.callback(process.wait)
    undo.callback(process.kill)
    assert process.stdout is not None
    undo.callback(process.stdout.close)
    assert process.stdout.readline() == "ready\n"


def _address(host: InNamespace, link: str, addresses: Sequence[str]) -> None:
    for address in addresses:
        _ip(host, "address", "add", address, "dev", link, *_no_dad(address))


def _no_dad(address: str) -> tuple[str, ...]:
    return ("nodad",) if ":" in address else ()


def _route(host: InNamespace, to: str, link: str, *, via: str = "") -> None:
    family = "-6" if ":" in to + via else "-4"
    _ip(
        host, family, "route", "replace", to, *(("via", via) if via else ()), "dev", link, *(("onlink",) if via else ())
    )


def _ip(host: InNamespace, *words: str) -> None:
    host.run(["ip", *words], timeout=60)
