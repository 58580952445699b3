# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the parts of nftables rules that the grammar keeps as text (or JSON) may do to a packet.

The text of a part is everything between the last statement that was understood and the rule's verdict.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Optional

from .hook_view import HookView

ALWAYS, NEVER = "always", "never"  # a condition that is decided
MAYBE = "maybe"  # a condition that is not decided
HARMLESS = "harmless"  # changes nothing that decides where the packet goes
ANYTHING = "anything"

# Statements that take a packet away, translate it, or set its mark to an unknown value.
_ACTS = re.compile(
    r"\b(queue|tproxy|synproxy|dnat|snat|masquerade|redirect|dup|fwd|xt|vmap|mark set|(?:daddr|saddr|dport|sport) set)\b"
    r"|(jump|goto) \{|\"(queue|tproxy|synproxy|dnat|snat|masquerade|redirect|dup|fwd|xt|vmap|jump|goto|mangle)\""
)
_HARMLESS = re.compile(
    r"(meta nftrace|meta priority|meta pkttype|meta secmark|ct helper|ct timeout|ct expectation|ct zone|ct event|ct label|ct secmark"
    r"|ip dscp|ip6 dscp|ip ttl|ip6 hoplimit|ip ecn|tcp option \S+ size|reset tcp option|notify) set\b"
    r"|ct (helper|timeout|expectation) set\b|flow (add|offload)\b|log\b|counter\b|last\b|reset tcp option\b"
    r'|\{"(log|counter|last|flow|ct helper|ct timeout|ct expectation|secmark|reset)"'
)
_HARMLESS_JSON = re.compile(
    r'\{"mangle": \{"key": \{"(meta": \{"key": "(nftrace|priority|pkttype|secmark)"|ct": \{"key": "(helper|zone|event|label|secmark)"'
    r'|payload": \{"field": "(dscp|ttl|hoplimit|ecn)"|tcp option")'
)
_FLAG = r"(?:fin|syn|rst|psh|ack|urg|ecn|cwr)"
_TCP_FLAGS = (
    re.compile(
        rf"tcp flags & \(?(?P<mask>{_FLAG}(?: ?[|,] ?{_FLAG})*)\)? (?P<not>!=|==) \(?(?P<value>{_FLAG}(?: ?[|,] ?{_FLAG})*|0x0)\)?"
    ),
    re.compile(rf"tcp flags (?P<not>!=)? ?(?P<value>{_FLAG}(?: ?, ?{_FLAG})*) / (?P<mask>{_FLAG}(?: ?, ?{_FLAG})*)"),
)


# A rule that asks for a field of a header matches only packets that have this header.
_HEADER = re.compile(
    r"(ip6?|tcp|udp|sctp|icmp|icmpv6|igmp|esp|ah|comp|dccp|udplite|arp|vlan) "
    r'|\{"match": \{"left": \{(?:"&": \[\{)?"payload": \{"field": "[^"]*", "protocol": "(\w+)"'
)


def _is_of_other_protocol(text: str, view: HookView) -> bool:
    header = _HEADER.match(text)
    return header is not None and (header[1] or header[2]) not in (
        "ip" if view.packet.family == 4 else "ip6",
        view.packet.protocol.lower(),
        "th",
        "ether",
    )


# A single packet exceeds none.
_LIMIT = re.compile(
    r"(?:(?:add|update) @\S+ \{ [^{}]*|meter \S+ (?:size \d+ )?\{ [^{}]*)?\b(?:ct count|limit rate) (over )?\d[^{}]*\}?"
)


def effect_of(text: str, view: HookView) -> str:
    """What a part of a rule may do to the packet: ALWAYS or NEVER if it is a condition that is decided, else MAYBE,
    HARMLESS or ANYTHING."""
    for pattern in _TCP_FLAGS:
        match = pattern.fullmatch(text)
        if match:
            return _tcp_flags(match, view)
    if _is_of_other_protocol(text, view):
        return NEVER
    limit = _LIMIT.fullmatch(text)
    if limit is not None:
        return NEVER if limit[1] else ALWAYS
    if text == "socket transparent 1" or text.startswith("meta skuid") and not view.packet.node_local:
        return NEVER
    return _effect(text)


# iptables extensions in iptables' own tables, whose options nft does not print: `xt match "comment"`, `# xt_comment`.
_XT = re.compile(r'xt (?:match|target) "?(\w+)"?|# (?:xt_|match |target )?(\w+)|counter(?: packets \d+ bytes \d+)?')
_XT_JSON = re.compile(r'\{"xt": \{"name": "(\w+)", "type": "(?:match|target)"\}\}')
_XT_HARMLESS = frozenset({"comment", "limit", "LOG", "NFLOG", "TCPMSS", "TTL", "TOS", "DSCP", "CLASSIFY", "TRACE"})


def _xt_effect(text: str) -> Optional[str]:
    """The effect of such extensions; None if the text contains anything else. Names of targets are in capitals."""
    match = _XT_JSON.fullmatch(text)
    if match is None and _XT.sub("", text).strip():
        return None
    names = {match[1]} if match else {part[1] or part[2] or "" for part in _XT.finditer(text)} - {""}
    left = names - _XT_HARMLESS
    if any(name.isupper() for name in left):
        return ANYTHING
    return MAYBE if left else HARMLESS


@lru_cache(maxsize=4096)
def _effect(text: str) -> str:
    of_iptables = _xt_effect(text)
    if of_iptables is not None:
        return of_iptables
    if _HARMLESS.match(text) or _HARMLESS_JSON.match(text):
        return HARMLESS
    return ANYTHING if _ACTS.search(text) else MAYBE


def _tcp_flags(match: re.Match[str], view: HookView) -> str:
    """Whether a match of TCP flags holds for the first packet of a connection, which has only the flag SYN."""
    if view.packet.protocol != "TCP":
        return NEVER
    mask, value = (set(re.findall(_FLAG, match[part])) for part in ("mask", "value"))
    holds = ({"syn"} & mask) == value
    return ALWAYS if holds != (match["not"] == "!=") else NEVER
