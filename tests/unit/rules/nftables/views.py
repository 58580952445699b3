# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small clusters to compile."""

from __future__ import annotations

from ansible_collections.ballast.kube.plugins.module_utils._rules.frontends import assign_frontends
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import (
    Endpoint,
    FamilyView,
    LocalDetector,
    NodeView,
    RuleConfig,
    ServicePort,
)

CONFIG = RuleConfig("nftables", detector=LocalDetector("cidr", "10.1.0.0/16"))
NODE = NodeView("n1", primary="192.168.1.10", addresses=("192.168.1.10", "10.50.0.10"))


def service(name: str, cluster_ip: str, *, endpoints: int = 2, **fields: object) -> ServicePort:
    """`default/NAME`, TCP 80, with as many endpoints: 10.1.0.1 on this node, the others, 10.1.0.2 and on, on n2."""
    found = tuple(Endpoint(f"10.1.0.{n}", 8080, node="n1" if n == 1 else "n2") for n in range(1, endpoints + 1))
    given: dict[str, object] = {"port_name": "", "protocol": "TCP", "port": 80, "endpoints": found, **fields}
    return ServicePort("default", name, cluster_ip=cluster_ip, **given)  # type: ignore[arg-type]


def view(*services: ServicePort, node: NodeView = NODE, service_cidrs: tuple[str, ...] = ()) -> FamilyView:
    ordered = tuple(sorted(services, key=lambda one: (one.namespace, one.name, one.protocol, one.port_name)))
    found, duplicates = assign_frontends(ordered, lambda _service: 0)
    return FamilyView(4, node, ordered, found, duplicates, service_cidrs)
