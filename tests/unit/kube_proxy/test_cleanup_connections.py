# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Connections in conntrack that lead where no new one does: the clean-up has the kernel forget them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._audit.facts import UdpConnection
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.artefact import (
    KEPT,
    REMOVED,
    Forget,
    Stage,
)
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.connections import left_in_conntrack
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.engine import ENGINE, CleanupRequest
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
from tests.unit.kube_proxy.cleanup_node import Node


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
