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
LOOPBACK_ADDRESS = "127.0.0.1"  # the one on the link lo


@dataclass(frozen=True)
class NodePortAddresses:
    """Where node ports are served, in one family.

    `addresses` always lists the node's addresses that serve them, sorted by value, never a loopback address (ipvs needs
    the list, as it has a virtual server for each). With `all_local` nothing limits them: rules say "any local address",
    so that one which a link gets later counts too; without it, rules say `addresses` and no more.

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
        return NodePortAddresses(True, _sorted(view.node.addresses), _loopback_works(view, config))
    parsed = [ipaddress.ip_network(network) for network in networks]
    matched = [one for one in view.node.addresses if any(ipaddress.ip_address(one) in network for network in parsed)]
    named = any(ipaddress.ip_address(LOOPBACK_ADDRESS) in network for network in parsed)
    return NodePortAddresses(False, _sorted(matched), named and _loopback_works(view, config))


def _networks(view: FamilyView, config: RuleConfig) -> Sequence[str]:
    """The networks of this family that nodePortAddresses names, "primary" replaced; empty: no limit."""
    asked = config.node_port_addresses
    if asked is None:
        asked = (PRIMARY,) if config.backend == "nftables" else ()
    primary = view.node.primary
    # A loopback address of the Node object cannot be reached from anywhere: kube-proxy skips it.
    own = [primary] if primary and not ipaddress.ip_address(primary).is_loopback else []
    replaced = [network for one in asked for network in (own if one == PRIMARY else [one])]
    return [network for network in replaced if ipaddress.ip_network(network).version == view.family]


def _loopback_works(view: FamilyView, config: RuleConfig) -> bool:
    """A packet from 127.0.0.1 leaves the node only with route_localnet, which IPv6 has no equal of, and which of the
    backends only iptables sets."""
    return config.backend == "iptables" and view.family == 4 and config.localhost_node_ports


def _sorted(addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(addresses), key=lambda one: ipaddress.ip_address(one).packed))
