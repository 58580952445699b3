# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules in chains of the names of kube-proxy: its own are told from those of other programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given as drawn

from ansible_collections.ballast.kube.plugins.module_utils._audit.dump_reading import DumpReading
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.foreign_programs import (
    KubeChainRule,
    kube_chain_rules,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.backend import Iptables
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.parse import parse
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.iptables import compile_tables
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import SET_TYPES
from tests.unit.kube_proxy.preflight_node import asked, facts
from tests.unit.rules.strategies import Scenario, scenarios

NODES = Path(__file__).parents[1] / "audit/nodes"


@pytest.mark.parametrize("version", ["1.35.8", "1.36.4", "1.37.1"])
def test_nothing_of_a_real_kube_proxy_is_another_program_s(version: str) -> None:
    text = (NODES / f"kube-proxy-{version}" / "iptables.txt").read_text(encoding="utf-8")
    backend = Iptables("nft")
    rulesets = {("nft", family): DumpReading(text, backend).rules(family) for family in (4, 6)}
    assert sum(len(table.chains) for one in rulesets.values() for table in one.tables) > 50
    assert list(kube_chain_rules(rulesets)) == []


@drawn(scenario=scenarios(backend="iptables"))
def test_nothing_that_kube_proxy_may_write_is_another_program_s(scenario: Scenario) -> None:
    compiled = Iptables("nft").compile(scenario.view, scenario.config)
    assert list(kube_chain_rules({("nft", scenario.view.family): compiled})) == []


@pytest.mark.parametrize("family", [4, 6])
def test_nor_is_anything_of_mode_ipvs(family: int) -> None:
    config = facts(asked("ipvs", "iptables")).before[family]
    closed = [("10.96.0.1" if family == 4 else "fd00:96::1", "TCP", 80)]
    compiled = compile_tables(family, config, used=tuple(SET_TYPES), closed_to_node=closed)
    assert list(kube_chain_rules({("nft", family): compiled})) == []


FOREIGN = """\
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-ROUTER-FORWARD - [0:0]
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -j KUBE-ROUTER-FORWARD
-A INPUT -j KUBE-FIREWALL
-A KUBE-FORWARD -s 203.0.113.0/24 -m comment --comment "mine, -j KUBE-FORWARD" -j ACCEPT
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FIREWALL -s 203.0.113.1/32 -j DROP
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-SERVICES - [0:0]
:CNI-HOSTPORT-SETMARK - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j KUBE-MARK-MASQ
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-SERVICES -d 10.96.0.9/32 -j LOG --log-prefix "seen "
-A KUBE-SERVICES -s 203.0.113.5/32 -j RETURN
COMMIT
"""


def test_rules_of_others_are_told_from_kube_proxy_s() -> None:
    found = list(kube_chain_rules({("legacy", 4): parse(FOREIGN, family=4)}))
    assert [(one.table, one.kube_chain, one.inside) for one in found] == [
        ("nat", "KUBE-MARK-MASQ", False),
        ("nat", "KUBE-SERVICES", True),
        ("nat", "KUBE-SERVICES", True),
        ("filter", "KUBE-FORWARD", True),
    ]
    assert found[0] == KubeChainRule(
        "nat",
        "KUBE-MARK-MASQ",
        False,
        "iptables (legacy), IPv4: -t nat -A CNI-HOSTPORT-SETMARK "
        '-m comment --comment "CNI portfwd masquerade mark" -j KUBE-MARK-MASQ',
    )
