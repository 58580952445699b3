# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Everything that decides about packets of one IP family on a node: the rules of all programs, not only those of
Services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional, Union

from .iptables.objects import Tables
from .ipvs.objects import IpSet, IpvsRules
from .nftables.objects import Ruleset, Table

# What a missing part affects: everything; only whether packets that nothing translates are refused; or only packets from
# outside to addresses that are not the node's own.
EVERYTHING, REFUSALS, ARRIVALS = "everything", "refusals", "arrivals"


@dataclass(frozen=True)
class Missing:
    """A part that a dump lacks, and the command that saves it. Questions that depend on it are not answered."""

    part: str  # "iptables table filter"
    remedy: str  # "iptables-save -t filter"
    decides: str = EVERYTHING


@dataclass(frozen=True)
class NodeRules:
    """`nftables` has the tables of this family and of `inet`, except those that iptables-nft shows. `iptables` is by variant
    (iptables/restore.py: VARIANTS). Of `ipvs`, only virtual servers and addresses are used; its `tables` are in `iptables`.
    `sets` are the ipsets of all programs."""

    nftables: Ruleset = Ruleset()
    iptables: Mapping[str, Tables] = field(default_factory=dict)
    ipvs: Optional[IpvsRules] = None
    sets: tuple[IpSet, ...] = ()
    missing: tuple[Missing, ...] = ()  # always empty for a live kernel


def rules_of_one(rules: Union[Table, Tables, IpvsRules, None], *, variant: str) -> NodeRules:
    """The rules of one backend alone, as it reads or compiles them; None means no rules. `variant` is that of iptables."""
    if isinstance(rules, Tables):
        return NodeRules(iptables={variant: rules})
    if isinstance(rules, IpvsRules):
        return NodeRules(iptables={variant: rules.tables}, ipvs=rules, sets=rules.sets)
    return NodeRules(Ruleset({} if rules is None else {(rules.family, rules.name): rules}))
