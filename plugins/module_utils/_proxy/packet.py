# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A packet that opens a connection, and what becomes of it. Every tracer takes the one and answers the other."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

PROTOCOLS = ("TCP", "UDP", "SCTP")

DNAT = "dnat"
REJECT = "reject"
DROP = "drop"
PASS = "pass"  # goes on as it is: no Service rule has a say in it


@dataclass(frozen=True)
class Packet:
    """The first packet of a connection (conntrack state new), as it reaches a node.

    `source` and `destination` are addresses of one family in their shortest form. `inbound_interface` is "" where it does
    not matter. With `node_local` a process in the node's own network namespace sends it.
    """

    source: str
    destination: str
    port: int
    protocol: str  # one of PROTOCOLS
    inbound_interface: str = ""
    node_local: bool = False

    @property
    def family(self) -> int:
        return ipaddress.ip_address(self.destination).version


@dataclass(frozen=True)
class Answer:
    """What becomes of a packet. Where the kernel draws lots, `endpoints` has everything that may be drawn.

    `masquerade` says whether the node puts its own address in the place of the source, whichever endpoint is drawn of those
    that the packet leaves the node for (one that ends on the node itself keeps its source); `hairpin` has the endpoints for
    which it does so only because the packet comes from that endpoint itself.
    """

    verdict: str  # DNAT, REJECT, DROP or PASS
    endpoints: tuple[str, ...] = ()  # sorted, "10.1.0.5:8080" or "[fd00::5]:8080"
    masquerade: bool = False
    hairpin: tuple[str, ...] = ()
    affinity_seconds: int = 0  # 0: each connection is drawn anew
    why: tuple[str, ...] = field(default=(), compare=False)  # the rules that had a say, in order


@dataclass(frozen=True)
class Surroundings:
    """What rules ask of a node besides the packet: which addresses are its own, and on which link they are."""

    interfaces: tuple[tuple[str, tuple[str, ...]], ...] = ()  # name and addresses of both families

    def is_local(self, address: str) -> bool:
        """Whether the kernel's routing table says `local` of it (fib, addrtype)."""
        parsed = ipaddress.ip_address(address)
        return parsed.is_loopback or any(address in addresses for _name, addresses in self.interfaces)


def endpoint_text(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
