# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a real packet that was sent over the wire must have met, if the tracer told the truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ansible_collections.ballast.kube.plugins.module_utils._rules.model import LocalDetector
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import (
    DNAT,
    PASS,
    REJECT,
    Answer,
    Packet,
    endpoint_text,
)
from tests.integration import echo
from tests.integration.wire import Wire
from tests.unit.rules.strategies import BRIDGE, POOLS, TARGET_PORTS, Scenario, worthwhile_packets


def real(scenario: Scenario) -> Scenario:
    """With the links of the wire: all pods are behind the bridge."""
    config = scenario.config
    if config.detector.kind == "prefix":
        config = replace(config, detector=LocalDetector("prefix", BRIDGE[:3]))
    return replace(scenario, config=config)


def real_packets(scenario: Scenario) -> Iterator[Packet]:
    pool = scenario.pool
    pods = (*pool.local_pods, pool.idle_pod)
    for packet in worthwhile_packets(scenario):
        if echo.has(packet.protocol) and packet.source != pool.loopback:
            yield replace(packet, inbound_interface=BRIDGE) if packet.source in pods else packet


def is_answered_around_us(net: Wire, packet: Packet, answer: Answer) -> bool:
    """The endpoint and the source are one namespace, which would answer itself without the node."""
    pool = POOLS[packet.family]
    beyond = {endpoint_text(one, port) for one in (pool.other_node, *pool.other_pods) for port in TARGET_PORTS}
    kept = {endpoint for endpoint, masqueraded in answer.masqueraded if not masqueraded}
    return net.place_of(packet) == "remote" and bool(beyond & kept)


def is_there(scenario: Scenario, address: str) -> bool:
    pool = scenario.pool
    others = (*pool.local_pods, pool.idle_pod, *pool.other_pods, pool.other_node, *pool.clients)
    return address in others or scenario.surroundings.is_local(address)


def expect(scenario: Scenario, packet: Packet, answer: Answer, happened: str) -> None:
    if answer.verdict == PASS and is_there(scenario, packet.destination):
        serves = packet.port in TARGET_PORTS
        assert (
            happened.startswith(endpoint_text(packet.destination, packet.port)) if serves else happened == echo.REFUSED
        )
        return
    if answer.verdict != DNAT:
        assert happened == (echo.REFUSED if answer.verdict == REJECT else echo.SILENT)
        return
    endpoint, _from, seen = happened.partition(" from ")
    assert endpoint in answer.endpoints
    on_node = scenario.surroundings.is_local(endpoint.rpartition(":")[0].strip("[]"))
    leaves = packet.node_local or not on_node
    if leaves and dict(answer.masqueraded)[endpoint]:
        assert seen != packet.source or packet.node_local
    else:
        assert seen == packet.source
