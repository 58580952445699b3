# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes as the API server gives them, and this node in each family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

from .._core.errors import BallastError
from .addresses import Address, parse_address
from .messages import MESSAGES
from .model import NodeView
from .reading import LABEL_VALUE, Place, show

ZONE_LABEL = "topology.kubernetes.io/zone"
_ADDRESS_TYPES = ("InternalIP", "ExternalIP")  # in the order in which kube-proxy looks for the node's own
_NAMED_NODES = 5  # that a message lists
FAMILIES = (4, 6)


class Node(NamedTuple):
    name: str
    zone: str
    addresses: Sequence[Address]  # InternalIPs first
    pod_cidrs: Sequence[tuple[int, str]]


def parse_node(place: Place, metadata: Mapping[str, Any], item: Mapping[str, Any]) -> Node:
    labels = place.mapping(metadata.get("labels"), "metadata", "labels")
    spec = place.mapping(item.get("spec"), "spec")
    return Node(
        name=metadata["name"],
        zone=place.name(labels.get(ZONE_LABEL), LABEL_VALUE, "metadata", "labels", ZONE_LABEL),
        addresses=_addresses(place, item),
        pod_cidrs=_pod_cidrs(place, spec),
    )


def node_views(
    nodes: Sequence[Node], *, name: str, addresses: Sequence[str], problems: list[BallastError]
) -> Mapping[int, NodeView]:
    """The node called `name`, for each family.

    `addresses` are those on its links. Without any Node in the snapshot the first of them in each family is taken for the
    primary one, and the zone is not known; with others but not this one, `name` is a fault.
    """
    node = next((one for one in nodes if one.name == name), None)
    if node is None and nodes:
        some = sorted(one.name for one in nodes)[:_NAMED_NODES]
        problems.append(MESSAGES.error("rules-node-missing", name=show(name), count=len(nodes), names=", ".join(some)))
    own = _own_addresses(addresses, problems)
    return {family: _view(name, node, own, family) for family in FAMILIES}


def _view(name: str, node: Optional[Node], own: Sequence[Address], family: int) -> NodeView:
    here = [one.text for one in own if one.family == family]
    registered = here if node is None else [one.text for one in node.addresses if one.family == family]
    primary = registered[0] if registered else ""
    pod_cidrs = [text for of, text in node.pod_cidrs if of == family] if node else []
    return NodeView(
        name=name,
        zone=node.zone if node else "",
        primary=primary,
        addresses=tuple(sorted({*here, primary} - {""})),
        pod_cidr=pod_cidrs[0] if pod_cidrs else "",
    )


def _own_addresses(addresses: Sequence[str], problems: list[BallastError]) -> Sequence[Address]:
    """Without loopback addresses: every machine has those."""
    found = []
    for index, value in enumerate(addresses):
        parsed = parse_address(value) if isinstance(value, str) else None
        if parsed is None:
            wanted = "an address of IPv4 or IPv6"
            path = f"node_ips[{index}]"
            problems.append(MESSAGES.error("rules-node-option", path=path, value=show(value), wanted=wanted))
        elif not parsed.loopback:
            found.append(parsed)
    return found


def _addresses(place: Place, item: Mapping[str, Any]) -> Sequence[Address]:
    """Host names and such are among them as well, and are passed over."""
    status = place.mapping(item.get("status"), "status")
    found: list[tuple[int, Address]] = []
    for index, value in enumerate(place.items(status.get("addresses"), "status", "addresses")):
        path = ("status", "addresses", index)
        fields = place.mapping(value, *path)
        kind = place.text(fields.get("type"), *path, "type")
        if kind in _ADDRESS_TYPES:
            parsed = place.address(fields.get("address"), *path, "address")
            if parsed is not None:
                found.append((_ADDRESS_TYPES.index(kind), parsed))
    return [address for _rank, address in sorted(found, key=lambda one: one[0])]


def _pod_cidrs(place: Place, spec: Mapping[str, Any]) -> Sequence[tuple[int, str]]:
    """podCIDRs, or podCIDR alone as before Kubernetes 1.16."""
    values = place.items(spec.get("podCIDRs"), "spec", "podCIDRs") or [one for one in [spec.get("podCIDR")] if one]
    parsed = [place.network(value, "spec", "podCIDRs", index) for index, value in enumerate(values)]
    return [(one.family, one.text) for one in parsed if one is not None]
