# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses EndpointSlices into the endpoints of each port of each Service. Source: kube-proxy,
endpointslicecache.go."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from .._core.text.decode import Parser, Reader, boolean, text, whole
from .addresses import is_plain
from .model import Endpoint
from .packet import PROTOCOLS
from .reading import (
    LABEL,
    LABEL_VALUE,
    SUBDOMAIN,
    contradict,
    enum,
    is_node_name,
    matching_name,
    objects,
    reachable_address,
    remember,
)
from .services import HEADLESS_LABEL, LARGEST_PORT, PROXY_NAME_LABEL, PortKey

SERVICE_LABEL = "kubernetes.io/service-name"
FAMILIES = {"IPv4": 4, "IPv6": 6, "FQDN": 0}
_LABEL, _LABEL_VALUE, _SUBDOMAIN = (matching_name(form) for form in (LABEL, LABEL_VALUE, SUBDOMAIN))
_PROTOCOL, _PORT = enum(PROTOCOLS), whole(0, LARGEST_PORT)


# An endpoint without its port: address, ready, serving, terminating, node, zone hints, node hints.
Peer = tuple[str, bool, bool, bool, str, tuple[str, ...], tuple[str, ...]]


class SlicePort(NamedTuple):
    name: str
    protocol: str
    port: int


class Slice(NamedTuple):
    """A slice that affects rules: of `family` 4 or 6, and of a Service that is not headless."""

    namespace: str
    name: str
    service: str
    family: int
    ports: Sequence[SlicePort]
    endpoints: Sequence[Sequence[Endpoint]]  # one list for each of `ports`
    has_proxy_name_label: bool = False


def parse_slice(item: Reader, metadata: Reader) -> Optional[Slice]:
    """None for a slice that kube-proxy ignores: without a Service, of a headless Service, or with host names."""
    kind = item.read("addressType", text, "")
    if kind not in FAMILIES:
        item.wrong("addressType", kind, f"one of {', '.join(FAMILIES)}")
        return None
    labels = metadata.below("labels")
    service = labels.read(SERVICE_LABEL, _LABEL_VALUE, "")
    family = FAMILIES[kind]
    if not service or not family or HEADLESS_LABEL in labels.values:
        return None
    ports = _ports(item)
    named = metadata.values
    other_proxy = PROXY_NAME_LABEL in labels.values
    return Slice(
        named["namespace"], named["name"], service, family, ports, _endpoints(item, family, ports), other_proxy
    )


def endpoints_of(slices: Sequence[Slice], family: int) -> Mapping[PortKey, tuple[Endpoint, ...]]:
    """The endpoints of each port, sorted and unique by address and port.

    Two slices may have the same endpoint: while it moves, or because a new pod got the address of one that is still
    terminating. Preferred is one that is not terminating, then one that is ready, then one that serves, then that of the
    slice with the first name. (kube-proxy prefers one that is not terminating, and otherwise takes any.)
    """
    by_port: dict[PortKey, list[Endpoint]] = {}
    for of_family in sorted(
        (of_family for of_family in slices if of_family.family == family),
        key=lambda of_family: (of_family.namespace, of_family.name),
    ):
        for port, endpoints in zip(of_family.ports, of_family.endpoints):
            by_port.setdefault((of_family.namespace, of_family.service, port.name, port.protocol), []).extend(endpoints)
    return {of: tuple(sorted(_drop_duplicates(endpoints))) for of, endpoints in by_port.items()}


def _drop_duplicates(endpoints: Sequence[Endpoint]) -> Collection[Endpoint]:
    """The preferred one of those with the same address and port; the first of equal ones."""
    if len({endpoint[:2] for endpoint in endpoints}) == len(endpoints):
        return endpoints
    best: dict[tuple[object, ...], Endpoint] = {}
    for endpoint in sorted(endpoints, key=_preference):
        best.setdefault(endpoint[:2], endpoint)
    return best.values()


def _preference(endpoint: Endpoint) -> tuple[bool, bool, bool]:
    return (endpoint.terminating, not endpoint.ready, not endpoint.serving)


def _ports(item: Reader) -> Sequence[SlicePort]:
    """Ports with a number. A port without one means every port and makes no rules."""
    ports: list[SlicePort] = []
    names: set[str] = set()
    for index, value in enumerate(item.sequence("ports")):
        port = _port(value, item.faults, f"ports[{index}]")
        if port.name in names:
            contradict(item, f"ports[{index}].name", port.name, "each of several ports needs its own name")
        names.add(port.name)
        if port.port:
            ports.append(port)
    return ports


@remember("name", "protocol", "port")
def _port(row: Reader) -> SlicePort:
    return SlicePort(
        row.read("name", _LABEL, ""), row.read("protocol", _PROTOCOL, PROTOCOLS[0]), row.read("port", _PORT, 0)
    )


def _endpoints(item: Reader, family: int, ports: Sequence[SlicePort]) -> Sequence[Sequence[Endpoint]]:
    """The endpoints for each port."""
    peers: list[Peer] = []
    for index, value in enumerate(item.sequence("endpoints")):
        peer = _usual_peer(value) if family == 4 else None
        peer = peer or _peer(Reader(value, item.faults, f"endpoints[{index}]"), family)
        if peer is not None:
            peers.append(peer)
    return [
        [
            Endpoint(address, port.port, ready, serving, terminating, node, zones, nodes)
            for address, ready, serving, terminating, node, zones, nodes in peers
        ]
        for port in ports
    ]


def _usual_peer(value: Any) -> Optional[Peer]:
    """A faster `_peer` for the most common endpoint: IPv4, ready, on a known node, no hints, no fault. None for any other.
    There may be 100,000."""
    try:
        conditions, addresses, node = value["conditions"], value["addresses"], value["nodeName"]
        if (
            conditions["ready"] is True
            and conditions["serving"] is True
            and conditions["terminating"] is False
            and isinstance(addresses, list)
            and is_plain(addresses[0])
            and is_node_name(node)
            and "hints" not in value
        ):
            return addresses[0], True, True, False, node, (), ()
    except (LookupError, TypeError):
        pass  # a field is missing or has another type
    return None


def _peer(row: Reader, family: int) -> Optional[Peer]:
    """A condition that is not set counts as ready, serving and not terminating."""
    if not row.is_mapping:
        return None
    address = _address(row, family)
    conditions = row.below("conditions")
    ready, serving = conditions.read("ready", boolean, True), conditions.read("serving", boolean, True)
    terminating = conditions.read("terminating", boolean, False)
    node = row.read("nodeName", _SUBDOMAIN, "")
    # Empty hints of any type count as absent.
    hints = row.below("hints") if row.get("hints") else Reader({}, row.faults)
    zones, nodes = _hints(hints, "forZones", _LABEL_VALUE), _hints(hints, "forNodes", _SUBDOMAIN)
    return address, ready, serving, terminating, node, zones, nodes


def _address(row: Reader, family: int) -> str:
    """The first of `addresses`; the others have no meaning (KEP-4974)."""
    values = row.sequence("addresses")
    if not values:
        row.wrong("addresses", values, "one address or more")
        return ""
    parsed = row.faults.take(row.at("addresses[0]"), values[0], reachable_address, None)
    if parsed is None:
        return ""
    if parsed.family != family:
        contradict(row, "addresses[0]", values[0], f"addressType is IPv{family}")
    return parsed.text


def _hints(hints: Reader, key: str, parse: Parser[str]) -> tuple[str, ...]:
    return tuple(sorted({row.read("name", parse, "") for row in objects(hints, key)}))
