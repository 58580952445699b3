# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""EndpointSlices to the endpoints of each port of each Service. Source: reference of kube-proxy 1.1."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from .addresses import is_plain
from .model import Endpoint
from .packet import PROTOCOLS
from .reading import LABEL, LABEL_VALUE, SUBDOMAIN, Place, is_node_name, remembered
from .services import LARGEST_PORT, PortKey

SERVICE_LABEL = "kubernetes.io/service-name"
HEADLESS_LABEL = "service.kubernetes.io/headless"
FAMILIES = {"IPv4": 4, "IPv6": 6, "FQDN": 0}
_FLAG = (bool, type(None))


# Address, ready, serving, terminating, node, hints of zones and of nodes: an endpoint but for its port.
Peer = tuple[str, bool, bool, bool, str, tuple[str, ...], tuple[str, ...]]


class SlicePort(NamedTuple):
    name: str
    protocol: str
    port: int


class Slice(NamedTuple):
    """A slice that makes rules: of `family` 4 or 6, and for a Service that is not headless."""

    namespace: str
    name: str
    service: str
    family: int
    ports: Sequence[SlicePort]
    endpoints: Sequence[Sequence[Endpoint]]  # of each of `ports`


def parse_slice(place: Place, metadata: Mapping[str, Any], item: Mapping[str, Any]) -> Optional[Slice]:
    """None for one that kube-proxy passes over: of no Service, of a headless one, or of host names."""
    kind = place.text(item.get("addressType"), "addressType")
    if kind not in FAMILIES:
        place.wrong(kind, f"one of {', '.join(FAMILIES)}", "addressType")
        return None
    labels = place.mapping(metadata.get("labels"), "metadata", "labels")
    service = place.name(labels.get(SERVICE_LABEL), LABEL_VALUE, "metadata", "labels", SERVICE_LABEL)
    family = FAMILIES[kind]
    if not service or not family or HEADLESS_LABEL in labels:
        return None
    ports = _ports(place, item)
    return Slice(
        metadata["namespace"], metadata["name"], service, family, ports, _endpoints(place, item, family, ports)
    )


def endpoints_of(slices: Sequence[Slice], family: int) -> Mapping[PortKey, tuple[Endpoint, ...]]:
    """The endpoints of each port, sorted, one for each address and port.

    Two slices may have the same one: while it moves, or because a new pod got the address of one that still terminates.
    The one that does not terminate wins, then the one that is ready, then the one that serves, then that of the slice
    whose name comes first. (kube-proxy prefers the one that does not terminate, and of several takes any.)
    """
    found: dict[PortKey, list[Endpoint]] = {}
    for one in sorted((one for one in slices if one.family == family), key=lambda one: (one.namespace, one.name)):
        for port, endpoints in zip(one.ports, one.endpoints):
            found.setdefault((one.namespace, one.service, port.name, port.protocol), []).extend(endpoints)
    return {of: tuple(sorted(_each_once(endpoints))) for of, endpoints in found.items()}


def _each_once(endpoints: Sequence[Endpoint]) -> Collection[Endpoint]:
    """The best of those with the same address and port, of equal ones the first."""
    if len({endpoint[:2] for endpoint in endpoints}) == len(endpoints):
        return endpoints
    best: dict[tuple[object, ...], Endpoint] = {}
    for endpoint in sorted(endpoints, key=_preference):
        best.setdefault(endpoint[:2], endpoint)
    return best.values()


def _preference(endpoint: Endpoint) -> tuple[bool, bool, bool]:
    return (endpoint.terminating, not endpoint.ready, not endpoint.serving)


def _ports(place: Place, item: Mapping[str, Any]) -> Sequence[SlicePort]:
    """Without those that have no number: they mean every port, of which there is no rule."""
    ports: list[SlicePort] = []
    names: set[str] = set()
    for index, value in enumerate(place.items(item.get("ports"), "ports")):
        fields = place.mapping(value, "ports", index)
        port = _port(place, ("ports", index), fields.get("name"), fields.get("protocol"), fields.get("port"))
        if port.name in names:
            place.contradiction(port.name, "every port of several needs a name of its own", "ports", index, "name")
        names.add(port.name)
        if port.port:
            ports.append(port)
    return ports


@remembered
def _port(place: Place, path: Sequence[object], name: object, protocol: object, port: object) -> SlicePort:
    return SlicePort(
        place.name(name, LABEL, *path, "name"),
        place.choice(protocol, PROTOCOLS, *path, "protocol"),
        place.number(port, 0, LARGEST_PORT, *path, "port"),
    )


def _endpoints(
    place: Place, item: Mapping[str, Any], family: int, ports: Sequence[SlicePort]
) -> Sequence[Sequence[Endpoint]]:
    """Of each port."""
    peers: list[Peer] = []
    for index, value in enumerate(place.items(item.get("endpoints"), "endpoints")):
        peer = (_usual_peer(value) if family == 4 else None) or _peer(place, value, family, index)
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
    """What `_peer` answers of an endpoint as most are: of IPv4, ready, on a known node, without hints and faults. None of any
    other. It spares 100,000 endpoints the long way."""
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
        pass  # something is not there, or is something else
    return None


def _peer(place: Place, value: object, family: int, index: int) -> Optional[Peer]:
    """What is not set is unknown, and that counts as ready, as serving, and as not terminating."""
    fields = place.element(value, "endpoints", index)
    if fields is None:
        return None
    address = _address(place, fields.get("addresses"), family, index)
    ready, serving, terminating = _conditions(place, fields.get("conditions"), index)
    node = place.name(fields.get("nodeName"), SUBDOMAIN, "endpoints", index, "nodeName")
    hints = fields.get("hints")
    zones = _hints(place, hints, index, "forZones", LABEL_VALUE) if hints else ()
    nodes = _hints(place, hints, index, "forNodes", SUBDOMAIN) if hints else ()
    return address, ready, serving, terminating, node, zones, nodes


def _conditions(place: Place, value: object, index: int) -> tuple[bool, bool, bool]:
    conditions = place.mapping(value, "endpoints", index, "conditions")
    for name in ("ready", "serving", "terminating"):
        if type(conditions.get(name)) not in _FLAG:
            place.wrong(conditions[name], "true or false", "endpoints", index, "conditions", name)
    return (
        conditions.get("ready") is not False,
        conditions.get("serving") is not False,
        conditions.get("terminating") is True,
    )


def _address(place: Place, value: object, family: int, index: int) -> str:
    """The first of `addresses`: the others have no meaning (KEP-4974), and rules are made of the first alone."""
    values = place.items(value, "endpoints", index, "addresses")
    if not values:
        place.wrong(values, "one address or more", "endpoints", index, "addresses")
        return ""
    parsed = place.reachable_address(values[0], "endpoints", index, "addresses", 0)
    if parsed is None:
        return ""
    if parsed.family != family:
        place.contradiction(values[0], f"addressType is IPv{family}", "endpoints", index, "addresses", 0)
    return parsed.text


def _hints(place: Place, hints: object, index: int, field: str, form: re.Pattern[str]) -> tuple[str, ...]:
    path = ("endpoints", index, "hints", field)
    names = set()
    for number, value in enumerate(place.items(place.mapping(hints, *path[:3]).get(field), *path)):
        fields = place.mapping(value, *path, number)
        names.add(place.name(fields.get("name"), form, *path, number, "name"))
    return tuple(sorted(names))
