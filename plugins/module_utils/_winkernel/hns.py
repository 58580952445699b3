# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses the state of a Windows node's HNS, given in the option `hns`: nothing here runs on Windows. Pure.

id, overlay, host_mac    of the HNS network of the pods; all optional
remote_subnets           [{prefix, provider_address}], for an overlay
endpoints                [{address, id}], the existing ones
load_balancers           the existing policies, as HNS shows them (HostComputeLoadBalancer)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from .._core.text.decode import Faults, Parser, Reader, Words, Wrong
from .._rules.addresses import parse_address, parse_network
from .._rules.messages import MESSAGES
from .._rules.reading import parse_each
from .backend import IPV6, HnsNetwork, HnsRules, LoadBalancer, RemoteSubnet

T = TypeVar("T")

_KEYS = ("endpoints", "host_mac", "id", "load_balancers", "overlay", "remote_subnets")
_WORDS = Words(MESSAGES, value="rules-hns-value", key="rules-hns-key", show=str)


@dataclass(frozen=True)
class HnsState:
    network: HnsNetwork
    rules: Mapping[int, HnsRules]  # by family


def parse_hns(data: Mapping[str, Any]) -> HnsState:
    """Parse the option. Problems, with all faults."""
    faults = Faults(_WORDS)
    top = Reader(data, faults, known=_KEYS)
    subnets = _rows(top, "remote_subnets", _row("prefix", "provider_address"))
    endpoints = _rows(top, "endpoints", _row("address", "id"))
    for at, row in enumerate(subnets):
        if parse_network(row["prefix"]) is None:
            faults.wrong(f"remote_subnets[{at}].prefix", row["prefix"], "a network")
    for at, row in enumerate(endpoints):
        if parse_address(row["address"]) is None:
            faults.wrong(f"endpoints[{at}].address", row["address"], "an address")
    balancers = _rows(top, "load_balancers", _balancer)
    faults.raise_all()
    network = HnsNetwork(
        id=str(data.get("id", "")),
        overlay=bool(data.get("overlay", False)),
        host_mac=str(data.get("host_mac", "")),
        remote_subnets=tuple(RemoteSubnet(row["prefix"], row["provider_address"]) for row in subnets),
        endpoint_ids=tuple((row["address"], row["id"]) for row in endpoints),
    )
    return HnsState(
        network,
        {
            family: HnsRules(
                network.id,
                (),
                tuple(balancer for balancer in balancers if bool(balancer.flags & IPV6) == (family == 6)),
            )
            for family in (4, 6)
        },
    )


def _rows(top: Reader, key: str, parse: Parser[T]) -> list[T]:
    return [parsed for _value, parsed in parse_each(top, key, parse) if parsed is not None]


def _row(*names: str) -> Parser[dict[str, str]]:
    """A parser of mappings with exactly these keys and string values."""

    def parse(value: Any) -> dict[str, str]:
        if isinstance(value, dict) and set(value) == set(names) and all(isinstance(value[name], str) for name in names):
            return value
        raise Wrong(f"a mapping of {' and '.join(names)}")

    return parse


def _balancer(row: Any) -> LoadBalancer:
    """Parse a policy that `LoadBalancer.as_hns` wrote, as HNS shows it, with additional keys."""
    try:
        [mapping] = row["PortMappings"]
        vips = row["FrontendVIPs"]
        return LoadBalancer(
            vip=str(vips[0]) if vips else "",
            protocol=int(mapping["Protocol"]),
            external_port=int(mapping["ExternalPort"]),
            internal_port=int(mapping["InternalPort"]),
            endpoints=tuple(sorted(str(endpoint) for endpoint in row["HostComputeEndpoints"])),
            source_vip=str(row.get("SourceVIP", "")),
            distribution=int(mapping.get("DistributionType", 0)),
            port_flags=int(mapping.get("Flags", 0)),
            flags=int(row.get("Flags", 0)),
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        expected = "a load balancer policy with PortMappings (one), FrontendVIPs and HostComputeEndpoints"
        raise Wrong(expected) from None
