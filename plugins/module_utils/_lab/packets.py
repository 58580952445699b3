# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests whether this host's firewall lets a lab's packets pass, over a bridge with the lab's own name and addresses.

    namespace 1 (a node, a pod) -- bridge -- namespace 2 (a node, a pod)

A pod connects to the other pod through the host (hook forward), a node to the API server's port on the bridge (hook input), and the
host to a kubelet's port (hook output), as an API server does for logs and webhooks. All present policies, rules, sets and chains
decide as they will for the lab, so nothing is guessed. The kernel reports what drops a packet: it traces packets for nftables
(and so for iptables-nft), but not for iptables-legacy.

None of our rules could overrule them (a drop is final, an accept ends only its own chain), and we write none into chains of
others: so the error names the rules to add.
"""

from __future__ import annotations

import ipaddress
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Optional

from .._core.host.host import Host
from .._core.host.names import link_name
from .._core.text.errors import BallastError
from .._core.text.ip_families import is_ipv6
from .messages import MESSAGES

_SECONDS = 30
_CONNECT_SECONDS = 2
_POD_PORT = 8080
_KUBELET_PORT = 10250
FORWARD, INPUT, OUTPUT = _HOOKS = "forward", "input", "output"
_TABLES_OF_IPTABLES = tuple((family, "filter", hook.upper()) for family in ("ip", "ip6") for hook in _HOOKS)
_IPV6_SETTINGS = "/proc/sys/net/ipv6/conf"

# Arguments: seconds, then for each connection a name, the namespaces and addresses of both ends, and a port; "" is the host's
# namespace. Prints the names of failed connections. No program needs to accept: the kernel completes connections to a listener.
_CONNECT = """
import ctypes, os, socket, sys
home, libc = os.open("/proc/self/ns/net", os.O_RDONLY), ctypes.CDLL(None)
def enter(name):
    inside = os.open("/run/netns/" + name, os.O_RDONLY) if name else home
    if libc.setns(inside, 0x40000000):
        sys.exit("cannot enter a network namespace")
seconds, words = float(sys.argv[1]), sys.argv[2:]
for name, source, address, target, to, port in zip(*(words[n::6] for n in range(6))):
    family = socket.AF_INET6 if ":" in to else socket.AF_INET
    enter(target)
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((to, int(port)))
    except OSError:
        continue
    listening.listen()
    enter(source)
    connecting = socket.socket(family)
    connecting.settimeout(seconds)
    connecting.bind((address, 0))
    try:
        connecting.connect((to, int(port)))
    except OSError:
        print(name)
"""
_DROPS = re.compile(
    r"^trace id (?P<id>\w+) (?P<chain>(?:ip6?|inet|bridge) \S+ \S+) "
    r"(?:rule (?P<rule>.*) \(verdict drop\)|.*policy drop(?: meta mark \S+)?)\s*$"
)
# A packet's trace has the interfaces that its hook knows: both when it is forwarded.
_PACKETS = re.compile(r'^trace id (?P<id>\w+) .* packet: (?P<iif>iif "[^"]*")? ?(?P<oif>oif "[^"]*")?')


@dataclass(frozen=True)
class Paths:
    """What a new lab uses of one IP family: its bridge, the bridge's address with prefix length, the pod network, and the port of an API
    server on this host."""

    bridge: str
    gateway: str
    pod_cidr: str
    api_port: Optional[int]

    # The trial uses names of its own, as several labs may come up at once.

    @property
    def table(self) -> str:
        """The nftables table that traces the trial's packets."""
        return f"{self.bridge}-try"

    @property
    def namespaces(self) -> Sequence[str]:
        """The network namespaces of the trial's two nodes."""
        return [f"{self.bridge}-try{number}" for number in (1, 2)]

    @property
    def links(self) -> Sequence[str]:
        """The ends of the two nodes' veth pairs on the bridge."""
        return [link_name(name) for name in self.namespaces]

    @property
    def nodes(self) -> Sequence[str]:
        """The last two addresses of the network, as nodes get the first ones."""
        return [str(ipaddress.ip_interface(self.gateway).network.broadcast_address - n) for n in (1, 2)]

    @property
    def pods(self) -> Sequence[str]:
        """The last two addresses of the pod network, one behind each node."""
        return [str(ipaddress.ip_network(self.pod_cidr).broadcast_address - n) for n in (1, 2)]

    @property
    def address(self) -> str:
        """The bridge's address without its prefix length."""
        return self.gateway.partition("/")[0]

    @property
    def is_ipv6(self) -> bool:
        return is_ipv6(self.gateway)

    @property
    def family(self) -> str:
        """The family in nftables."""
        return "ip6" if self.is_ipv6 else "ip"

    def connections(self, *, forwards: bool) -> list[str]:
        """Arguments of _CONNECT."""
        first, second = self.namespaces
        words = [FORWARD, first, self.pods[0], second, self.pods[1], str(_POD_PORT)] if forwards else []
        if self.api_port is not None:
            words += [INPUT, first, self.nodes[0], "", self.address, str(self.api_port)]
            words += [OUTPUT, "", self.address, first, self.nodes[0], str(_KUBELET_PORT)]
        return words


def find_dropped(host: Host, paths: Paths) -> list[BallastError]:
    """An error for each direction in which packets are dropped. Empty if the bridge exists already: its lab is checked as a whole."""
    if host.run(["ip", "link", "show", "dev", paths.bridge], timeout=_SECONDS, check=False).status == 0:
        return []
    forwarding = _find_forwarding(host, paths)
    connections = paths.connections(forwards=bool(forwarding))
    if not connections:
        return []
    with _network(host, paths, forwarding):
        if not _connect(host, paths, connections, trace=False)[0]:
            return []
        dropped, traced = _connect(host, paths, connections, trace=True)
    if not dropped:  # the machine was only busy
        return []
    drops = _read_drops(traced)
    if not drops:
        where = "the rule is unknown: the kernel cannot trace packets in iptables-legacy"
        return [MESSAGES.error("lab-firewall", what=_describe(dropped), found=where, commands=_legacy(paths, dropped))]
    where = "; ".join(dict.fromkeys(f"{drop.chain}: {drop.rule or 'policy drop'}" for drop in drops))
    # Not by the failed connections: dropping the replies of one direction also fails connections of the other.
    hooks = (
        dropped
        if any(not drop.hook for drop in drops)
        else [hook for hook in _HOOKS if hook in {drop.hook for drop in drops}]
    )
    commands = "; ".join(dict.fromkeys(command for drop in drops for command in _commands(drop, paths, dropped)))
    return [MESSAGES.error("lab-firewall", what=_describe(hooks), found=where, commands=commands)]


@dataclass(frozen=True)
class _Drop:
    chain: str  # family, table, name
    rule: str  # empty for the chain's policy
    hook: str  # one of _HOOKS; empty where the packet's interfaces were not traced


def _read_drops(traced: Sequence[str]) -> list[_Drop]:
    hooks: dict[str, str] = {}
    for match in filter(None, map(_PACKETS.match, traced)):
        hook = FORWARD if match["iif"] and match["oif"] else INPUT if match["iif"] else OUTPUT if match["oif"] else ""
        # The first line is of the trace's own chain, which a packet passes before it is routed.
        hooks[match["id"]] = hook or hooks.get(match["id"], "")
    return [
        _Drop(match["chain"], match["rule"] or "", hooks.get(match["id"], ""))
        for match in filter(None, map(_DROPS.match, traced))
    ]


def _describe(hooks: Sequence[str]) -> str:
    words = {
        FORWARD: "between nodes",
        INPUT: "from nodes to the API server",
        OUTPUT: "from this host to nodes",
    }
    return " and ".join(words[hook] for hook in hooks)


def _commands(drop: _Drop, paths: Paths, dropped: Sequence[str]) -> Iterator[str]:
    """Commands that let a lab's packets pass; firewall programs that keep their own rules have their own commands."""
    family, table, name = drop.chain.split(" ")
    if table == "firewalld":
        yield f"firewall-cmd --zone=trusted --add-interface={paths.bridge}"
    elif name.startswith("ufw-") or (family, table, name) in _TABLES_OF_IPTABLES:
        yield from _legacy(paths, [drop.hook] if drop.hook else dropped, variant="").split("; ")
    else:
        interface = "oifname" if drop.hook == OUTPUT else "iifname"
        yield f"nft insert rule {drop.chain} {interface} {paths.bridge} accept"


def _legacy(paths: Paths, hooks: Sequence[str], *, variant: str = "-legacy") -> str:
    tool = f"{'ip6tables' if paths.is_ipv6 else 'iptables'}{variant}"
    return "; ".join(
        f"{tool} -I {hook.upper()} {'-o' if hook == OUTPUT else '-i'} {paths.bridge} -j ACCEPT" for hook in hooks
    )


@contextmanager
def _network(host: Host, paths: Paths, forwarding: str) -> Iterator[None]:
    """The bridge with two namespaces, which are always removed afterwards."""
    _remove(host, paths)  # leftovers of a killed run
    try:
        for argv in _setup(paths, forwarding):
            host.run(argv, timeout=_SECONDS)
        yield
    finally:
        _remove(host, paths)


def _find_forwarding(host: Host, paths: Paths) -> str:
    """The setting that makes a single link forward; "" if only the whole host could forward, and does not: then it is not tested."""
    if not paths.is_ipv6:
        return "forwarding"
    if host.read(f"{_IPV6_SETTINGS}/default/force_forwarding") is not None:  # Linux 6.17
        return "force_forwarding"
    return "forwarding" if (host.read(f"{_IPV6_SETTINGS}/all/forwarding") or b"").strip() == b"1" else ""


def _setup(paths: Paths, forwarding: str) -> Iterator[list[str]]:
    yield ["ip", "link", "add", paths.bridge, "type", "bridge"]
    settings = [f"net/ipv6/conf/{paths.bridge}/disable_ipv6=0"] if paths.is_ipv6 else []
    # Only for this link: forwarding of the whole host is set by the lab itself.
    if forwarding:
        settings.append(f"net/{'ipv6' if paths.is_ipv6 else 'ipv4'}/conf/{paths.bridge}/{forwarding}=1")
    yield from (["sysctl", "-q", "-w", setting] for setting in settings)
    nodad = ["nodad"] if paths.is_ipv6 else []  # without it an address is unusable for a second
    yield ["ip", "address", "add", paths.gateway, "dev", paths.bridge, *nodad]
    yield ["ip", "link", "set", paths.bridge, "up"]
    length, whole = paths.gateway.partition("/")[2], 128 if paths.is_ipv6 else 32
    for name, link, node, pod in zip(paths.namespaces, paths.links, paths.nodes, paths.pods):
        yield ["ip", "netns", "add", name]
        yield ["ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name]
        yield ["ip", "link", "set", link, "master", paths.bridge, "up"]
        yield ["ip", "-n", name, "address", "add", f"{node}/{length}", "dev", "eth0", *nodad]
        yield ["ip", "-n", name, "link", "set", "eth0", "up"]
        yield ["ip", "-n", name, "link", "set", "lo", "up"]
        yield ["ip", "-n", name, "address", "add", f"{pod}/{whole}", "dev", "lo", *nodad]
        yield ["ip", "-n", name, "route", "add", "default", "via", paths.address]
        yield ["ip", "route", "add", f"{pod}/{whole}", "via", node]


def _remove(host: Host, paths: Paths) -> None:
    for argv in _removal(paths):
        host.run(argv, timeout=_SECONDS, check=False)


def _removal(paths: Paths) -> Iterator[list[str]]:
    yield ["nft", "delete", "table", paths.family, paths.table]
    for name, link in zip(paths.namespaces, paths.links):
        yield ["ip", "link", "delete", link]  # otherwise it would remain for a moment after its namespace
        yield ["ip", "netns", "delete", name]
    yield ["ip", "link", "delete", paths.bridge]


def _connect(host: Host, paths: Paths, connections: Sequence[str], *, trace: bool) -> tuple[list[str], list[str]]:
    """The failed connections and, with `trace`, what the kernel reports of their packets."""
    argv = [sys.executable, "-I", "-c", _CONNECT, str(_CONNECT_SECONDS), *connections]
    if trace:
        host.run(["nft", "-f", "-"], timeout=_SECONDS, stdin=_tracing(paths).encode())
        # Output of _CONNECT comes after that of nft, whose writes may end in the middle of a line.
        argv = [
            "sh",
            "-c",
            'timeout 10 nft monitor trace & sleep 1; failed=$("$@"); wait; printf "\\n%s\\n" "$failed"',
            "sh",
            *argv,
        ]
    lines = host.run(argv, timeout=_SECONDS).stdout.splitlines()
    return [line for line in lines if line in _HOOKS], [line for line in lines if line.startswith("trace id")]


def _tracing(paths: Paths) -> str:
    chains = "".join(
        f'chain {hook} {{ type filter hook {hook} priority -350; {interface} "{paths.bridge}" meta nftrace set 1; }}\n'
        for hook, interface in (("prerouting", "iifname"), ("output", "meta l4proto { tcp, icmpv6 } oifname"))
    )
    return f"table {paths.family} {paths.table} {{\n{chains}}}\n"
