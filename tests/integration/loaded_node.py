# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node under load: Services that real servers answer, and clients in a pod, on the node and outside.

    client 10.244.1.10, local0, local1 (10.244.1.20, .21) -- cni0 | node | away0, away1 (10.244.2.20, .21): pods of another node
                                          eth0: control plane     |      | eth9 -- outside 10.60.0.2: the node's way out

Every Service has an endpoint in each of local0, local1, away0 and away1. What no rule translates goes outside, where nobody
answers. Pods do not reach each other over the bridge alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tests.bench import rules_cluster as cluster
from tests.integration.kube_proxy import NODE, NODE_IP, OTHER_NODE, POD_GATEWAY, NodeHost, connected, node
from tests.integration.wire import InNamespace, namespace
from tests.load.running import Client, Flow, Held, Target, server

POD_IP = "10.244.1.10"
LOCAL, AWAY = ("10.244.1.20", "10.244.1.21"), ("10.244.2.20", "10.244.2.21")
OUTSIDE_IP, OUTSIDE_GATEWAY = "10.60.0.2", "10.60.0.1"
NODE_PORTS = {"TCP": 30080, "UDP": 30053}
_FIRST_SERVER_PORT = 9000
_BRIDGE_MAC = "02:00:00:00:00:01"
# On the node a client has them for itself: no listener, none of its ephemeral ports and no node port is among them.
_NODE_CLIENT_PORTS = (11000, 29999)
_CLIENT_PORTS, _HELD_PORTS = (1100, 60999), (61000, 64999)


@dataclass(frozen=True)
class Rates:
    """How much load there is."""

    new: int = 500  # connections, and as many UDP requests, per second, from the pod and from the node each
    outside: int = 100  # the same from outside
    held: int = 200  # long-lived connections, half of them from the pod

    @classmethod
    def of(cls, new: int) -> Rates:
        """In the same proportions."""
        return cls(new, new // 5, new * 2 // 5)


@dataclass(frozen=True)
class LoadedNode:
    host: NodeHost
    client: InNamespace
    outside: InNamespace

    def clients(self, numbers: tuple[int, ...], rates: Rates) -> list[Client]:
        """With so much load on the `loaded` Services of those numbers, the last of which has node ports."""
        flows = {
            kind: tuple(
                Target(cluster.name(number), cluster.cluster_ip(number), cluster.PORT, _FIRST_SERVER_PORT + at)
                for at, number in enumerate(numbers)
            )
            for kind in NODE_PORTS
        }
        ports = {kind: Target("node port", NODE_IP, port, flows[kind][-1].answers) for kind, port in NODE_PORTS.items()}
        return [
            Client(
                "pod",
                self.client,
                tuple(Flow(f"pod {kind}", kind, POD_IP, _CLIENT_PORTS, rates.new, flows[kind]) for kind in NODE_PORTS),
                Held(rates.held // 2, POD_IP, _HELD_PORTS, flows["TCP"]),
            ),
            Client(
                "host",
                self.host,
                tuple(
                    Flow(f"host {kind}", kind, NODE_IP, _NODE_CLIENT_PORTS, rates.new, (*flows[kind], ports[kind]))
                    for kind in NODE_PORTS
                ),
                Held(rates.held - rates.held // 2, NODE_IP, _HELD_PORTS, (*flows["TCP"], ports["TCP"])),
            ),
            Client(
                "outside",
                self.outside,
                tuple(
                    Flow(f"outside {kind}", kind, OUTSIDE_IP, _CLIENT_PORTS, rates.outside, (ports[kind],))
                    for kind in NODE_PORTS
                ),
            ),
        ]


def loaded(numbers: tuple[int, ...]) -> list[cluster.Item]:
    """The Services of those numbers, in the place of those that cluster.numbered() makes."""
    found = []
    for at, number in enumerate(numbers):
        target = _FIRST_SERVER_PORT + at
        ports = {kind: {"name": kind.lower(), "protocol": kind} for kind in NODE_PORTS}
        service = cluster.service(cluster.name(number), cluster.cluster_ip(number))
        service["spec"]["ports"] = [{**one, "port": cluster.PORT, "targetPort": target} for one in ports.values()]
        if number == numbers[-1]:
            service["spec"]["type"] = "NodePort"
            for one in service["spec"]["ports"]:
                one["nodePort"] = NODE_PORTS[one["protocol"]]
        slices = cluster.endpoint_slice(cluster.name(number), [*LOCAL, *AWAY])
        slices["ports"] = [{**one, "port": target} for one in ports.values()]
        for endpoint in slices["endpoints"]:
            endpoint["nodeName"] = NODE if endpoint["addresses"][0] in LOCAL else OTHER_NODE
        found += [slices, service]
    return found


def objects(services: int) -> tuple[list[cluster.Item], tuple[int, ...]]:
    """Of a cluster with so many Services of four endpoints each; and the numbers of those that load is put on."""
    numbers = (0, services // 2, services - 1)
    parts = [(numbers[0] + 1, numbers[1]), (numbers[1] + 1, numbers[2])]
    silent = [item for start, end in parts for item in cluster.numbered(start, end)]
    return [*loaded(numbers), *silent], numbers


@contextmanager
def loaded_node(name: str) -> Iterator[LoadedNode]:
    """Connected to the control plane, its servers running; no rules yet."""
    with node(name) as host, connected(host), ExitStack() as undo:
        _settings(host, {"net.ipv4.ip_forward": 1})
        # Not every kernel has it. With it, the bridge would carry translated packets from pod to pod by itself.
        host.run(["sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=0"], timeout=60, check=False)
        host.run(["ip", "link", "set", "cni0", "address", _BRIDGE_MAC], timeout=60)  # else its lowest port's
        places = {one: undo.enter_context(namespace(f"{name}-{one}")) for one in ("client", "outside")}
        _pod(host, places["client"], POD_IP, "veth-client")
        for number, (local, away) in enumerate(zip(LOCAL, AWAY)):
            here = undo.enter_context(namespace(f"{name}-local{number}"))
            there = undo.enter_context(namespace(f"{name}-away{number}"))
            _pod(host, here, local, f"veth-local{number}")
            _neighbour(host, there, f"veth-away{number}", f"169.254.7.{number + 1}", away)
            undo.enter_context(server(here, f"local{number}", local, _server_ports()))
            undo.enter_context(server(there, f"away{number}", away, _server_ports()))
        _neighbour(host, places["outside"], "eth9", OUTSIDE_GATEWAY, OUTSIDE_IP)
        _settings(places["outside"], {"net.ipv4.ip_forward": 0})  # a new namespace may have the machine's
        host.run(
            ["ip", "route", "add", "default", "via", OUTSIDE_IP, "dev", "eth9", "src", NODE_IP, "onlink"], timeout=60
        )
        yield LoadedNode(host, places["client"], places["outside"])


def _server_ports() -> list[int]:
    return [_FIRST_SERVER_PORT + at for at in range(3)]


def _pod(host: InNamespace, place: InNamespace, address: str, link: str) -> None:
    """On the bridge, where it reaches nobody but the node."""
    _link(host, place, link)
    host.run(["ip", "link", "set", link, "master", "cni0"], timeout=60)
    host.run(["ip", "link", "set", link, "type", "bridge_slave", "isolated", "on"], timeout=60)
    _give(place, address, POD_GATEWAY)


def _neighbour(host: InNamespace, place: InNamespace, link: str, gateway: str, address: str) -> None:
    _link(host, place, link)
    host.run(["ip", "address", "add", f"{gateway}/32", "dev", link], timeout=60)
    host.run(["ip", "route", "add", address, "dev", link], timeout=60)
    _give(place, address, gateway)


def _link(host: InNamespace, place: InNamespace, link: str) -> None:
    words = ["ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", place.namespace]
    host.run(words, timeout=60)
    host.run(["ip", "link", "set", link, "up"], timeout=60)
    _settings(place, {})


def _give(place: InNamespace, address: str, gateway: str) -> None:
    place.run(["ip", "address", "add", f"{address}/32", "dev", "eth0"], timeout=60)
    place.run(["ip", "link", "set", "eth0", "up"], timeout=60)
    place.run(["ip", "route", "add", gateway, "dev", "eth0"], timeout=60)
    place.run(["ip", "route", "add", "default", "via", gateway, "dev", "eth0"], timeout=60)


def _settings(place: InNamespace, more: dict[str, Any]) -> None:
    """No pod is told that another is its neighbour, and no way back is asked to be the way there."""
    values = {
        f"net.ipv4.conf.{of}.{name}": 0
        for of in ("all", "default")
        for name in ("rp_filter", "send_redirects", "accept_redirects")
    }
    place.run(["sysctl", "-qw", *(f"{name}={value}" for name, value in {**values, **more}.items())], timeout=60)
