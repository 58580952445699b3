# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses Node objects, and builds this node's view in each family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

from .._core.text.decode import Reader, show, text
from .._core.text.errors import BallastError
from .addresses import Address, parse_address
from .gates import parse_minor
from .messages import MESSAGES
from .model import NodeView
from .reading import LABEL_VALUE, address, matching_name, network, objects, take_readable

ZONE_LABEL = "topology.kubernetes.io/zone"
_ADDRESS_TYPES = ("InternalIP", "ExternalIP")  # in kube-proxy's order of preference
UNSPECIFIED = ("0.0.0.0", "::")  # a bindAddress with these counts as not set
_NAMED_NODES = 5  # that a message lists
FAMILIES = (4, 6)


class Node(NamedTuple):
    name: str
    zone: str
    addresses: Sequence[Address]  # InternalIPs first
    pod_cidrs: Sequence[tuple[int, str]]
    minor: Optional[int]


def parse_node(item: Reader, metadata: Reader) -> Node:
    return Node(
        name=metadata.values["name"],
        zone=metadata.below("labels").read(ZONE_LABEL, matching_name(LABEL_VALUE), ""),
        addresses=_addresses(item.below("status")),
        pod_cidrs=_pod_cidrs(item.below("spec")),
        minor=_minor(item.below("status")),
    )


def build_node_views(
    nodes: Sequence[Node], *, name: str, addresses: Sequence[str], bind_address: object, problems: list[BallastError]
) -> Mapping[int, NodeView]:
    """The views of the node `name`, by family.

    `addresses` are those on its links. If the snapshot has no Nodes at all, the first address of each family is the primary
    one, and the zone is unknown. If it has Nodes but not this one, `name` is a fault. The configuration's `bind_address` is
    the primary address of its family, as in kube-proxy.
    """
    node = next((node for node in nodes if node.name == name), None)
    if node is None and nodes:
        some = sorted(node.name for node in nodes)[:_NAMED_NODES]
        problems.append(MESSAGES.error("rules-node-missing", name=show(name), count=len(nodes), names=", ".join(some)))
    own = _own_addresses(addresses, problems)
    bound = parse_address(bind_address) if isinstance(bind_address, str) else None
    return {family: _view(name, node, own, bound, family) for family in FAMILIES}


def _view(name: str, node: Optional[Node], own: Sequence[Address], bound: Optional[Address], family: int) -> NodeView:
    here = [address.text for address in own if address.family == family]
    registered = here if node is None else [address.text for address in node.addresses if address.family == family]
    primary = registered[0] if registered else ""
    if bound is not None and bound.family == family and bound.text not in UNSPECIFIED:
        primary = bound.text
    pod_cidrs = [text for of, text in node.pod_cidrs if of == family] if node else []
    return NodeView(
        name=name,
        zone=node.zone if node else "",
        primary=primary,
        addresses=tuple(sorted({*here, *registered[:1], primary} - {""})),
        pod_cidr=pod_cidrs[0] if pod_cidrs else "",
        minor=node.minor if node else None,
    )


def _own_addresses(addresses: Sequence[str], problems: list[BallastError]) -> Sequence[Address]:
    """Parsed addresses, without loopback, which every machine has."""
    own = []
    for index, value in enumerate(addresses):
        parsed = parse_address(value) if isinstance(value, str) else None
        if parsed is None:
            expected = "an address of IPv4 or IPv6"
            path = f"node_ips[{index}]"
            problems.append(MESSAGES.error("rules-node-option", path=path, value=show(value), wanted=expected))
        elif not parsed.loopback:
            own.append(parsed)
    return own


def _addresses(status: Reader) -> Sequence[Address]:
    """InternalIPs and ExternalIPs; host names and other types are skipped."""
    ranked: list[tuple[int, Address]] = []
    for row in objects(status, "addresses"):
        kind = row.read("type", text, "")
        if kind in _ADDRESS_TYPES:
            parsed = take_readable(row.faults, row.at("address"), row.get("address") or "", address)
            if parsed is not None:
                ranked.append((_ADDRESS_TYPES.index(kind), parsed))
    return [own for _rank, own in sorted(ranked, key=lambda entry: entry[0])]


def _pod_cidrs(spec: Reader) -> Sequence[tuple[int, str]]:
    """podCIDRs, or only podCIDR as before Kubernetes 1.16."""
    rows = spec.items("podCIDRs")
    if not rows and spec.get("podCIDR"):
        rows = [(spec.at("podCIDR"), spec.get("podCIDR"))]
    cidrs = [take_readable(spec.faults, path, value, network) for path, value in rows]
    return [(cidr.family, cidr.text) for cidr in cidrs if cidr is not None]


def _minor(status: Reader) -> Optional[int]:
    info = status.mapping("nodeInfo")
    return parse_minor(info.get("kubeletVersion")) or parse_minor(info.get("kubeProxyVersion"))
