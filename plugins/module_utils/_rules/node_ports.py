# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""On which of a node's addresses node ports are served: one pure function, the same for every backend."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .model import FamilyView, RuleConfig

PRIMARY = "primary"
LOOPBACK_ADDRESS = "127.0.0.1"  # that of the link lo


@dataclass(frozen=True)
class NodePortAddresses:
    """Where node ports are served, in one family.

    `addresses` always lists the node's addresses that serve them, sorted by value, never a loopback address (ipvs needs
    the list, as it has a virtual server for each). With `all_local` nothing limits them: rules say "any local address",
    which includes addresses that a link gets later. Without it, rules name `addresses` alone.

    `loopback` says whether they are served on loopback as well (only iptables with IPv4 does): with `all_local` on
    127.0.0.0/8, else on 127.0.0.1 alone.
    """

    all_local: bool
    addresses: tuple[str, ...] = ()
    loopback: bool = False


def node_port_addresses(view: FamilyView, config: RuleConfig) -> NodePortAddresses:
    """Resolve nodePortAddresses for this node.

    Unset is "primary" for nftables, every local address for the others. A list without a network of this family limits
    nothing in it, and so does "primary" on a node without an address of it: kube-proxy then adds 0.0.0.0/0 or ::/0.
    Source: reference of kube-proxy 1.5; KubeProxyConfiguration, nodePortAddresses.
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
    """The networks of this family in nodePortAddresses, with "primary" replaced; empty: no limit."""
    values = config.node_port_addresses
    if values is None:
        values = (PRIMARY,) if config.backend == "nftables" else ()
    primary = view.node.primary
    # A loopback address of the Node object cannot be reached from anywhere: kube-proxy skips it.
    own = [primary] if primary and not ipaddress.ip_address(primary).is_loopback else []
    replaced = [network for value in values for network in (own if value == PRIMARY else [value])]
    return [network for network in replaced if ipaddress.ip_network(network).version == view.family]


def _loopback_works(view: FamilyView, config: RuleConfig) -> bool:
    """A packet from 127.0.0.1 leaves the node only with route_localnet, which IPv6 lacks and only the backend iptables
    sets."""
    return config.backend == "iptables" and view.family == 4 and config.localhost_node_ports


def _sort(addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(addresses), key=lambda address: ipaddress.ip_address(address).packed))
