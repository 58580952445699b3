# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Service as the API server gives it, to the ServicePorts of each family. Source: reference of kube-proxy 1.1."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Optional

from .addresses import is_plain
from .model import Endpoint, ServicePort
from .packet import PROTOCOLS
from .reading import LABEL, Place, remembered

TYPES = ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName")
POLICIES = ("Cluster", "Local")
FAMILIES = {"IPv4": 4, "IPv6": 6}
FAMILY_NAMES = tuple(FAMILIES)
# Set: another program serves this Service, and kube-proxy must not.
PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name"
PRESERVE_DESTINATION = "preserve-destination"
LARGEST_PORT = 65535
DEFAULT_AFFINITY_SECONDS = 10800
LONGEST_AFFINITY_SECONDS = 86400
_NO_ADDRESS: Mapping[str, Any] = {"loadBalancer": {}}  # status of a Service that has no load balancer
UNKNOWN_AGE = math.inf  # an object without creationTimestamp counts as younger than any that has one

PortKey = tuple[str, str, str, str]  # namespace, Service, port name, protocol


class Port(NamedTuple):
    name: str
    protocol: str
    port: int
    node_port: int


class Addresses(NamedTuple):
    """What a Service has in one family."""

    cluster_ip: str
    external_ips: tuple[str, ...]
    load_balancer_ips: tuple[str, ...]
    source_ranges: tuple[str, ...]


class Service(NamedTuple):
    """A Service that is proxied."""

    namespace: str
    name: str
    created: float  # seconds since 1970
    ports: Sequence[Port]
    families: Mapping[int, Addresses]
    internal_local: bool
    external_local: bool
    affinity_seconds: int
    health_check_node_port: int
    preserve_destination: bool

    def service_ports(self, family: int, endpoints: Mapping[PortKey, tuple[Endpoint, ...]]) -> Iterator[ServicePort]:
        own = self.families[family]
        for name, protocol, port, node_port in self.ports:
            yield ServicePort(  # by names, of fields as many as these, it would take twice as long
                self.namespace,
                self.name,
                name,
                protocol,
                port,
                own.cluster_ip,
                node_port,
                own.external_ips,
                own.load_balancer_ips,
                own.source_ranges,
                self.internal_local,
                self.external_local,
                self.affinity_seconds,
                self.health_check_node_port,
                self.preserve_destination,
                endpoints.get((self.namespace, self.name, name, protocol), ()),
            )


def parse_service(place: Place, metadata: Mapping[str, Any], item: Mapping[str, Any]) -> Optional[Service]:
    """None for one that kube-proxy passes over: headless, without a cluster IP yet, of type ExternalName, or served by
    another program. Such a Service makes no rules, and is not looked into further."""
    spec = place.mapping(item.get("spec"), "spec")
    kind = place.choice(spec.get("type"), TYPES, "spec", "type")
    cluster_ips = _cluster_ips(place, spec)
    labels = place.mapping(metadata.get("labels"), "metadata", "labels")
    if not cluster_ips or cluster_ips[0] == "None" or kind == "ExternalName" or PROXY_NAME_LABEL in labels:
        return None
    external_ips = place.items(spec.get("externalIPs"), "spec", "externalIPs")
    local = place.choice(spec.get("externalTrafficPolicy"), POLICIES, "spec", "externalTrafficPolicy") == "Local"
    # On a Service that nobody outside can reach the policy may be left over from before: it has no meaning there.
    external_local = local and (kind != "ClusterIP" or bool(external_ips))
    internal = place.choice(spec.get("internalTrafficPolicy"), POLICIES, "spec", "internalTrafficPolicy")
    annotations = place.mapping(metadata.get("annotations"), "metadata", "annotations")
    ports = _ports(place, spec, kind)
    return Service(
        namespace=metadata["namespace"],
        name=metadata["name"],
        created=_created(place, metadata),
        ports=ports,
        families=_usual_families(spec, item, cluster_ips) or _families(place, spec, item, kind, cluster_ips),
        internal_local=internal == "Local",
        external_local=external_local,
        affinity_seconds=_affinity_seconds(place, spec),
        health_check_node_port=_health_check_node_port(
            place, spec, ports, needed=kind == "LoadBalancer" and external_local
        ),
        preserve_destination=annotations.get(PRESERVE_DESTINATION) == "true",
    )


def _cluster_ips(place: Place, spec: Mapping[str, Any]) -> Sequence[Any]:
    """clusterIPs, or clusterIP alone as before Kubernetes 1.20; empty where none is allocated."""
    first = place.text(spec.get("clusterIP"), "spec", "clusterIP")
    every = place.items(spec.get("clusterIPs"), "spec", "clusterIPs")
    if every and every[0] != first:
        place.contradiction(every[0], "clusterIP has another value", "spec", "clusterIPs", 0)
    return every or ([first] if first else [])


def _usual_families(
    spec: Mapping[str, Any], item: Mapping[str, Any], cluster_ips: Sequence[Any]
) -> Optional[Mapping[int, Addresses]]:
    """What `_families` answers of a Service as most are: with a cluster IP of IPv4, no other address, and without faults.
    None of any other."""
    try:
        if (
            spec["ipFamilies"] == ["IPv4"]
            and len(cluster_ips) == 1
            and is_plain(cluster_ips[0])
            and item.get("status", _NO_ADDRESS) == _NO_ADDRESS
            and "externalIPs" not in spec
            and "loadBalancerSourceRanges" not in spec
        ):
            return {4: Addresses(cluster_ips[0], (), (), ())}
    except (LookupError, TypeError):
        pass  # something is not there, or is something else
    return None


def _families(
    place: Place, spec: Mapping[str, Any], item: Mapping[str, Any], kind: str, cluster_ips: Sequence[Any]
) -> Mapping[int, Addresses]:
    external_ips = _external_ips(place, spec)
    load_balancer_ips = _load_balancer_ips(place, item)
    ranges = _source_ranges(place, spec, kind)
    return {
        family: Addresses(cluster_ip, _of(external_ips, family), _of(load_balancer_ips, family), _of(ranges, family))
        for family, cluster_ip in _cluster_ip_of_each(place, spec, cluster_ips).items()
    }


def _cluster_ip_of_each(place: Place, spec: Mapping[str, Any], cluster_ips: Sequence[Any]) -> Mapping[int, str]:
    """ipFamilies says which family is at which place; where it is not set (before 1.20), the addresses say it."""
    names = place.items(spec.get("ipFamilies"), "spec", "ipFamilies")
    found: dict[int, str] = {}
    for index, value in enumerate(cluster_ips):
        parsed = place.address(value, "spec", "clusterIPs", index)
        if parsed is None:
            continue
        if index < len(names):
            named = place.choice(names[index], FAMILY_NAMES, "spec", "ipFamilies", index)
            if FAMILIES[named] != parsed.family:
                place.contradiction(value, f"ipFamilies says {named}", "spec", "clusterIPs", index)
        if parsed.family in found:
            place.contradiction(value, "there is another of its family", "spec", "clusterIPs", index)
        found[parsed.family] = parsed.text
    return found


def _external_ips(place: Place, spec: Mapping[str, Any]) -> Sequence[tuple[int, str]]:
    found = []
    for index, value in enumerate(place.items(spec.get("externalIPs"), "spec", "externalIPs")):
        if isinstance(value, str) and not value.strip():
            continue  # old API servers stored empty ones; kube-proxy passes over them
        parsed = place.reachable_address(value, "spec", "externalIPs", index)
        if parsed is not None:
            found.append((parsed.family, parsed.text))
    return found


def _load_balancer_ips(place: Place, item: Mapping[str, Any]) -> Sequence[tuple[int, str]]:
    """Of ipMode VIP, which is the default. Traffic to one of ipMode Proxy, or to a host name, goes out to it."""
    status = place.mapping(item.get("status"), "status")
    balancer = place.mapping(status.get("loadBalancer"), "status", "loadBalancer")
    found = []
    for index, value in enumerate(place.items(balancer.get("ingress"), "status", "loadBalancer", "ingress")):
        path = ("status", "loadBalancer", "ingress", index)
        ingress = place.mapping(value, *path)
        mode = place.choice(ingress.get("ipMode"), ("VIP", "Proxy"), *path, "ipMode")
        if not place.text(ingress.get("ip"), *path, "ip"):
            continue
        parsed = place.address(ingress["ip"], *path, "ip")
        if parsed is not None and mode == "VIP":
            found.append((parsed.family, parsed.text))
    return found


def _source_ranges(place: Place, spec: Mapping[str, Any], kind: str) -> Sequence[tuple[int, str]]:
    """A range of prefix 0 limits nothing in its family, whatever stands beside it."""
    values = place.items(spec.get("loadBalancerSourceRanges"), "spec", "loadBalancerSourceRanges")
    if not values:
        return []
    if kind != "LoadBalancer":
        place.contradiction(values, f"the Service is of type {kind}", "spec", "loadBalancerSourceRanges")
    parsed = [place.network(value, "spec", "loadBalancerSourceRanges", index) for index, value in enumerate(values)]
    networks = [one for one in parsed if one is not None]
    unlimited = {one.family for one in networks if one.prefix == 0}
    return [(one.family, one.text) for one in networks if one.family not in unlimited]


def _ports(place: Place, spec: Mapping[str, Any], kind: str) -> Sequence[Port]:
    values = place.items(spec.get("ports"), "spec", "ports")
    ports: list[Port] = []
    for index, value in enumerate(values):
        path = ("spec", "ports", index)
        fields = place.element(value, *path)
        if fields is None:
            continue
        said = fields.get("name"), fields.get("protocol"), fields.get("port"), fields.get("nodePort")
        port = _port(place, path, *said)
        if port.node_port and kind == "ClusterIP":
            place.contradiction(port.node_port, "the Service is of type ClusterIP", *path, "nodePort")
        if len(values) > 1:
            _check_against(ports, port, place, path)
        ports.append(port)
    return ports


@remembered
def _port(
    place: Place, path: Sequence[object], name: object, protocol: object, port: object, node_port: object
) -> Port:
    found = Port(
        place.name(name, LABEL, *path, "name"),
        place.choice(protocol, PROTOCOLS, *path, "protocol"),
        place.number(port, 1, LARGEST_PORT, *path, "port"),
        place.number(node_port, 0, LARGEST_PORT, *path, "nodePort"),
    )
    if port is None:
        place.wrong(None, f"a whole number from 1 to {LARGEST_PORT}", *path, "port")
    return found


def _check_against(others: Sequence[Port], port: Port, place: Place, path: Sequence[object]) -> None:
    """`port` is one of several, `others` are those before it."""
    if not port.name or any(one.name == port.name for one in others):
        place.contradiction(port.name, "every port of several needs a name of its own", *path, "name")
    same = [one for one in others if one.protocol == port.protocol]
    taken = f"another port of the Service has it for {port.protocol}"
    if port.port and any(one.port == port.port for one in same):
        place.contradiction(port.port, taken, *path, "port")
    if port.node_port and any(one.node_port == port.node_port for one in same):
        place.contradiction(port.node_port, taken, *path, "nodePort")


def _affinity_seconds(place: Place, spec: Mapping[str, Any]) -> int:
    affinity = place.choice(spec.get("sessionAffinity"), ("None", "ClientIP"), "spec", "sessionAffinity")
    if affinity == "None":
        return 0
    path = ("spec", "sessionAffinityConfig", "clientIP")
    config = place.mapping(place.mapping(spec.get(path[1]), *path[:2]).get(path[2]), *path)
    seconds = place.number(config.get("timeoutSeconds"), 1, LONGEST_AFFINITY_SECONDS, *path, "timeoutSeconds")
    return seconds or DEFAULT_AFFINITY_SECONDS


def _health_check_node_port(place: Place, spec: Mapping[str, Any], ports: Sequence[Port], *, needed: bool) -> int:
    path = ("spec", "healthCheckNodePort")
    port = place.number(spec.get("healthCheckNodePort"), 0, LARGEST_PORT, *path)
    if port and not needed:
        place.contradiction(port, "only type LoadBalancer with externalTrafficPolicy Local has one", *path)
    if port and any(one.node_port == port and one.protocol == "TCP" for one in ports):
        place.contradiction(port, "a port of the Service has it as its nodePort", *path)
    return port


def _created(place: Place, metadata: Mapping[str, Any]) -> float:
    text = place.text(metadata.get("creationTimestamp"), "metadata", "creationTimestamp")
    if not text:
        return UNKNOWN_AGE
    try:
        parsed = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1] in "zZ" else text)
        if parsed.tzinfo is not None:
            return parsed.timestamp()
    except (ValueError, OverflowError):
        pass
    place.wrong(text, "a time as in 2026-01-31T12:00:00Z", "metadata", "creationTimestamp")
    return UNKNOWN_AGE


def _of(addresses: Sequence[tuple[int, str]], family: int) -> tuple[str, ...]:
    return tuple(sorted({text for of, text in addresses if of == family})) if addresses else ()
