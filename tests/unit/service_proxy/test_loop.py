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
from tests.unit.service_proxy.loop_world import DOCUMENT, FAMILIES, World, endpoints, web
from tests.unit.service_proxy.objects import NAMES, NODE_NAME, Item, cidr_object, node_objects, services, slices

RANDOM = settings(max_examples=120, deadline=None, suppress_health_check=list(Check))


@st.composite
def deeds(draw: st.DrawFn) -> tuple[str, Any]:
    what = draw(
        st.sampled_from(
            ("service", "service", "slice", "slice", "slice", "no service", "no slice", "node", "cidr", "no cidr")
            + ("address", "flush", "edit", "restart", "compare", "broken")
        )
    )
    name = draw(st.sampled_from(NAMES))
    slice_name = draw(st.sampled_from(("s1", "s2", "s3", "s4", "s5")))
    values: dict[str, Any] = {
        "service": services(name),
        "slice": slices(slice_name),
        "no service": st.just(name),
        "no slice": st.just(slice_name),
        "node": node_objects(),
        "flush": st.sampled_from(FAMILIES),
        "edit": st.sampled_from(FAMILIES),
        "broken": st.sampled_from(((4,), (6,), FAMILIES)),
    }
    return what, draw(values.get(what, st.none()))


def do(world: World, what: str, value: Any) -> None:
    api, kernel = world.api, world.kernel
    if what == "service":
        api.put("Service", value)
    elif what == "slice":
        api.put("EndpointSlice", value)
    elif what == "node":
        api.put("Node", value)
    elif what == "no service":
        api.remove("Service", ("default", value))
    elif what == "no slice":
        api.remove("EndpointSlice", ("default", value))
    elif what == "cidr":
        api.put("ServiceCIDR", cidr_object("kubernetes", "10.96.0.0/24", "fd00:96::/112"))
    elif what == "no cidr":
        api.remove("ServiceCIDR", ("", "kubernetes"))
    elif what == "address":
        world.addresses.append(f"10.50.0.{20 + len(world.addresses)}")
        world.loop.address_changed()
    elif what == "flush":
        kernel.intrude(value, None)
    elif what == "edit":
        table = kernel.tables[value]
        if table is not None:
            sets = {name: each for name, each in table.sets.items() if not name.startswith("affinity")}
            emptied = {name: type(each)(**{**vars(each), "elements": {}}) for name, each in sets.items()}
            kernel.intrude(value, type(table)(**{**vars(table), "sets": {**table.sets, **emptied}}))
    elif what == "restart":
        world.start()
    elif what == "compare":
        world.loop._compare_at = 0.0
    elif what == "broken":
        kernel.broken = value
        world.loop.turn()
        kernel.broken = ()


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
    assert (programmed.services, programmed.served, programmed.full) == (2, len(ALL), False)


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


def test_connections_of_what_changed_are_cleaned_once_it_is_in_force(world: World) -> None:
    world.check()
    world.cleaned.clear()
    world.api.put("EndpointSlice", endpoints("a", "10.1.1.5"))
    world.api.remove("Service", ("default", "b"))
    world.check()
    (_family, before, after), (_six, *none) = world.cleaned
    assert (sorted(before), after) == (["default/a:http", "default/b:http"], ["default/a:http"])
    assert none == [[], []]


ALL = [f"default/{name}:http" for name in NAMES]


@pytest.mark.parametrize("is_back", [False, True])
def test_after_rules_were_missing_connections_of_all_services_are_cleaned(world: World, is_back: bool) -> None:
    """Also where who took them away has brought them back."""
    world.check()
    world.cleaned.clear()
    world.kernel.intrude(4, world.kernel.tables[4] if is_back else None)
    world.check()
    ((family, before, after),) = world.cleaned
    assert (family, before, sorted(after)) == (4, [], ALL)


def test_after_a_start_and_a_comparison_connections_of_all_services_are_cleaned(world: World) -> None:
    world.check()
    for prepare in (world.start, lambda: setattr(world.loop, "_compare_at", 0.0)):
        world.cleaned.clear()
        prepare()
        world.check()
        assert (4, [], ALL) in [(family, before, sorted(after)) for family, before, after in world.cleaned]


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
