# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The effects of other programs' targets, parsed from the text that the grammar keeps, when a packet reaches them.

Source: iptables-extensions(8); xt_connmark.c, xt_CT.c, xt_DNAT (nf_nat_core.c), xt_REDIRECT.c.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Optional, Union

from ..._rules.iptables.grammar import Options, Refused, number_of, options_of, value_and_mask
from ..._rules.iptables.objects import Masquerade, Reject, SetMark

_ALL_BITS = 0xFFFFFFFF


@dataclass(frozen=True)
class NoEffect:
    """Changes nothing that decides where the packet goes; it continues with the next rule."""


@dataclass(frozen=True)
class Untrack:
    """`-j CT --notrack`: conntrack ignores the packet."""


@dataclass(frozen=True)
class ConnectionMark:
    """`-j CONNMARK`: `set` clears `mask` and XORs with `value`; `save` copies the packet's mark to the connection, `restore`
    the reverse."""

    operation: str  # "set", "save" or "restore"
    value: int = 0
    mask: int = _ALL_BITS  # when copying: that of the connection's mark
    packet_mask: int = _ALL_BITS


@dataclass(frozen=True)
class Redirect:
    """`-j REDIRECT`: to the node itself."""

    ports: str = ""  # "80", "80-90"; "" keeps the packet's


@dataclass(frozen=True)
class DnatRange:
    """`-j DNAT` to a range of addresses or ports, or with only one of them."""

    addresses: str = ""  # "10.0.0.1", "10.0.0.1-10.0.0.9"; "" keeps the packet's
    ports: str = ""


Effect = Union[NoEffect, Untrack, ConnectionMark, Redirect, DnatRange, Reject, Masquerade, SetMark]


@lru_cache(maxsize=4096)
def effect_of(text: str) -> Optional[Effect]:
    """The effect of a target as written, "-j NAME OPTIONS"; None if it is not known. SNAT has the effect of Masquerade."""
    flag, name, *tokens = [*text.split(), "", ""][: max(2, len(text.split()))]
    if flag != "-j" or "[unsupported" in tokens:
        return None
    if name in _NO_EFFECT:
        return NoEffect()
    read = _READERS.get(name)
    options = options_of(tokens)
    try:
        return None if read is None or options is None else read(options)
    except Refused:
        return None


def _value(options: Options, *names: str) -> str:
    """The value of the first of these options that is present."""
    return next((" ".join(options[name][1]) for name in names if name in options), "")


def _ct(options: Options) -> Effect:
    return Untrack() if "--notrack" in options else NoEffect()


def _connmark(options: Options) -> Optional[Effect]:
    mask = _value(options, "--mask")
    both = number_of(mask) if mask else _ALL_BITS
    masks = [_value(options, name) for name in ("--ctmask", "--nfmask")]
    of_connection, of_packet = (number_of(given) if given else both for given in masks)
    for operation in ("save", "restore"):
        if f"--{operation}-mark" in options:
            return ConnectionMark(operation, mask=of_connection, packet_mask=of_packet)
    mark = _set_mark(options)
    return None if mark is None else ConnectionMark("set", mark.value, mark.mask)


def _set_mark(options: Options) -> Optional[SetMark]:
    for name, read in _MARK_OPTIONS.items():
        if name in options:
            return read(*value_and_mask(_value(options, name)))
    return None


# Source: xt_MARK.c and xt_mark.h. All of these are forms of `--set-xmark`.
_MARK_OPTIONS: Mapping[str, Callable[[int, int], SetMark]] = MappingProxyType(
    {
        "--set-xmark": SetMark,
        "--set-mark": lambda value, mask: SetMark(value, value | mask),
        "--and-mark": lambda value, _mask: SetMark(0, value ^ _ALL_BITS),
        "--or-mark": lambda value, _mask: SetMark(value, value),
        "--xor-mark": lambda value, _mask: SetMark(value, 0),
    }
)


def _dnat(options: Options) -> Optional[Effect]:
    target = _value(options, "--to-destination")
    if not target or " " in target:
        return None
    address, ports = target, ""
    if address.startswith("["):
        address, _bracket, ports = address[1:].partition("]")
        address, ports = address.replace("]", ""), ports.lstrip(":")
    elif address.count(":") == 1:
        address, ports = address.split(":")
    return DnatRange(address, "") if not ports else None if "/" in ports else DnatRange(address, ports)


_NO_EFFECT = frozenset(
    {
        "AUDIT",
        "CHECKSUM",
        "CLASSIFY",
        "CONNSECMARK",
        "DSCP",
        "ECN",
        "HL",
        "IDLETIMER",
        "LED",
        "LOG",
        "NFLOG",
        "RATEEST",
        "SECMARK",
        "SET",
        "TCPMSS",
        "TCPOPTSTRIP",
        "TEE",
        "TOS",
        "TRACE",
        "TTL",
        "ULOG",
    }
)
_READERS: Mapping[str, Callable[[Options], Optional[Effect]]] = MappingProxyType(
    {
        "CT": _ct,
        "NOTRACK": lambda _options: Untrack(),
        "CONNMARK": _connmark,
        "MARK": _set_mark,
        "REDIRECT": lambda options: Redirect(_value(options, "--to-ports")),
        "DNAT": _dnat,
        "SNAT": lambda _options: Masquerade(),
        "MASQUERADE": lambda _options: Masquerade(),
        "REJECT": lambda options: Reject(_value(options, "--reject-with")),
    }
)
