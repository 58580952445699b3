# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds rules in which the tool that printed them shows a placeholder for a part that it cannot decode. Pure.

A newer program wrote such a rule: the host's iptables-save is often older than that of kube-proxy's image. nft cannot decode
any xtables part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .._rules.iptables.objects import BUILT_IN, Tables
from .._rules.iptables.objects import Unknown as UnknownInIptables
from .._rules.iptables.text import rule_text
from .._rules.nftables.expressions import Unknown
from .._rules.nftables.objects import Ruleset
from .._rules.nftables.render import render_rule

Place = tuple[str, str]  # (table, chain) of a rule

_UNDECODED = re.compile(
    r"\[unsupported revision\]|\[\d+ bytes of unknown (?:match|target) data\]|--to-destination (?::0|0\.0\.0\.0)(?=[\s'\"]|$)"
)
_OF_XTABLES = re.compile(r"# xt_|\[xt\]|\bxt (?:match|target)\b|\"xt\"|\[(?:unsupported|invalid type)")
_IP = ("ip", "ip6")


def is_undecoded(text: str) -> bool:
    """Whether a rule, or a message that shows one, has such a placeholder."""
    return _UNDECODED.search(text) is not None or _OF_XTABLES.search(text) is not None


def find_in_iptables(tables: Tables) -> Iterator[tuple[Place, str]]:
    """The place and text of each such rule."""
    for table in tables.tables:
        for chain in table.chains:
            for rule in chain.rules:
                for part in (*rule.matches, rule.target):
                    if isinstance(part, UnknownInIptables) and _UNDECODED.search(part.text):
                        yield (table.name, chain.name), f"-A {chain.name} {rule_text(rule)}"
                        break


def find_in_nftables(ruleset: Ruleset) -> Iterator[tuple[Place, str]]:
    """The place and text of each such rule in the tables that iptables-nft has."""
    for key, table in ruleset.tables.items():
        if key[0] not in _IP or key[1] not in BUILT_IN:
            continue
        for name, chain in table.chains.items():
            for rule in chain.rules:
                if any(isinstance(part, Unknown) and _OF_XTABLES.search(part.text) for part in rule.statements):
                    yield (" ".join(key), name), render_rule(rule)
