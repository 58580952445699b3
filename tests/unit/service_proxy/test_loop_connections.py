# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which destinations the loop has connections cleaned up for, and what it says serves them: what is in force, whichever Services
claim them."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from hypothesis import HealthCheck as Check
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.connections import (
    Serving,
    doubtful,
    serving_endpoints,
)
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.ports import LoopSettings
from tests.unit.service_proxy.deeds import deeds, do
from tests.unit.service_proxy.loop_world import DOCUMENT, FAMILIES, World, endpoints, web
from tests.unit.service_proxy.objects import NAMES, NODE_NAME, Item, node_objects

ALL = [f"default/{name}:http" for name in NAMES]
RANDOM = settings(max_examples=120, deadline=None, suppress_health_check=list(Check))
UDP, SHARED, NODE_IP = 17, "203.0.113.10", "192.168.1.10"


def test_connections_of_what_changed_are_cleaned_once_it_is_in_force(world: World) -> None:
    world.check()
    world.take_cleaned()
    world.api.put("EndpointSlice", endpoints("a", "10.1.1.5"))
    world.api.remove("Service", ("default", "b"))
    world.check()
    assert world.take_cleaned() == [(4, ["default/a:http", "default/b:http"], ["default/a:http"]), (6, [], [])]


@pytest.mark.parametrize("is_back", [False, True])
def test_after_rules_were_missing_connections_of_all_services_are_cleaned(world: World, is_back: bool) -> None:
    """Also where who took them away has brought them back."""
    world.check()
    world.take_cleaned()
    world.kernel.intrude(4, world.kernel.tables[4] if is_back else None)
    world.check()
    assert world.take_cleaned() == [(4, [], ALL)]


def test_after_a_start_and_a_comparison_connections_of_all_services_are_cleaned(world: World) -> None:
    world.check()
    for prepare in (world.start, lambda: setattr(world.loop, "_compare_at", 0.0)):
        world.take_cleaned()
        prepare()
        world.check()
        assert (4, [], ALL) in world.take_cleaned()


def take_doubtful(world: World, *own: str) -> dict[int, Serving]:
    """As the cleaner gathers them: of each destination what was said of it last. `own` in the place of the node's addresses."""
    gathered: dict[int, dict[Any, Any]] = {family: {} for family in FAMILIES}
    for family, before, after, addresses in world.cleaned:
        both = (serving_endpoints(each, own or addresses) for each in (before, after))
        gathered[family].update(doubtful(*both))
    world.cleaned = []
    return gathered  # type: ignore[return-value]


def serving(world: World) -> dict[int, Serving]:
    """What serves each destination by the rules of all that the API says; node ports at NODE_IP."""
    views = world.api.views(world.addresses)
    return {family: serving_endpoints(view.frontends, (NODE_IP,)) for family, view in views.items()}


@RANDOM
@given(st.lists(st.lists(deeds(), max_size=6), max_size=6), node_objects())
def test_what_is_said_to_serve_a_destination_is_in_force(batches: list[list[tuple[str, Any]]], node: Item) -> None:
    world = World()
    world.api.put("Node", node)
    world.check()
    for batch in batches:
        world.cleaned = []
        before = serving(world)
        for what, value in batch:
            do(world, what, value)
        world.check()
        after = serving(world)
        for family, said in take_doubtful(world, NODE_IP).items():
            known = after[family]
            assert said == {destination: known.get(destination, frozenset()) for destination in said}
            changed = {at for at in {**before[family], **known} if before[family].get(at) != known.get(at)}
            assert {at for at in changed if at[0] == UDP} <= said.keys()


def dns(name: str, year: Optional[int]) -> Item:
    """It claims SHARED too; without a year it is younger than all."""
    item = web(name)
    item["spec"] |= {"ports": [{"name": "http", "port": 53, "protocol": "UDP"}], "externalIPs": [SHARED]}
    item["metadata"] |= {"creationTimestamp": f"{year}-01-01T00:00:00Z"} if year else {}
    return item


def slice_of(name: str, *addresses: str) -> Item:
    item = endpoints(name, *addresses)
    item["ports"] = [{"name": "http", "port": 53, "protocol": "UDP"}]
    return item


@pytest.fixture
def rivals(world: World) -> World:
    """Services a, the older one, and b claim SHARED."""
    for name, year, address in (("a", 2024, "10.1.1.5"), ("b", 2025, "10.1.1.6")):
        world.api.put("Service", dns(name, year))
        world.api.put("EndpointSlice", slice_of(name, address))
    world.check()
    take_doubtful(world)
    return world


def said_of(world: World, address: str, port: int) -> set[str]:
    world.check()
    return {address for address, _port in take_doubtful(world)[4][UDP, address, port]}


def said_of_shared(world: World) -> set[str]:
    return said_of(world, SHARED, 53)


def test_a_change_of_the_loser_s_endpoints_says_that_the_owner_s_serve(rivals: World) -> None:
    rivals.api.put("EndpointSlice", slice_of("b", "10.1.1.7"))
    assert said_of_shared(rivals) == {"10.1.1.5"}
    rivals.api.put("EndpointSlice", slice_of("b"))
    assert said_of_shared(rivals) == {"10.1.1.5"}
    rivals.api.remove("Service", ("default", "b"))
    assert said_of_shared(rivals) == {"10.1.1.5"}


def test_once_the_owner_is_gone_the_next_one_s_endpoints_serve(rivals: World) -> None:
    rivals.api.remove("Service", ("default", "a"))
    assert said_of_shared(rivals) == {"10.1.1.6"}


def test_once_the_owner_claims_it_no_more_the_next_one_s_endpoints_serve(rivals: World) -> None:
    item = dns("a", 2024)
    del item["spec"]["externalIPs"]
    rivals.api.put("Service", item)
    assert said_of_shared(rivals) == {"10.1.1.6"}


def test_an_owner_that_is_made_again_is_the_loser(rivals: World) -> None:
    rivals.api.put("Service", dns("a", None))
    assert said_of_shared(rivals) == {"10.1.1.6"}


def test_an_older_service_takes_it_over(rivals: World) -> None:
    rivals.api.put("Service", dns("c", 2023))
    rivals.api.put("EndpointSlice", slice_of("c", "10.1.1.8"))
    assert said_of_shared(rivals) == {"10.1.1.8"}


def test_a_port_of_the_node_itself_serves_nothing(world: World) -> None:
    """A healthCheckNodePort of an older Service is the node port of a younger one: that one has no rules there."""
    older, younger = web("a"), web("b")
    older["spec"] |= {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000}
    older["metadata"] |= {"creationTimestamp": "2024-01-01T00:00:00Z"}
    younger["spec"] |= {"type": "NodePort"}
    younger["spec"]["ports"][0]["nodePort"] = 31000
    for item in (older, younger):
        world.api.put("Service", item)
    world.api.put("EndpointSlice", endpoints("b", "10.1.1.5"))
    world.check()
    assert not [
        frontend for _family, _before, after, _own in world.cleaned for frontend in after if frontend.port == 31000
    ]


def test_an_external_ip_of_the_node_comes_before_a_node_port(world: World) -> None:
    """As in the rules, also where the node port is of the older Service."""
    port = 30053
    of_port, of_address = dns("a", 2024), dns("b", 2025)
    of_port["spec"] |= {"type": "NodePort", "ports": [{**of_port["spec"]["ports"][0], "nodePort": port}]}
    of_address["spec"] |= {"externalIPs": [NODE_IP], "ports": [{**of_address["spec"]["ports"][0], "port": port}]}
    for item, address in ((of_port, "10.1.1.5"), (of_address, "10.1.1.6")):
        world.api.put("Service", item)
        world.api.put("EndpointSlice", slice_of(item["metadata"]["name"], address))
    assert said_of(world, NODE_IP, port) == {"10.1.1.6"}
    world.api.put("EndpointSlice", slice_of("a", "10.1.1.7"))
    assert said_of(world, NODE_IP, port) == {"10.1.1.6"}
    world.api.remove("Service", ("default", "b"))
    assert said_of(world, NODE_IP, port) == {"10.1.1.7"}


def test_node_ports_are_served_on_the_addresses_of_the_configuration(world: World) -> None:
    item = dns("a", 2024)
    item["spec"] |= {"type": "NodePort", "ports": [{**item["spec"]["ports"][0], "nodePort": 30053}]}
    world.api.put("Service", item)
    for networks, served in (
        (["primary"], {NODE_IP}),
        (["10.50.0.0/16"], {"10.50.0.10"}),
        (["0.0.0.0/0"], {NODE_IP, "10.50.0.10"}),
        (["172.31.0.0/16"], set()),
    ):
        world.cleaned = []
        world.loop.take_settings(LoopSettings(NODE_NAME, {**DOCUMENT, "nodePortAddresses": networks}))
        world.loop.turn()
        assert {at[1] for at in take_doubtful(world)[4] if at[2] == 30053} == served
