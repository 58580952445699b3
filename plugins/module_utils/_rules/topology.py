# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which endpoints a packet may reach: one pure function for all backends."""

from __future__ import annotations

from typing import NamedTuple

from .model import Endpoint, ServicePort

Endpoints = tuple[Endpoint, ...]


class Reachable(NamedTuple):
    """The endpoints for each traffic policy; empty if that policy is not in use.

    `has_any` says whether an endpoint serves on any node. If so, a packet without an endpoint for its policy is dropped,
    since another node may have one; otherwise it is rejected.
    """

    cluster: Endpoints = ()
    local: Endpoints = ()
    has_any: bool = False


def reachable(service: ServicePort, *, node: str, zone: str) -> Reachable:
    """Select the endpoints of `service` for node `node` in `zone` ("" if unknown).

    Cluster: the ready endpoints that topology prefers; if none is ready, all that are terminating but still serve, in any
    zone. Local: the ready endpoints of this node, else its terminating ones that still serve; topology does not matter, and
    there is no fallback to other nodes. Source: Kubernetes, "Virtual IPs and Service Proxies"; kube-proxy, topology.go.
    """
    uses_cluster = not service.internal_local or service.externally_accessible
    uses_local = service.internal_local or (service.external_local and service.externally_accessible)
    ready = tuple([endpoint for endpoint in service.endpoints if endpoint.ready])
    fallback = tuple(
        [endpoint for endpoint in service.endpoints if not endpoint.ready and endpoint.serving and endpoint.terminating]
    )
    cluster = _prefer_hinted(ready, node=node, zone=zone) or fallback if uses_cluster else ()
    local = _on_node(node, ready) or _on_node(node, fallback) if uses_local else ()
    return Reachable(cluster, local, bool(ready or fallback))


def _on_node(node: str, endpoints: Endpoints) -> Endpoints:
    return tuple([endpoint for endpoint in endpoints if endpoint.node == node])


def _prefer_hinted(ready: Endpoints, *, node: str, zone: str) -> Endpoints:
    """The endpoints hinted for this node, else those hinted for this zone, else all. Hints are used only if every ready
    endpoint has one: they are written together, so a missing hint means that a change is in progress."""
    if all(endpoint.node_hints for endpoint in ready):
        hinted = tuple([endpoint for endpoint in ready if node in endpoint.node_hints])
        if hinted:
            return hinted
    if zone and all(endpoint.zone_hints for endpoint in ready):
        hinted = tuple([endpoint for endpoint in ready if zone in endpoint.zone_hints])
        if hinted:
            return hinted
    return ready
