# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The networks behind bridges of containers and virtual machines, derived from the rules for these bridges.

Docker, Podman and libvirt write rules with a bridge and its network, such as `-s 172.17.0.0/16 ! -o docker0` or `-d
192.168.122.0/24 -o virbr0`. Such a bridge leads only to its own network: a packet to any other network does not leave by it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Union

from ..._rules.iptables import objects as ipt
from ..._rules.nftables import expressions as nft
from ..._rules.nftables.objects import Ruleset
from ..._rules.node_rules import NodeRules

Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

_BRIDGE = re.compile(r"docker0|docker_gwbridge|br-[0-9a-f]{12}|(cni-)?podman\d+|virbr\d+|lxcbr\d+|lxdbr\d+|nerdctl\d+")
_OF_SERVICES = ("KUBE-", "kube-proxy")  # skipped: many chains, and none names a bridge


def find_bridges(rules: NodeRules) -> Mapping[str, tuple[Network, ...]]:
    """The networks behind each bridge, by its name."""
    behind: dict[str, dict[Network, None]] = {}
    named = [*_in_nftables(rules.nftables)]
    for tables in rules.iptables.values():
        named += _in_iptables(tables)
    for bridge, network in named:
        if _BRIDGE.fullmatch(bridge):
            try:
                behind.setdefault(bridge, {}).setdefault(ipaddress.ip_network(network), None)
            except ValueError:  # a range of addresses
                continue
    return {bridge: tuple(networks) for bridge, networks in behind.items()}


def _in_iptables(tables: ipt.Tables) -> Iterator[tuple[str, str]]:
    for table in tables.tables:
        for chain in table.chains:
            for rule in () if chain.name.startswith(_OF_SERVICES) else chain.rules:
                for link in rule.matches:
                    if isinstance(link, ipt.OutInterface):
                        end = ipt.Source if link.negated else ipt.Destination
                        yield from (
                            (link.name, at.network) for at in rule.matches if isinstance(at, end) and not at.negated
                        )


def _in_nftables(ruleset: Ruleset) -> Iterator[tuple[str, str]]:
    for table in ruleset.tables.values():
        for chain in () if table.name.startswith(_OF_SERVICES) else table.chains.values():
            for rule in chain.rules:
                matches = [statement for statement in rule.statements if isinstance(statement, nft.Match)]
                for link in matches:
                    if link.left == nft.Meta("oifname") and link.operator in (nft.EQUAL, nft.UNEQUAL):
                        field = "saddr" if link.operator == nft.UNEQUAL else "daddr"
                        yield from (
                            (name, network)
                            for at in matches
                            if at.left in (nft.Payload("ip", field), nft.Payload("ip6", field))
                            and at.operator == nft.EQUAL
                            for name in _constants(link)
                            for network in _constants(at)
                        )


def _constants(match: nft.Match) -> list[str]:
    return [key[0] for key in match.right.keys] if isinstance(match.right, nft.AnonymousSet) else []
