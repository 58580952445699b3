# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""The loop between an API and a kernel in memory: whatever happens, in whatever order, the kernel ends up with the rules of all
that the API says."""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

import pytest
from hypothesis import HealthCheck as Check
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, HostError, PeerError
from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import SERVICE_PROXY_TABLE as TABLE
from ansible_collections.ballast.kube.plugins.module_utils._rules.config import parse_config
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.compile import compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Table
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.transaction import Operation, stages
from ansible_collections.ballast.kube.plugins.module_utils._rules.parse import parse_snapshot
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy import ports
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.loop import Loop
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.netlink import Commit
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.objects import Seen, gone, key_of, read_object
from tests.unit.rules.nftables.kernel import RefusedError, commit
from tests.unit.service_proxy.objects import (
    NAMES,
    NODE_NAME,
    Item,
    cidr_object,
    metadata,
    node_objects,
    services,
    slices,
)

FAMILIES = (4, 6)
DOCUMENT = {"clusterCIDR": "10.1.0.0/16"}
VERSIONS = {
    "Service": "v1",
    "EndpointSlice": "discovery.k8s.io/v1",
    "Node": "v1",
    "ServiceCIDR": "networking.k8s.io/v1",
}
RANDOM = settings(max_examples=120, deadline=None, suppress_health_check=list(Check))


@dataclass
class FakeKernel:
    """Takes what a kernel takes, but for elements whose key or target has `poison` in it."""

    tables: dict[int, Optional[Table]] = field(default_factory=lambda: dict.fromkeys(FAMILIES))
    poison: str = ""
    broken: tuple[int, ...] = ()  # families in which nothing works
    commits: list[int] = field(default_factory=list)
    reads: int = 0
    refusals: int = 0
    intruded: dict[int, Commit] = field(default_factory=dict)

    def read(self, family: int) -> Optional[Table]:
        self.reads += 1
        self._work(family)
        return self.tables[family]

    def commit(self, operations: Sequence[Operation]) -> None:
        if operations:
            family = 6 if operations[0].family == "ip6" else 4
            for stage in stages(operations):
                self.tables[family] = self._try(stage)
            self.commits.append(len(operations))

    def check(self, operations: Sequence[Operation]) -> None:
        if operations:
            self._try(operations)

    def intrusions(self) -> Mapping[int, Commit]:
        found, self.intruded = self.intruded, {}
        return found

    def intrude(self, family: int, table: Optional[Table]) -> None:
        self.tables[family] = table
        self.intruded[family] = Commit(1, frozenset(((family, TABLE),)), 4711, "nft")

    def _work(self, family: int) -> None:
        if family in self.broken:
            raise HostError("nft is not there", id="x")

    def _try(self, operations: Sequence[Operation]) -> Optional[Table]:
        family = 6 if operations[0].family == "ip6" else 4
        self._work(family)
        if self.poison and any(
            operation.kind == "add element" and self.poison in operation.target.split() for operation in operations
        ):
            raise HostError(f"refused: {self.poison}", id="x")
        try:
            return commit(operations, self.tables[family])
        except RefusedError as error:
            self.refusals += 1
            raise HostError(f"refused: {error}", id="x") from error


@dataclass
class FakeApi:
    """All objects by kind and key, and what the loop has not taken of them."""

    complete: bool = True
    lost: Optional[tuple[float, BallastError]] = None
    items: dict[tuple[str, tuple[str, str]], Item] = field(default_factory=dict)
    waiting: dict[tuple[str, tuple[str, str]], Seen] = field(default_factory=dict)

    def take(self) -> list[Seen]:
        if not self.complete:
            return []
        waiting, self.waiting = self.waiting, {}
        return list(waiting.values())

    def put(self, kind: str, item: Item) -> None:
        key = (kind, key_of(item))
        self.items[key] = item
        self.waiting[key] = read_object(kind, item)

    def remove(self, kind: str, key: tuple[str, str]) -> None:
        if self.items.pop((kind, key), None) is not None:
            self.waiting[kind, key] = gone(kind, key)

    def expected(self, addresses: list[str]) -> dict[int, Table]:
        listed = [
            {**item, "kind": kind, "apiVersion": VERSIONS[kind]} for (kind, _key), item in sorted(self.items.items())
        ]
        snapshot = parse_snapshot(
            {"kind": "List", "items": listed}, node_name=NODE_NAME, node_ips=addresses, config=DOCUMENT
        )
        tables = {}
        for family in FAMILIES:
            view = snapshot.view(family)
            config = parse_config(DOCUMENT, backend="nftables", family=family, node=view.node).rules
            tables[family] = compile_rules(view, config, table=TABLE, owner="service-proxy")
        return tables


class World:
    def __init__(self) -> None:
        self.api, self.kernel = FakeApi(), FakeKernel()
        self.addresses = ["192.168.1.10", "10.50.0.10"]
        self.reports: list[ports.Report] = []
        self.cleaned: list[tuple[Any, ...]] = []
        self.start()

    def start(self) -> None:
        """A program that starts knows nothing but what the API and the kernel have."""
        self.loop = Loop(
            ports.LoopSettings(NODE_NAME, DOCUMENT),
            self.api,
            self.kernel,
            self.reports.append,
            families=FAMILIES,
            addresses=lambda: list(self.addresses),
            clean=lambda family, *both: self.cleaned.append(
                (family, *([port.title for of in each for port in of] for each in both))
            ),
        )
        self.api.waiting = {key: read_object(key[0], item) for key, item in self.api.items.items()}

    def check(self) -> None:
        self.loop._not_before = self.loop._retry_at = 0.0
        self.loop.turn()
        assert self.kernel.tables == self.api.expected(self.addresses)

    def of(self, kind: type) -> list[Any]:
        return [report for report in self.reports if isinstance(report, kind)]


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


def web(name: str = "a") -> Item:
    ip = f"10.96.0.{NAMES.index(name) + 1}"
    spec = {"clusterIP": ip, "clusterIPs": [ip], "ipFamilies": ["IPv4"], "ports": [{"name": "http", "port": 80}]}
    return {"metadata": metadata(name), "spec": spec}


def endpoints(name: str, *addresses: str, **labels: str) -> Item:
    return {
        "metadata": metadata(f"{name}-x", labels={"kubernetes.io/service-name": name}, **labels),
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": [{"addresses": [address], "nodeName": "n2"} for address in addresses],
    }


@pytest.fixture
def world() -> World:
    made = World()
    addresses = [{"type": "InternalIP", "address": address} for address in ("192.168.1.10", "fd00:50::10")]
    made.api.put("Node", {"metadata": {"name": NODE_NAME, "resourceVersion": "1"}, "status": {"addresses": addresses}})
    for name in NAMES:
        made.api.put("Service", web(name))
        made.api.put("EndpointSlice", endpoints(name, "10.1.1.5", "10.1.1.6"))
    return made


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
