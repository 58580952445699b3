# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What --diff shows is what commit does: for every kind of operation, of every backend.

A pair of random clusters, and between them what other programs do to the rules. Before the commit, the diff shows the
rules as they are; what it shows after them is what is read of the kernel then. And no operation hides: each changes the
text on its own.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Optional

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._rules.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables import restore
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.backend import Iptables
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import Chain, Tables, tables
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs import plan as planner
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.backend import Ipvs
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.compile import compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import FORMER_SETS, IpvsRules, set_name
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.text import definition
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables import objects as nft
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables import transaction
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.backend import Nftables
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.expressions import DROP, Verdict
from tests.unit.fakes import FakeHost
from tests.unit.rules import test_engine
from tests.unit.rules.iptables import kernel as iptables_kernel
from tests.unit.rules.iptables.test_restore import foreign
from tests.unit.rules.ipvs.kernel import Kernel, Server
from tests.unit.rules.ipvs.test_apply import CONFIG, TARGET, Draining, apply, kernel_with_foreign_things, view
from tests.unit.rules.nftables import kernel as nftables_kernel
from tests.unit.rules.strategies import Scenario, scenarios

SETTINGS = settings(  # without shrinking, which takes minutes: the operations in the message suffice
    max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
SEEN: dict[str, Counter[str]] = {"nftables": Counter(), "iptables": Counter(), "ipvs": Counter()}


def pairs(backend: str) -> st.SearchStrategy[tuple[Scenario, Scenario]]:
    return st.sampled_from((4, 6)).flatmap(lambda family: st.tuples(*[scenarios(backend=backend, family=family)] * 2))


def on_one_node(pair: Sequence[Scenario]) -> Iterable[Scenario]:
    """The clusters as the same node sees them: its links stay as they are."""
    return [replace(scenario, view=replace(scenario.view, node=pair[0].view.node)) for scenario in pair]


def beginnings(operations: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return [operations[:count] for count in range(len(operations) + 1)]


def assert_no_operation_hides(backend: str, operations: Sequence[Any], texts: Sequence[str]) -> None:
    """`texts`: what is shown once no operation, the first one, the first two, ... are done."""
    SEEN[backend].update(operation.kind for operation in operations)
    assert not [operation for operation, text, then in zip(operations, texts, texts[1:]) if text == then]


# nftables


@SETTINGS
@given(pairs("nftables"), st.booleans())
def compare_nftables(pair: tuple[Scenario, Scenario], others: bool) -> None:
    backend = Nftables()
    live: Optional[nft.Table] = None
    desired: Optional[nft.Table]
    # The second one twice: what others do in between is put right.
    for desired in [*(backend.compile(scenario.view, scenario.config) for scenario in (*pair, pair[1])), None]:
        operations = tuple(backend.plan(desired, live))
        then = nftables_kernel.commit(operations, live)
        before, after = backend.diff(desired, live)
        assert before == backend.diff(live, live)[0]
        assert after == backend.diff(then, then)[0]
        assert (before != after) is bool(operations)
        texts = [_nft_text(nftables_kernel.commit(some, live)) for some in beginnings(operations)]
        assert_no_operation_hides("nftables", operations, texts)
        live = _changed_by_others(then) if others and then is not None else then


def _nft_text(table: Optional[nft.Table]) -> str:
    return Nftables().diff(table, table)[0]


def _changed_by_others(table: nft.Table) -> nft.Table:
    """Objects more, a rule less, and what packets leave in dynamic sets."""
    chains = {**table.chains, "theirs": nft.Chain("theirs", (nft.Rule((Verdict(DROP),)),))}
    chains = {at: replace(chain, rules=chain.rules[1:]) if at == "services" else chain for at, chain in chains.items()}
    address = "10.1.0.5" if table.family == "ip" else "fd00:1::5"
    # JSON of nft 1.0.6 does not say that a set is dynamic.
    sets = {
        at: replace(declared, dynamic=False, elements={(address,): nft.Element((address,))})
        if declared.dynamic and len(declared.key) == 1
        else declared
        for at, declared in table.sets.items()
    }
    sets["their-set"] = nft.Set("their-set", ("ipv4_addr",))
    sets["their-map"] = nft.Set("their-map", ("ipv4_addr",), data=("ipv4_addr",))
    return replace(table, chains=chains, sets=sets)


def test_a_table_with_objects_that_nft_alone_knows_is_shown() -> None:
    table = nft.Table("ip", "ballast", objects=(("flowtable", "fast"), ("counter", "all")))
    before, after = Nftables().diff(nft.Table("ip", "ballast"), table)
    assert "flowtable ip ballast fast" in before
    assert "fast" not in after


# iptables


@SETTINGS
@given(pairs("iptables"), st.booleans())
def compare_iptables(pair: tuple[Scenario, Scenario], others: bool) -> None:
    backend, family = Iptables("nft"), pair[0].view.family
    kernel = foreign(family) if others else iptables_kernel.Kernel(family)
    host = kernel.host()
    for desired in [*(backend.compile(scenario.view, scenario.config) for scenario in pair), None]:
        live = backend.read(host, family)
        operations = tuple(backend.plan(desired, live))
        before, after = backend.diff(desired, live)
        assert (before != after) is bool(operations)
        texts = [_iptables_text(desired, live, some) for some in beginnings(operations)]
        assert_no_operation_hides("iptables", operations, texts)
        backend.commit(operations, host, live)
        assert set(backend.diff(desired, backend.read(host, family))) == {after}
        if others:
            jump = '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES'
            for rules in (kernel.tables.get("filter", {}).get("FORWARD"),):
                if rules is not None and "KUBE-SERVICES" in kernel.tables["filter"]:
                    rules.append(jump)
            kernel.chain("nat", "KUBE-MARK-MASQ").append("-j LOG")


def _iptables_text(desired: Optional[Tables], live: Tables, operations: Sequence[restore.Operation]) -> str:
    """Operation by operation: iptables-restore itself refuses a part of them, as rules name chains of others."""
    held = {table.name: {chain.name: list(chain.rules) for chain in table.chains} for table in live.tables}
    for operation in operations:
        chains = held.setdefault(operation.table, {})
        rules = chains.get(operation.chain, [])
        if operation.kind == restore.DELETE:
            del chains[operation.chain]
        elif operation.kind == restore.REMOVE:
            chains[operation.chain] = [rule for rule in rules if rule not in operation.rules]
        else:
            chains[operation.chain] = [*operation.rules, *(rules if operation.kind == restore.INSERT else [])]
    of = {table: {name: Chain(name, tuple(rules)) for name, rules in chains.items()} for table, chains in held.items()}
    return Iptables("nft").diff(desired, tables(live.family, of))[0]


# ipvs


@SETTINGS
@given(pairs("ipvs"), st.booleans())
def compare_ipvs(pair: tuple[Scenario, Scenario], others: bool) -> None:
    backend, family = Ipvs("nft"), pair[0].view.family
    kernel = Kernel(links={name: list(addresses) for name, addresses in pair[0].surroundings.interfaces})
    host = kernel.host()
    compiled = [backend.compile(scenario.view, scenario.config) for scenario in on_one_node((*pair, pair[1]))]
    for desired in [*compiled, None]:
        if others:
            _touch(kernel, family, desired)
            host.given("/proc/net/ip_vs", kernel.list_connections())
        live = backend.read(host, family)
        operations = tuple(backend.plan(desired, live))
        before, after = backend.diff(desired, live)
        assert (before != after) is bool(operations)
        SEEN["ipvs"].update(operation.kind for operation in operations)
        gone, come = _lines(before, after)
        made = [one for one in operations if isinstance(one, planner.Operation)]
        written = [_as_shown(one) for one in made if one.kind.startswith(("add", "change", "drain", "bind"))]
        assert come == Counter(written)
        assert gone.total() >= sum(one.kind.startswith(("remove", "change", "drain", "unbind")) for one in made)
        backend.commit(operations, host, live)
        host.given("/proc/net/ip_vs", kernel.list_connections())
        assert set(backend.diff(desired, backend.read(host, family))) == {after}


def _lines(before: str, after: str) -> tuple[Counter[str], Counter[str]]:
    """Lines of ipset, ipvsadm and ip that the diff takes away, and that it brings."""
    first, then = [
        Counter(line for line in text.splitlines() if line.split()[0] in ("ipset", "ipvsadm", "ip"))
        for text in (before, after)
    ]
    return first - then, then - first


def _as_shown(operation: planner.Operation) -> str:
    """What is changed is shown as if it were made."""
    return f"{operation.tool} {operation.line}".replace(" -E ", " -A ").replace(" -e ", " -a ")


def _touch(kernel: Kernel, family: int, desired: Optional[IpvsRules]) -> None:
    """A set of an old release, a virtual server of another program where a Service has its own, connections to every real
    server, and a weight that somebody has changed."""
    kernel.sets.setdefault(set_name(FORMER_SETS[0], family), ("bitmap:port range 0-65535", {"30080"}))
    if desired is not None and desired.servers and not kernel.servers:
        option, _blank, service = definition(desired.servers[0]).partition(" ")
        kernel.servers[f"{option} {service.split()[0]}"] = Server(["-s", "wlc"])
    for service, server in kernel.servers.items():
        for real in list(server.real)[:1]:
            server.real[real] = ["-m", "-w", "3"]
        if family == 4:  # the listing has IPv6 in another form
            kernel.connections.update(dict.fromkeys([(service, real) for real in server.real], 2))


def test_a_real_server_that_drains_is_shown_with_weight_0() -> None:
    case, backend = Draining(), Ipvs("nft")
    live = backend.read(case.host, 4)
    before, after = backend.diff(case.desired, live)
    assert case.run() == ["drain real server"]
    assert [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"] == [
        "- ipvsadm -a -t 10.96.0.1:80 -r 10.1.1.5:8080 -m -w 1",
        "+ ipvsadm -a -t 10.96.0.1:80 -r 10.1.1.5:8080 -m -w 0",
    ]
    assert set(backend.diff(case.desired, backend.read(case.host, 4))) == {after}
    overdue = Ipvs("nft", overdue=frozenset([TARGET])).diff(case.desired, backend.read(case.host, 4))[1]
    assert "10.1.1.5" not in "".join(line for line in overdue.splitlines() if "-a -t" in line)


def test_a_virtual_server_that_exclude_cidrs_keeps_is_shown_as_it_stays() -> None:
    kernel = kernel_with_foreign_things()
    host = kernel.host()
    backend = Ipvs("nft", exclude_cidrs=("10.96.0.0/24",))
    apply(compile_rules(view(), CONFIG), host)
    kernel.servers["-t 10.96.0.1:9999"] = Server(["-s", "rr"])
    desired = compile_rules(view(external_ips=("203.0.113.10",)), CONFIG)
    before, after = backend.diff(desired, backend.read(host, 4))
    assert ("10.96.0.1:9999" in before, "10.96.0.1:9999" in after) == (True, True)
    apply(desired, host, exclude_cidrs=("10.96.0.0/24",))
    assert set(backend.diff(desired, backend.read(host, 4))) == {after}


def test_nftables() -> None:
    compare_nftables()
    kinds = {value for name, value in vars(transaction).items() if name.startswith(("ADD_", "DELETE_", "FLUSH_"))}
    assert kinds - SEEN["nftables"].keys() == set()


def test_iptables() -> None:
    compare_iptables()
    kinds = {restore.ADD, restore.REPLACE, restore.EMPTY, restore.DELETE, restore.INSERT, restore.REMOVE}
    assert kinds - SEEN["iptables"].keys() == set()


def test_ipvs() -> None:
    """What drains has a test of its own."""
    compare_ipvs()
    things = ("set", "set element", "virtual server", "real server", "link")
    kinds = {f"{verb} {thing}" for verb in ("add", "remove") for thing in things}
    kinds |= {"change virtual server", "change real server", "bind address", "unbind address"}
    assert kinds - SEEN["ipvs"].keys() == set()


def test_virtual_servers_of_node_ports_are_shown() -> None:
    scenario_rows = ENGINE.diff(ENGINE.plan(*_ipvs_plan()))
    shown = "".join(row["after"] for row in scenario_rows if "rules of IPv4" in row["after_header"])
    assert "ipvsadm -A -t 192.0.2.1:30080 -s rr\n" in shown


def _ipvs_plan() -> tuple[Any, Any]:
    service = test_engine.service("web", "10.96.0.10")
    service["spec"].update(type="NodePort", ports=[{"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080}])
    desired = test_engine.wanted(service, backend="ipvs")
    host = Kernel(links={"eth0": ["192.0.2.1"]}).host()
    return desired, ENGINE.observe(Context(desired, host))


@pytest.mark.parametrize("state", ["present", "absent"])
def test_the_link_of_both_families_is_shown_once_as_it_is_made_and_removed_once(state: str) -> None:
    kernel = Kernel()
    host = kernel.host()
    host.given("/proc/net/if_inet6")
    present = test_engine.wanted(test_engine.BOTH, backend="ipvs")
    absent = test_engine.wanted(backend="ipvs", state="absent", snapshot=None)
    for family in (4, 6) if state == "absent" else ():
        backend = Ipvs("nft")
        live = backend.read(host, family)
        assert present.snapshot is not None
        rules = backend.compile(present.snapshot.view(family), present.configs[family].rules)
        backend.commit(backend.plan(rules, live), host, live)
    desired = present if state == "present" else absent
    plan = ENGINE.plan(desired, ENGINE.observe(Context(desired, host)))
    changed = [
        line[0]
        for row in ENGINE.diff(plan)
        for line in difflib.ndiff(row["before"].splitlines(), row["after"].splitlines())
        if line[0] in "+-" and "ip link add" in line
    ]
    counts = Counter(step.kind for step in plan.steps)
    assert (counts["add link"], counts["remove link"]) == ((1, 0) if state == "present" else (0, 1))
    assert changed == ["+"] if state == "present" else changed == ["-"]
    assert isinstance(host, FakeHost)
