# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The loop where something fails: the kernel refuses a Service, a family does not work, an object or a configuration cannot be
read, or another program takes the rules away."""

from __future__ import annotations

from ansible_collections.ballast.kube.plugins.module_utils._service_proxy import ports
from tests.unit.service_proxy.loop_world import DOCUMENT, FAMILIES, World, endpoints, web
from tests.unit.service_proxy.objects import NODE_NAME


def test_the_kernel_refuses_one_service_and_the_others_are_in_force(world: World) -> None:
    world.kernel.poison = "10.96.0.3"
    world.loop.turn()
    assert [report.service.name for report in world.of(ports.Refused)] == ["c"]
    assert "refused" in world.of(ports.Refused)[0].text
    table = world.kernel.tables[4]
    assert table is not None
    assert sorted(key[0] for key in table.sets["services"].elements) == ["10.96.0.1", "10.96.0.2", "10.96.0.4"]
    # A change of another Service neither reads the kernel nor reports the first one again.
    reads = world.kernel.reads
    world.api.put("EndpointSlice", endpoints("a", "10.1.1.5"))
    world.loop.turn()
    assert world.kernel.reads == reads
    assert len(world.of(ports.Refused)) == 1
    world.kernel.poison = ""
    world.api.put("Service", web("c"))
    world.check()
    assert world.of(ports.Accepted) == [ports.Accepted(ports.ServiceName("default", "c"))]


def test_a_refused_service_keeps_what_was_in_force(world: World) -> None:
    world.check()
    before = world.kernel.tables[4]
    world.kernel.poison = "10.1.1.7"
    assert before is not None
    world.kernel.poison = "2"  # a third slot
    world.api.put("EndpointSlice", endpoints("b", "10.1.1.5", "10.1.1.6", "10.1.1.7"))
    world.loop.turn()
    assert [report.service.name for report in world.of(ports.Refused)] == ["b"]
    assert world.kernel.tables[4] == before


def test_an_object_that_cannot_be_read_is_told_and_its_former_rules_stay(world: World) -> None:
    world.check()
    before = world.kernel.tables[4]
    world.api.put("EndpointSlice", {**endpoints("a"), "endpoints": [{"addresses": ["nonsense"]}]})
    world.loop.turn()
    assert world.kernel.tables[4] == before
    assert [report.service.name for report in world.of(ports.Refused)] == ["a"]
    world.api.put("EndpointSlice", endpoints("a", "10.1.1.5"))
    world.check()
    assert len(world.of(ports.Accepted)) == 1


def test_whoever_flushed_the_table_is_named_and_it_is_back(world: World) -> None:
    world.check()
    world.kernel.intrude(4, None)
    world.check()
    (repaired,) = world.of(ports.Repaired)
    assert (repaired.family, repaired.pid, repaired.program) == (4, 4711, "nft")
    assert repaired.operations > 10


def test_a_transaction_that_left_the_rules_as_they_are_is_no_repair(world: World) -> None:
    world.check()
    world.kernel.intrude(4, world.kernel.tables[4])
    world.api.put("EndpointSlice", endpoints("a", "10.1.1.5"))
    world.check()
    assert world.of(ports.Repaired) == []


def test_what_failed_is_tried_again(world: World) -> None:
    world.kernel.broken = FAMILIES
    world.loop.turn()
    assert [(report.text, report.families) for report in world.of(ports.Failed)] == [
        ("nft is not there", (family,)) for family in FAMILIES
    ]
    assert world.of(ports.Programmed) == []
    assert 0 < world.loop.timeout < 10
    world.kernel.broken = ()
    world.check()


def test_a_family_that_does_not_work_delays_no_change_of_the_other(world: World) -> None:
    world.kernel.broken = (6,)
    world.loop.turn()
    world.api.put("EndpointSlice", endpoints("a", "10.1.1.5"))
    world.loop.turn()  # without waiting
    assert world.kernel.tables[4] == world.api.expected(world.addresses)[4]
    assert [report.families for report in world.of(ports.Programmed)] == [(4,), (4,)]
    assert len(world.of(ports.Failed)) == 1  # and is not tried at each change
    assert [(report.behind, report.pending_services) for report in world.of(ports.Programmed)] == [((6,), 4)] * 2
    assert 0 < world.loop.timeout < 10
    world.kernel.broken = ()
    world.check()
    assert world.of(ports.Programmed)[-1].families == FAMILIES


def test_what_was_flushed_while_nothing_works_is_repaired_and_told_later(world: World) -> None:
    world.check()
    world.kernel.intrude(4, None)
    world.kernel.broken = FAMILIES
    world.loop.turn()
    assert (world.of(ports.Repaired), 0 < world.loop.timeout < 10) == ([], True)
    world.kernel.broken = ()
    world.check()
    assert [report.program for report in world.of(ports.Repaired)] == ["nft"]


def test_a_configuration_that_cannot_be_used_is_told_and_tried_again_later(world: World) -> None:
    world.check()
    world.loop.take_settings(ports.LoopSettings(NODE_NAME, {"clusterCIDR": "nonsense"}))
    world.loop.turn()
    assert [report.families for report in world.of(ports.Failed)] == [FAMILIES]
    assert 0 < world.loop.timeout < 10
    world.loop.take_settings(ports.LoopSettings(NODE_NAME, DOCUMENT))
    world.check()
