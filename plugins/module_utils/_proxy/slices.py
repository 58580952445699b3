# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""EndpointSlices to the endpoints of each port of each Service. Source: reference of kube-proxy 1.1."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

from .addresses import is_plain
from .model import Endpoint
from .packet import PROTOCOLS
from .reading import LABEL, LABEL_VALUE, SUBDOMAIN, Place, is_node_name
from .services import LARGEST_PORT, PortKey

SERVICE_LABEL = "kubernetes.io/service-name"
HEADLESS_LABEL = "service.kubernetes.io/headless"
FAMILIES = {"IPv4": 4, "IPv6": 6, "FQDN": 0}
_FLAG = (bool, type(None))


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
    found: dict[PortKey, dict[tuple[str, int], Endpoint]] = {}
    for one in sorted((one for one in slices if one.family == family), key=lambda one: (one.namespace, one.name)):
        for port, endpoints in zip(one.ports, one.endpoints):
            of_port = found.setdefault((one.namespace, one.service, port.name, port.protocol), {})
            for endpoint in endpoints:
                other = of_port.setdefault((endpoint.address, endpoint.port), endpoint)
                if other is not endpoint and _preference(endpoint) < _preference(other):
                    of_port[(endpoint.address, endpoint.port)] = endpoint
    return {of: tuple(of_port[key] for key in sorted(of_port)) for of, of_port in found.items()}


def _preference(endpoint: Endpoint) -> tuple[bool, bool, bool]:
    return (endpoint.terminating, not endpoint.ready, not endpoint.serving)


def _ports(place: Place, item: Mapping[str, Any]) -> Sequence[SlicePort]:
    """Without those that have no number: they mean every port, of which there is no rule."""
    ports: list[SlicePort] = []
    names: set[str] = set()
    for index, value in enumerate(place.items(item.get("ports"), "ports")):
        fields = place.mapping(value, "ports", index)
        name = place.name(fields.get("name"), LABEL, "ports", index, "name")
        protocol = place.choice(fields.get("protocol"), PROTOCOLS, "ports", index, "protocol")
        port = place.number(fields.get("port"), 0, LARGEST_PORT, "ports", index, "port")
        if name in names:
            place.contradiction(name, "every port of several needs a name of its own", "ports", index, "name")
        names.add(name)
        if port:
            ports.append(SlicePort(name, protocol, port))
    return ports


def _endpoints(
    place: Place, item: Mapping[str, Any], family: int, ports: Sequence[SlicePort]
) -> Sequence[Sequence[Endpoint]]:
    """Of each port. What is not set is unknown, and that counts as ready, as serving, and as not terminating."""
    found: list[list[Endpoint]] = [[] for _port in ports]
    for index, value in enumerate(place.items(item.get("endpoints"), "endpoints")):
        fields = place.element(value, "endpoints", index)
        if fields is None:
            continue
        address = _address(place, fields.get("addresses"), family, index)
        ready, serving, terminating = _conditions(place, fields.get("conditions"), index)
        node = fields.get("nodeName")
        if not isinstance(node, str) or not is_node_name(node):
            node = place.name(node, SUBDOMAIN, "endpoints", index, "nodeName")
        hints = fields.get("hints")
        zones = _hints(place, hints, index, "forZones", LABEL_VALUE) if hints else ()
        nodes = _hints(place, hints, index, "forNodes", SUBDOMAIN) if hints else ()
        for port, endpoints in zip(ports, found):
            endpoints.append(Endpoint(address, port.port, ready, serving, terminating, node, zones, nodes))
    return found


def _conditions(place: Place, value: object, index: int) -> tuple[bool, bool, bool]:
    conditions = value if isinstance(value, dict) else place.mapping(value, "endpoints", index, "conditions")
    ready, serving, terminating = conditions.get("ready"), conditions.get("serving"), conditions.get("terminating")
    if type(ready) not in _FLAG or type(serving) not in _FLAG or type(terminating) not in _FLAG:
        for name in ("ready", "serving", "terminating"):
            if type(conditions.get(name)) not in _FLAG:
                place.wrong(conditions[name], "true or false", "endpoints", index, "conditions", name)
    return ready is not False, serving is not False, terminating is True


def _address(place: Place, value: object, family: int, index: int) -> str:
    """The first of `addresses`: the others have no meaning (KEP-4974), and rules are made of the first alone."""
    values = value if isinstance(value, list) else place.items(value, "endpoints", index, "addresses")
    if not values:
        place.wrong(values, "one address or more", "endpoints", index, "addresses")
        return ""
    first = values[0]
    if family == 4 and isinstance(first, str) and is_plain(first):
        return first
    parsed = place.reachable_address(first, "endpoints", index, "addresses", 0)
    if parsed is None:
        return ""
    if parsed.family != family:
        place.contradiction(first, f"addressType is IPv{family}", "endpoints", index, "addresses", 0)
    return parsed.text


def _hints(place: Place, hints: object, index: int, field: str, form: re.Pattern[str]) -> tuple[str, ...]:
    path = ("endpoints", index, "hints", field)
    names = set()
    for number, value in enumerate(place.items(place.mapping(hints, *path[:3]).get(field), *path)):
        fields = place.mapping(value, *path, number)
        names.add(place.name(fields.get("name"), form, *path, number, "name"))
    return tuple(sorted(names))
