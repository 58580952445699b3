# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers as tests write them."""

from __future__ import annotations

from typing import Union

from ansible_collections.ballast.kube.plugins.module_utils._audit.tracing import packet_path
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import Tables
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import IpvsRules
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Ruleset, Table
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_rules import NodeRules, rules_of_one
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import (
    Answer,
    Packet,
    Surroundings,
    translate_to,
)


def to(*endpoints: str, masquerade: bool = False, hairpin: tuple[str, ...] = (), affinity: int = 0) -> Answer:
    """`masquerade`: for all of them; else for those of `hairpin`."""
    replaced = endpoints if masquerade else hairpin
    return translate_to(endpoints, masqueraded=replaced, hairpin=hairpin, affinity_seconds=affinity)


def trace(rules: Union[Table, Tables, IpvsRules, Ruleset], packet: Packet, surroundings: Surroundings) -> Answer:
    """By the rules of one program alone."""
    alone = NodeRules(rules) if isinstance(rules, Ruleset) else rules_of_one(rules, variant="nft")
    return packet_path.trace(alone, packet, surroundings)
