# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""A table that follows its Services change by change is the table that is compiled of all of them."""

from __future__ import annotations

from itertools import groupby
from typing import Optional

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import SERVICE_PROXY_TABLE as TABLE
from ansible_collections.ballast.kube.plugins.module_utils._rules.frontends import assign_frontends
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import FamilyView, NodeView, ServicePort
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.compile import Compiler, compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Table
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.family_rules import (
    Desired,
    FamilyRules,
)
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.ports import ServiceName
from tests.unit.rules.nftables.kernel import commit
from tests.unit.rules.nftables.views import CONFIG, NODE, service, view
from tests.unit.rules.strategies import POOLS, configs, nodes, service_ports

OWNER = "service-proxy"
Cluster = dict[ServiceName, Desired]
RANDOM = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def by_service(ports: tuple[ServicePort, ...], created: float = 0.0) -> Cluster:
    groups = groupby(ports, key=lambda port: ServiceName(port.namespace, port.name))
    return {name: Desired(created, tuple(of)) for name, of in groups}


def compiled(cluster: Cluster, node: NodeView, rules: FamilyRules) -> Table:
    ports = tuple(port for _name, desired in sorted(cluster.items()) for port in desired.ports)
    created = {name: desired.created for name, desired in cluster.items()}
    frontends, duplicates = assign_frontends(ports, lambda port: created[ServiceName(port.namespace, port.name)])
    family = rules.compiler.view.family
    whole = FamilyView(family, node, ports, frontends, duplicates, rules.compiler.view.service_cidrs)
    return compile_rules(whole, rules.compiler.config, table=TABLE, owner=OWNER)


@st.composite
def schedules(draw: st.DrawFn) -> tuple[FamilyRules, list[Cluster]]:
    """Rules without Services, and what changes: Services that come, that are others, that go."""
    family = draw(st.sampled_from((4, 6)))
    pool = POOLS[family]
    node, _surroundings = draw(nodes(pool))
    seen = FamilyView(family, node, service_cidrs=(pool.service_cidr,) if draw(st.booleans()) else ())
    rules = FamilyRules(Compiler(seen, draw(configs(pool, "nftables"))))
    known: set[ServiceName] = set()
    changes: list[Cluster] = []
    for _change in range(draw(st.integers(1, 5))):
        drawn = by_service(draw(service_ports(pool)), draw(st.sampled_from((0.0, 1.0, 2.0))))
        known |= drawn.keys()
        chosen = draw(st.sets(st.sampled_from(sorted(known)))) if known else set()
        changes.append({name: drawn.get(name, Desired()) for name in sorted(chosen)})
    return rules, changes


@RANDOM
@given(schedules())
def test_change_by_change_is_the_whole(schedule: tuple[FamilyRules, list[Cluster]]) -> None:
    rules, changes = schedule
    cluster: Cluster = {}
    table: Optional[Table] = rules.table()
    for change in changes:
        later = FamilyRules(rules.compiler, cluster)
        cluster.update(change)
        cluster = {name: desired for name, desired in cluster.items() if desired.ports}
        table = commit(rules.change(change), table)  # refuses what the kernel would
        assert table == compiled(cluster, rules.compiler.view.node, rules)
        assert rules.table() == table
        assert rules.change(change) == ()
        at_once = FamilyRules(rules.compiler, cluster)
        assert at_once.table() == at_once.table() == table
        later.change(change)
        assert later.table() == table


def followed(*ports: ServicePort) -> FamilyRules:
    rules = FamilyRules(Compiler(view(node=NODE), CONFIG))
    rules.change(by_service(ports))
    return rules


def test_an_endpoint_more_touches_its_own_service_alone() -> None:
    rules = followed(*(service(f"s{n:02d}", f"10.96.0.{n + 1}") for n in range(20)))
    name = ServiceName("default", "s07")
    operations = rules.change({name: Desired(0.0, (service("s07", "10.96.0.8", endpoints=3),))})
    keys = {operation.target for operation in operations if "element" in operation.kind}
    assert keys == {f"ip {TABLE} services 10.96.0.8 . tcp . 80", f"ip {TABLE} endpoints-tcp 10.96.0.8 . 80 . 2"}


def test_what_another_service_needs_stays() -> None:
    rules = followed(service("a", "10.96.0.1"), service("b", "10.96.0.2"))
    gone = rules.change({ServiceName("default", "a"): Desired()})
    assert not [operation for operation in gone if "chain" in operation.kind or operation.name == "hairpin"]
    last = rules.change({ServiceName("default", "b"): Desired()})
    assert {"flush chain", "delete chain"} <= {operation.kind for operation in last}
    assert "hairpin" in {operation.name for operation in last}


def test_a_destination_goes_to_the_next_that_claims_it() -> None:
    shared = {"external_ips": ("203.0.113.10",)}
    older, younger = service("a", "10.96.0.1", **shared), service("b", "10.96.0.2", endpoints=1, **shared)
    rules = followed(older, younger)
    rules.change({ServiceName("default", "a"): Desired()})
    assert rules.table() == compile_rules(view(younger), CONFIG, table=TABLE, owner=OWNER)


B = ServiceName("default", "b")
SHARED = {"external_ips": ("203.0.113.10",)}


def ages(rules: FamilyRules, table: Optional[Table], **created: float) -> Optional[Table]:
    """The table with a and b of these ages, which both claim 203.0.113.10."""
    ports = {"a": service("a", "10.96.0.1", **SHARED), "b": service("b", "10.96.0.2", endpoints=1, **SHARED)}
    change = {ServiceName("default", name): Desired(age, (ports[name],)) for name, age in created.items()}
    return commit(rules.change(change), table)


def owner_of(table: Optional[Table]) -> str:
    """By the count of endpoints of the chain that serves it."""
    assert table is not None
    target = table.sets["services"].elements[("203.0.113.10", "tcp", "80")].target
    return {"external-tcp-2": "a", "external-tcp-1": "b"}[getattr(target, "target", "")]


def test_an_older_service_that_comes_later_takes_the_destination() -> None:
    rules = FamilyRules(Compiler(view(node=NODE), CONFIG))
    table = ages(rules, rules.table(), a=2.0)
    table = ages(rules, table, b=1.0)
    assert owner_of(table) == "b"
    assert rules.table() == table
    table = commit(rules.change({B: Desired()}), table)
    assert owner_of(table) == "a"
    assert rules.table() == table


def test_a_service_that_is_made_again_is_the_younger_one() -> None:
    rules = FamilyRules(Compiler(view(node=NODE), CONFIG))
    table = ages(rules, rules.table(), a=1.0, b=2.0)
    assert owner_of(table) == "a"
    table = ages(rules, table, a=3.0)
    assert owner_of(table) == "b"
    assert rules.table() == table
