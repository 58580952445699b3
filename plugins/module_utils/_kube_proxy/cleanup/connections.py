# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""UDP connections that conntrack still sends to an endpoint that no longer serves them.

For each destination of the stale rules, the rules in use determine what happens to a new connection:

    it goes to an endpoint      a connection to anything else is stale: to a former endpoint, or to the Service's own address
                                if it was opened without a rule
    it is rejected              no endpoint serves, or no Service has that port of the address: every connection is stale
    no rule has the destination the Service of a former endpoint is gone. A node port may be served on fewer addresses than
                                before, so connections to its endpoints are kept
    it is dropped               connections are kept: a policy drops new ones of this client, while others continue

A stale connection fails for as long as its client keeps sending. TCP and SCTP connections are kept: they end on their own.
Source: _audit/stale_connections.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ..._audit.destinations import Key
from ..._audit.facts import UdpConnection
from ..._audit.stale_connections import as_packet, is_translated
from ..._rules.packet import DNAT, PASS, REJECT, Answer, Packet, Surroundings, endpoint_text
from .artefact import KEPT, REMOVED, Artefact, CleanupPart, Forget, Stage

_ELSEWHERE = "the rules in use send a new connection elsewhere"
_REJECTED = "the rules in use reject a new connection: no endpoint serves it"
_VANISHED = "the rules in use do not handle such a connection: its Service, port or endpoints are gone"


def select_connections(
    connections: Iterable[UdpConnection], former: Collection[Key], surroundings: Surroundings
) -> list[UdpConnection]:
    """The connections to one of the destinations `former`."""
    return [
        flow
        for flow in connections
        if (flow.destination, "UDP", flow.port) in former
        or (("", "UDP", flow.port) in former and surroundings.is_local(flow.destination))
    ]


def left_in_conntrack(
    connections: Iterable[UdpConnection],
    trace: Callable[[Packet], Answer],
    former: Collection[Key],
    surroundings: Surroundings,
    *,
    has_tool: bool,
) -> CleanupPart:
    """`trace` uses the rules in use. `former` are the destinations of the stale rules."""
    artefacts: dict[Artefact, None] = {}
    stale: dict[Forget, None] = {}
    for flow in connections:
        target = endpoint_text(flow.target, flow.target_port)
        shown = f"UDP to {endpoint_text(flow.destination, flow.port)} at {target}"
        answer = trace(as_packet(flow, surroundings))
        if answer.problem is not None:
            unknown = f"the destination under the rules in use is unknown: {answer.problem.text}"
            artefacts[Artefact("connection", shown, KEPT, unknown)] = None
            continue
        why = _why_stale(flow, answer, former)
        if why and has_tool:
            stale[Forget(flow)] = None
            artefacts[Artefact("connection", shown, REMOVED, why)] = None
        elif why:
            artefacts[Artefact("connection", shown, KEPT, f"{why}; but this node lacks conntrack")] = None
    return CleanupPart(tuple(artefacts), (Stage("connections", tuple(stale)),) if stale else ())


def _why_stale(flow: UdpConnection, answer: Answer, former: Collection[Key]) -> str:
    """Why a connection is stale; "" if it is kept."""
    if answer.verdict == DNAT:
        return "" if endpoint_text(flow.target, flow.target_port) in answer.endpoints else _ELSEWHERE
    if answer.verdict == REJECT:
        return _REJECTED
    of_service = (flow.destination, "UDP", flow.port) in former
    return _VANISHED if answer.verdict == PASS and of_service and is_translated(flow) else ""
