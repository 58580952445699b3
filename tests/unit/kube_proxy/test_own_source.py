# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The source of a node's own connections to Services, before a bridge is there and after."""

from __future__ import annotations

import json

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.own_source import (
    use_own_address,
    use_service_addresses,
)
from tests.unit.fakes import Call, FakeHost

OWN = "10.97.0.11"
VIP, OTHER = "10.96.0.1", "10.96.0.10"


class Node(FakeHost):
    """With these routes to kube-ipvs0, address and source, and the addresses bound to it. None: there is no such link."""

    def __init__(self, routes: dict[str, str] | None, *, bound: tuple[str, ...] = (), own: str = OWN) -> None:
        super().__init__()
        self.batch = ""
        rows = [{"type": "local", "dst": to, "prefsrc": source} for to, source in (routes or {}).items()]
        there = routes is not None
        self.on("ip", "-j", answer=1, reads=True)
        self.on("ip", "-j", "-4", "route", "show", answer=json.dumps(rows) if there else 1, reads=True)
        self.on("ip", "-j", "-4", "route", "get", answer=json.dumps([{"prefsrc": own}]) if own else 2, reads=True)
        links = [{"ifname": "kube-ipvs0", "addr_info": [{"local": one} for one in bound]}]
        self.on("ip", "-j", "-4", "address", answer=json.dumps(links) if there else 1, reads=True)
        self.on("ip", "-4", "-force", "-batch", "-", answer=self._set)

    def _set(self, call: Call) -> str:
        self.batch += call.stdin.decode()
        return ""


def test_connections_to_services_come_from_the_nodes_own_address() -> None:
    node = Node({VIP: VIP, OTHER: OWN})
    use_own_address(node)
    assert node.batch == f"route replace local {VIP} dev kube-ipvs0 table local proto kernel scope host src {OWN}\n"


@pytest.mark.parametrize("node", [Node(None), Node({}), Node({VIP: OWN}), Node({VIP: VIP}, own="")])
def test_nothing_is_done_without_ipvs_or_an_address_or_when_it_is_so(node: Node) -> None:
    use_own_address(node)
    assert node.effects == []


def test_they_come_from_the_services_address_again() -> None:
    node = Node({VIP: OWN, OTHER: OWN, "10.96.0.99": "10.96.0.99"}, bound=(VIP, "10.96.0.99"))
    use_service_addresses(node)
    assert node.batch.splitlines() == [
        f"route replace local {VIP} dev kube-ipvs0 table local proto kernel scope host src {VIP}",
        f"route del local {OTHER} dev kube-ipvs0 table local",
    ]


@pytest.mark.parametrize("node", [Node(None), Node({VIP: VIP}, bound=(VIP,))])
def test_nothing_is_put_back_that_is_so(node: Node) -> None:
    use_service_addresses(node)
    assert node.effects == []
