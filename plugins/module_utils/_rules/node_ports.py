# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""On which addresses of a node its node ports are served: one pure function for all backends."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .model import FamilyView, RuleConfig

PRIMARY = "primary"
LOOPBACK_ADDRESS = "127.0.0.1"  # the address of the link lo


@dataclass(frozen=True)
class NodePortAddresses:
    """Where node ports are served, in one family.

    `addresses` always lists the node's addresses that serve node ports, sorted numerically and without loopback (ipvs needs
    the list, as it has a virtual server for each). With `all_local` there is no restriction: rules match any local address,
    including those that a link gets later. Otherwise rules match only `addresses`.

    `loopback`: whether node ports are served on loopback as well, which only iptables with IPv4 supports: with `all_local`
    on 127.0.0.0/8, else only on 127.0.0.1.
    """

    all_local: bool
    addresses: tuple[str, ...] = ()
    loopback: bool = False


def node_port_addresses(view: FamilyView, config: RuleConfig) -> NodePortAddresses:
    """Resolve nodePortAddresses for this node.

    If not set, it is "primary" for nftables and all local addresses for the others. A list without a network of this family
    does not restrict this family, and neither does "primary" on a node without an address of the family: kube-proxy then
    adds 0.0.0.0/0 or ::/0. Source: kube-proxy, util/nodeport_addresses.go.
    """
    networks = _networks(view, config)
    if not networks or any(network.endswith("/0") for network in networks):
        return NodePortAddresses(True, _sort(view.node.addresses), _loopback_works(view, config))
    parsed = [ipaddress.ip_network(network) for network in networks]
    matched = [
        address
        for address in view.node.addresses
        if any(ipaddress.ip_address(address) in network for network in parsed)
    ]
    named = any(ipaddress.ip_address(LOOPBACK_ADDRESS) in network for network in parsed)
    return NodePortAddresses(False, _sort(matched), named and _loopback_works(view, config))


def _networks(view: FamilyView, config: RuleConfig) -> Sequence[str]:
    """The networks of this family in nodePortAddresses, with "primary" replaced; empty: no restriction."""
    values = config.node_port_addresses
    if values is None:
        values = (PRIMARY,) if config.backend == "nftables" else ()
    primary = view.node.primary
    # A loopback address of the Node object is not reachable from anywhere: kube-proxy skips it.
    own = [primary] if primary and not ipaddress.ip_address(primary).is_loopback else []
    replaced = [network for value in values for network in (own if value == PRIMARY else [value])]
    return [network for network in replaced if ipaddress.ip_network(network).version == view.family]


def _loopback_works(view: FamilyView, config: RuleConfig) -> bool:
    """Whether node ports work on loopback: a packet from 127.0.0.1 leaves the node only with route_localnet, which IPv6
    lacks and only the iptables backend sets."""
    return config.backend == "iptables" and view.family == 4 and config.localhost_node_ports


def _sort(addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(addresses), key=lambda address: ipaddress.ip_address(address).packed))
