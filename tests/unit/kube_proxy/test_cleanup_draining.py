# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The clean-up beside connections through ipvs: their virtual servers stay until the deadline, or go by force."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.artefact import KEPT, CleanupPlan
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.engine import ENGINE, CleanupRequest
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.drain_record import read_draining, show_time
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.ipvs_connections import give_back, hold, settle
from tests.unit.fakes import Call
from tests.unit.kube_proxy.cleanup_node import TABLES, told, why
from tests.unit.kube_proxy.draining_node import DNS, PORT, SIX, WEB, DrainingKernel
from tests.unit.kube_proxy.draining_node import FOREIGN as FOREIGN_SERVER
from tests.unit.rules.ipvs.kernel import LINK


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
