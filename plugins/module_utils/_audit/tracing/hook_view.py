# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A packet as seen by the chains of one hook. Source: nf_conntrack_core.c (nf_conntrack_in), nft_ct.c, xt_conntrack.c."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional

from ..._rules.addresses import as_address
from ..._rules.packet import Packet, Surroundings
from .bridges import Network
from .packet_state import NotKnown, State

CONNTRACK_PRIORITY = -200  # NF_IP_PRI_CONNTRACK: earlier chains of prerouting and output see no connection
LOOPBACK_LINK = "lo"


@dataclass(frozen=True)
class HookView:
    packet: Packet
    surroundings: Surroundings
    hook: str  # "prerouting", "input", "forward", "output", "postrouting"
    priority: int
    # Pretend that the packet has another source: what is masqueraded only because of its own source then is not.
    other_source: bool = False
    bridges: Mapping[str, tuple[Network, ...]] = field(default_factory=dict)  # see bridges.py

    def has_connection(self, state: State) -> bool:
        """Whether conntrack has seen the packet and tracks it."""
        seen = state.looped or state.scheduled or self.hook not in ("prerouting", "output")
        return not state.untracked and (seen or self.priority >= CONNTRACK_PRIORITY)

    def connection_state(self, state: State) -> str:
        """As `ct state` shows it: "new", "untracked", or "invalid" for a packet that conntrack has not seen yet."""
        if self.has_connection(state):
            return "new"
        return "untracked" if state.untracked else "invalid"

    def link_in(self, state: State) -> Optional[str]:
        """The link by which the packet came: the given one, else that by which its source is reached. "" for a packet of
        the node itself, which has none; None if no route leads to the source."""
        if self.packet.node_local:
            return LOOPBACK_LINK if state.looped else ""
        return self.packet.inbound_interface or self.surroundings.link_to(self.packet.source)

    def link_out(self, state: State) -> Optional[str]:
        """The outgoing link; "" in hooks before routing, None if it is unknown."""
        if self.hook in ("prerouting", "input"):
            return ""
        is_loopback = self.packet.node_local and self.surroundings.is_local(state.destination)
        return LOOPBACK_LINK if is_loopback else self.surroundings.link_to(state.destination)

    def arrives_by(self, name: str, state: State, *, rest: str) -> Optional[bool]:
        """Whether the packet came by the link `name`, whose end may be `rest` for any rest; None where it is not known."""
        link = self.link_in(state)
        if link is None and self.packet.not_from and name.startswith(self.packet.not_from):
            return False
        return self._is_link(name, link, self.packet.source, rest=rest)

    def leaves_by(self, name: str, state: State, *, rest: str) -> Optional[bool]:
        """The same of the link by which it leaves."""
        return self._is_link(name, self.link_out(state), state.destination, rest=rest)

    def _is_link(self, name: str, link: Optional[str], address: str, *, rest: str) -> Optional[bool]:
        """`link`: that to `address`."""
        if link is not None:
            return link.startswith(name[:-1]) if name.endswith(rest) else link == name
        networks = self.bridges.get(name, ())
        is_elsewhere = bool(networks) and not any(as_address(address) in network for network in networks)
        return False if name == LOOPBACK_LINK or is_elsewhere else None

    def address_type(self, address: str, state: State, *, on_link: bool = False) -> str:
        """The routing table's type of an address; with `on_link`, considering only the incoming link. Raises NotKnown."""
        if self.surroundings.is_local(address):
            if not on_link:
                return "local"
            links = dict(self.surroundings.interfaces)
            link = self.link_in(state)
            if link not in links:
                raise NotKnown(f"the inbound interface, with {address}")
            return "local" if address in links[link] else "unicast"
        if address == "255.255.255.255":
            return "broadcast"
        return "multicast" if as_address(address).is_multicast else "unicast"

    def redirect_address(self, state: State) -> str:
        """Where `redirect` sends a packet: the first address of its incoming link. Raises NotKnown."""
        family = self.packet.family
        if self.packet.node_local:
            return "127.0.0.1" if family == 4 else "::1"
        links = dict(self.surroundings.interfaces)
        name = self.link_in(state)
        for link in [name] if name in links else links:
            for address in links[link]:
                parsed = as_address(address)
                if parsed.version == family and not parsed.is_loopback:
                    return address
        raise NotKnown("redirect, as the node's addresses are unknown")
