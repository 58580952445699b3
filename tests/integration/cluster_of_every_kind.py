# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster in which every field of Services and endpoints that rules depend on has each of its values at least once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.integration.kube_proxy import NODE, NODE_IP, OTHER_NODE

Object = dict[str, Any]

HERE, THERE, FAR = "10.244.1.%d", "10.244.2.%d", "10.244.3.%d"  # pods of this node, of another, of a third
CLIENT, REFUSED = "198.51.100.7", "203.0.113.7"
RANGES = ["198.51.100.0/24", "10.244.1.8/32"]
EXTERNAL_IP, OTHER_EXTERNAL_IP = "192.0.2.50", "192.0.2.51"


def objects() -> list[Object]:
    """Nodes, Services and their EndpointSlices."""
    found = [_node(NODE, NODE_IP, "a", "10.244.1.0/24"), _node(OTHER_NODE, "10.97.249.12", "b", "10.244.2.0/24")]
    for number, (name, endpoints, spec) in enumerate(_SERVICES, start=10):
        found += _service(name, number, endpoints, dict(spec))
    return found


def _endpoint(address: str, **conditions: bool) -> Object:
    name = {"10.244.1": NODE, "10.97.249": NODE, "10.244.2": OTHER_NODE}.get(address.rpartition(".")[0], "n3")
    return {"addresses": [address], "nodeName": name, "conditions": {"ready": True, **conditions}}


_both = (_endpoint(HERE % 5), _endpoint(THERE % 5), _endpoint(FAR % 5))
_away = (_endpoint(THERE % 6), _endpoint(FAR % 6))
_draining = {"ready": False, "serving": True, "terminating": True}
_gone = {"ready": False, "serving": False, "terminating": True}


def _hinted(address: str, zone: str, *nodes: str) -> Object:
    hints: Object = {"forZones": [{"name": zone}]}
    if nodes:
        hints["forNodes"] = [{"name": node} for node in nodes]
    return {**_endpoint(address), "hints": hints}


def _port(name: str, port: int, protocol: str = "TCP", **rest: int) -> Object:
    return {"name": name, "port": port, "targetPort": port + 8000, "protocol": protocol, **rest}


_NODE_PORT = {"type": "NodePort"}
_BALANCER = {"type": "LoadBalancer"}
_LOCAL = {"externalTrafficPolicy": "Local"}
_INTERNAL_LOCAL = {"internalTrafficPolicy": "Local"}
_STICKY = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 300}}}

# Name, endpoints, what the Service has besides. "ports", "ingress" and "headless" are for _service.
_SERVICES: tuple[tuple[str, Iterable[Object], Mapping[str, Any]], ...] = (
    ("plain", _both, {}),
    ("single", (_endpoint(HERE % 7),), {}),
    ("single-away", (_endpoint(THERE % 7),), {}),
    ("none", (), {}),
    ("headless", _both, {"clusterIP": "None"}),
    ("named", (), {"type": "ExternalName", "externalName": "example.org"}),
    ("dns", _both, {"ports": [_port("dns", 53, "UDP"), _port("dns-tcp", 53), _port("metrics", 9153)]}),
    ("sctp", _both, {"ports": [_port("s", 3868, "SCTP", nodePort=30868)], **_NODE_PORT}),
    ("node-port", _both, {"ports": [_port("a", 80, nodePort=30080), _port("b", 80, "UDP", nodePort=30080)], **_NODE_PORT}),
    ("node-port-none", (), {"ports": [_port("a", 80, nodePort=30081)], **_NODE_PORT}),
    ("node-port-local", _both, {"ports": [_port("a", 80, nodePort=30082)], **_NODE_PORT, **_LOCAL}),
    ("node-port-away", _away, {"ports": [_port("a", 80, nodePort=30083)], **_NODE_PORT, **_LOCAL}),
    ("internal-local", _both, _INTERNAL_LOCAL),
    ("internal-away", _away, _INTERNAL_LOCAL),
    ("internal-local-open", _away, {"externalIPs": [OTHER_EXTERNAL_IP], **_INTERNAL_LOCAL}),
    ("both-local", _both, {**_BALANCER, **_LOCAL, **_INTERNAL_LOCAL, "ingress": ({"ip": "192.0.2.60"},)}),
    ("sticky", _both, _STICKY),
    ("sticky-node-port", _both, {"ports": [_port("a", 80, nodePort=30084)], **_NODE_PORT, **_LOCAL, **_STICKY}),
    ("external", _both, {"externalIPs": [EXTERNAL_IP]}),
    ("external-none", (), {"externalIPs": ["192.0.2.52"]}),
    ("balancer", _both, {**_BALANCER, "ingress": ({"ip": "192.0.2.61"}, {"ip": "192.0.2.62"})}),
    ("balancer-proxied", _both, {**_BALANCER, "ingress": ({"ip": "192.0.2.63", "ipMode": "Proxy"},)}),
    ("balancer-name", _both, {**_BALANCER, "ingress": ({"hostname": "lb.example.org"},)}),
    ("balancer-local", _both, {**_BALANCER, **_LOCAL, "ingress": ({"ip": "192.0.2.64"},)}),
    ("balancer-away", _away, {**_BALANCER, **_LOCAL, "ingress": ({"ip": "192.0.2.65"},)}),
    ("balancer-ranges", _both, {**_BALANCER, "loadBalancerSourceRanges": RANGES, "ingress": ({"ip": "192.0.2.66"},)}),
    (
        "balancer-ranges-node",
        _both,
        {**_BALANCER, "loadBalancerSourceRanges": [f"{NODE_IP}/32"], "ingress": ({"ip": "192.0.2.67"},)},
    ),
    (
        "balancer-ranges-local",
        _both,
        {**_BALANCER, **_LOCAL, "loadBalancerSourceRanges": RANGES, "ingress": ({"ip": "192.0.2.68"},)},
    ),
    ("balancer-ranges-none", (), {**_BALANCER, "loadBalancerSourceRanges": RANGES, "ingress": ({"ip": "192.0.2.69"},)}),
    ("draining", (_endpoint(HERE % 9, **_draining), _endpoint(THERE % 9, **_draining)), {}),
    ("draining-some", (_endpoint(HERE % 10, **_draining), _endpoint(THERE % 10)), {**_BALANCER, **_LOCAL}),
    ("draining-local", (_endpoint(HERE % 11, **_draining), _endpoint(THERE % 11)), {"externalIPs": ["192.0.2.53"], **_LOCAL}),
    ("gone", (_endpoint(HERE % 12, **_gone), _endpoint(THERE % 12)), {}),
    ("unready", (_endpoint(HERE % 13, ready=False),), {}),
    ("zones", (_hinted(HERE % 14, "a"), _hinted(THERE % 14, "b"), _hinted(FAR % 14, "a")), {}),
    ("zones-elsewhere", (_hinted(THERE % 15, "b"), _hinted(FAR % 15, "c")), {}),
    ("same-node", (_hinted(HERE % 16, "a", NODE), _hinted(THERE % 16, "a", OTHER_NODE)), {}),
    ("host-network", (_endpoint(NODE_IP), _endpoint(THERE % 17)), {"ports": [_port("a", 80, nodePort=30085)], **_NODE_PORT}),
    ("many", tuple(_endpoint(THERE % number) for number in range(100, 117)), {}),
)  # fmt: skip


def _service(name: str, number: int, endpoints: Iterable[Object], more: Object) -> list[Object]:
    ports = more.pop("ports", [_port("http", 80)])
    ingress = more.pop("ingress", ())
    spec = {"clusterIP": f"10.96.7.{number}", "type": "ClusterIP", "ports": ports, **more}
    if spec["type"] == "ExternalName":
        del spec["clusterIP"], spec["ports"]
    service: Object = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
    if ingress:
        service["status"] = {"loadBalancer": {"ingress": list(ingress)}}
    found = [service]
    listed = list(endpoints)
    if listed:
        labels = {
            "kubernetes.io/service-name": name,
            "endpointslice.kubernetes.io/managed-by": "ballast-test",
        }
        if spec.get("clusterIP") == "None":
            labels["service.kubernetes.io/headless"] = ""
        found.append(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"name": f"{name}-1", "labels": labels},
                "addressType": "IPv4",
                "ports": [
                    {"name": one["name"], "port": one["targetPort"], "protocol": one["protocol"]} for one in ports
                ],
                "endpoints": listed,
            }
        )
    return found


def _node(name: str, address: str, zone: str, pods: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "spec": {"podCIDR": pods, "podCIDRs": [pods]},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        },
    }
