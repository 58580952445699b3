# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One Service on a node, with as much of it as a test names."""

from __future__ import annotations

from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._proxy.model import (
    CLUSTER_IP,
    EXTERNAL_IP,
    LOAD_BALANCER,
    NODE_PORT,
    Endpoint,
    FamilyView,
    Frontend,
    NodeView,
    ServicePort,
)

NODE = "n1"
NODE_ADDRESSES = ("192.168.1.10", "fd00:192::10")
ADDRESSES = {
    4: ("10.96.0.1", "192.168.1.10", ("10.1.0.5", "10.1.1.5")),
    6: ("fd00:96::1", "fd00:192::10", ("fd00:1::5",)),
}
LOCAL_POD = ("10.1.0.5", "fd00:1::5")


def view(*, family: int = 4, endpoints: Any = None, **fields: Any) -> FamilyView:
    """Service default/web, TCP port 80 to 8080; `endpoints` are addresses, those of LOCAL_POD on this node."""
    cluster_ip, primary, pods = ADDRESSES[family]
    values = {"cluster_ip": cluster_ip, "protocol": "TCP", "port": 80, **fields}
    service = ServicePort(
        namespace="default",
        name="web",
        port_name="",
        endpoints=tuple(
            Endpoint(address, 8080, node=NODE if address in LOCAL_POD else "n2")
            for address in (pods if endpoints is None else endpoints)
        ),
        **values,
    )
    frontends = [Frontend(CLUSTER_IP, service.cluster_ip, service.port, service)]
    frontends += [Frontend(EXTERNAL_IP, one, service.port, service) for one in service.external_ips]
    frontends += [Frontend(LOAD_BALANCER, one, service.port, service) for one in service.load_balancer_ips]
    if service.node_port:
        frontends.append(Frontend(NODE_PORT, "", service.node_port, service))
    node = NodeView(name=NODE, primary=primary, addresses=(primary,))
    return FamilyView(family=family, node=node, services=(service,), frontends=tuple(frontends))
