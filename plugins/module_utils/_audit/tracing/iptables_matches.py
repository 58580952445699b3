# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether other programs' matches hold for the first packet of a connection, parsed from the text that the grammar keeps.

A single packet exceeds no limit, and is in no list of sources seen before. It is assumed to come in on the link through
which its source is reached, without IPsec. Source: iptables-extensions(8).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Optional, Union

from ..._rules.addresses import as_address
from ..._rules.iptables.grammar import Options, Refused, number_of, options_of, value_and_mask
from .hook_view import HookView
from .packet_state import NotKnown, State

DRAWN = "drawn"  # the kernel decides randomly, for each connection
Holds = Union[bool, None, str]  # None: cannot be decided


def holds(text: str, view: HookView, state: State) -> Holds:
    """Whether a match holds. `text` is "-m NAME OPTIONS" or "[!] -f"."""
    if text in ("-f", "! -f"):
        return text != "-f"  # the first packet of a connection is not a later fragment
    if text.startswith("-m comment "):
        return True
    name, options = _read(text)
    decide = _MATCHES.get(name)
    if decide is None or options is None:
        return None
    try:
        return decide(options, view, state)
    except (NotKnown, Refused, ValueError, IndexError):
        return None


@lru_cache(maxsize=4096)
def _read(text: str) -> tuple[str, Optional[Options]]:
    _flag, name, *tokens = [*text.split(), "", ""][: max(2, len(text.split()))]
    return name, None if "[unsupported" in tokens else options_of(tokens)


def _all(results: list[Holds]) -> Holds:
    if False in results:
        return False
    return None if None in results else True


def _each(options: Options, deciders: Mapping[str, Callable[[tuple[str, ...]], Optional[bool]]]) -> Holds:
    """Whether all options hold. An option without a decider cannot be decided."""
    results: list[Holds] = []
    for option, (negated, values) in options.items():
        decide = deciders.get(option)
        result = None if decide is None else decide(values)
        results.append(None if result is None else result != negated)
    return _all(results)


def _in_ports(port: int, text: str) -> bool:
    for part in text.split(","):
        low, colon, high = part.partition(":")
        if number_of(low or "0") <= port <= number_of((high or "65535") if colon else low):
            return True
    return False


_ANY_PORT = ("0:65535", ":")


def _source_port(values: tuple[str, ...]) -> Optional[bool]:
    return True if values and values[0] in _ANY_PORT else None


def _transport(options: Options, _view: HookView, state: State) -> Holds:
    return _each(
        options,
        {
            "--dport": lambda values: _in_ports(state.port, values[0]),
            "--sport": _source_port,
            "--tcp-flags": _flags,
            "--syn": lambda _values: True,
        },
    )


def _flags(values: tuple[str, ...]) -> bool:
    mask, expected = (set(part.split(",")) for part in values)
    if "ALL" in mask:
        return expected == {"SYN"}
    return ({"SYN"} & mask) == expected - {"NONE"}


def _multiport(options: Options, _view: HookView, state: State) -> Holds:
    return _each(
        options,
        {
            "--dports": lambda values: _in_ports(state.port, values[0]),
            "--sports": lambda _values: None,
            "--ports": lambda values: True if _in_ports(state.port, values[0]) else None,
        },
    )


def _state(options: Options, view: HookView, state: State) -> Holds:
    return _each(options, {"--state": lambda values: _has_state(values[0], view, state)})


def _has_state(states: str, view: HookView, state: State) -> bool:
    there = {view.connection_state(state).upper()}
    if view.has_connection(state):
        there |= {name for name, is_set in (("DNAT", state.translated), ("SNAT", state.masqueraded)) if is_set}
    return bool(there & set(states.split(",")))


def _conntrack(options: Options, view: HookView, state: State) -> Holds:
    packet = view.packet
    if not view.has_connection(state) and set(options) != {"--ctstate"}:
        return False
    return _each(
        options,
        {
            "--ctstate": lambda values: _has_state(values[0], view, state),
            "--ctdir": lambda values: values[0] == "ORIGINAL",
            "--ctproto": lambda values: values[0].lower() in (packet.protocol.lower(), _NUMBERS[packet.protocol]),
            "--ctorigsrc": lambda values: _inside(packet.source, values[0]),
            "--ctorigdst": lambda values: _inside(packet.destination, values[0]),
            "--ctorigdstport": lambda values: _in_ports(packet.port, values[0]),
            "--ctstatus": lambda values: False if set(values[0].split(",")) <= _LATER else None,
        },
    )


_NUMBERS = {"TCP": "6", "UDP": "17", "SCTP": "132"}
_LATER = {"EXPECTED", "SEEN_REPLY", "ASSURED"}  # states that a new connection has not reached


def _connmark(options: Options, view: HookView, state: State) -> Holds:
    if not view.has_connection(state):
        return False

    def decide(values: tuple[str, ...]) -> bool:
        value, mask = value_and_mask(values[0])
        return state.ct_mark & mask == value

    return _each(options, {"--mark": decide})


def _mark(options: Options, _view: HookView, state: State) -> Holds:
    def decide(values: tuple[str, ...]) -> bool:
        value, mask = value_and_mask(values[0])
        return state.mark & mask == value

    return _each(options, {"--mark": decide})


def _addrtype(options: Options, view: HookView, state: State) -> Holds:
    on_link = "--limit-iface-in" in options
    if "--limit-iface-out" in options:
        return None

    def decide(address: str) -> Callable[[tuple[str, ...]], bool]:
        return lambda values: view.address_type(address, state, on_link=on_link).upper() in values[0].split(",")

    return _each(
        options,
        {
            "--src-type": decide(view.packet.source),
            "--dst-type": decide(state.destination),
            "--limit-iface-in": lambda _values: True,
        },
    )


def _iprange(options: Options, view: HookView, state: State) -> Holds:
    return _each(
        options,
        {
            "--src-range": lambda values: _between(view.packet.source, values[0]),
            "--dst-range": lambda values: _between(state.destination, values[0]),
        },
    )


def _between(address: str, text: str) -> bool:
    low, _dash, high = text.partition("-")
    number = int(as_address(address))
    return int(as_address(low)) <= number <= int(as_address(high or low))


def _inside(address: str, network: str) -> bool:
    return as_address(address) in ipaddress.ip_network(network, strict=False)


def _recent(options: Options, _view: HookView, _state: State) -> Holds:
    for option, (negated, _values) in options.items():
        if option in ("--rcheck", "--update", "--remove"):
            return negated
        if option == "--set":
            return True
    return None


def _hashlimit(options: Options, _view: HookView, _state: State) -> Holds:
    above, upto = options.get("--hashlimit-above"), options.get("--hashlimit-upto", options.get("--hashlimit"))
    return above[0] if above else None if upto is None else not upto[0]


def _connlimit(options: Options, _view: HookView, _state: State) -> Holds:
    above, upto = options.get("--connlimit-above"), options.get("--connlimit-upto")
    least = above or upto
    if least is None or not least[1] or number_of(least[1][0]) < 1:
        return None
    return least[0] if above else not least[0]


def _owner(options: Options, view: HookView, _state: State) -> Holds:
    if view.packet.node_local:
        return None  # the sending process is unknown
    return all(negated for negated, _values in options.values())


def _statistic(options: Options, _view: HookView, _state: State) -> Holds:
    return DRAWN if options.get("--mode", (False, ()))[1] in (("random",), ("nth",)) else None


def _policy(options: Options, _view: HookView, _state: State) -> Holds:
    negated, values = options.get("--pol", (False, ()))
    return None if len(values) != 1 else (values[0] == "none") != negated


_MATCHES: Mapping[str, Callable[[Options, HookView, State], Holds]] = MappingProxyType(
    {
        **dict.fromkeys(("tcp", "udp", "sctp", "dccp", "udplite"), _transport),
        **dict.fromkeys(("icmp", "icmp6", "icmpv6"), lambda _options, _view, _state: False),
        "multiport": _multiport,
        "state": _state,
        "conntrack": _conntrack,
        "connmark": _connmark,
        "mark": _mark,
        "addrtype": _addrtype,
        "iprange": _iprange,
        "recent": _recent,
        "limit": lambda _options, _view, _state: True,
        "hashlimit": _hashlimit,
        "connlimit": _connlimit,
        "owner": _owner,
        "statistic": _statistic,
        "policy": _policy,
        "pkttype": lambda options, _view, _state: _each(
            options, {"--pkt-type": lambda values: values[0] in ("unicast", "host")}
        ),
        "rpfilter": lambda options, _view, _state: "--invert" not in options,
    }
)
