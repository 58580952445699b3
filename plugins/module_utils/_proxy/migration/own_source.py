# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The address that a node's own connections to Services come from, while a bridge is there beside ipvs.

ipvs binds the addresses of Services to a link of the node, kube-ipvs0. The kernel has a route of table local for each of
them, and by it the node's own connections to a Service have that Service's address as their source. When ipvs goes, the
address goes, and with it the end of each such connection, also of those that the bridge carries. So before a bridge is
there these routes are told to use the node's own address, which stays. Measured on Linux 6.12 with IPv4; IPv6 believed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..._core.host import Host
from ..surroundings import LINK

# Of documentation (RFC 5737, RFC 3849): the way to it is the one to anywhere else.
_ANYWHERE = {"-4": "192.0.2.1", "-6": "2001:db8::1"}
_SECONDS = 60


def use_own_address(host: Host) -> None:
    """No effect where there is no ipvs, and for a family in which the node has no address of its own."""
    for family, anywhere in _ANYWHERE.items():
        routes = _routes(host, family)
        own = [str(one["prefsrc"]) for one in _answer(host, family, "route", "get", anywhere) if "prefsrc" in one]
        if routes and own:
            _set(host, family, [_replaced(to, own[0]) for to, source in routes if source != own[0]])


def use_service_addresses(host: Host) -> None:
    """As the kernel has it by itself. An address that was unbound meanwhile has left its route behind."""
    for family in _ANYWHERE:
        changed = [to for to, source in _routes(host, family) if source != to]
        bound = {str(one.get("local")) for one in _addresses(host, family)} if changed else set()
        _set(host, family, [_replaced(to, to) if to in bound else f"route del {_route(to)}" for to in changed])


def _routes(host: Host, family: str) -> list[tuple[str, str]]:
    """Address and source of each route of table local to kube-ipvs0; IPv6 has no source that is not set."""
    found = _answer(host, family, "route", "show", "table", "local", "dev", LINK)
    rows = [one for one in found if one.get("type") == "local"]
    return sorted((str(one["dst"]), str(one.get("prefsrc") or one["dst"])) for one in rows if "dst" in one)


def _addresses(host: Host, family: str) -> Iterator[dict[str, Any]]:
    for link in _answer(host, family, "address", "show", "dev", LINK):
        yield from link.get("addr_info", [])


def _answer(host: Host, family: str, *words: str) -> list[dict[str, Any]]:
    """Empty where iproute2 fails: there is no such link, or no way."""
    done = host.run(["ip", "-j", family, *words], timeout=_SECONDS, check=False)
    try:
        found = json.loads(done.stdout) if done.status == 0 else []
    except ValueError:
        return []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _set(host: Host, family: str, lines: list[str]) -> None:
    """A Service that goes meanwhile takes its route with it, so that a line may fail."""
    if lines:
        batch = "".join(f"{line}\n" for line in lines).encode()
        host.run(["ip", family, "-force", "-batch", "-"], stdin=batch, timeout=_SECONDS, check=False)


def _replaced(to: str, source: str) -> str:
    return f"route replace {_route(to)} proto kernel scope host src {source}"


def _route(to: str) -> str:
    return f"local {to} dev {LINK} table local"
