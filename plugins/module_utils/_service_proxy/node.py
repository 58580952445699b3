# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""What this node and the configuration mean for the rules of each family."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from .._core.text.errors import BallastError, Problems
from .._core.text.ip_families import of_family
from .._rules.config import parse_config
from .._rules.gates import Release, given_gates
from .._rules.model import NFTABLES, FamilyView, RuleConfig
from .._rules.nftables.compile import Compiler
from .._rules.node_ports import NodePortAddresses
from .._rules.nodes import build_node_views
from .objects import Objects
from .ports import LoopSettings


class Circumstances(NamedTuple):
    """Everything that the rules of one family depend on besides the Services. While it stays equal, the Compiler is kept."""

    view: FamilyView  # without Services; the node's addresses are only those that serve node ports
    config: RuleConfig
    node_ports: NodePortAddresses
    release: Release


def circumstances_of(
    settings: LoopSettings, objects: Objects, addresses: Sequence[str], families: Iterable[int]
) -> Mapping[int, Circumstances]:
    """`addresses` are those on the node's links. UserError or Problems for a configuration that cannot be used."""
    problems: list[BallastError] = []
    views = build_node_views(
        [] if objects.node is None else [objects.node.node],
        name=settings.node_name,
        addresses=addresses,
        bind_address=settings.document.get("bindAddress"),
        problems=problems,
    )
    Problems.raise_if(problems)
    release = Release(views[4].minor, given_gates(settings.document))
    circumstances = {}
    for family in families:
        node = views[family]
        config = parse_config(settings.document, backend=NFTABLES, family=family, node=node).rules
        view = FamilyView(family, node, service_cidrs=objects.cidrs(family, release))
        node_ports = Compiler(view, config).node_ports
        # A new pod adds an address to a link, which must not count as a change of rules.
        served = replace(node, addresses=node_ports.addresses)
        if node_ports.all_local:
            node_ports, served = replace(node_ports, addresses=()), replace(node, addresses=())
        circumstances[family] = Circumstances(replace(view, node=served), config, node_ports, release)
    return circumstances


def node_port_addresses_of(at: Circumstances, addresses: Sequence[str]) -> Collection[str]:
    """Those of `addresses`, which are on the node's links, where node ports are served."""
    ports = at.node_ports
    return of_family(addresses, ipv6=at.view.family == 6) if ports.all_local else ports.addresses
