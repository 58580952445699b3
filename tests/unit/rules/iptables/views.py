# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Views that say only what a test is about, and one that has a bit of everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._rules.frontends import assign_frontends
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import (
    Endpoint,
    FamilyView,
    LocalDetector,
    NodeView,
    RuleConfig,
    ServicePort,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import Surroundings
from tests.unit.rules.strategies import POOLS, THIS_NODE

SURROUNDINGS = Surroundings(
    tuple(
        (link, tuple(getattr(pool, name) for pool in POOLS.values()))
        for link, name in (("lo", "loopback"), ("cni0", "gateway"), ("eth0", "primary"), ("eth1", "second"))
    )
)


def view(services: Sequence[ServicePort], *, family: int = 4) -> FamilyView:
    pool = POOLS[family]
    owned, duplicates = assign_frontends(services, lambda _service: 0.0)
    node = NodeView(
        name=THIS_NODE,
        zone="a",
        primary=pool.primary,
        addresses=tuple(sorted((pool.gateway, pool.primary, pool.second))),
        pod_cidr=pool.pod_cidr,
    )
    return FamilyView(family, node, tuple(services), owned, duplicates)


def config(*, family: int = 4, **said: Any) -> RuleConfig:
    detector = LocalDetector("cidr", POOLS[family].cluster_cidr)
    return RuleConfig(**{"backend": "iptables", "detector": detector, **said})


def here(address: str, port: int = 8080, **said: Any) -> Endpoint:
    return Endpoint(address, port, **{"node": THIS_NODE, **said})


def there(address: str, port: int = 8080, **said: Any) -> Endpoint:
    return Endpoint(address, port, **{"node": "n2", **said})


def service(name: str, *endpoints: Endpoint, family: int = 4, **said: Any) -> ServicePort:
    """`default/NAME:http`, TCP port 80 on the first cluster IP of the pool."""
    fields: dict[str, Any] = {
        "namespace": "default",
        "name": name,
        "port_name": "http",
        "protocol": "TCP",
        "port": 80,
        "cluster_ip": POOLS[family].cluster_ips[0],
    }
    return ServicePort(**{**fields, **said}, endpoints=tuple(sorted(endpoints)))


def everything(family: int) -> FamilyView:
    """Each kind of rule that the compiler knows, once or twice."""
    pool = POOLS[family]
    one, two, three = pool.local_pods
    far = pool.other_pods[0]
    first, second, third, fourth = pool.cluster_ips
    return view(
        [
            service("dns", here(one, 53), there(far, 53), family=family, protocol="UDP", port=53, port_name="dns"),
            service("empty", family=family, cluster_ip=second, node_port=30081, external_ips=(pool.external_ips[0],)),
            service(
                "guarded",
                here(two),
                there(far),
                family=family,
                cluster_ip=third,
                node_port=30080,
                load_balancer_ips=(pool.load_balancer_ips[0],),
                source_ranges=pool.source_ranges[1:3],
                external_local=True,
                health_check_node_port=31001,
            ),
            service(
                "remote",
                there(far),
                family=family,
                port_name="",
                protocol="SCTP",
                cluster_ip=fourth,
                external_ips=(pool.external_ips[1],),
                internal_local=True,
                external_local=True,
            ),
            service(
                "sticky",
                here(one),
                here(two),
                here(three),
                family=family,
                cluster_ip=fourth,
                external_ips=(pool.external_ips[1],),
                affinity_seconds=10800,
            ),
        ],
        family=family,
    )
