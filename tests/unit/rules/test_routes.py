# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""By which link a node reaches an address."""

from __future__ import annotations

import json
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import Surroundings
from ansible_collections.ballast.kube.plugins.module_utils._rules.routes import parse_routes, read_routes

from ..fakes import FakeHost

RULES = [{"priority": n, "src": "all", "table": table} for n, table in enumerate(("local", "main", "default"))]
IPV4 = [
    {"dst": "default", "gateway": "192.0.2.1", "dev": "eth0"},
    {"dst": "10.1.0.0/16", "gateway": "192.0.2.7", "dev": "flannel.1"},
    {"type": "blackhole", "dst": "10.1.5.0/24", "dev": "lo"},
    {"dst": "10.1.5.9", "dev": "cali1234", "scope": "link"},
    {
        "dst": "10.2.0.0/16",
        "nexthops": [{"gateway": "192.0.2.8", "dev": "eth0"}, {"gateway": "192.0.2.9", "dev": "eth1"}],
    },
]
IPV6 = [{"dst": "fd00:1::/64", "dev": "cni0"}, {"dst": "default", "gateway": "fe80::1", "dev": "eth0"}]


def host(rules: Any = RULES) -> FakeHost:
    node = FakeHost()
    for family, routes in ((4, IPV4), (6, IPV6)):
        node.on("ip", "-j", f"-{family}", "rule", answer=json.dumps(rules if family == 4 else RULES), reads=True)
        node.on("ip", "-j", f"-{family}", "route", answer=json.dumps(routes), reads=True)
    return node


@pytest.mark.parametrize(
    ("address", "link"),
    [
        ("198.51.100.5", "eth0"),
        ("10.1.4.1", "flannel.1"),
        ("10.1.5.9", "cali1234"),  # the most specific route
        ("10.1.5.8", None),  # refused
        ("10.2.0.1", None),  # one of two
        ("fd00:1::7", "cni0"),
        ("2001:db8::1", "eth0"),
    ],
)
def test_the_most_specific_route_tells_the_link(address: str, link: Optional[str]) -> None:
    assert Surroundings(routes=read_routes(host())).link_to(address) == link


@pytest.mark.parametrize(
    "rule",
    [
        {"priority": 100, "src": "all", "fwmark": "0x80", "table": "main"},
        {"priority": 100, "src": "10.1.5.9", "table": "2"},
        {"priority": 100, "src": "all", "table": "local", "iif": "eth0"},
    ],
)
def test_where_rules_choose_among_tables_no_link_is_known(rule: dict[str, Any]) -> None:
    around = Surroundings(routes=read_routes(host([rule, *RULES])))
    assert around.link_to("198.51.100.5") is None
    assert around.link_to("fd00:1::7") == "cni0"


def test_without_ip_no_link_is_known() -> None:
    assert read_routes(FakeHost()) == ()


@pytest.mark.parametrize("listed", [{}, "text", [None, 7], [{"dst": "nonsense"}, {"dev": "eth0"}, {}]])
def test_what_is_no_list_of_routes_has_none(listed: Any) -> None:
    assert parse_routes(listed) == ()


def test_a_saved_default_route_is_of_the_family_of_its_list() -> None:
    assert parse_routes(IPV6)[-1] == ("::/0", "eth0")
    assert parse_routes(IPV4)[0] == ("0.0.0.0/0", "eth0")
    assert parse_routes([{"dst": "default", "gateway": "fe80::1", "dev": "eth0"}]) == (("::/0", "eth0"),)
