# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Evaluates virtual servers as the kernel does.

ip_vs inspects packets to the node in INPUT at priority 99, and packets from the node in OUTPUT at -98. Addresses on
kube-ipvs0 are the node's own.

    no virtual server           the packet continues
    real server on the node     the packet continues, translated
    real server elsewhere       ip_vs takes the packet and sends it through all of OUTPUT and POSTROUTING, skipping FORWARD
                                and chains that translate destinations
    no usable real server       an ICMP error is returned (ip_vs_leave)
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Optional

from ..._rules.addresses import as_address
from ..._rules.iptables.objects import IpvsService
from ..._rules.ipvs.objects import MASQUERADE, IpvsRules, VirtualServer
from ..._rules.packet import Packet, Surroundings
from .hook_view import HookView
from .packet_state import NotKnown, State, with_changes

# Each of these may choose any real server with a weight above 0; some hash the source (sh, mh) or destination (dh).
SCHEDULERS = ("rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed", "nq", "mh", "twos")

_FTP_PORT = 21


@dataclass(frozen=True)
class WithLink(Surroundings):
    """The node's surroundings plus the addresses of kube-ipvs0."""

    bound: frozenset[str] = frozenset()

    def is_local(self, address: str) -> bool:
        return address in self.bound or super().is_local(address)


class Ipvs:
    """Methods raise NotKnown for a construct that cannot be evaluated here."""

    def __init__(self, rules: IpvsRules) -> None:
        self._rules = rules

    def server(self, packet: Packet, state: State) -> Optional[VirtualServer]:
        """The virtual server of the packet by mark, else by address, protocol and port. ip_vs then tries other kinds, which
        kube-proxy never creates: NotKnown if one could match."""
        by_key, protocol = self._rules.server_by_key, packet.protocol
        if state.mark and (state.mark, "", "", 0) in by_key:
            raise NotKnown(f"the virtual server of mark {state.mark}")
        server = by_key.get((0, state.destination, protocol, state.port))
        if server is not None:
            return server
        if (0, state.destination, protocol, 0) in by_key:
            raise NotKnown(f"a virtual server of all ports of {state.destination}")
        ftp = by_key.get((0, state.destination, "TCP", _FTP_PORT)) if protocol == "TCP" and state.port >= 1024 else None
        if ftp is not None and ftp.persistent_seconds:
            raise NotKnown(f"a persistent virtual server of FTP on {state.destination}")
        return None

    def schedule(self, server: VirtualServer, state: State) -> list[State]:
        """A state for each real server that ip_vs may choose; empty if no real server accepts connections."""
        if server.scheduler not in SCHEDULERS:
            raise NotKnown(f"a virtual server with the scheduler {server.scheduler}")
        real_servers = [real_server for real_server in server.real_servers if real_server.weight > 0]
        for real_server in real_servers:
            if real_server.method != MASQUERADE:
                raise NotKnown(f"a real server of {server.text} by the method {real_server.method}")
        line = f"ip_vs: {server.text} scheduler {server.scheduler}"
        return [
            with_changes(
                state,
                destination=real_server.address,
                port=real_server.port,
                translated=True,
                affinity_seconds=server.persistent_seconds,
                why=(*state.why, line),
            )
            for real_server in real_servers
        ]

    # Matches of iptables rules

    def is_served(self, match: IpvsService, view: HookView, state: State) -> bool:
        """Whether the packet's connection belongs to this virtual server: the match is about the original destination."""
        packet = view.packet
        return (
            state.translated
            and as_address(packet.destination) in ipaddress.ip_network(match.network)
            and (packet.protocol.lower(), packet.port) == (match.protocol, match.port)
        )
