# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The source address of a node's own connections to Services, while a takeover table exists next to ipvs.

ipvs binds the addresses of Services to a link of the node, kube-ipvs0. For each, the kernel adds a route to table local, so
the node's own connections to a Service have the Service's address as their source. When ipvs is removed, that address
disappears and breaks these connections, including those served by the takeover table. So before the table is created, these
routes get the node's own address as their source. Measured on Linux 6.12 with IPv4; IPv6 believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._core.host.host import Host
from .._core.text.json_text import parse_json
from .._rules.node_addresses import LINK

# Addresses for documentation (RFC 5737, RFC 3849), which are reached through the default route.
_ANYWHERE = {"-4": "192.0.2.1", "-6": "2001:db8::1"}
_SECONDS = 60


def use_own_address(host: Host) -> None:
    """Set the routes' source to the node's own address. No effect without ipvs, or in a family in which the node has no
    address."""
    for family, anywhere in _ANYWHERE.items():
        routes = _routes(host, family)
        own = [str(route["prefsrc"]) for route in _query(host, family, "route", "get", anywhere) if "prefsrc" in route]
        if routes and own:
            _set(host, family, [_replace(to, own[0]) for to, source in routes if source != own[0]])


def use_service_addresses(host: Host) -> None:
    """Restore the kernel's default. The route of an address that has been unbound meanwhile is a leftover and is removed."""
    for family in _ANYWHERE:
        changed = [to for to, source in _routes(host, family) if source != to]
        bound = {str(address.get("local")) for address in _addresses(host, family)} if changed else set()
        _set(host, family, [_replace(to, to) if to in bound else f"route del {_route(to)}" for to in changed])


def _routes(host: Host, family: str) -> list[tuple[str, str]]:
    """(address, source) of each route of table local to kube-ipvs0. IPv6 shows no source that was not set."""
    listed = _query(host, family, "route", "show", "table", "local", "dev", LINK)
    rows = [row for row in listed if row.get("type") == "local"]
    return sorted((str(row["dst"]), str(row.get("prefsrc") or row["dst"])) for row in rows if "dst" in row)


def _addresses(host: Host, family: str) -> Iterator[dict[str, Any]]:
    for link in _query(host, family, "address", "show", "dev", LINK):
        yield from link.get("addr_info", [])


def _query(host: Host, family: str, *words: str) -> list[dict[str, Any]]:
    """The rows that iproute2 prints; empty if it fails: no such link, or no route."""
    done = host.run(["ip", "-j", family, *words], timeout=_SECONDS, check=False)
    try:
        rows = parse_json(done.stdout) if done.status == 0 else []
    except ValueError:
        return []
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _set(host: Host, family: str, lines: list[str]) -> None:
    """Run a batch, in which a line may fail if a Service and its route were removed meanwhile."""
    if lines:
        batch = "".join(f"{line}\n" for line in lines).encode()
        host.run(["ip", family, "-force", "-batch", "-"], stdin=batch, timeout=_SECONDS, check=False)


def _replace(to: str, source: str) -> str:
    return f"route replace {_route(to)} proto kernel scope host src {source}"


def _route(to: str) -> str:
    return f"local {to} dev {LINK} table local"
