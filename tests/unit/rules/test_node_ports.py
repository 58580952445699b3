# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._rules.model import FamilyView, NodeView, RuleConfig
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_ports import (
    NodePortAddresses,
    node_port_addresses,
)

V4 = FamilyView(family=4, node=NodeView("n1", primary="192.0.2.10", addresses=("192.0.2.10", "10.9.0.1", "192.0.2.9")))
V6 = FamilyView(family=6, node=NodeView("n1", primary="fd00::10", addresses=("fd00::10", "2001:db8::1")))
ALL_V4 = ("10.9.0.1", "192.0.2.9", "192.0.2.10")
ALL_V6 = ("2001:db8::1", "fd00::10")


@pytest.mark.parametrize(
    ("view", "backend", "asked", "expected"),
    [
        (V4, "nftables", None, NodePortAddresses(False, ("192.0.2.10",))),
        (V4, "iptables", None, NodePortAddresses(True, ALL_V4, loopback=True)),
        (V4, "ipvs", None, NodePortAddresses(True, ALL_V4)),
        (V4, "winkernel", None, NodePortAddresses(True, ALL_V4)),
        (V6, "iptables", None, NodePortAddresses(True, ALL_V6)),
        (V4, "iptables", ("primary",), NodePortAddresses(False, ("192.0.2.10",))),
        (V4, "nftables", ("192.0.2.0/24",), NodePortAddresses(False, ("192.0.2.9", "192.0.2.10"))),
        (V4, "nftables", ("primary", "10.0.0.0/8"), NodePortAddresses(False, ("10.9.0.1", "192.0.2.10"))),
        (V4, "nftables", ("203.0.113.0/24",), NodePortAddresses(False)),
        (V4, "nftables", ("192.0.2.0/24", "0.0.0.0/0"), NodePortAddresses(True, ALL_V4)),
        (V4, "iptables", ("127.0.0.0/8",), NodePortAddresses(False, loopback=True)),
        (V4, "ipvs", ("127.0.0.0/8",), NodePortAddresses(False)),
        (V4, "nftables", ("127.0.0.0/8",), NodePortAddresses(False)),
        (V6, "iptables", ("::1/128",), NodePortAddresses(False)),
        (V6, "nftables", ("192.0.2.0/24",), NodePortAddresses(True, ALL_V6)),
    ],
)
def test_node_ports_are_served_on(
    view: FamilyView, backend: str, asked: tuple[str, ...] | None, expected: NodePortAddresses
) -> None:
    assert node_port_addresses(view, RuleConfig(backend, node_port_addresses=asked)) == expected


def test_localhost_node_ports_off_leaves_loopback_out() -> None:
    config = RuleConfig("iptables", localhost_node_ports=False)
    assert node_port_addresses(V4, config) == NodePortAddresses(True, ALL_V4)


@pytest.mark.parametrize("primary", ["", "127.0.0.1"])
def test_primary_limits_nothing_on_a_node_without_an_address_of_the_family(primary: str) -> None:
    view = FamilyView(family=4, node=NodeView("n1", primary=primary, addresses=("10.9.0.1",)))
    assert node_port_addresses(view, RuleConfig("nftables")) == NodePortAddresses(True, ("10.9.0.1",))
