# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads through which link a machine reaches an address."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from .._core.host.host import KERNEL_LIMIT, Host
from .._core.text.errors import BallastError
from .._core.text.json_text import parse_json

# (network, link); the link is "" if unknown: several next hops, or a route that refuses.
Routes = tuple[tuple[str, str], ...]
_SECONDS = 60
_PLAIN_RULE = {"priority", "src", "table"}
_PLAIN_TABLES = ("local", "main", "default")
_EVERYTHING = {4: "0.0.0.0/0", 6: "::/0"}


def read_routes(host: Host) -> Routes:
    """The routes of both families. A family has none if policy rules (`ip rule`) choose among tables: the destination alone
    then does not determine the link."""
    return tuple(route for family in (4, 6) for route in _read_family(host, family))


def _read_family(host: Host, family: int) -> Sequence[tuple[str, str]]:
    try:
        rules, routes = (
            parse_json(host.run(["ip", "-j", f"-{family}", what], timeout=_SECONDS, limit=KERNEL_LIMIT).stdout or "[]")
            for what in ("rule", "route")
        )
    except (BallastError, ValueError):
        return ()
    return parse_routes(routes, family) if isinstance(rules, list) and all(map(_is_plain, rules)) else ()


def _is_plain(rule: object) -> bool:
    return isinstance(rule, dict) and set(rule) <= _PLAIN_RULE and rule.get("table") in _PLAIN_TABLES


def parse_routes(listed: object, family: Optional[int] = None) -> Sequence[tuple[str, str]]:
    """Parse the output of `ip -j route`. If `family` is None, it is derived from the addresses."""
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    family = family or next((6 for entry in entries if ":" in f"{entry.get('dst')}{entry.get('gateway')}"), 4)
    return tuple(_parse(entries, family))


def _parse(entries: Sequence[dict[str, Any]], family: int) -> Iterator[tuple[str, str]]:
    for entry in entries:
        to, link = entry.get("dst"), entry.get("dev")
        try:
            network = ipaddress.ip_network(_EVERYTHING[family] if to == "default" else str(to))
        except ValueError:
            continue
        is_sent = isinstance(link, str) and entry.get("type", "unicast") == "unicast"
        yield str(network), str(link) if is_sent else ""
