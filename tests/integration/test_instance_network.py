# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network of instances, as a real kernel has it."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT, Value
from ansible_collections.ballast.kube.plugins.module_utils._instance.network import (
    IPV6_SYSCTLS,
    NETNS_SYSCTLS,
    NETWORK_KINDS,
)
from ansible_collections.ballast.kube.plugins.module_utils._instance.node_ports import (
    NODE_PORT_KINDS,
    find_taken,
    node_port_resources,
)
from tests.integration.test_lab_packets import Machine
from tests.integration.wire import InNamespace, entered, namespace

REFUSED = """
import socket
try:
    socket.create_connection(("fd00::1", 9), timeout=5)
except ConnectionRefusedError:
    pass
"""
SHOWN = (["ip", "-brief", "link"], ["ip", "-6", "route"], ["nft", "list", "ruleset"])
BRIDGE, MAC = "ballast-btest", "02:00:00:00:00:99"


def test_a_bridge_keeps_its_link_address_when_a_port_with_a_lower_one_is_added() -> None:
    """Else the instances that were there before do not reach the host for the time that they remember the old one."""
    kind = NETWORK_KINDS["bridge"]
    wanted = {"address": "10.97.0.1/24", "mac": MAC, "up": True}
    with namespace("bridge") as host:
        kind.write(Context(None, host), BRIDGE, wanted, ABSENT)
        assert kind.read(Context(None, host), BRIDGE) == wanted
        for port, address in (("first", "02:00:00:00:00:02"), ("second", "02:00:00:00:00:01")):
            host.run(["ip", "link", "add", port, "address", address, "type", "veth"], timeout=60)
            host.run(["ip", "link", "set", port, "master", BRIDGE, "up"], timeout=60)
            assert kind.read(Context(None, host), BRIDGE) == wanted


@contextmanager
def answering(namespace: InNamespace, address: str, port: int, word: bytes) -> Iterator[None]:
    """A program in the namespace that answers each connection with the word and the client's address."""
    with entered(namespace.namespace):
        listening = socket.create_server((address, port))

    def serve() -> None:
        while True:
            try:
                connection, client = listening.accept()
            except OSError:
                return
            with connection:
                connection.sendall(word + b" " + client[0].encode())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(timeout=10)


def answer(namespace: InNamespace, port: int) -> str:
    with entered(namespace.namespace):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
                return connection.recv(99).decode()
        except TimeoutError:
            return "silent"
        except ConnectionRefusedError:
            return "refused"


def test_node_ports_of_loopback_are_a_nodes_and_what_listens_there_is_reached_by_no_node() -> None:
    with namespace("host") as host, namespace("node") as node:
        NETWORK_KINDS["bridge"].write(Context(None, host), BRIDGE, {"address": "10.97.0.1/24", "mac": MAC}, ABSENT)
        veth = {"bridge": BRIDGE, "mac": "02:00:00:00:00:98", "address": "10.97.0.11/24", "gateway": "10.97.0.1"}
        host.run(
            ["ip", "link", "add", "node", "type", "veth", "peer", "name", "eth0", "netns", node.namespace], timeout=60
        )
        host.run(["ip", "link", "set", "node", "master", BRIDGE, "up"], timeout=60)
        node.run(["ip", "address", "add", veth["address"], "dev", "eth0"], timeout=60)
        node.run(["ip", "link", "set", "eth0", "up"], timeout=60)
        with (
            answering(node, "10.97.0.11", 30080, b"node"),
            answering(host, "127.0.0.1", 30500, b"own"),
            answering(host, "127.0.0.1", 8081, b"secret"),
            entered(host.namespace),  # whose settings and sockets are read
        ):
            node_ports = "10.97.0.11 30000-32767"
            taken = find_taken(host, node_ports)
            made = node_port_resources(lab="btest", bridge=BRIDGE, node_ports=node_ports, taken=taken, group="test")
            for resource in made:
                kind = NODE_PORT_KINDS[resource.kind]
                kind.write(Context(None, host), resource.target, resource.value, ABSENT)
                assert kind.read(Context(None, host), resource.target) == resource.value
            assert answer(host, 30080) == "node 10.97.0.1"
            assert answer(host, 30500) == "own 127.0.0.1"
            assert answer(host, 30501) == "refused"
            # What a node would do that means ill: lead its own loopback network to the bridge.
            node.run(["ip", "address", "del", "127.0.0.1/8", "dev", "lo"], timeout=60)
            node.run(["ip", "route", "add", "127.0.0.0/8", "via", "10.97.0.1"], timeout=60)
            for link in ("all", "eth0"):
                node.run(["sysctl", "-q", "-w", f"net.ipv4.conf.{link}.route_localnet=1"], timeout=60)
            assert answer(node, 8081) == "silent"
            # Only the table is in the way.
            host.run(["nft", "delete", "chain", "ip", made[0].target, "prerouting"], timeout=60)
            assert answer(node, 8081) == "secret 10.97.0.11"
            for resource in reversed(made):
                NODE_PORT_KINDS[resource.kind].remove(Context(None, host), resource.target, resource.value)
                assert NODE_PORT_KINDS[resource.kind].read(Context(None, host), resource.target) == ABSENT


def test_a_node_of_both_families_is_made_and_read_again_and_nothing_of_it_stays() -> None:
    """With IPv6 off for new links, as some hosts have it."""
    node, link = f"btest{os.getpid()}", f"bt{os.getpid()}"
    value = {"bridge": BRIDGE, "inside": ["fd00::/64", "fd00:1::/56"]}
    parts: list[tuple[str, str, Value]] = [
        ("bridge", BRIDGE, {"address": "10.97.0.1/24,fd00::1/64", "mac": MAC, "up": True}),
        ("masquerade-ipv6", "ballast-btest", value),
        ("published-ports-ipv6", "ballast-btest-p", {"bridge": BRIDGE, "ports": ["tcp 80 [fd00::b]:30080"]}),
        ("netns", node, {"sysctls": NETNS_SYSCTLS, "lo": True}),
        ("netns-ipv6", node, {"sysctls": IPV6_SYSCTLS}),
        (
            "veth",
            f"{link} {node}",
            {
                "bridge": BRIDGE,
                "mac": "02:00:00:00:00:0b",
                "address": "10.97.0.11/24,fd00::b/64",
                "gateway": "10.97.0.1,fd00::1",
            },
        ),
        ("route", "fd00:1:0:1::/64", {"via": "fd00::b"}),
    ]
    with namespace(f"families-{os.getpid()}") as made:
        host = Machine(made.namespace)
        host.run(["sysctl", "-q", "-w", "net.ipv6.conf.default.disable_ipv6=1"], timeout=60)
        ctx = Context(None, host)
        before = [host.run(argv, timeout=60).stdout for argv in SHOWN]
        try:
            for kind, target, wanted in parts:
                NETWORK_KINDS[kind].write(ctx, target, wanted, ABSENT)
                assert NETWORK_KINDS[kind].read(ctx, target) == wanted
            for kind, target, wanted in parts:
                assert NETWORK_KINDS[kind].read(ctx, target) == wanted, "nothing that came later changed it"
            done = host.run(["ip", "netns", "exec", node, sys.executable, "-c", REFUSED], timeout=60, check=False)
            assert done.status == 0, f"at once, as there is no search for duplicates: {done.stderr}"
        finally:
            for kind, target, wanted in reversed(parts):
                NETWORK_KINDS[kind].remove(ctx, target, wanted)
        assert [host.run(argv, timeout=60).stdout for argv in SHOWN] == before
