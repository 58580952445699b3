# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Renders values as text, in the form that iptables-save prints and iptables-restore reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ..packet import endpoint_text
from .objects import (
    Accounting,
    AddressType,
    Chain,
    ConnectionState,
    Destination,
    DestinationPort,
    Dnat,
    Goto,
    InInterface,
    IpvsService,
    Jump,
    Mark,
    Masquerade,
    Match,
    MatchSet,
    OutInterface,
    PhysicalIn,
    Protocol,
    Recent,
    Reject,
    Rule,
    SetMark,
    Source,
    Statistic,
    Tables,
    Unknown,
    Verdict,
    probability_text,
)

_PLAIN = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_TO_ESCAPE = re.compile(r"([\"'\\])")
_BASIC = (Source, Destination, InInterface, OutInterface, Protocol)


def rule_text(rule: Rule) -> str:
    """A rule without its chain: `-d 10.0.0.1/32 -p tcp -m comment --comment "..." -m tcp --dport 80 -j KUBE-SVC-...`. A rule
    read from a built-in chain is rendered as it was read."""
    if rule.written:
        return rule.written
    protocol = next((match.name for match in rule.matches if isinstance(match, Protocol)), "")
    words = [match_text(match) for match in rule.matches if isinstance(match, _BASIC)]
    if rule.comment:
        words.append(f"-m comment --comment {_quote(rule.comment)}")
    words.extend(match_text(match, protocol=protocol) for match in rule.matches if not isinstance(match, _BASIC))
    if rule.target is not None:
        words.append(_TARGETS[type(rule.target)](rule.target))
    return " ".join(words)


def match_text(match: Match, *, protocol: str = "") -> str:
    """`protocol` is that of the rule, which matches of ports need."""
    if isinstance(match, DestinationPort):
        return f"-m {protocol} {_not(match.negated)}--dport {match.port}"
    return _MATCHES[type(match)](match)


def render(tables: Tables) -> str:
    """Complete tables as iptables-save prints them, without comment lines and with zero counters."""
    lines = []
    for table in tables.tables:
        lines.append(f"*{table.name}")
        lines.extend(f":{chain.name} {chain.policy or '-'} [0:0]" for chain in table.chains)
        lines.extend(line for chain in table.chains for line in append_lines(chain))
        lines.append("COMMIT")
    return "".join(line + "\n" for line in lines)


def append_lines(chain: Chain) -> list[str]:
    return [f"-A {chain.name} {rule_text(rule)}".rstrip() for rule in chain.rules]


def _not(negated: bool) -> str:
    return "! " if negated else ""


def _quote(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else '"' + _TO_ESCAPE.sub(r"\\\1", text) + '"'


def _recent(match: Recent) -> str:
    seconds = f" --seconds {match.seconds}" if match.seconds else ""
    return f"-m recent --{match.command}{seconds}{' --reap' if match.reap else ''} --name {match.name}"


_MATCHES: Mapping[type, Callable[..., str]] = MappingProxyType(
    {
        Source: lambda of: f"{_not(of.negated)}-s {of.network}",
        Destination: lambda of: f"{_not(of.negated)}-d {of.network}",
        InInterface: lambda of: f"{_not(of.negated)}-i {of.name}",
        OutInterface: lambda of: f"{_not(of.negated)}-o {of.name}",
        Protocol: lambda of: f"{_not(of.negated)}-p {of.name}",
        Mark: lambda of: f"-m mark {_not(of.negated)}--mark {of.value:#x}/{of.mask:#x}",
        ConnectionState: lambda of: f"-m conntrack {_not(of.negated)}--ctstate {','.join(of.states)}",
        AddressType: lambda of: f"-m addrtype {_not(of.negated)}--{of.side}-type {of.type}",
        MatchSet: lambda of: f"-m set {_not(of.negated)}--match-set {of.name} {','.join(of.sides)}",
        IpvsService: lambda of: f"-m ipvs --vaddr {of.network} --vproto {of.protocol} --vport {of.port}",
        PhysicalIn: lambda of: f"-m physdev {_not(of.negated)}--physdev-is-in",
        Statistic: lambda of: (
            f"-m statistic --mode random {_not(of.negated)}--probability {probability_text(of.chance)}"
        ),
        Recent: _recent,
        Accounting: lambda of: f"-m nfacct --nfacct-name {of.name}",
        Unknown: lambda of: of.text,
    }
)
_TARGETS: Mapping[type, Callable[..., str]] = MappingProxyType(
    {
        Verdict: lambda of: f"-j {of.name}",
        Reject: lambda of: f"-j REJECT --reject-with {of.type}",
        Jump: lambda of: f"-j {of.chain}",
        Goto: lambda of: f"-g {of.chain}",
        SetMark: lambda of: f"-j MARK --set-xmark {of.value:#x}/{of.mask:#x}",
        Masquerade: lambda of: f"-j MASQUERADE{' --random-fully' if of.random_fully else ''}",
        Dnat: lambda of: f"-j DNAT --to-destination {_dnat_text(of)}",
        Unknown: lambda of: of.text,
    }
)


def _dnat_text(target: Dnat) -> str:
    return endpoint_text(target.address, target.port) if target.port else target.address
