# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What kube-proxy 1.37.1 wrote in ipvs mode on Linux 6.1 for the objects in dumps/, against what is compiled for them.

The dump: `ipvsadm -S -n; ipset save; ip -j address show; iptables-save; ip6tables-save` in a virtual machine whose kube-proxy
(mode: ipvs, clusterCIDR: 10.1.0.0/16,fd00:1::/48) had these objects from an API server, with ipvsadm 1.31, ipset 7.17 and
iptables 1.8.9 (legacy).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._audit.dump.reading import read_dump
from ansible_collections.ballast.kube.plugins.module_utils._audit.expected_verdict import ExpectedVerdicts
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._rules.config import parse_config
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.compile import compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import IpvsRules
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.plan import plan, select_own
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import FamilyView, RuleConfig
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import PROTOCOLS, Packet, Surroundings
from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import parse_snapshot_text
from tests.unit.audit.answers import trace

DUMPS = Path(__file__).with_name("dumps")
DUMP = (DUMPS / "kube-proxy-1.37.1.dump").read_text()
CONFIG = {"mode": "ipvs", "clusterCIDR": "10.1.0.0/16,fd00:1::/48"}
NODE_IPS = ("192.168.1.10", "10.1.0.1", "fd00:192::10", "fd00:1::1")


def wanted(family: int) -> tuple[FamilyView, RuleConfig]:
    text = (DUMPS / "kube-proxy-1.37.1.json").read_text()
    view = parse_snapshot_text(text, node_name="n1", node_ips=NODE_IPS).view(family)
    return view, parse_config(CONFIG, backend="ipvs", family=family, node=view.node).rules


def found(family: int) -> IpvsRules:
    return read_dump(DUMP).ipvs("legacy", family)


@pytest.mark.parametrize("family", [4, 6])
def test_what_is_compiled_is_what_kube_proxy_wrote(family: int) -> None:
    compiled = compile_rules(*wanted(family))
    assert plan(compiled, found(family)) == ()
    mine = select_own(found(family))
    assert (mine.servers, mine.sets, mine.addresses) == (compiled.servers, compiled.sets, compiled.addresses)


@pytest.mark.parametrize("family", [4, 6])
def test_all_of_it_is_removed(family: int) -> None:
    operations = plan(None, found(family))
    kinds = [one.kind for one in operations]
    assert kinds.count("remove virtual server") == len(found(family).servers)
    assert kinds.count("remove set") == len(found(family).sets) // 2, "the other half is of the other family"
    assert kinds.count("unbind address") == len(found(family).addresses)
    assert kinds.count("delete chain") == 11


@pytest.mark.parametrize("family", [4, 6])
def test_packets_meet_the_fate_that_is_meant_for_them(family: int) -> None:
    view, config = wanted(family)
    rules = found(family)
    surroundings = Surroundings(rules.links)
    meaning = ExpectedVerdicts(view, config, surroundings)
    pods = {one.address for service in view.services for one in service.endpoints if one.node == "n1"}
    sources = [(one, "cni0", False) for one in sorted(pods)]
    clients = ("172.16.5.5", "172.17.0.5") if family == 4 else ("2001:db8:16::5", "2001:db8:17::5")
    sources += [(one, "eth0", False) for one in clients] + [(view.node.primary, "", True)]
    addresses = {*rules.addresses, *view.node.addresses}
    ports = {one.port for one in view.frontends} | {7, 31001}
    for source, interface, node_local in sources:
        for address in sorted(addresses):
            for port in sorted(ports):
                for protocol in PROTOCOLS:
                    packet = Packet(source, address, port, protocol, interface, node_local)
                    assert trace(rules, packet, surroundings) == meaning.answer(packet), packet


@pytest.mark.parametrize("cut", range(1, len(DUMP), 997))
def test_a_dump_that_was_cut_is_read_or_refused_by_name(cut: int) -> None:
    for family in (4, 6):
        try:
            read_dump(DUMP[:cut]).ipvs("legacy", family)
        except BallastError as error:
            refused = error.id
        else:
            refused = ""
        assert refused.startswith("rules-") or not refused
