# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses a Service object into the ServicePorts of each family. Source: kube-proxy, serviceport.go."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Optional

from .._core.text.decode import Faults, Reader, Wrong, text, whole
from .addresses import is_plain
from .gates import IP_MODE, Release
from .model import Endpoint, ServicePort
from .packet import PROTOCOLS
from .reading import (
    LABEL,
    WORDS,
    address,
    contradict,
    enum,
    matching_name,
    network,
    objects,
    parse_each,
    reachable_address,
    remember,
    skip,
)

TYPES = ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName")
POLICIES = ("Cluster", "Local")
FAMILIES = {"IPv4": 4, "IPv6": 6}
FAMILY_NAMES = tuple(FAMILIES)
# If set, another program serves this Service, and kube-proxy must ignore it.
PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name"
HEADLESS_LABEL = "service.kubernetes.io/headless"
# The first one present is used.
HINTS_ANNOTATIONS = ("service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode")
PRESERVE_DESTINATION = "preserve-destination"
LARGEST_PORT = 65535
DEFAULT_AFFINITY_SECONDS = 10800
LONGEST_AFFINITY_SECONDS = 86400
_NO_ADDRESS: Mapping[str, Any] = {"loadBalancer": {}}  # status of a Service without a load balancer
UNKNOWN_AGE = math.inf  # objects without creationTimestamp count as the youngest

_LABEL, _PORT, _NODE_PORT = matching_name(LABEL), whole(1, LARGEST_PORT), whole(0, LARGEST_PORT)
_TYPE, _POLICY, _PROTOCOL = enum(TYPES), enum(POLICIES), enum(PROTOCOLS)
_FAMILY, _MODE, _AFFINITY = enum(FAMILY_NAMES), enum(("VIP", "Proxy")), enum(("None", "ClientIP"))
_AFFINITY_SECONDS = whole(1, LONGEST_AFFINITY_SECONDS)

PortKey = tuple[str, str, str, str]  # namespace, Service, port name, protocol


class Port(NamedTuple):
    name: str
    protocol: str
    port: int
    node_port: int


class Addresses(NamedTuple):
    """The addresses of a Service in one family."""

    cluster_ip: str
    external_ips: tuple[str, ...]
    load_balancer_ips: tuple[str, ...]
    source_ranges: tuple[str, ...]


class Service(NamedTuple):
    """A Service that kube-proxy serves."""

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
    proxied_ips: Sequence[tuple[int, str]] = ()  # load balancer IPs with ipMode Proxy, each with its family
    has_headless_label: bool = False
    hints_annotation: str = ""

    def service_ports(
        self, family: int, endpoints: Mapping[PortKey, tuple[Endpoint, ...]], release: Release
    ) -> Iterator[ServicePort]:
        """Its ServicePorts of one family, in the order of `ports`. `endpoints` are those of all Services."""
        own = self.families[family]
        external_ips = own.external_ips if release.serves_external_ips else ()
        balancers = own.load_balancer_ips
        if self.proxied_ips and not release.is_on(IP_MODE):
            balancers = tuple(sorted({*balancers, *_of(self.proxied_ips, family)}))
        hints = release.hints(self.hints_annotation)
        for name, protocol, port, node_port in self.ports:
            reached = endpoints.get((self.namespace, self.name, name, protocol), ())
            yield ServicePort(  # positional, because keyword arguments would take twice as long
                self.namespace,
                self.name,
                name,
                protocol,
                port,
                own.cluster_ip,
                node_port,
                external_ips,
                balancers,
                own.source_ranges,
                self.internal_local,
                self.external_local,
                self.affinity_seconds,
                self.health_check_node_port,
                self.preserve_destination,
                reached if hints == (True, True) else _limit_hints(reached, *hints),
                external_ips != own.external_ips,
            )


def _limit_hints(endpoints: tuple[Endpoint, ...], zones: bool, nodes: bool) -> tuple[Endpoint, ...]:
    return tuple(
        [
            endpoint._replace(
                zone_hints=endpoint.zone_hints if zones else (), node_hints=endpoint.node_hints if nodes else ()
            )
            if endpoint.zone_hints or endpoint.node_hints
            else endpoint
            for endpoint in endpoints
        ]
    )


def parse_service(item: Reader, metadata: Reader, proxy_name: Optional[str] = None) -> Optional[Service]:
    """The parsed Service; None for one that every kube-proxy ignores: headless, without a cluster IP, of type ExternalName,
    or served by another program. Such a Service makes no rules and is not checked further. `proxy_name` is the value of
    PROXY_NAME_LABEL to select; None selects Services without that label."""
    spec = item.below("spec")
    kind = spec.read("type", _TYPE, TYPES[0])
    cluster_ips = _cluster_ips(spec)
    labels = metadata.mapping("labels")
    if not cluster_ips and kind != "ExternalName":
        skip(spec, "clusterIP", "", "an address")
    if not cluster_ips or cluster_ips[0] == "None" or kind == "ExternalName":
        return None
    if (labels[PROXY_NAME_LABEL] or "" if PROXY_NAME_LABEL in labels else None) != proxy_name:
        return None
    annotations = metadata.mapping("annotations")
    hints = next((annotations[name] for name in HINTS_ANNOTATIONS if name in annotations), "")
    local = spec.read("externalTrafficPolicy", _POLICY, POLICIES[0]) == "Local"
    # The policy may be left over on a Service that is no longer reachable from outside, where it has no effect.
    external_local = local and (kind != "ClusterIP" or bool(spec.sequence("externalIPs")))
    ports = _ports(spec, kind)
    usual = _usual_families(spec.values, item.values, cluster_ips)  # these have no load balancer
    return Service(
        namespace=metadata.values["namespace"],
        name=metadata.values["name"],
        created=_creation_seconds(metadata),
        ports=ports,
        families=usual or _families(item, spec, kind, cluster_ips),
        internal_local=spec.read("internalTrafficPolicy", _POLICY, POLICIES[0]) == "Local",
        external_local=external_local,
        affinity_seconds=_affinity_seconds(spec),
        health_check_node_port=_health_check_node_port(spec, ports, needed=kind == "LoadBalancer" and external_local),
        preserve_destination=annotations.get(PRESERVE_DESTINATION) == "true",
        # `_families` has reported the faults of these fields already.
        proxied_ips=() if usual else _load_balancer_ips(Reader(item.values, Faults(WORDS)), "Proxy"),
        has_headless_label=HEADLESS_LABEL in labels,
        hints_annotation=hints if isinstance(hints, str) else "",
    )


def _cluster_ips(spec: Reader) -> Sequence[Any]:
    """clusterIPs, or only clusterIP as before Kubernetes 1.20; empty if none is allocated."""
    first = spec.read("clusterIP", text, "")
    every = spec.sequence("clusterIPs")
    if every and every[0] != first:
        contradict(spec, "clusterIPs[0]", every[0], "clusterIP has a different value")
    return every or ([first] if first else [])


def _usual_families(
    spec: Mapping[str, Any], item: Mapping[str, Any], cluster_ips: Sequence[Any]
) -> Optional[Mapping[int, Addresses]]:
    """A faster `_families` for the most common Service: one IPv4 cluster IP, no other address, no fault. None for any
    other."""
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
        pass  # a field is missing or has another type
    return None


def _families(item: Reader, spec: Reader, kind: str, cluster_ips: Sequence[Any]) -> Mapping[int, Addresses]:
    external_ips = _external_ips(spec)
    load_balancer_ips = _load_balancer_ips(item, "VIP")
    ranges = _source_ranges(spec, kind)
    return {
        family: Addresses(
            cluster_ip,
            _of(external_ips, family),
            _of(load_balancer_ips, family),
            _of(ranges, family),
        )
        for family, cluster_ip in _cluster_ip_of_each(spec, cluster_ips).items()
    }


def _cluster_ip_of_each(spec: Reader, cluster_ips: Sequence[Any]) -> Mapping[int, str]:
    """The cluster IP of each family, according to ipFamilies, or to the addresses if it is not set (before 1.20)."""
    names = spec.sequence("ipFamilies")
    by_family: dict[int, str] = {}
    for index, value in enumerate(cluster_ips):
        key = f"clusterIPs[{index}]"
        parsed = spec.faults.take(spec.at(key), value, address, None)
        if parsed is None:
            continue
        if index < len(names):
            named = spec.faults.take(spec.at(f"ipFamilies[{index}]"), names[index] or "", _FAMILY, FAMILY_NAMES[0])
            if FAMILIES[named] != parsed.family:
                contradict(spec, key, value, f"ipFamilies says {named}")
        if parsed.family in by_family:
            contradict(spec, key, value, "there is another of its family")
        by_family[parsed.family] = parsed.text
    return by_family


def _external_ips(spec: Reader) -> Sequence[tuple[int, str]]:
    """The externalIPs, without empty ones, which old API servers stored and kube-proxy ignores."""
    values = [row for row in spec.items("externalIPs") if not (isinstance(row[1], str) and not row[1].strip())]
    parsed = [spec.faults.take(path, value, reachable_address, None) for path, value in values]
    return [(ip.family, ip.text) for ip in parsed if ip is not None]


def _load_balancer_ips(item: Reader, mode: str) -> Sequence[tuple[int, str]]:
    """The ingress IPs with ipMode VIP, the default, or Proxy. Traffic to an ipMode Proxy address or a host name leaves the
    node."""
    ips = []
    for ingress in objects(item.below("status").below("loadBalancer"), "ingress"):
        own_mode = ingress.read("ipMode", _MODE, "VIP")
        parsed = ingress.read("ip", address, None) if ingress.read("ip", text, "") else None
        if parsed is not None and own_mode == mode:
            ips.append((parsed.family, parsed.text))
    return ips


def _source_ranges(spec: Reader, kind: str) -> Sequence[tuple[int, str]]:
    """The source ranges by family. A range of length 0 lifts the restriction of its family, whatever the other ranges
    are."""
    values = spec.sequence("loadBalancerSourceRanges")
    if values and kind != "LoadBalancer":
        contradict(spec, "loadBalancerSourceRanges", values, f"the Service is of type {kind}")
    networks = [cidr for _value, cidr in parse_each(spec, "loadBalancerSourceRanges", network) if cidr is not None]
    unlimited = {cidr.family for cidr in networks if cidr.prefix == 0}
    return [(cidr.family, cidr.text) for cidr in networks if cidr.family not in unlimited]


def _ports(spec: Reader, kind: str) -> Sequence[Port]:
    ports: list[Port] = []
    values = spec.sequence("ports")
    for index, value in enumerate(values):
        key = f"ports[{index}]"
        if not isinstance(value, dict):
            spec.wrong(key, value, "an object")
            continue
        port = _port(value, spec.faults, spec.at(key))
        if port.node_port and kind == "ClusterIP":
            contradict(spec, f"{key}.nodePort", port.node_port, "the Service is of type ClusterIP")
        if len(values) > 1:
            _check_against(ports, port, spec, key)
        ports.append(port)
    return ports


@remember("name", "protocol", "port", "nodePort")
def _port(row: Reader) -> Port:
    return Port(
        row.read("name", _LABEL, ""),
        row.read("protocol", _PROTOCOL, PROTOCOLS[0]),
        row.faults.take(row.at("port"), row.get("port"), _PORT, 0),
        row.read("nodePort", _NODE_PORT, 0),
    )


def _check_against(others: Sequence[Port], port: Port, spec: Reader, key: str) -> None:
    """Check `port` against `others`, the ports before it."""
    if not port.name or any(other.name == port.name for other in others):
        contradict(spec, f"{key}.name", port.name, "each of several ports needs its own name")
    same = [other for other in others if other.protocol == port.protocol]
    taken = f"another port of the Service uses it for {port.protocol}"
    if port.port and any(other.port == port.port for other in same):
        contradict(spec, f"{key}.port", port.port, taken)
    if port.node_port and any(other.node_port == port.node_port for other in same):
        contradict(spec, f"{key}.nodePort", port.node_port, taken)


def _affinity_seconds(spec: Reader) -> int:
    if spec.read("sessionAffinity", _AFFINITY, "None") == "None":
        return 0
    config = spec.below("sessionAffinityConfig").below("clientIP")
    return config.read("timeoutSeconds", _AFFINITY_SECONDS, DEFAULT_AFFINITY_SECONDS)


def _health_check_node_port(spec: Reader, ports: Sequence[Port], *, needed: bool) -> int:
    key = "healthCheckNodePort"
    port = spec.read(key, _NODE_PORT, 0)
    if port and not needed:
        contradict(spec, key, port, "only type LoadBalancer with externalTrafficPolicy Local has one")
    if port and any(other.node_port == port and other.protocol == "TCP" for other in ports):
        contradict(spec, key, port, "a port of the Service uses it as its nodePort")
    return port


def _creation_seconds(metadata: Reader) -> float:
    return metadata.read("creationTimestamp", _timestamp, UNKNOWN_AGE)


def _timestamp(value: Any) -> float:
    written = text(value)
    if not written:
        return UNKNOWN_AGE
    try:
        parsed = datetime.fromisoformat(written[:-1] + "+00:00" if written[-1] in "zZ" else written)
        if parsed.tzinfo is not None:
            return parsed.timestamp()
    except (ValueError, OverflowError):
        pass
    raise Wrong("a time as in 2026-01-31T12:00:00Z")


def _of(addresses: Sequence[tuple[int, str]], family: int) -> tuple[str, ...]:
    return tuple(sorted({text for of, text in addresses if of == family})) if addresses else ()
