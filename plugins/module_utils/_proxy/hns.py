# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a Windows node's HNS has, as the option `hns` tells it, since nothing here can ask it. Pure.

id, overlay, host_mac    of the HNS network of pods; all may be left out
remote_subnets           [{prefix, provider_address}], of an overlay
endpoints                [{address, id}], those that are there
load_balancers           policies that are there, as HNS shows them (HostComputeLoadBalancer)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._core.errors import BallastError, Problems
from .addresses import parse_address, parse_network
from .messages import MESSAGES
from .winkernel import IPV6, HnsNetwork, HnsRules, LoadBalancer, RemoteSubnet

_KEYS = {"id", "overlay", "host_mac", "remote_subnets", "endpoints", "load_balancers"}


@dataclass(frozen=True)
class HnsState:
    network: HnsNetwork
    rules: Mapping[int, HnsRules]  # by family


def parse_hns(data: Mapping[str, Any]) -> HnsState:
    """Problems, with every fault."""
    problems: list[BallastError] = []
    for key in sorted(set(data) - _KEYS):
        problems.append(MESSAGES.error("rules-hns-key", key=key, allowed=", ".join(sorted(_KEYS))))
    subnets = _rows(data, "remote_subnets", ("prefix", "provider_address"), problems)
    endpoints = _rows(data, "endpoints", ("address", "id"), problems)
    for at, row in enumerate(subnets):
        if parse_network(row["prefix"]) is None:
            problems.append(_wrong(f"remote_subnets[{at}].prefix", row["prefix"], "a network"))
    for at, row in enumerate(endpoints):
        if parse_address(row["address"]) is None:
            problems.append(_wrong(f"endpoints[{at}].address", row["address"], "an address"))
    balancers = [
        _balancer(row, f"load_balancers[{at}]", problems)
        for at, row in enumerate(_list(data, "load_balancers", problems))
    ]
    Problems.raise_if(problems)
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
            family: HnsRules(network.id, (), tuple(one for one in balancers if bool(one.flags & IPV6) == (family == 6)))
            for family in (4, 6)
        },
    )


def _wrong(path: str, value: object, wanted: str) -> BallastError:
    return MESSAGES.error("rules-hns-value", path=path, value=value, wanted=wanted)


def _list(data: Mapping[str, Any], key: str, problems: list[BallastError]) -> Sequence[Any]:
    value = data.get(key) or []
    if not isinstance(value, list):
        problems.append(_wrong(key, value, "a list"))
        return []
    return value


def _rows(
    data: Mapping[str, Any], key: str, names: tuple[str, str], problems: list[BallastError]
) -> list[dict[str, str]]:
    """The rows of a list, of which each has just these names with texts."""
    found = []
    for at, row in enumerate(_list(data, key, problems)):
        if isinstance(row, dict) and set(row) == set(names) and all(isinstance(row[name], str) for name in names):
            found.append(row)
        else:
            wanted = f"a mapping of {' and '.join(names)}"
            problems.append(_wrong(f"{key}[{at}]", row, wanted))
    return found


def _balancer(row: Any, path: str, problems: list[BallastError]) -> LoadBalancer:
    """One policy as `LoadBalancer.as_hns` writes it and HNS shows it, which adds keys of its own."""
    try:
        [mapping] = row["PortMappings"]
        vips = row["FrontendVIPs"]
        return LoadBalancer(
            vip=str(vips[0]) if vips else "",
            protocol=int(mapping["Protocol"]),
            external_port=int(mapping["ExternalPort"]),
            internal_port=int(mapping["InternalPort"]),
            endpoints=tuple(sorted(str(one) for one in row["HostComputeEndpoints"])),
            source_vip=str(row.get("SourceVIP", "")),
            distribution=int(mapping.get("DistributionType", 0)),
            port_flags=int(mapping.get("Flags", 0)),
            flags=int(row.get("Flags", 0)),
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        wanted = "a load balancer policy with PortMappings (one), FrontendVIPs and HostComputeEndpoints"
        problems.append(_wrong(path, row, wanted))
        return LoadBalancer("", 0, 0, 0, (), "")
