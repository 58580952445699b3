# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""kube-proxy's names of chains. Source: kube-proxy, iptables/proxier.go."""

from __future__ import annotations

import base64
import hashlib

from ..model import Endpoint, ServicePort
from .objects import Layout

SERVICES = "KUBE-SERVICES"
NODE_PORTS = "KUBE-NODEPORTS"
EXTERNAL_SERVICES = "KUBE-EXTERNAL-SERVICES"
PROXY_FIREWALL = "KUBE-PROXY-FIREWALL"
FORWARD = "KUBE-FORWARD"
POSTROUTING = "KUBE-POSTROUTING"
MARK_MASQ = "KUBE-MARK-MASQ"
KUBELET_FIREWALL = "KUBE-FIREWALL"
_CANARY = "KUBE-PROXY-CANARY"  # kube-proxy's: if it is missing, rules were flushed

_CLUSTER = "KUBE-SVC-"
_LOCAL = "KUBE-SVL-"
_EXTERNAL = "KUBE-EXT-"
_FIREWALL = "KUBE-FW-"
_ENDPOINT = "KUBE-SEP-"
_BALANCER = "KUBE-XLB-"  # before 1.24, in place of _EXTERNAL

# Chains of the userspace mode, which was removed in 1.25. Not KUBE-MARK-DROP, which the kubelet used until 1.27.
_USERSPACE = frozenset(
    [
        ("nat", "KUBE-PORTALS-CONTAINER"),
        ("nat", "KUBE-PORTALS-HOST"),
        ("nat", "KUBE-NODEPORT-CONTAINER"),
        ("nat", "KUBE-NODEPORT-HOST"),
        ("filter", "KUBE-NODEPORT-NON-LOCAL"),
    ]
)
MARK_DROP = "KUBE-MARK-DROP"

# KUBE-FIREWALL, KUBE-IPTABLES-HINT and KUBE-KUBELET-CANARY are the kubelet's.
LAYOUT = Layout(
    chains=_USERSPACE
    | frozenset(
        [("nat", name) for name in (SERVICES, NODE_PORTS, POSTROUTING, MARK_MASQ, _CANARY)]
        + [("filter", name) for name in (SERVICES, EXTERNAL_SERVICES, NODE_PORTS, PROXY_FIREWALL, FORWARD, _CANARY)]
        + [("mangle", _CANARY)]
    ),
    prefixes=tuple(("nat", prefix) for prefix in (_CLUSTER, _LOCAL, _EXTERNAL, _FIREWALL, _ENDPOINT, _BALANCER)),
)
# No recent release writes these, so they are stale in mode iptables too.
FORMER = Layout(chains=_USERSPACE, prefixes=(("nat", _BALANCER),))


def cluster_chain(service: ServicePort) -> str:
    """The chain of the endpoints for traffic policy Cluster."""
    return _CLUSTER + _hash(service)


def local_chain(service: ServicePort) -> str:
    """The chain of the endpoints for traffic policy Local."""
    return _LOCAL + _hash(service)


def external_chain(service: ServicePort) -> str:
    return _EXTERNAL + _hash(service)


def firewall_chain(service: ServicePort) -> str:
    return _FIREWALL + _hash(service)


def endpoint_chain(service: ServicePort, endpoint: Endpoint) -> str:
    return _ENDPOINT + _hash(service, endpoint.text)


def _hash(service: ServicePort, endpoint: str = "") -> str:
    digest = hashlib.sha256((service.title + service.protocol.lower() + endpoint).encode()).digest()
    return base64.b32encode(digest[:10]).decode()  # 16 characters
