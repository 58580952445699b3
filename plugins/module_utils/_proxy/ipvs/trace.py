# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A packet past ipsets, iptables rules and ip_vs, as the kernel would take it.

    arriving    raw mangle nat PREROUTING
                 ├─ for another machine: mangle filter security FORWARD, mangle nat POSTROUTING
                 └─ for an address of the node or of kube-ipvs0: mangle filter security INPUT, then ip_vs (priority 99)
                     ├─ no virtual server: nat INPUT, the node has it
                     ├─ real server on the node: nat INPUT, the node has it
                     └─ else: raw mangle filter security OUTPUT, mangle nat POSTROUTING. FORWARD does not see it
    node-local  raw mangle nat OUTPUT, then ip_vs (priority -98), whoever has the address
                 ├─ real server elsewhere: raw mangle OUTPUT once more, filter security OUTPUT, POSTROUTING
                 └─ else: filter security OUTPUT, POSTROUTING; back over the loopback link where it is for the node

The nat table is settled at the first of its hooks: what ip_vs sends does not pass nat OUTPUT again. A virtual server
without a real server that takes connections answers with an ICMP message (ip_vs_leave). Source: kernel, ip_vs_core.c
(ip_vs_ops4), ip_vs_xmit.c (ip_vs_nat_xmit), xt_ipvs.c.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Optional, Union

from ..iptables.objects import IpvsService, MatchSet
from ..iptables.trace import ARRIVE, LEAVE, LOOPED, SEND, THROUGH, TO_NODE, State, Walk
from ..packet import REJECT, Answer, Packet, Surroundings
from .messages import MESSAGES
from .objects import MASQUERADE, SET_TYPES, IpSet, IpvsRules, VirtualServer, set_name

# Any of these may pick any real server of weight above 0; by the source (sh, mh) or the destination (dh) where it hashes.
SCHEDULERS = ("rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed", "nq", "mh", "twos")

_BEFORE_IP_VS, _NAT_INPUT = TO_NODE[:3], TO_NODE[3:]
_SENT, _FILTERED = SEND[:3], SEND[3:]
_SENT_AGAIN = (*SEND[:2], *_FILTERED)
_FTP_PORT = 21


def trace(rules: IpvsRules, packet: Packet, surroundings: Surroundings) -> Answer:
    """Raises rules-ipvs-unknown where the packet comes to what is not known here, and what the walk past iptables raises
    (iptables/trace.py)."""
    return _Way(rules, packet, _WithLink(surroundings.interfaces, rules.bound)).answer()


@dataclass(frozen=True)
class _WithLink(Surroundings):
    """The addresses of kube-ipvs0 are the node's own as well."""

    bound: frozenset[str] = frozenset()

    def is_local(self, address: str) -> bool:
        return address in self.bound or super().is_local(address)


class _Way:
    def __init__(self, rules: IpvsRules, packet: Packet, surroundings: Surroundings) -> None:
        self._rules = rules
        self._packet = packet
        self._is_local: Callable[[str], bool] = surroundings.is_local
        self._walk = Walk(rules.tables, packet, surroundings, decide=self._holds)
        # The same rules for a source that is in no set: what they masquerade, they do not because of a hairpin.
        self._other_source = Walk(rules.tables, packet, surroundings, decide=self._holds_for_another)

    def answer(self) -> Answer:
        start = State(self._packet.destination, self._packet.port)
        return self._walk.answer(self._sent(start) if self._packet.node_local else self._arrived(start))

    def _arrived(self, start: State) -> list[State]:
        passed: list[State] = []
        for one in self._walk.through(ARRIVE, [start]):
            if not self._is_local(one.destination):
                passed += self._left(self._walk.through(THROUGH, [one]))
                continue
            for here in self._walk.through(_BEFORE_IP_VS, [one]):
                for after in self._scheduled(here):
                    if self._is_local(after.destination):
                        passed += self._walk.through(_NAT_INPUT, [after])
                    else:
                        passed += self._left(self._walk.through(_SENT_AGAIN, [after]))
        return passed

    def _sent(self, start: State) -> list[State]:
        passed: list[State] = []
        for one in self._walk.through(_SENT, [start]):
            for after in self._scheduled(one):
                anew = after.rewritten and not self._is_local(after.destination)
                left = self._left(self._walk.through(_SENT_AGAIN if anew else _FILTERED, [after]))
                passed += [here for here in left if not self._is_local(here.destination)]
                back = [replace(here, looped=True) for here in left if self._is_local(here.destination)]
                passed += self._walk.through(LOOPED, back)
        return passed

    def _left(self, states: Iterable[State]) -> list[State]:
        """POSTROUTING; a state that only the set of hairpins has masqueraded says so."""
        passed: list[State] = []
        for one in states:
            for after in self._walk.through(LEAVE, [one]):
                only_itself = after.masqueraded and after.destination == self._packet.source
                if only_itself:
                    only_itself = not any(other.masqueraded for other in self._other_source.through(LEAVE, [one]))
                passed.append(replace(after, own_mark=True) if only_itself else after)
        return passed

    # ip_vs

    def _scheduled(self, state: State) -> Sequence[State]:
        """The state as each of the real servers gets it that may be drawn; as it is where no virtual server has it."""
        server = self._virtual_server(state)
        if server is None:
            return [state]
        if server.scheduler not in SCHEDULERS:
            raise _unknown(f"a virtual server with the scheduler {server.scheduler}")
        found = [one for one in server.real_servers if one.weight > 0]
        if not found:
            self._walk.end(REJECT, [state], f"ip_vs: {server.text} has no real server")
            return []
        for one in found:
            if one.method != MASQUERADE:
                raise _unknown(f"a real server of {server.text} by the method {one.method}")
        line = f"ip_vs: {server.text} scheduler {server.scheduler}"
        return [
            replace(
                state,
                destination=one.address,
                port=one.port,
                rewritten=True,
                affinity_seconds=server.persistent_seconds,
                why=(*state.why, line),
            )
            for one in found
        ]

    def _virtual_server(self, state: State) -> Optional[VirtualServer]:
        """By its mark, else by address, protocol and port; what ip_vs would try next, kube-proxy does not make."""
        by_key, protocol = self._rules.server_by_key, self._packet.protocol
        if state.mark and (state.mark, "", "", 0) in by_key:
            raise _unknown(f"the virtual server of mark {state.mark}")
        found = by_key.get((0, state.destination, protocol, state.port))
        if found is not None:
            return found
        if (0, state.destination, protocol, 0) in by_key:
            raise _unknown(f"a virtual server of all ports of {state.destination}")
        ftp = by_key.get((0, state.destination, "TCP", _FTP_PORT)) if protocol == "TCP" and state.port >= 1024 else None
        if ftp is not None and ftp.persistent_seconds:
            raise _unknown(f"a persistent virtual server of FTP on {state.destination}")
        return None

    # Matches that the walk past iptables leaves to us

    def _holds(self, match: Union[MatchSet, IpvsService], state: State) -> bool:
        if isinstance(match, MatchSet):
            return self._is_in(match, state)
        # The connection's own virtual server, not what the packet has become.
        return (
            state.rewritten
            and ipaddress.ip_address(self._packet.destination) in ipaddress.ip_network(match.network)
            and (self._packet.protocol.lower(), self._packet.port) == (match.protocol, match.port)
        )

    def _holds_for_another(self, match: Union[MatchSet, IpvsService], state: State) -> bool:
        return not (isinstance(match, MatchSet) and "src" in match.sides) and self._holds(match, state)

    def _is_in(self, match: MatchSet, state: State) -> bool:
        held = self._rules.set_by_name.get(match.name)
        if held is None:
            raise _unknown(f"the ipset {match.name}, which is not there")
        if match.name not in _NAMES or held.type != SET_TYPES[_NAMES[match.name]]:
            raise _unknown(f"the ipset {match.name} of type {held.type}")
        parts = held.type.partition(":")[2].split(",")
        if len(match.sides) != len(parts):
            raise _unknown(f"the ipset {match.name}, asked for {','.join(match.sides)}")
        return self._has(held, parts, match.sides, state)

    def _has(self, held: IpSet, parts: Sequence[str], sides: Sequence[str], state: State) -> bool:
        addresses = {"src": self._packet.source, "dst": state.destination}
        if "src" in [side for part, side in zip(parts, sides) if part == "port"]:
            raise _unknown(f"the ipset {held.name}, asked for the source's port")
        if held.type == "bitmap:port":  # ip_set_get_ip_port knows no other protocol
            return self._packet.protocol in ("TCP", "UDP") and str(state.port) in held.elements
        if held.type == "hash:ip":
            return addresses[sides[0]] in held.elements
        key = f"{addresses[sides[0]]},{self._packet.protocol.lower()}:{state.port}"
        if held.type == "hash:ip,port":
            return key in held.elements
        if held.type == "hash:ip,port,ip":
            return f"{key},{addresses[sides[2]]}" in held.elements
        last = ipaddress.ip_address(addresses[sides[2]])
        return any(last in network for network in held.networks.get(key, ()))


_NAMES = {set_name(name, family): name for name in SET_TYPES for family in (4, 6)}


def _unknown(what: str) -> Exception:
    return MESSAGES.error("rules-ipvs-unknown", what=what)
