# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The clean-up on a machine in memory: what it runs, in which order, and what it says of each thing."""

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.journal import journal_path
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.artefact import KEPT, REMOVED
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.engine import (
    ENGINE,
    CleanupRequest,
    is_change_under_way,
    read_stale_rules,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import SET_NAMES
from tests.unit.fakes import Call, FakeHost
from tests.unit.kube_proxy.cleanup_node import TABLES, Node, told, why
from tests.unit.rules.ipvs.kernel import LINK


def without(host: FakeHost, tool: str) -> None:
    """The tool is not on this machine."""
    host._rules = [rule for rule in host._rules if rule.prefix[0] != tool]


def test_ipvs_goes_in_order_and_what_others_have_stays() -> None:
    node = Node()
    plan = node.clean()
    state = node.kernel.state()
    assert state == node.before
    assert [line.split()[0] + " " + line.split()[1] for line in dict.fromkeys(node.did)][:7] == [
        "iptables-restore --noflush",
        "ip6tables-restore --noflush",
        "ipvsadm -R",
        "ip -batch",
        *["ipset destroy"] * 3,
    ]
    assert told(plan, "link") == {LINK: REMOVED}
    assert told(plan, "virtual server")["10.7.0.1:80/TCP"] == KEPT
    assert set(told(plan, "set")) <= SET_NAMES
    node.host.effects.clear()
    again = node.clean()
    assert node.did == []
    assert again.stages == ()
    assert {one.fate for one in again.artefacts} == {KEPT}


def test_jumps_of_every_family_go_before_any_chain() -> None:
    plan = Node().plan()
    titles = [stage.title for stage in plan.stages]
    assert titles == [
        "jumps of iptables (nft) IPv4",
        "jumps of iptables (nft) IPv6",
        "chains of iptables (nft) IPv4",
        "chains of iptables (nft) IPv6",
        "virtual servers of IPv4",
        "virtual servers of IPv6",
        f"the interface {LINK}",
        "sets",
    ]


def test_nothing_is_found_and_nothing_done_where_no_tool_and_no_trace_is() -> None:
    assert read_stale_rules(FakeHost(), "nftables", change_under_way=False) == []
    assert Node(ipvs=False).plan().stages == ()


def test_what_no_tool_shows_and_the_kernel_has_is_told() -> None:
    host = FakeHost(
        files={
            "/proc/net/ip_tables_names": "nat\nfilter\n",
            "/proc/modules": "nf_tables 1 0 - Live 0x0\nip_set 1 0 - Live 0x0\nip_vs_rr 1 0 - Live 0x0\n",
            "/proc/net/ip_vs": "IP Virtual Server\nProt LocalAddress:Port\nTCP  0A600001:01BB rr\n  -> 0A010005:1F90 Masq 1 0 0\n",
            "/proc/net/dev": f"Inter-|\n {LINK}: 0 0\n",
        }
    )
    found = {(one.kind, one.target): one for one in read_stale_rules(host, "iptables", change_under_way=False)}
    assert {one.fate for one in found.values()} == {KEPT}
    assert "lacks iptables-legacy-save" in found["chain", "iptables (legacy) IPv4"].why
    assert "nft is not on this machine" in found["table", "nftables ip kube-proxy, ip6 kube-proxy"].why
    assert "ipset is not on this machine" in found["set", "KUBE-*"].why
    assert "lacks ipvsadm" in found["virtual server", "1 in /proc/net/ip_vs"].why
    assert "ip is not" in found["link", LINK].why
    assert "reboot" in found["module", "ip_vs_rr"].why


def test_link_and_sets_stay_while_virtual_servers_cannot_be_told_by_them() -> None:
    node = Node()
    node.host.given("/proc/net/ip_vs", "IP Virtual Server\nTCP  0A600001:01BB rr\n")
    without(node.host, "ipvsadm")
    plan = node.plan()
    assert told(plan, "link") == {LINK: KEPT}
    assert set(told(plan, "set").values()) == {KEPT}
    assert told(plan, "virtual server") == {"1 in /proc/net/ip_vs": KEPT}


def test_a_set_that_a_rule_of_another_program_uses_stays_and_one_of_kube_router() -> None:
    node = Node()
    node.kernel.rules[4]["filter"]["cali-x"][1].append("-m set --match-set KUBE-CLUSTER-IP dst,dst -j DROP")
    node.kernel.sets["KUBE-SRC-AB"] = ("hash:ip family inet hashsize 1024 maxelem 65536", set())
    plan = node.clean()
    assert {name for name, fate in told(plan, "set").items() if fate == KEPT} == {"KUBE-CLUSTER-IP", "KUBE-SRC-AB"}
    assert "cali-x" in why(plan, "KUBE-CLUSTER-IP")
    assert "kube-router" in why(plan, "KUBE-SRC-AB")


def test_a_set_is_tried_again_while_the_kernel_gives_up_a_deleted_rule() -> None:
    node = Node()
    refused = iter([True, True, False])

    def destroy(call: Call) -> Completed:
        if call.argv[2] == "KUBE-LOOP-BACK" and next(refused):
            return Completed(call.argv, 1, "", "Set cannot be destroyed: it is in use by a kernel component")
        return node._destroy(call)

    node.host.on("ipset", "destroy", answer=destroy)
    node.clean()
    assert node.kernel.state() == node.before


def test_tables_go_but_those_in_use() -> None:
    node = Node(
        ipvs=False, tables=TABLES + "table ip6 kube-proxy {\n}\ntable ip ballast-bridge {\n}\ntable ip ballast {\n}\n"
    )
    assert told(node.plan(), "table") == {"nftables ip ballast-bridge": REMOVED}
    assert told(node.plan(change_under_way=True), "table") == {"nftables ip ballast-bridge": KEPT}
    assert told(node.plan(mode="iptables"), "table") == {
        "nftables ip kube-proxy": REMOVED,
        "nftables ip6 kube-proxy": REMOVED,
        "nftables ip ballast-bridge": REMOVED,
        "nftables ip ballast": KEPT,
    }


def test_the_bridge_is_in_use_while_a_journal_names_it() -> None:
    host = FakeHost()
    assert not is_change_under_way(host, "/var/lib/x")
    host.given(journal_path("/var/lib/x"), '{"op": "doing", "target": "ballast-bridge"}\n')
    assert is_change_under_way(host, "/var/lib/x")


def test_a_failure_says_where_and_the_next_run_goes_on() -> None:
    node = Node()
    node.kernel.fail_on = "link delete"
    with pytest.raises(BallastError) as caught:
        node.clean()
    assert caught.value.id == "residue-stopped"
    assert f"at the interface {LINK}, 7 of 8" in str(caught.value)
    node.host.given("/proc/net/ip_vs", node.kernel.list_connections())
    assert [stage.title for stage in node.plan().stages] == [f"the interface {LINK}", "sets"]
    node.clean()
    assert node.kernel.state() == node.before


@pytest.mark.parametrize("number", range(1, 30))
def test_killed_anywhere_a_second_run_ends_it(number: int) -> None:
    node = Node()
    node.host.fail_at(number)
    try:
        node.clean()
    except BaseException:
        node.host.calm()
    node.host.given("/proc/net/ip_vs", node.kernel.list_connections())
    node.clean()
    assert node.kernel.state() == node.before


def test_nothing_goes_where_no_rules_of_the_mode_are() -> None:
    node = Node(tables="")
    with pytest.raises(BallastError) as caught:
        node.clean()
    assert caught.value.id == "residue-nothing-in-use"
    assert node.did == []


def test_verify_tells_what_came_back() -> None:
    node = Node()
    found = ENGINE.verify(Context(CleanupRequest("nftables"), node.host, Progress(NullSink(), feature="x")))
    assert {one.id for one in found} == {"residue-came-back"}
    assert all(one.blocking for one in found)


def test_counters_go_where_a_tool_lists_them() -> None:
    node = Node(ipvs=False)
    node.host.on(
        "nfacct",
        "list",
        answer="{ pkts = 00, bytes = 00 } = ct_state_invalid_dropped_pkts;\n{ x = 1 } = other;\n",
        reads=True,
    )
    node.host.on("nfacct", "delete", answer="")
    assert told(node.clean(), "counter") == {"ct_state_invalid_dropped_pkts": REMOVED}
    assert node.did == ["nfacct delete ct_state_invalid_dropped_pkts"]
