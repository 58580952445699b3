# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The loop between an API and a kernel in memory: whatever happens, in whatever order, the kernel ends up with the rules of all
that the API says."""

from __future__ import annotations

import calendar
from collections.abc import Iterable
from typing import Any, Optional

import pytest
from hypothesis import HealthCheck as Check
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import PeerError
from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import SERVICE_PROXY_TABLE as TABLE
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Table
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy import ports
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.objects import Seen
from tests.unit.service_proxy.deeds import deeds, do
from tests.unit.service_proxy.loop_world import DOCUMENT, World, endpoints, web
from tests.unit.service_proxy.objects import NAMES, NODE_NAME, Item, node_objects

RANDOM = settings(max_examples=120, deadline=None, suppress_health_check=list(Check))


@RANDOM
@given(st.lists(st.lists(deeds(), max_size=6), max_size=6), node_objects())
def test_the_kernel_has_what_the_api_says_after_each_batch(batches: list[list[tuple[str, Any]]], node: Item) -> None:
    world = World()
    world.api.put("Node", node)
    world.check()
    for batch in batches:
        for what, value in batch:
            do(world, what, value)
        world.check()
        written = len(world.kernel.commits)
        world.loop.turn()
        assert len(world.kernel.commits) == written  # and then there is nothing to do
    assert world.kernel.refusals == 0  # each change was right as it was, and needed no comparison


def test_nothing_is_programmed_before_all_was_listed(world: World) -> None:
    world.api.complete = False
    world.loop.turn()
    assert world.kernel.tables == {4: None, 6: None}
    assert world.of(ports.Programmed) == []
    world.api.complete = True
    world.check()


def test_a_list_that_ends_after_it_was_asked_for_waits_for_the_next_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the loop would know no object yet, take that for an empty cluster, and remove what an earlier run has left."""
    world.check()
    there = dict(world.kernel.tables)
    world.start()
    world.api.complete = False
    take = world.api.take

    def asked_too_early() -> list[Seen]:
        taken, world.api.complete = take(), True
        return taken

    monkeypatch.setattr(world.api, "take", asked_too_early)
    world.loop.turn()
    assert world.kernel.tables == there
    monkeypatch.undo()
    world.check()


def test_a_restart_changes_nothing_in_the_kernel(world: World) -> None:
    world.check()
    written = len(world.kernel.commits)
    world.start()
    world.check()
    assert len(world.kernel.commits) == written
    assert world.of(ports.Programmed)[-1].operations == 0


def test_an_api_that_is_away_changes_nothing(world: World) -> None:
    world.check()
    world.api.lost = (3600.0, PeerError("it does not respond", id="core-no-answer"))
    world.check()
    world.api.lost = None
    world.loop.turn()
    assert [report.followed for report in world.of(ports.Connection)] == [True, False, True]


def test_a_change_reads_nothing_of_the_kernel(world: World) -> None:
    world.check()
    reads = world.kernel.reads
    world.api.put("EndpointSlice", endpoints("a", "10.1.1.5"))
    world.check()
    assert world.kernel.reads == reads
    assert world.kernel.commits[-1] < 10


def test_a_pod_that_brings_an_address_changes_no_rule(world: World) -> None:
    world.check()
    written, reads = len(world.kernel.commits), world.kernel.reads
    world.addresses.append("fe80::1")
    world.loop.address_changed()
    world.check()
    assert (len(world.kernel.commits), world.kernel.reads) == (written, reads)


def test_another_version_of_the_node_is_other_rules(world: World) -> None:
    """Hints of nodes count from 1.34 on."""
    hinted = endpoints("a", "10.1.1.5", "10.1.1.6")
    for endpoint, zone in zip(hinted["endpoints"], ("a", "b")):
        endpoint["hints"] = {"forNodes": [{"name": NODE_NAME}]} if zone == "a" else {"forNodes": [{"name": "n2"}]}
    world.api.put("EndpointSlice", hinted)
    for version in ("v1.37.1", "v1.29.0", "v1.37.1"):
        node = {
            "metadata": {"name": NODE_NAME, "resourceVersion": version},
            "status": {"addresses": [], "nodeInfo": {"kubeletVersion": version}},
        }
        world.api.put("Node", node)
        world.check()


def test_programming_says_when_the_change_behind_it_happened(world: World) -> None:
    world.check()
    world.reports.clear()
    for name, year in (("a", 2096), ("b", 2016)):  # the other one happened before the program ran
        at = {"annotations": {"endpoints.kubernetes.io/last-change-trigger-time": f"{year}-11-21T12:00:00.5Z"}}
        world.api.put("EndpointSlice", endpoints(name, "10.1.1.5", **at))  # type: ignore[arg-type]
    world.check()
    (programmed,) = world.of(ports.Programmed)
    assert programmed.triggered_at == ((4, calendar.timegm((2096, 11, 21, 12, 0, 0)) + 0.5),)
    assert (programmed.services, programmed.served, programmed.full) == (2, len(NAMES), False)


def test_a_slice_of_a_service_without_rules_is_no_change_that_programming_took_long_for(world: World) -> None:
    """As those of all other Services beside kube-proxy: nothing is programmed for them until a Service of ours changes."""
    at = {"annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2096-11-21T12:00:00Z"}}
    world.check()
    for number in range(3):
        item = endpoints("other", f"10.1.1.{number + 5}", **at)  # type: ignore[arg-type]
        world.api.put("EndpointSlice", item)
        world.check()
    world.reports.clear()
    world.api.put("EndpointSlice", endpoints("a", "10.1.1.5"))
    world.check()
    (programmed,) = world.of(ports.Programmed)
    assert programmed.triggered_at == ()


def test_a_family_waits_for_a_change_of_its_own_and_none_for_one_without_rules(world: World) -> None:
    world.check()
    world.reports.clear()
    for name in ("a", "nobody"):
        world.api.put("EndpointSlice", endpoints(name, "10.1.1.5"))
        world.check()
    assert [queued.families for queued in world.of(ports.Queued)] == [(4,), ()]


def test_health_checks_count_the_ready_endpoints_of_this_node(world: World) -> None:
    item = web("a")
    item["spec"] |= {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000}
    world.api.put("Service", item)
    slice_of = endpoints("a", "10.1.0.5", "10.1.0.6", "10.1.1.5")
    for endpoint, node in zip(slice_of["endpoints"], (NODE_NAME, NODE_NAME, "n2")):
        endpoint["nodeName"] = node
    world.api.put("EndpointSlice", slice_of)
    world.check()
    name = ports.ServiceName("default", "a")
    assert world.of(ports.HealthChecks)[-1].checks == (ports.HealthCheck(name, 31000, 2),)
    assert world.of(ports.HealthChecks)[-1].addresses == {4: ("192.168.1.10",), 6: ("fd00:50::10",)}
    world.api.remove("Service", ("default", "a"))
    world.check()
    assert world.of(ports.HealthChecks)[-1].checks == ()


def test_node_port_addresses_that_fit_no_address_answer_no_health_check(world: World) -> None:
    item = web("a")
    item["spec"] |= {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000}
    world.api.put("Service", item)
    world.loop.take_settings(ports.LoopSettings(NODE_NAME, {**DOCUMENT, "nodePortAddresses": ["172.31.0.0/16"]}))
    world.loop.turn()
    assert world.of(ports.HealthChecks)[-1] == ports.HealthChecks((), {6: ()})  # all of IPv6, which nothing limits
    world.loop.take_settings(ports.LoopSettings(NODE_NAME, {**DOCUMENT, "nodePortAddresses": ["192.168.0.0/16"]}))
    world.loop.turn()
    assert world.of(ports.HealthChecks)[-1].addresses == {4: ("192.168.1.10",), 6: ()}
    assert [check.port for check in world.of(ports.HealthChecks)[-1].checks] == [31000]


def names_of(tables: Iterable[Optional[Table]]) -> set[str]:
    return {table.name for table in tables if table is not None}


def test_the_table_is_of_its_own(world: World) -> None:
    world.check()
    assert names_of(world.kernel.tables.values()) == {TABLE}
