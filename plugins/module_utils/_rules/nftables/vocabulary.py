# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Vocabulary of nft(8) that text and JSON share: types of expressions, priority names, times, numbers.

Functions return None or an empty value for an unknown word; the caller reports it with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Optional

from .expressions import AnonymousSet, Binary, Concat, Ct, Expression, Fib, Key, Match, Meta, Numgen, Payload

PAYLOADS = {
    "ip": ("saddr", "daddr", "protocol", "dscp", "frag-off"),
    "ip6": ("saddr", "daddr", "nexthdr", "dscp"),
    "tcp": ("sport", "dport", "flags"),
    "udp": ("sport", "dport"),
    "sctp": ("sport", "dport"),
    "th": ("sport", "dport"),
    "icmp": ("type",),
    "icmpv6": ("type",),
}
META_KEYS = ("mark", "l4proto", "nfproto", "protocol", "iifname", "oifname", "iif", "oif", "pkttype")
META_INTERFACES = ("iifname", "oifname", "iif", "oif")
CT_KEYS = ("state", "status", "mark", "direction")
FIB_RESULTS = ("type", "oif", "oifname")
FIB_FLAGS = ("saddr", "daddr", "mark", "iif", "oif")
LIMIT_UNITS = ("packets", "bytes", "kbytes", "mbytes")
DEFAULT_BURST = 5  # packets
LOG_OPTIONS = ("prefix", "level", "group", "snaplen", "queue-threshold", "flags")
NAT_FLAGS = ("fully-random", "persistent", "random")
# Compared with a plain constant, these match if one of the flags is set.
BIT_FIELDS = (Ct("state"), Ct("status"), Payload("tcp", "flags"))
PORT_UNREACHABLE = "port-unreachable"  # nft's default for `reject`, which it does not print
# State that elements of a dynamic set may have.
STATEFUL = ("counter", "limit", "quota", "last", "ct", "ct count")
SERVICE_TYPES = ("ipv4_addr", "ipv6_addr", "inet_proto", "inet_service", "integer", "mark", "ifname")
REJECT_PROTOCOLS = {"ip": "icmp", "ip6": "icmpv6", "inet": "icmpx", "bridge": "icmpx", "netdev": "icmpx"}

_TYPES = {
    "saddr": "ipv4_addr",
    "daddr": "ipv4_addr",
    "dscp": "dscp",
    "frag-off": "integer",
    "protocol": "inet_proto",
    "nexthdr": "inet_proto",
    "sport": "inet_service",
    "dport": "inet_service",
    "flags": "tcp_flag",
}
_META_TYPES = {
    "mark": "mark",
    "l4proto": "inet_proto",
    "nfproto": "nf_proto",
    "protocol": "ether_type",
    "iifname": "ifname",
    "oifname": "ifname",
    "iif": "iface_index",
    "oif": "iface_index",
    "pkttype": "pkt_type",
}
_CT_TYPES = {"state": "ct_state", "status": "ct_status", "mark": "mark", "direction": "ct_dir"}

# Other words for a constant, by type: most are what nft prints with -n or -p in the place of names.
_ALIASES: Mapping[str, Mapping[str, str]] = {
    "pkt_type": {"0": "host", "1": "broadcast", "2": "multicast", "3": "other", "unicast": "host"},
    "dscp": {"cs0": "0", "df": "0", "be": "0"},
    "inet_proto": {
        "1": "icmp",
        "6": "tcp",
        "17": "udp",
        "33": "dccp",
        "58": "ipv6-icmp",
        "132": "sctp",
        "136": "udplite",
    },
    "ct_state": {"1": "invalid", "2": "established", "4": "related", "8": "new", "64": "untracked"},
    "ct_status": {"1": "expected", "2": "seen-reply", "4": "assured", "8": "confirmed", "16": "snat", "32": "dnat"},
}

_PORT_UNREACHABLE_NUMBERS = {"icmp": "3", "icmpv6": "4", "icmpx": "1"}

# nft(8), "standard priority names"; those of the bridge family differ.
_PRIORITIES = {"raw": -300, "mangle": -150, "dstnat": -100, "filter": 0, "security": 50, "srcnat": 100}
_BRIDGE_PRIORITIES = {"dstnat": -300, "filter": -200, "out": 100, "srcnat": 300}

_MARKS = (Meta("mark"), Ct("mark"))
_MARK_BITS = 32
_NUMBER = re.compile(r"0x[0-9a-f]{1,16}|[0-9]{1,20}", re.ASCII | re.IGNORECASE)
_TIME = re.compile(
    r"(?=[0-9])(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?(?:[0-9]{1,9}ms)?"
)


def type_of(expression: Expression) -> str:
    """The type of an expression, as named in the declaration of a set; "" if we know no name for it."""
    if isinstance(expression, Payload):
        if expression.protocol in ("icmp", "icmpv6"):
            return f"{expression.protocol}_{expression.field}"
        if expression.protocol == "ip6" and expression.field.endswith("addr"):
            return "ipv6_addr"
        return _TYPES[expression.field]
    if isinstance(expression, Meta):
        return _META_TYPES[expression.key]
    if isinstance(expression, Ct):
        return _CT_TYPES[expression.key]
    if isinstance(expression, Numgen):
        return "integer"
    if isinstance(expression, Binary):
        return type_of(expression.left)
    if isinstance(expression, Fib):
        return {"type": "fib_addrtype", "oif": "iface_index", "oifname": "ifname"}[expression.result]
    return ""


def parts_of(expression: Expression) -> tuple[Expression, ...]:
    return expression.parts if isinstance(expression, Concat) else (expression,)


def named_parts(types: tuple[str, ...]) -> tuple[tuple[int, Mapping[str, str]], ...]:
    """The places in a key of these types where constants have several words, each with our word for every other one."""
    return tuple((place, _ALIASES[of]) for place, of in enumerate(types) if of in _ALIASES)


def name_parts(key: Key, named: tuple[tuple[int, Mapping[str, str]], ...]) -> Key:
    """The key with its constants in our words; `named` is from `named_parts`."""
    for place, names in named:
        if place < len(key) and key[place] in names:
            key = (*key[:place], names[key[place]], *key[place + 1 :])
    return key


def one_of(left: Expression, keys: Iterable[Key]) -> AnonymousSet:
    """The set `{ KEYS }` that `left` is compared with."""
    named = named_parts(tuple(type_of(part) for part in parts_of(left)))
    return AnonymousSet(tuple(name_parts(key, named) for key in keys) if named else tuple(keys))


def comparison(left: Expression, keys: tuple[Key, ...], operator: str) -> Match:
    """A match of `left`. nft lists `meta mark & 0x80000000 != 0x0`, whose mask is a prefix of ones, as `meta mark !=
    0x00000000/1`."""
    value, slash, length = (keys[0][0] if len(keys) == 1 and keys[0] else "").partition("/")
    number, ones = number_of(value), number_of(length)
    if slash and left in _MARKS and number is not None and ones is not None and ones <= _MARK_BITS:
        mask = (1 << _MARK_BITS) - (1 << (_MARK_BITS - ones))
        return Match(Binary(left, "&", str(mask)), AnonymousSet.of(str(number)), operator)
    return Match(left, one_of(left, keys), operator)


def priority_of(words: list[str], *, family: str) -> Optional[int]:
    """The number of `-100`, `dstnat` or `dstnat - 10`."""
    names = _BRIDGE_PRIORITIES if family == "bridge" else _PRIORITIES
    if len(words) == 1:
        return names[words[0]] if words[0] in names else signed_of(words[0])
    if len(words) == 3 and words[0] in names and words[1] in ("+", "-"):
        offset = number_of(words[2])
        if offset is not None:
            return names[words[0]] + (offset if words[1] == "+" else -offset)
    return None


def number_of(word: str) -> Optional[int]:
    return int(word, 0 if word[1:2] in "xX" and len(word) > 1 else 10) if _NUMBER.fullmatch(word) else None


def signed_of(word: str) -> Optional[int]:
    number = number_of(word[1:] if word.startswith("-") else word)
    return -number if number is not None and word.startswith("-") else number


def seconds_of(word: str) -> Optional[int]:
    """The seconds of `3h` or `1d2h3m4s500ms`; fractions are dropped, as in `nft -j`."""
    match = _TIME.fullmatch(word)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def constant_of(word: str) -> str:
    """The canonical form of one constant: nft prints marks in hexadecimal and interface names in quotes."""
    if word.startswith('"'):
        return word[1:-1]
    if word.startswith("0x"):
        numbers = [number_of(part) for part in word.split("-")]  # a mark, or a range of marks
        return word if None in numbers else "-".join(map(str, numbers))
    return word


def reject_reason(words: str, *, family: str) -> str:
    """The reason in canonical form, "" for the default: `icmp port-unreachable` is what `reject` means in a table of family
    ip."""
    protocol, _blank, reason = words.partition(" ")
    if reason == _PORT_UNREACHABLE_NUMBERS.get(protocol):
        words = f"{protocol} {PORT_UNREACHABLE}"
    return "" if words == f"{REJECT_PROTOCOLS.get(family, '')} {PORT_UNREACHABLE}" else words
