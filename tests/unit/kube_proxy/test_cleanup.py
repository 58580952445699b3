# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The clean-up on a machine in memory: what it runs, in which order, and what it says of each thing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._audit.facts import UdpConnection
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.journal import journal_path
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed, Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.artefact import (
    KEPT,
    REMOVED,
    CleanupPlan,
    Forget,
    Stage,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.connections import left_in_conntrack
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.engine import (
    ENGINE,
    SPEC,
    CleanupRequest,
    is_change_under_way,
    read_stale_rules,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.drain_record import (
    read_draining,
    show_time,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.ipvs_connections import (
    give_back,
    hold,
    settle,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.compile import compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import SET_NAMES
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import RuleConfig
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import (
    DROP,
    PASS,
    REJECT,
    UNKNOWN,
    Answer,
    Packet,
    Surroundings,
    translate_to,
)
from tests.unit.fakes import Call, FakeHost
from tests.unit.kube_proxy.draining_node import DNS, PORT, SIX, WEB, DrainingKernel
from tests.unit.kube_proxy.draining_node import FOREIGN as FOREIGN_SERVER
from tests.unit.rules.ipvs.kernel import LINK, Kernel
from tests.unit.rules.ipvs.test_apply import apply as apply_ipvs
from tests.unit.rules.ipvs.test_apply import kernel_with_foreign_things, view

TABLES = """\
table ip kube-proxy {
    chain services {
    }
}
"""
MODE_URL = "http://127.0.0.1:10249/proxyMode"


class Node:
    """A node in mode nftables, after ipvs."""

    def __init__(self, *, ipvs: bool = True, tables: str = TABLES) -> None:
        self.kernel: Kernel = kernel_with_foreign_things()
        self.host: FakeHost = self.kernel.host()
        self.tables = tables
        self.before = self.kernel.state()
        if ipvs:
            for family in (4, 6):
                apply_ipvs(compile_rules(view(family=family), RuleConfig(backend="ipvs")), self.host, family=family)
            self.host.given("/proc/net/ip_vs", self.kernel.list_connections())
        self.host.on("nft", "list", "chains", answer=lambda _call: self.tables, reads=True)
        self.host.on("nft", "-f", "-", answer="")
        self.host.on(
            "ipset", "list", "-n", answer=lambda _call: "".join(f"{one}\n" for one in self.kernel.sets), reads=True
        )
        self.host.on("ipset", "save", answer=self._save, reads=True)
        self.host.on("ipset", "destroy", answer=self._destroy)
        self.host.effects.clear()

    def _save(self, call: Call) -> str:
        lines = self.kernel.save_sets().splitlines()
        return "".join(f"{line}\n" for line in lines if len(call.argv) < 3 or line.split()[1] == call.argv[2])

    def _destroy(self, call: Call) -> Completed:
        return self.kernel.restore_sets(replace(call, stdin=f"destroy {call.argv[2]}\n".encode()))

    def plan(self, **options: Any) -> CleanupPlan:
        desired = CleanupRequest(**{"mode": "nftables", **options})
        return ENGINE.plan(desired, ENGINE.observe(Context(desired, self.host)))

    def clean(self, **options: Any) -> CleanupPlan:
        plan = self.plan(**options)
        progress = Progress(NullSink(), feature="kube_proxy_cleanup")
        ENGINE.apply(plan, Context(CleanupRequest("nftables"), self.host, progress))
        self.host.given("/proc/net/ip_vs", self.kernel.list_connections())
        return plan

    @property
    def did(self) -> list[str]:
        return [effect.target for effect in self.host.effects]


def told(plan: CleanupPlan, kind: str) -> dict[str, str]:
    return {one.target: one.fate for one in plan.artefacts if one.kind == kind}


def why(plan: CleanupPlan, target: str) -> str:
    return next(one.why for one in plan.artefacts if target in one.target)


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


# Connections through ipvs


class Draining:
    """A node after a change of the mode, with connections through ipvs."""

    def __init__(self, mode: str = "nftables", *, recorded: bool = True) -> None:
        self.mode = mode
        self.kernel = DrainingKernel()
        self.host = self.kernel.on_host
        draining = hold(self.host, drain_seconds=600)
        assert draining is not None
        if recorded:
            self.kernel.kube_proxy_starts(mode)
            settle(self.host, draining)
        else:
            give_back(self.host)
        self.host.on("nft", "list", "chains", answer=TABLES if mode == "nftables" else "", reads=True)
        rules = "*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n" if mode == "iptables" else ""
        self.host.on("iptables-save", answer=rules, reads=True)
        self.host.on(
            "ipset", "list", "-n", answer=lambda _call: "".join(f"{one}\n" for one in self.kernel.sets), reads=True
        )
        self.host.on(
            "ipset",
            "destroy",
            answer=lambda call: self.kernel.restore_sets(replace(call, stdin=f"destroy {call.argv[2]}\n".encode())),
        )
        self.host.on("ip", "-batch", answer=self._ip)
        self.host.given_sysctl("net.ipv4.vs.conntrack", 1)
        self.host.effects.clear()

    def _ip(self, call: Call) -> Completed:
        done = self.kernel.ip_batch(call)
        self.kernel.show()
        return done

    def plan(self, **options: Any) -> CleanupPlan:
        desired = CleanupRequest(self.mode, **options)
        return ENGINE.plan(desired, ENGINE.observe(Context(desired, self.host)))

    def clean(self, **options: Any) -> CleanupPlan:
        plan = self.plan(**options)
        ENGINE.apply(plan, Context(CleanupRequest(self.mode), self.host, Progress(NullSink(), feature="x")))
        self.kernel.show()
        return plan


@pytest.mark.parametrize("mode", ["nftables", "iptables"])
def test_virtual_servers_with_connections_stay_until_the_deadline(mode: str) -> None:
    node = Draining(mode)
    until = show_time(node.host.now() + 600)
    plan = node.clean()
    assert ENGINE.as_result(plan)["connections"] == {"cut": 0, "kept": 5, "until": until}
    assert node.kernel.servers.keys() == {WEB, DNS, PORT, SIX, FOREIGN_SERVER}
    assert f"2 connections are open: it stays until {until}" in why(plan, "10.96.0.1:80/TCP")
    assert node.kernel.links[LINK] == ["10.96.0.1", "10.96.0.10", "fd00:96::1"], "of those alone"
    assert node.kernel.sets == {}
    assert told(plan, "setting") == {"net.ipv4.vs.conntrack = 1": KEPT}, "connections go by it"
    desired = CleanupRequest(mode)
    assert ENGINE.verify(Context(desired, node.host, Progress(NullSink(), feature="x"))) == []
    node.host.effects.clear()
    again = node.clean()
    assert (again.stages, node.host.effects) == ((), [])
    assert told(again, "virtual server")["192.0.2.10:30080/TCP"] == KEPT, "by the record, as no set names it any more"


@pytest.mark.parametrize("forced", [False, True])
def test_after_the_deadline_or_by_force_they_go_and_what_is_cut_is_counted(forced: bool) -> None:
    node = Draining()
    until = show_time(node.host.now() + 600)
    if not forced:
        node.host.sleep(600)
    plan = node.plan(cut_connections=forced)
    assert ENGINE.as_result(plan)["connections"] == {"cut": 5, "kept": 0, "until": ""}
    assert why(plan, "10.96.0.1:80/TCP") == ("cut_connections is set" if forced else f"the deadline {until} has passed")
    assert "cuts 4 connections" in "".join(row["before"] for row in ENGINE.diff(plan))
    node.clean(cut_connections=forced)
    assert node.kernel.servers.keys() == {FOREIGN_SERVER}
    assert LINK not in node.kernel.links
    assert read_draining(node.host) is None


def test_one_whose_connections_have_ended_goes_before_the_deadline() -> None:
    node = Draining()
    node.clean()
    node.kernel.open = {DNS: 1}
    node.kernel.show()
    assert told(node.clean(), "virtual server")["10.96.0.10:53/UDP"] == KEPT
    assert node.kernel.servers.keys() == {DNS, FOREIGN_SERVER}
    node.kernel.open = {}
    node.kernel.show()
    assert ENGINE.as_result(node.clean())["connections"] == {"cut": 0, "kept": 0, "until": ""}
    assert node.kernel.servers.keys() == {FOREIGN_SERVER}
    assert LINK not in node.kernel.links
    assert read_draining(node.host) is None


def test_one_whose_connections_end_during_the_clean_up_is_no_failure() -> None:
    node = Draining()
    node.clean()
    node.kernel.open = {}
    node.kernel.show()
    assert ENGINE.verify(Context(CleanupRequest("nftables"), node.host, Progress(NullSink(), feature="x"))) == []


def test_without_a_recorded_deadline_connections_are_cut_by_force_alone() -> None:
    node = Draining("iptables", recorded=False)
    plan = node.clean()
    assert ENGINE.as_result(plan)["connections"] == {"cut": 0, "kept": 5, "until": ""}
    assert "the journal has no deadline" in why(plan, "10.96.0.1:80/TCP")
    node.host.sleep(10**6)
    assert node.plan().stages == ()
    assert PORT in node.kernel.servers
    assert ENGINE.as_result(node.plan(cut_connections=True))["connections"] == {"cut": 5, "kept": 0, "until": ""}


# The mode


def answering(mode: str) -> FakeHost:
    host = FakeHost()
    host.given_port(10249)
    host.answer(MODE_URL, Response(200, mode.encode()))
    return host


def test_the_mode_is_what_kube_proxy_says() -> None:
    assert ENGINE.observe(Context(CleanupRequest(), answering("ipvs"))).mode == "ipvs"
    assert ENGINE.observe(Context(CleanupRequest("ipvs"), FakeHost())).mode == "ipvs"
    for given, host, id_ in (
        ("", FakeHost(), "residue-mode-unknown"),
        ("", answering("userspace"), "residue-mode-unknown"),
        ("nftables", answering("iptables"), "residue-mode-other"),
    ):
        with pytest.raises(BallastError) as caught:
            ENGINE.observe(Context(CleanupRequest(given), host))
        assert caught.value.id == id_


def test_a_kube_proxy_that_was_just_started_gets_time_to_answer() -> None:
    host = answering("nftables")
    started = host.monotonic() + 20

    def answer(url: str, _body: object) -> Response:
        if host.monotonic() < started:
            raise no_answer_error("GET", url, ConnectionRefusedError(111, "Connection refused"))
        return Response(200, b"nftables")

    host.answer(MODE_URL, answer)
    assert ENGINE.observe(Context(CleanupRequest(), host)).mode == "nftables"


@pytest.mark.parametrize(
    "address", ["10249", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:99999", "x@y:1", ":1", "a:²", "a/b:1"]
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    params = {name: spec.get("default") for name, spec in SPEC.items()}
    with pytest.raises((BallastError, Problems)) as caught:
        CleanupRequest.from_params({**params, "metrics_address": address}, FakeHost())
    assert caught.value.id == "residue-address"
    assert CleanupRequest.from_params({**params, "metrics_address": "[::1]:10249"}, FakeHost()).mode == ""


def two_variants(*, nft: str, legacy: str, here: str = "nf_tables") -> FakeHost:
    host = FakeHost()
    host.on("iptables", "--version", answer=f"iptables v1.8.11 ({here})\n", reads=True)
    for variant, text in (("nft", nft), ("legacy", legacy)):
        host.on(f"iptables-{variant}-save", answer=text, reads=True)
        host.on(f"ip6tables-{variant}-save", answer="", reads=True)
    return host


JUMPING = """\
*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
COMMIT
"""
HINTED = "*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n"


@pytest.mark.parametrize(
    ("nft", "legacy", "here", "left"),
    [
        (JUMPING, "", "nf_tables", None),
        ("", JUMPING, "nf_tables", None),  # kube-proxy's image chose the other one
        (JUMPING, JUMPING, "nf_tables", "legacy"),
        (JUMPING, JUMPING, "legacy", "nft"),
        (JUMPING + HINTED, JUMPING, "nf_tables", "legacy"),
        (JUMPING + HINTED, JUMPING + HINTED, "nf_tables", "legacy"),
        (JUMPING, JUMPING + HINTED, "nf_tables", "nobody knows"),
    ],
)
def test_which_variant_kube_proxy_writes(nft: str, legacy: str, here: str, left: Optional[str]) -> None:
    host = two_variants(nft=nft, legacy=legacy, here=here)
    found = read_stale_rules(host, "iptables", change_under_way=False)
    if left == "nobody knows":
        assert {(one.target, one.fate) for one in found} == {("iptables (legacy)", KEPT), ("iptables (nft)", KEPT)}
        assert "it is unknown which one" in found[0].why
    else:
        assert {one.target.split()[1] for one in found} == ({f"({left})"} if left else set())
        assert {one.fate for one in found} <= {REMOVED}


# Connections


def fates(answer: Answer, *connections: UdpConnection, has_tool: bool = True) -> list[tuple[str, str]]:
    def ask(packet: Packet) -> Answer:
        assert packet.protocol == "UDP"
        return answer

    former = {("10.96.0.10", "UDP", 53), ("fd00:96::a", "UDP", 53), ("", "UDP", 30053)}
    found = left_in_conntrack(connections, ask, former, Surroundings(), has_tool=has_tool)
    return [(one.fate, one.target) for one in found.artefacts]


def test_connections_that_lead_elsewhere_than_a_new_one_go() -> None:
    served = translate_to(("10.1.0.5:53", "[fd00::5]:53"))
    good = UdpConnection("10.96.0.10", 53, "10.1.0.5", 53, "10.1.0.9")
    bare = UdpConnection("10.96.0.10", 53, "10.96.0.10", 53, "10.1.0.9")
    six = UdpConnection("fd00:96::a", 53, "fd00::5", 53, "fd00::9")
    assert fates(served, good, bare, bare, six) == [(REMOVED, "UDP to 10.96.0.10:53 at 10.96.0.10:53")]
    elsewhere = UdpConnection("10.96.0.10", 53, "10.1.0.5", 1053, "10.1.0.9")
    assert fates(served, elsewhere) == [(REMOVED, "UDP to 10.96.0.10:53 at 10.1.0.5:1053")]
    assert fates(served, bare, has_tool=False)[0][0] == KEPT
    assert fates(Answer(UNKNOWN, problem=BallastError("no", id="x")), bare)[0][0] == KEPT


def test_without_an_endpoint_every_connection_is_stale() -> None:
    """k/k#139628: the rule that rejects new connections does not see those that conntrack knows."""
    at_endpoint = UdpConnection("10.96.0.10", 53, "10.1.0.5", 53, "10.1.0.9")
    bare = UdpConnection("10.96.0.10", 53, "10.96.0.10", 53, "10.1.0.9")
    assert [fate for fate, _target in fates(Answer(REJECT), at_endpoint, bare)] == [REMOVED, REMOVED]
    assert fates(Answer(DROP), at_endpoint) == [], "a policy of this node drops new ones: others serve"


def test_a_connection_to_a_service_that_is_gone_is_stale() -> None:
    """k/k#141371. A node port may be served on fewer addresses than before."""
    at_endpoint = UdpConnection("10.96.0.10", 53, "10.1.0.5", 53, "10.1.0.9")
    bare = UdpConnection("10.96.0.10", 53, "10.96.0.10", 53, "10.1.0.9")
    node_port = UdpConnection("10.9.0.1", 30053, "10.1.0.5", 53, "10.1.0.9")
    assert fates(Answer(PASS), at_endpoint, bare, node_port) == [(REMOVED, "UDP to 10.96.0.10:53 at 10.1.0.5:53")]


def test_what_is_forgotten_already_is_no_failure() -> None:
    node = Node(ipvs=False)
    node.host.on("conntrack", "-L", answer="", reads=True)
    node.host.on(
        "conntrack",
        "-D",
        answer=Completed(("conntrack",), 1, "", "conntrack v1.4.7: 0 flow entries have been deleted."),
    )
    plan = node.plan()
    stages = (Stage("connections", (Forget(UdpConnection("10.96.0.10", 53, "10.1.0.5", 1053)),)),)
    ENGINE.apply(
        replace(plan, stages=stages), Context(CleanupRequest("nftables"), node.host, Progress(NullSink(), feature="x"))
    )
    asked = "--orig-dst 10.96.0.10 --orig-port-dst 53 --reply-src 10.1.0.5 --reply-port-src 1053"
    assert node.did == [f"conntrack -D -f ipv4 -p udp {asked}"]
    node.host.on("conntrack", "-D", answer=2)
    with pytest.raises(BallastError):
        ENGINE.apply(
            replace(plan, stages=stages),
            Context(CleanupRequest("nftables"), node.host, Progress(NullSink(), feature="x")),
        )


# Counters


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
