# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""API objects as kubectl prints them, with as little in them as a test needs."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import Snapshot, parse_snapshot

Object = dict[str, Any]

NODE_IPS = ("192.0.2.10", "10.9.0.1", "2001:db8::10", "127.0.0.1", "::1")


def snapshot(*items: Object) -> Object:
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": list(items)}


def parse(*items: Object) -> Snapshot:
    """As the node n1 reads them, which is there besides."""
    return parse_snapshot(snapshot(node(), *items), node_name="n1", node_ips=NODE_IPS)


def service(name: str = "web", namespace: str = "default", **spec: Any) -> Object:
    """Of type ClusterIP, 10.96.0.1:80 and fd00:96::1 to port `http`, but for what `spec` says."""
    fields = {
        "type": "ClusterIP",
        "clusterIP": "10.96.0.1",
        "clusterIPs": ["10.96.0.1"],
        "ipFamilies": ["IPv4"],
        "internalTrafficPolicy": "Cluster",
        "sessionAffinity": "None",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": copy.deepcopy({**fields, **spec}),
        "status": {"loadBalancer": {}},
    }


def balancer(*ingress: Mapping[str, Any], **spec: Any) -> Object:
    """A Service of type LoadBalancer with an ingress."""
    found = service(**{"type": "LoadBalancer", **spec})
    found["status"] = {"loadBalancer": {"ingress": [dict(one) for one in ingress]}}
    return found


def endpoint_slice(
    endpoints: Iterable[Mapping[str, Any]], *, of: str = "web", name: str = "", family: str = "IPv4", **fields: Any
) -> Object:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name or f"{of}-1", "namespace": "default", "labels": {"kubernetes.io/service-name": of}},
        "addressType": family,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [dict(one) for one in endpoints],
        **fields,
    }


def endpoint(address: str, node: str = "n1", **conditions: bool) -> Object:
    return {"addresses": [address], "nodeName": node, "conditions": {"ready": True, **conditions}}


def node(name: str = "n1", **labels: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24", "fd00:1::/64"]},
        "status": {
            "addresses": [
                {"type": "Hostname", "address": name},
                {"type": "ExternalIP", "address": "198.51.100.10"},
                {"type": "InternalIP", "address": "192.0.2.10"},
                {"type": "ExternalIP", "address": "2001:db8::10"},
            ]
        },
    }


def service_cidr(*cidrs: str) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": list(cidrs)},
    }
