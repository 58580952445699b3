# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tables, chains, sets and maps of nftables. Compiled rules and rules read from a kernel have the same types.

Two values are equal if the kernel treats packets the same. What only some forms of `nft list` print, and what changes by
itself (handles, comments of tables and chains, whether a set is dynamic), is not compared. Mappings must not be modified
once created.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Optional

from .expressions import Expression, Key, Statement, Target

FAMILIES = ("ip", "ip6", "inet", "arp", "bridge", "netdev")
VERDICT = "verdict"


class Element(NamedTuple):
    """A named tuple, not a dataclass: a table has tens of thousands, and tuples are created and compared faster."""

    key: Key
    target: Optional[Target] = None  # None in a set
    comment: str = ""
    timeout_seconds: int = 0  # 0: the set's. The remaining time is runtime state and is not kept


@dataclass(frozen=True)
class Set:
    """A set, a map or a verdict map.

    `key` and `data` are types as `nft -j` names them. A type without a name of its own ("integer") needs `key_typeof`, with
    one expression for each part of the concatenation.
    """

    name: str
    key: tuple[str, ...]  # ("ipv4_addr", "inet_proto", "inet_service")
    data: tuple[str, ...] = ()  # () is a set, (VERDICT,) a verdict map
    elements: Mapping[Key, Element] = field(default_factory=dict)
    flags: tuple[str, ...] = ()  # sorted, of "constant", "interval", "timeout"
    dynamic: bool = field(default=False, compare=False)  # rules may add elements; not in the JSON of nft 1.0.6
    auto_merge: bool = field(default=False, compare=False)  # not in the JSON of nft 1.0.6
    timeout_seconds: int = 0  # for elements without one of their own
    size: int = 0  # 0: not limited; nft gives a dynamic set 65535, so specify that
    counter: bool = False
    others: tuple[str, ...] = ()  # attribute lines that do not affect packets, as written: "gc-interval 1m"; sorted
    comment: str = ""
    key_typeof: tuple[Expression, ...] = field(default=(), compare=False)  # not in the JSON of nft 1.0.6
    data_typeof: tuple[Expression, ...] = field(default=(), compare=False)
    handle: int = field(default=0, compare=False)

    @property
    def is_map(self) -> bool:
        return bool(self.data)


@dataclass(frozen=True)
class Rule:
    statements: tuple[Statement, ...]
    comment: str = ""
    handle: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Hook:
    """Where a base chain is attached. Chains of one hook run in ascending priority."""

    type: str  # "filter", "nat" or "route"
    hook: str  # "prerouting", "input", "forward", "output", "postrouting", "ingress", "egress"
    priority: int
    policy: str = "accept"
    devices: tuple[str, ...] = field(default=(), compare=False)  # of ingress and egress; no list in JSON of nft 1.0.6


@dataclass(frozen=True)
class Chain:
    name: str
    rules: tuple[Rule, ...] = ()
    base: Optional[Hook] = None  # None: a regular chain, run when a rule jumps to it
    comment: str = field(default="", compare=False)
    handle: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Table:
    family: str  # one of FAMILIES
    name: str
    chains: Mapping[str, Chain] = field(default_factory=dict)  # by name
    sets: Mapping[str, Set] = field(default_factory=dict)  # sets and maps, by name
    flags: tuple[str, ...] = ()  # "dormant", "owner", "persist"
    objects: tuple[tuple[str, str], ...] = ()  # kind and name of other objects: named counters, flowtables, ...; sorted
    comment: str = field(default="", compare=False)
    handle: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Ruleset:
    tables: Mapping[tuple[str, str], Table] = field(default_factory=dict)  # by family and name
