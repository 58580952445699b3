# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Everything that decides about packets of one IP family on a node: the rules of all programs, not those of Services alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional, Union

from .iptables.objects import Tables
from .ipvs.objects import IpSet, IpvsRules
from .nftables.objects import Ruleset, Table

# What a missing part decides: everything; only whether packets are refused that nothing translates; or packets that come
# from outside to addresses that are not the node's own.
EVERYTHING, REFUSALS, ARRIVALS = "everything", "refusals", "arrivals"


@dataclass(frozen=True)
class Missing:
    """A part that a dump does not hold, and the command that saves it. What depends on it is not answered."""

    part: str  # "iptables table filter"
    remedy: str  # "iptables-save -t filter"
    decides: str = EVERYTHING


@dataclass(frozen=True)
class NodeRules:
    """`nftables` has the tables of this family and of `inet`, except those that iptables-nft shows. `iptables` is by variant
    (iptables/restore.py: VARIANTS). Of `ipvs`, its virtual servers and addresses count; its `tables` are in `iptables`. `sets`:
    the ipsets of all programs that were read.
    """

    nftables: Ruleset = Ruleset()
    iptables: Mapping[str, Tables] = field(default_factory=dict)
    ipvs: Optional[IpvsRules] = None
    sets: tuple[IpSet, ...] = ()
    missing: tuple[Missing, ...] = ()  # never of a kernel


def rules_of_one(rules: Union[Table, Tables, IpvsRules, None], *, variant: str) -> NodeRules:
    """The rules of one backend alone, as it reads or compiles them; `variant` is that of iptables. None has no rules."""
    if isinstance(rules, Tables):
        return NodeRules(iptables={variant: rules})
    if isinstance(rules, IpvsRules):
        return NodeRules(iptables={variant: rules.tables}, ipvs=rules, sets=rules.sets)
    return NodeRules(Ruleset({} if rules is None else {(rules.family, rules.name): rules}))
