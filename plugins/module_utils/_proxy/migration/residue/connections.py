# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""UDP connections that conntrack holds at what no longer serves them.

Of the destinations that the rules left over had, the rules in use say where a new connection would go. One that is held
elsewhere (at an endpoint that left, or at the Service's own address, since it was opened while no rule was there) leads
nowhere, and would as long as its client goes on sending. Where the rules in use know no endpoint, connections stay, as do those of
TCP and SCTP, which end by themselves. Source: reference of kube-proxy 1.6.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Iterable

from ...._core.errors import BallastError
from ...auditing.destinations import Key
from ...auditing.facts import UdpConnection
from ...backends import Tracer
from ...packet import DNAT, Packet, Surroundings, endpoint_text
from .artefact import KEPT, REMOVED, Artefact, Forget, Found, Stage

_WHY = "the rules in use send a new connection elsewhere"


def of_services(
    connections: Iterable[UdpConnection], former: Collection[Key], surroundings: Surroundings
) -> list[UdpConnection]:
    """Those to one of the destinations `former`."""
    return [
        one
        for one in connections
        if (one.destination, "UDP", one.port) in former
        or (("", "UDP", one.port) in former and surroundings.is_local(one.destination))
    ]


def left_in_conntrack(
    connections: Iterable[UdpConnection],
    tracer: Callable[[int], Tracer],
    surroundings: Surroundings,
    *,
    has_tool: bool,
) -> Found:
    """`tracer`: of the rules in use, by family."""
    artefacts: dict[Artefact, None] = {}
    stale: dict[Forget, None] = {}
    for one in connections:
        shown = f"UDP to {endpoint_text(one.destination, one.port)} at {one.target}"
        try:
            leads_on = _leads_on(one, tracer, surroundings)
        except BallastError as error:
            artefacts[
                Artefact("connection", shown, KEPT, f"where the rules in use lead is not known: {error.text}")
            ] = None
            continue
        if leads_on:
            continue
        if has_tool:
            stale[Forget(one.destination, one.port, one.target)] = None
            artefacts[Artefact("connection", shown, REMOVED, _WHY)] = None
        else:
            artefacts[Artefact("connection", shown, KEPT, f"{_WHY}, but conntrack is not on this machine")] = None
    return Found(tuple(artefacts), (Stage("connections", tuple(stale)),) if stale else ())


def _leads_on(one: UdpConnection, tracer: Callable[[int], Tracer], surroundings: Surroundings) -> bool:
    packet = Packet(one.source, one.destination, one.port, "UDP", node_local=surroundings.is_local(one.source))
    answer = tracer(packet.family)(packet)
    if answer.verdict != DNAT:
        return True
    return one.target in {str(ipaddress.ip_address(_host(text))) for text in answer.endpoints}


def _host(endpoint: str) -> str:
    return endpoint.rpartition(":")[0].strip("[]")


def forget_command(one: Forget) -> list[str]:
    family = "ipv6" if ":" in one.destination else "ipv4"
    words = ["conntrack", "-D", "-f", family, "-p", "udp", "--orig-dst", one.destination]
    return [*words, "--orig-port-dst", str(one.port), "--reply-src", one.endpoint]
