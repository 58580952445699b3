# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses the options of each supported match and target, as iptables-save prints them."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Optional

from .objects import (
    Accounting,
    AddressType,
    ConnectionState,
    DestinationPort,
    Dnat,
    IpvsService,
    Mark,
    Masquerade,
    Match,
    MatchSet,
    PhysicalIn,
    Recent,
    Reject,
    SetMark,
    Statistic,
    Target,
    Verdict,
    chance,
)

_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,8}|[0-9]{1,10}", re.ASCII)
_U32 = 0xFFFFFFFF
_PROBABILITY = re.compile(r"[01]\.[0-9]{1,20}", re.ASCII)

_PROTOCOLS = MappingProxyType(
    {"6": "tcp", "17": "udp", "132": "sctp", "1": "icmp", "58": "ipv6-icmp", "icmpv6": "ipv6-icmp"}
)

# Option to (negated, values).
Options = Mapping[str, tuple[bool, tuple[str, ...]]]


class Refused(ValueError):
    """A value that iptables-save never prints."""


def read_match(name: str, tokens: Sequence[str]) -> Optional[tuple[Match, ...]]:
    """The matches of `-m NAME TOKENS`; None if it is outside the grammar."""
    reader = _MATCHES.get(name)
    options = options_of(tokens)
    return reader(options) if reader is not None and options is not None else None


def read_target(name: str, tokens: Sequence[str]) -> Optional[Target]:
    """The target of `-j NAME TOKENS`; None if it is outside the grammar."""
    reader = _TARGETS.get(name)
    options = options_of(tokens)
    return reader(options) if reader is not None and options is not None else None


def plain_address(text: str) -> str:
    """An address in shortest form. ValueError if it is not an address.

    The C library is tried first, because it is many times faster: a dump has tens of thousands of addresses, mostly in that
    form.
    """
    try:
        if ":" not in text:
            socket.inet_pton(socket.AF_INET, text)
            return text
        if "." not in text and socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, text)) == text:
            return text
    except (OSError, ValueError):
        pass
    return str(ipaddress.ip_address(text))


def protocol(text: str) -> str:
    """The name of a protocol. Some releases print its number."""
    return _PROTOCOLS.get(text, text)


def options_of(tokens: Sequence[str]) -> Optional[Options]:
    """The options by name; None if the tokens are not a list of `[!] --option values`, or an option occurs twice."""
    options: dict[str, tuple[bool, tuple[str, ...]]] = {}
    place = 0
    while place < len(tokens):
        negated = tokens[place] == "!"
        place += negated
        if place == len(tokens) or not tokens[place].startswith("--") or tokens[place] in options:
            return None
        end = place + 1
        while end < len(tokens) and not tokens[end].startswith("--") and tokens[end] != "!":
            end += 1
        options[tokens[place]] = (negated, tuple(tokens[place + 1 : end]))
        place = end
    return options


def number_of(text: str, *, limit: int = _U32) -> int:
    """A decimal number, or a hexadecimal one after 0x. Raises Refused for any other text and above `limit`."""
    if not _NUMBER.fullmatch(text):
        raise Refused(f"{text} is not a number")
    number = int(text, 16) if text.startswith("0x") else int(text)
    if number > limit:
        raise Refused(f"{text} is more than {limit}")
    return number


def value_and_mask(text: str) -> tuple[int, int]:
    """`VALUE/MASK` as numbers; without a mask, all 32 bits count. Raises Refused."""
    value, slash, mask = text.partition("/")
    return number_of(value), number_of(mask) if slash else _U32


def _only_value(options: Options, option: str) -> Optional[tuple[bool, str]]:
    """The value of `option`, with whether it is negated, if it is the only option and has one value."""
    negated, values = options.get(option, (False, ()))
    return (negated, values[0]) if len(options) == 1 and len(values) == 1 else None


def _ports(options: Options) -> Optional[tuple[Match, ...]]:
    if not options:
        return ()  # `-p tcp -m tcp` is redundant
    port = _only_value(options, "--dport")
    if port is None or ":" in port[1]:
        return None  # another option, or a port range
    return (DestinationPort(number_of(port[1], limit=65535), port[0]),)


def _mark(options: Options) -> Optional[tuple[Match, ...]]:
    mark = _only_value(options, "--mark")
    return None if mark is None else (Mark(*value_and_mask(mark[1]), mark[0]),)


def _conntrack(options: Options) -> Optional[tuple[Match, ...]]:
    states = _only_value(options, "--ctstate")
    return None if states is None else (ConnectionState(tuple(sorted(states[1].split(","))), states[0]),)


def _addrtype(options: Options) -> Optional[tuple[Match, ...]]:
    matches: list[Match] = []
    for option, (negated, values) in options.items():
        if option not in ("--src-type", "--dst-type") or values != ("LOCAL",):
            return None
        matches.append(AddressType(option[2:5], "LOCAL", negated))
    return tuple(matches) or None


def _set(options: Options) -> Optional[tuple[Match, ...]]:
    negated, values = options.get("--match-set", (False, ()))
    if len(options) != 1 or len(values) != 2:
        return None
    return (MatchSet(values[0], tuple(values[1].split(",")), negated),)


def _ipvs(options: Options) -> Optional[tuple[Match, ...]]:
    if sorted(options) != ["--vaddr", "--vport", "--vproto"] or any(
        negated or len(values) != 1 for negated, values in options.values()
    ):
        return None
    address, port, name = (options[option][1][0] for option in sorted(options))
    try:
        network = str(ipaddress.ip_network(address))
    except ValueError as error:
        raise Refused(f"{address} is not a network") from error
    return (IpvsService(network, protocol(name), number_of(port, limit=65535)),)


def _physdev(options: Options) -> Optional[tuple[Match, ...]]:
    negated, values = options.get("--physdev-is-in", (False, ("",)))
    return None if values or len(options) != 1 else (PhysicalIn(negated),)


def _statistic(options: Options) -> Optional[tuple[Match, ...]]:
    negated, values = options.get("--probability", (False, ()))
    if set(options) != {"--mode", "--probability"} or options["--mode"][1] != ("random",) or len(values) != 1:
        return None
    if not _PROBABILITY.fullmatch(values[0]) or float(values[0]) > 1:
        raise Refused(f"{values[0]} is not a probability")
    return (Statistic(chance(float(values[0])), negated),)


_RECENT = frozenset({"--rcheck", "--set", "--seconds", "--reap", "--name", "--mask", "--rsource"})
_WHOLE_ADDRESS = ((), ("255.255.255.255",), ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",))


def _recent(options: Options) -> Optional[tuple[Match, ...]]:
    names = set(options)
    commands = names & {"--rcheck", "--set"}
    name = options.get("--name", (False, ()))[1]
    if (
        names - _RECENT
        or len(commands) != 1
        or len(name) != 1
        or options.get("--mask", (False, ()))[1] not in _WHOLE_ADDRESS
        or any(negated for negated, _values in options.values())
        or ("--set" in names and names & {"--seconds", "--reap"})
    ):
        return None
    seconds = options.get("--seconds", (False, ("0",)))[1]
    if len(seconds) != 1:
        raise Refused("--seconds has no value")
    return (Recent(commands.pop()[2:], name[0], number_of(seconds[0]), "--reap" in names),)


def _nfacct(options: Options) -> Optional[tuple[Match, ...]]:
    name = _only_value(options, "--nfacct-name")
    return None if name is None or name[0] else (Accounting(name[1]),)


def _verdict(name: str) -> Callable[[Options], Optional[Target]]:
    return lambda options: None if options else Verdict(name)


def _reject(options: Options) -> Optional[Target]:
    reason = _only_value(options, "--reject-with")
    return None if reason is None or reason[0] else Reject(reason[1])


def _set_mark(options: Options) -> Optional[Target]:
    mark = _only_value(options, "--set-xmark")
    return None if mark is None or mark[0] else SetMark(*value_and_mask(mark[1]))


def _masquerade(options: Options) -> Optional[Target]:
    if any(values for _negated, values in options.values()) or set(options) - {"--random-fully"}:
        return None
    return Masquerade(random_fully=bool(options))


def _dnat(options: Options) -> Optional[Target]:
    to = _only_value(options, "--to-destination")
    if to is None or to[0] or "-" in to[1]:
        return None  # a range of addresses or ports
    address, port = to[1], ""
    if address.startswith("["):
        address, _bracket, port = address[1:].partition("]")
    elif address.count(":") == 1:
        address, port = address.split(":")
    # A port alone; or ":0" and "0.0.0.0", which older programs print for a revision that they do not know.
    if address in ("", "0.0.0.0"):
        return None
    try:
        plain = plain_address(address)
    except ValueError as error:
        raise Refused(f"{to[1]} is not an address") from error
    return Dnat(plain, number_of(port.lstrip(":"), limit=65535) if port else 0)


_MATCHES: Mapping[str, Callable[[Options], Optional[tuple[Match, ...]]]] = MappingProxyType(
    {
        "tcp": _ports,
        "udp": _ports,
        "sctp": _ports,
        "mark": _mark,
        "conntrack": _conntrack,
        "addrtype": _addrtype,
        "set": _set,
        "ipvs": _ipvs,
        "physdev": _physdev,
        "statistic": _statistic,
        "recent": _recent,
        "nfacct": _nfacct,
    }
)
_TARGETS: Mapping[str, Callable[[Options], Optional[Target]]] = MappingProxyType(
    {
        "ACCEPT": _verdict("ACCEPT"),
        "DROP": _verdict("DROP"),
        "RETURN": _verdict("RETURN"),
        "REJECT": _reject,
        "MARK": _set_mark,
        "MASQUERADE": _masquerade,
        "DNAT": _dnat,
    }
)
