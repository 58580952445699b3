# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""A small cluster as objects of the API, which comes and goes at random."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NODE_NAME = "n1"
NAMES = ("a", "b", "c", "d")
_CLUSTER_IPS = {name: (f"10.96.0.{n}", f"fd00:96::{n}") for n, name in enumerate(NAMES, 1)}
_NODE_PORTS = {name: 30080 + n for n, name in enumerate(NAMES)}
_EXTERNAL_IPS = ("203.0.113.10", "203.0.113.11")
_PODS = {"IPv4": ("10.1.0.5", "10.1.0.6", "10.1.1.5", "10.1.1.6"), "IPv6": ("fd00:1::5", "fd00:1:0:1::5")}
_PORTS = (("http", 80, "TCP"), ("dns", 53, "UDP"))
Item = dict[str, Any]


def metadata(name: str, version: int = 0, **more: Any) -> Item:
    return {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version), **more}


@st.composite
def services(draw: st.DrawFn, name: str) -> Item:
    dual = draw(st.booleans())
    kind = draw(st.sampled_from(("ClusterIP", "NodePort", "LoadBalancer")))
    ports = draw(st.lists(st.sampled_from(_PORTS), min_size=1, max_size=2, unique=True))
    spec: Item = {
        "type": kind,
        "clusterIP": _CLUSTER_IPS[name][0],
        "clusterIPs": list(_CLUSTER_IPS[name][: 1 + dual]),
        "ipFamilies": ["IPv4", "IPv6"][: 1 + dual],
        "ports": [{"name": own, "port": port, "protocol": protocol} for own, port, protocol in ports],
        "sessionAffinity": draw(st.sampled_from(("None", "None", "ClientIP"))),
        "internalTrafficPolicy": draw(st.sampled_from(("Cluster", "Cluster", "Local"))),
        "externalIPs": draw(st.lists(st.sampled_from(_EXTERNAL_IPS), max_size=2, unique=True)),
    }
    if spec["sessionAffinity"] == "ClientIP":
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 300}}
    if kind != "ClusterIP":
        spec["externalTrafficPolicy"] = draw(st.sampled_from(("Cluster", "Local")))
        for port in spec["ports"]:
            port["nodePort"] = _NODE_PORTS[name] + 100 * (port["protocol"] == "UDP")
        if kind == "LoadBalancer" and spec["externalTrafficPolicy"] == "Local":
            spec["healthCheckNodePort"] = _NODE_PORTS[name] + 1000
    if kind == "LoadBalancer":
        spec["loadBalancerSourceRanges"] = draw(st.sampled_from(([], ["172.16.0.0/16"], ["10.0.0.0/8"])))
    created = f"2026-11-2{draw(st.integers(1, 3))}T12:00:00Z"
    status = {"loadBalancer": {"ingress": [{"ip": "198.51.100.10"}]} if kind == "LoadBalancer" else {}}
    return {"metadata": metadata(name, creationTimestamp=created), "spec": spec, "status": status}


@st.composite
def slices(draw: st.DrawFn, name: str, service: str = "") -> Item:
    kind = draw(st.sampled_from(("IPv4", "IPv4", "IPv6")))
    ready = draw(st.sampled_from((True, True, True, False)))
    addresses = draw(st.lists(st.sampled_from(_PODS[kind]), max_size=4, unique=True))
    labels = {"kubernetes.io/service-name": service or draw(st.sampled_from(NAMES))}
    return {
        "metadata": metadata(name, labels=labels),
        "addressType": kind,
        "ports": [{"name": own, "port": 8000 + port, "protocol": protocol} for own, port, protocol in _PORTS],
        "endpoints": [
            {
                "addresses": [address],
                "conditions": {"ready": ready, "serving": True, "terminating": not ready},
                "nodeName": NODE_NAME if address in (_PODS[kind][0], "10.1.0.6") else "n2",
            }
            for address in addresses
        ],
    }


@st.composite
def node_objects(draw: st.DrawFn) -> Item:
    addresses = ["192.168.1.10", "10.50.0.10"] if draw(st.booleans()) else ["10.50.0.10", "fd00:50::10"]
    labels = {"topology.kubernetes.io/zone": draw(st.sampled_from(("a", "b")))}
    return {
        "metadata": {"name": NODE_NAME, "uid": "uid-node", "resourceVersion": "1", "labels": labels},
        "spec": {"podCIDRs": ["10.1.0.0/24"]},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address} for address in addresses],
            "nodeInfo": {"kubeletVersion": "v1.37.1"},
        },
    }


def cidr_object(name: str, *cidrs: str) -> Item:
    return {"metadata": {"name": name, "resourceVersion": "1"}, "spec": {"cidrs": list(cidrs)}}
