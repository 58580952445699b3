# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Assigns each destination to exactly one ServicePort."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Optional

from .model import CLUSTER_IP, EXTERNAL_IP, LOAD_BALANCER, NODE_PORT, Duplicate, Frontend, ServicePort
from .packet import endpoint_text

Key = tuple[str, str, int]  # see Frontend.key


def assign_frontends(
    services: Sequence[ServicePort], created: Callable[[ServicePort], float]
) -> tuple[tuple[Frontend, ...], tuple[Duplicate, ...]]:
    """All destinations of `services`, sorted by kind, address, protocol and port; and those that several Services claim.

    A destination belongs to the oldest Service; of equal age, to the first by namespace and name. An address that occurs
    twice in a Service counts once: as a cluster IP, else as a load balancer IP, so that loadBalancerSourceRanges apply, else
    as an external IP. A health check node port takes up its TCP port on every address that serves node ports.
    """
    by_service: dict[tuple[str, str], list[ServicePort]] = {}
    for service in sorted(services, key=lambda service: (created(service), service.namespace, service.name)):
        by_service.setdefault((service.namespace, service.name), []).append(service)
    owners: dict[Key, ServicePort] = {}
    frontends: list[Frontend] = []
    duplicates: set[Duplicate] = set()
    for ports in by_service.values():
        for key, (service, frontend) in claims_of(ports).items():
            owner = owners.setdefault(key, service)
            if owner is not service:
                duplicates.add(Duplicate(destination_text(key), winner=owner.title, loser=service.title))
            elif frontend is not None:
                frontends.append(frontend)
    frontends.sort(key=attrgetter("kind", "address", "service.protocol", "port"))
    return tuple(frontends), tuple(sorted(duplicates, key=attrgetter("destination", "winner", "loser")))


def claims_of(ports: Iterable[ServicePort]) -> Mapping[Key, tuple[ServicePort, Optional[Frontend]]]:
    """The destinations of one Service, in the order of its ports. If two ports have the same destination, it belongs to the
    first."""
    claims: dict[Key, tuple[ServicePort, Optional[Frontend]]] = {}
    for service in ports:
        for key, frontend in _claims(service):
            claims.setdefault(key, (service, frontend))
    return claims


def _claims(service: ServicePort) -> Iterator[tuple[Key, Optional[Frontend]]]:
    """Each destination once. The frontend is None for a port on which the node itself listens."""
    protocol, port = service.protocol, service.port
    addresses = {
        **dict.fromkeys(service.external_ips, EXTERNAL_IP),
        **dict.fromkeys(service.load_balancer_ips, LOAD_BALANCER),
        service.cluster_ip: CLUSTER_IP,
    }
    for address, kind in addresses.items():
        yield (address, protocol, port), Frontend(kind, address, port, service)
    if service.node_port:
        yield ("", protocol, service.node_port), Frontend(NODE_PORT, "", service.node_port, service)
    if service.health_check_node_port:
        yield ("", "TCP", service.health_check_node_port), None


def destination_text(key: Key) -> str:
    """The destination for people: "10.0.0.1:80/TCP", "node port 30080/TCP"."""
    address, protocol, port = key
    return f"{endpoint_text(address, port)}/{protocol}" if address else f"node port {port}/{protocol}"
