# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects of the matrix: Services of every kind (tests/integration/cluster_of_every_kind.py) in both families, and what versions of
kube-proxy take differently: labels, annotations, odd addresses."""

from __future__ import annotations

import copy
import re
from typing import Any

from tests.integration import cluster_of_every_kind as every_kind

Object = dict[str, Any]

# Those of one family that the others do not say already.
NAMES = (
    *("single-away", "none", "headless", "named", "dns", "sctp", "node-port", "node-port-none", "node-port-local"),
    *("node-port-away", "internal-away", "internal-local-open", "both-local", "sticky-node-port", "external"),
    *("external-none", "balancer", "balancer-proxied", "balancer-ranges-node", "balancer-ranges-local"),
    *("balancer-ranges-none", "draining-local", "zones", "same-node", "host-network"),
)
NODE_IPS = {"10.97.249.11": "fd00:97:249::11", "10.50.0.11": "fd00:50::11", "10.244.1.1": "fd00:10:244:1::1"}
_NETWORKS = (  # IPv4 by regular expression, IPv6
    (r"10\.244\.(\d+)\.(\d+)", r"fd00:10:244:\1::\2"),
    (r"10\.96\.7\.(\d+)", r"fd00:96::\1"),
    (r"10\.97\.249\.(\d+)", r"fd00:97:249::\1"),
    (r"192\.0\.2\.(\d+)", r"2001:db8:192::\1"),
    (r"198\.51\.100\.0/24", "2001:db8:198::/64"),
)


RIVALS_SINCE = (
    33  # minor version; with nftables an earlier kube-proxy writes no rules at all where two claim one destination
)
_RIVAL = "external-too"


def objects() -> list[Object]:
    return [item for item in _objects() if _name(item) != _RIVAL]


def rivals() -> list[Object]:
    """A Service that claims what one of the others has."""
    return [item for item in _objects() if _name(item) == _RIVAL]


def _objects() -> list[Object]:
    made = [item for item in every_kind.objects() if _name(item) in NAMES or item["kind"] == "Node"]
    both = [twin for item in made for twin in _both_families(item)]
    return [*both, *_taken_differently(both), _odd_node()]


def _name(item: Object) -> str:
    of = item["metadata"].get("labels", {}).get("kubernetes.io/service-name")
    return str(of or item["metadata"]["name"])


def six(text: str) -> str:
    """The IPv6 address or network that goes with one of IPv4."""
    for four, twin in _NETWORKS:
        if re.fullmatch(four + r"(/32)?", text):
            return re.sub(four, twin, text).replace("/32", "/128")
    raise ValueError(text)


def _both_families(item: Object) -> list[Object]:
    if item["kind"] == "EndpointSlice":
        twin = copy.deepcopy(item)
        twin["metadata"]["name"] += "-v6"
        twin["addressType"] = "IPv6"
        for endpoint in twin["endpoints"]:
            endpoint["addresses"] = [six(address) for address in endpoint["addresses"]]
        return [item, twin]
    if item["kind"] == "Node":
        own = item["status"]["addresses"]
        own.append({"type": "InternalIP", "address": six(own[0]["address"])})
        item["spec"]["podCIDRs"].append(six(item["spec"]["podCIDR"].removesuffix("/24")) + "/80")
        return [item]
    spec = item["spec"]
    if spec.get("clusterIP", "None") != "None":
        spec.update(clusterIPs=[spec["clusterIP"], six(spec["clusterIP"])], ipFamilies=["IPv4", "IPv6"])
        spec["ipFamilyPolicy"] = "RequireDualStack"
    for key in ("externalIPs", "loadBalancerSourceRanges"):
        if key in spec:
            spec[key] = [*spec[key], *map(six, spec[key])]
    ingress = item.get("status", {}).get("loadBalancer", {}).get("ingress", [])
    ingress.extend([{**row, "ip": six(row["ip"])} for row in ingress if "ip" in row])
    return [item]


def _taken_differently(made: list[Object]) -> list[Object]:
    """Copies of a Service with its slices, each with one thing that a version takes differently."""
    found: list[Object] = []
    for number, (name, of, change) in enumerate(
        (
            (
                "labelled-headless",
                "single-away",
                lambda item: _label(item, "Service", "service.kubernetes.io/headless"),
            ),
            (
                "other-proxy",
                "single-away",
                lambda item: _label(item, "EndpointSlice", "service.kubernetes.io/service-proxy-name"),
            ),
            (
                "annotated",
                "zones",
                lambda item: item["metadata"].update(annotations={"service.kubernetes.io/topology-mode": "Auto"}),
            ),
            (_RIVAL, "external", lambda _item: None),
            ("same-number", "single-away", lambda item: _port(item, 30080)),
        ),
        start=200,
    ):
        for item in copy.deepcopy([item for item in made if _name(item) == of]):
            item["metadata"]["name"] = item["metadata"]["name"].replace(of, name)
            if item["kind"] == "EndpointSlice":
                item["metadata"]["labels"]["kubernetes.io/service-name"] = name
            else:
                item["spec"]["clusterIP"] = f"10.96.7.{number}"
                item["spec"]["clusterIPs"] = [f"10.96.7.{number}", f"fd00:96::{number}"]
            change(item)
            found.append(item)
    return found


def _label(item: Object, kind: str, label: str) -> None:
    if item["kind"] == kind:
        item["metadata"].setdefault("labels", {})[label] = "other"


def _port(item: Object, number: int) -> None:
    if item["kind"] == "Service":
        item["spec"]["ports"][0]["port"] = number


def _odd_node() -> Object:
    """As the API server takes it, and kube-proxy passes over."""
    odd = [{"type": "ExternalIP", "address": ""}, {"type": "InternalIP", "address": "node.example"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "odd"},
        "spec": {},
        "status": {"addresses": odd},
    }
