# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster that changes at random, the same for the same seed: Services of every kind, endpoints in every condition.

No two Services claim a destination: whose it is then, kube-proxy does not say.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

from tests.unit.rules.strategies import TARGET_PORTS
from tests.unit.service_proxy.objects import NODE_NAME, cidr_object, metadata

OTHER_NODE = "n2"
ADDRESSES = ("192.168.1.10", "10.50.0.10", "fd00:192::10", "fd00:50::10")  # of the node
CLUSTER_CIDR, POD_CIDRS = "10.1.0.0/16,fd00:1::/48", ("10.1.0.0/24", "fd00:1::/64")
SERVICE_CIDRS = ("10.96.0.0/24", "fd00:96::/112")
LOCAL_PODS = {"IPv4": ("10.1.0.5", "10.1.0.6", "192.168.1.10"), "IPv6": ("fd00:1::5", "fd00:1::6", "fd00:192::10")}
OTHER_PODS = {"IPv4": ("10.1.1.5", "10.1.1.6"), "IPv6": ("fd00:1:0:1::5", "fd00:1:0:1::6")}
IDLE_POD = {"IPv4": "10.1.0.99", "IPv6": "fd00:1::99"}
CLIENTS = {"IPv4": ("172.16.5.5", "172.17.0.5"), "IPv6": ("2001:db8:16::5", "2001:db8:17::5")}
ELSEWHERE = {"IPv4": "203.0.113.200", "IPv6": "2001:db8:2::99"}
_SERVICES = 8
_RANGES = ("172.16.0.0/16", "172.16.5.0/24", "192.168.1.0/24", "10.1.0.0/16", "2001:db8:16::/48", "fd00:1::/48")
_PORTS = (("http", 80, "TCP"), ("dns", 53, "UDP"), ("tls", 443, "TCP"), ("sctp", 80, "SCTP"))
TARGETS = {"http": TARGET_PORTS[0], "dns": TARGET_PORTS[1], "tls": TARGET_PORTS[1], "sctp": TARGET_PORTS[0]}
_CONDITIONS = (  # ready, serving, terminating; mostly ready
    *[(True, True, False)] * 4,
    (False, False, False),
    (False, True, True),
    (False, False, True),
)
_CONFIGURATIONS: tuple[dict[str, Any], ...] = (
    {"clusterCIDR": CLUSTER_CIDR},
    {"clusterCIDR": CLUSTER_CIDR, "nodePortAddresses": ["192.168.1.0/24", "10.50.0.0/16", "fd00:50::/64"]},
    {"clusterCIDR": CLUSTER_CIDR, "nftables": {"masqueradeAll": True}},
    {"clusterCIDR": CLUSTER_CIDR, "nodePortAddresses": ["0.0.0.0/0", "::/0"]},
    {"detectLocalMode": "NodeCIDR"},
    {},
)
Item = dict[str, Any]


class Deed(NamedTuple):
    kind: str
    name: str
    item: Optional[Item]  # None: it is removed


def configuration(seed: int) -> Item:
    """Keys of a KubeProxyConfiguration."""
    return _CONFIGURATIONS[seed % len(_CONFIGURATIONS)]


class ChangingCluster:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def begin(self) -> list[Deed]:
        """What there is before anything changes."""
        return [
            Deed("Node", NODE_NAME, self._node()),
            Deed("ServiceCIDR", "kubernetes", cidr_object("kubernetes", *SERVICE_CIDRS)),
        ]

    def change(self) -> list[Deed]:
        """One to six deeds, which go together."""
        return list(self._deeds(self._random.randint(1, 6)))

    def _deeds(self, count: int) -> Iterator[Deed]:
        for _number in range(count):
            number = self._random.randrange(_SERVICES)
            what = self._random.choices(("service", "slice", "no service", "no slice", "node"), (36, 45, 7, 7, 5))[0]
            name, family, own = f"s{number}", self._random.choice(("IPv4", "IPv4", "IPv6")), self._random.choice("ab")
            slice_name = f"{name}-{family.lower()}-{own}"
            if what == "service":
                yield Deed("Service", name, self._service(number))
            elif what == "slice":
                yield Deed("EndpointSlice", slice_name, self._slice(slice_name, name, family))
            elif what == "no service":
                yield Deed("Service", name, None)
            elif what == "no slice":
                yield Deed("EndpointSlice", slice_name, None)
            else:
                yield Deed("Node", NODE_NAME, self._node())

    def _service(self, number: int) -> Item:
        draw = self._random
        families = draw.choice((["IPv4"], ["IPv6"], ["IPv4", "IPv6"], ["IPv6", "IPv4"]))
        kind = draw.choice(("ClusterIP", "NodePort", "LoadBalancer"))
        ports = draw.sample(_PORTS, draw.randint(1, 3))
        cluster_ips = [{"IPv4": f"10.96.0.{number + 20}", "IPv6": f"fd00:96::{number + 20}"}[each] for each in families]
        spec: Item = {
            "type": kind,
            "clusterIP": cluster_ips[0],
            "clusterIPs": cluster_ips,
            "ipFamilies": families,
            "ports": [{"name": name, "port": port, "protocol": protocol} for name, port, protocol in ports],
            "sessionAffinity": "None",
            "internalTrafficPolicy": draw.choice(("Cluster", "Cluster", "Local")),
            "externalIPs": draw.choice(([], [f"203.0.113.{number + 1}", f"2001:db8:203::{number + 1}"])),
        }
        status: Item = {"loadBalancer": {}}
        if draw.random() < 0.3:
            spec["sessionAffinity"] = "ClientIP"
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": draw.choice((300, 10800))}}
        if kind != "ClusterIP" or spec["externalIPs"]:
            spec["externalTrafficPolicy"] = draw.choice(("Cluster", "Local"))
        if kind != "ClusterIP":
            for at, port in enumerate(spec["ports"]):
                port["nodePort"] = 30000 + 10 * number + at
        if kind == "LoadBalancer":
            if spec["externalTrafficPolicy"] == "Local":
                spec["healthCheckNodePort"] = 31000 + number
            spec["loadBalancerSourceRanges"] = draw.sample(_RANGES, draw.choice((0, 0, 1, 2)))
            addresses = (f"198.51.100.{number + 1}", f"2001:db8:198::{number + 1}")
            mode = draw.choice(({}, {"ipMode": "VIP"}, {"ipMode": "Proxy"}))
            status["loadBalancer"]["ingress"] = [{"ip": address, **mode} for address in addresses]
        return {"metadata": metadata(f"s{number}"), "spec": spec, "status": status}

    def _slice(self, name: str, service: str, family: str) -> Item:
        draw = self._random
        pods = (*LOCAL_PODS[family], *OTHER_PODS[family])
        hinted = draw.choice(("no", "no", "zones", "nodes", "both", "some"))
        ports = draw.choice((_PORTS, _PORTS[:2]))
        return {
            "metadata": metadata(name, labels={"kubernetes.io/service-name": service}),
            "addressType": family,
            "ports": [{"name": own, "port": TARGETS[own], "protocol": protocol} for own, _port, protocol in ports],
            "endpoints": [self._endpoint(pod, family, hinted) for pod in draw.sample(pods, draw.randint(0, 4))],
        }

    def _endpoint(self, address: str, family: str, hinted: str) -> Item:
        draw = self._random
        ready, serving, terminating = draw.choice(_CONDITIONS)
        hints: Item = {}
        if hinted in ("zones", "both") or (hinted == "some" and draw.random() < 0.5):
            hints["forZones"] = [{"name": draw.choice("ab")}]
        if hinted in ("nodes", "both") or (hinted == "some" and draw.random() < 0.5):
            hints["forNodes"] = [{"name": draw.choice((NODE_NAME, OTHER_NODE))}]
        return {
            "addresses": [address],
            "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
            "nodeName": NODE_NAME if address in LOCAL_PODS[family] else OTHER_NODE,
            **({"hints": hints} if hints else {}),
        }

    def _node(self) -> Item:
        """Its addresses stay: a kube-proxy ends where they change."""
        zone = self._random.choice(({}, {"topology.kubernetes.io/zone": "a"}, {"topology.kubernetes.io/zone": "b"}))
        addresses = [{"type": "InternalIP", "address": address} for address in ADDRESSES[::2]]
        return {
            "metadata": {"name": NODE_NAME, "uid": "uid-node", "labels": {"kubernetes.io/hostname": NODE_NAME, **zone}},
            "spec": {"podCIDR": POD_CIDRS[0], "podCIDRs": list(POD_CIDRS)},
            "status": {"addresses": addresses, "nodeInfo": {"kubeletVersion": "v1.37.2"}},
        }
