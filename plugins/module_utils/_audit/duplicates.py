# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds destinations that two Services claim, and which of the two the rules serve. Pure.

Our rules serve the older Service. kube-proxy's serve either one: that of the first rule in iptables, of the element written
last in nftables, of the last virtual server in ipvs (k/k#69599).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .._rules.frontends import destination_text
from .._rules.model import Duplicate, FamilyView, Frontend, ServicePort
from .._rules.packet import DNAT, Answer, Packet
from .findings import AuditFinding, finding
from .probes import OUTSIDE, Prober


def find_duplicates(view: FamilyView, prober: Prober, trace: Callable[[Packet], Answer]) -> Iterator[AuditFinding]:
    """One finding for each destination and each Service that loses it."""
    if not view.duplicates:
        return
    frontends = {destination_text(frontend.key): frontend for frontend in view.frontends}
    services = {service.title: service for service in view.services}
    for duplicate in view.duplicates:
        winner, loser = duplicate.winner, duplicate.loser
        frontend = frontends.get(duplicate.destination)
        if frontend is not None and _serves_loser(frontend, services, duplicate, prober, trace):
            winner, loser = loser, winner
        yield finding(
            "rules-audit-duplicate",
            family=view.family,
            service=loser,
            destination=duplicate.destination,
            winner=winner,
            loser=loser,
        )


def _serves_loser(
    frontend: Frontend,
    services: dict[str, ServicePort],
    duplicate: Duplicate,
    prober: Prober,
    trace: Callable[[Packet], Answer],
) -> bool:
    """Whether the rules serve the Service that loses the destination in our rules."""
    probe = next((probe for probe in prober.probes(frontend) if probe.title == OUTSIDE), None)
    if probe is None:
        return False
    answer = trace(probe.packet)
    winning, losing = (_endpoints(services[title]) for title in (duplicate.winner, duplicate.loser))
    if answer.verdict == DNAT:
        there = set(answer.endpoints)
        return there <= losing and not there <= winning
    return bool(winning) and not losing


def _endpoints(service: ServicePort) -> set[str]:
    return {endpoint.text for endpoint in service.endpoints}
