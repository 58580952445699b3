# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which endpoints a packet may reach: one pure function, the same for every backend."""

from __future__ import annotations

from typing import NamedTuple

from .model import Endpoint, ServicePort

Endpoints = tuple[Endpoint, ...]


class Reachable(NamedTuple):
    """Endpoints by the policy that a packet is under. Both are empty where that policy is not in use.

    `has_any` says whether an endpoint serves on any node: a packet without an endpoint under its policy is dropped where
    there is one (another node may have it), and rejected where there is none.
    """

    cluster: Endpoints = ()
    local: Endpoints = ()
    has_any: bool = False


def reachable(service: ServicePort, *, node: str, zone: str) -> Reachable:
    """Sort the endpoints of `service`, as the node `node` in `zone` ("": not known) has to.

    Cluster: the ready ones that topology prefers; where none is ready, all that still serve while they terminate, of any
    zone. Local: the ready ones of this node, else those of it that still serve; topology has no say in it, and there is no
    fallback to other nodes. Source: Kubernetes, "Virtual IPs and Service Proxies"; reference of kube-proxy 1.2.
    """
    uses_cluster = not service.internal_local or service.externally_accessible
    uses_local = service.internal_local or (service.external_local and service.externally_accessible)
    ready = tuple([one for one in service.endpoints if one.ready])
    fallback = tuple([one for one in service.endpoints if not one.ready and one.serving and one.terminating])
    cluster = _preferred(ready, node=node, zone=zone) or fallback if uses_cluster else ()
    local = _on(node, ready) or _on(node, fallback) if uses_local else ()
    return Reachable(cluster, local, bool(ready or fallback))


def _on(node: str, endpoints: Endpoints) -> Endpoints:
    return tuple([one for one in endpoints if one.node == node])


def _preferred(ready: Endpoints, *, node: str, zone: str) -> Endpoints:
    """Those hinted for this node, else those hinted for this zone, else all. Hints count only if every ready endpoint has
    one: they are written all at once, and some without are from before or amid a change."""
    if all(one.node_hints for one in ready):
        hinted = tuple([one for one in ready if node in one.node_hints])
        if hinted:
            return hinted
    if zone and all(one.zone_hints for one in ready):
        hinted = tuple([one for one in ready if zone in one.zone_hints])
        if hinted:
            return hinted
    return ready
