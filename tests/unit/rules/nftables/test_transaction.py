# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The smallest set of operations: tried on a table in memory that refuses what the kernel refuses."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError, UserError
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables import transaction
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.backend import Nftables
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.compile import compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.expressions import DROP, Verdict
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import (
    Chain,
    Element,
    Hook,
    Rule,
    Set,
    Table,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.presence import has_table
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.transaction import (
    Operation,
    plan,
    render,
    stages,
)
from tests.unit.fakes import Call, FakeHost
from tests.unit.rules.nftables.kernel import commit
from tests.unit.rules.nftables.views import CONFIG, service, view
from tests.unit.rules.strategies import Scenario, scenarios


def compiled(scenario: Scenario, *, priority_offset: int = 0) -> Table:
    return compile_rules(scenario.view, scenario.config, priority_offset=priority_offset)


TWO = compile_rules(view(service("a", "10.96.0.1"), service("b", "10.96.0.2", endpoints=3)), CONFIG)


def kinds(operations: tuple[Operation, ...]) -> dict[str, int]:
    return dict(Counter(operation.kind for operation in operations))


@st.composite
def two_scenarios(draw: st.DrawFn) -> tuple[Scenario, Scenario]:
    family = draw(st.sampled_from((4, 6)))
    return tuple(draw(scenarios(backend="nftables", family=family)) for _one in range(2))  # type: ignore[return-value]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(two_scenarios(), st.sampled_from((0, -1)))
def test_operations_make_what_is_there_into_what_is_wanted(pair: tuple[Scenario, Scenario], offset: int) -> None:
    before, after = compiled(pair[0]), compiled(pair[1], priority_offset=offset)
    assert commit(plan(after, None), None) == after
    assert commit(plan(after, before), before) == after
    assert plan(after, after) == ()
    assert commit(plan(None, after), after) is None


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(two_scenarios())
def test_nothing_is_touched_that_is_the_same(pair: tuple[Scenario, Scenario]) -> None:
    before, after = compiled(pair[0]), compiled(pair[1])
    touched = {(one.kind.split()[1], one.name) for one in plan(after, before)}
    for name in before.sets.keys() & after.sets.keys():
        if before.sets[name] == after.sets[name]:
            assert ("element", name) not in touched
    for name in before.chains.keys() & after.chains.keys():
        if before.chains[name] == after.chains[name]:
            assert not {("chain", name), ("rule", name)} & touched
    assert not {"table"} & {kind for kind, _name in touched}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(two_scenarios(), st.sampled_from((0, -1)))
def test_a_packet_on_its_way_never_misses_what_stays_wanted(pair: tuple[Scenario, Scenario], offset: int) -> None:
    """It runs chains as they were after any stage, and finds elements as they are after the next one."""
    before, after = compiled(pair[0]), compiled(pair[1], priority_offset=offset)
    parts = stages(plan(after, before))
    states: list[Table] = [before]
    for part in parts:
        assert stages(part) == (part,)
        table = commit(part, states[-1])  # refuses what the kernel would
        assert table is not None
        states.append(table)
    assert states[-1] == after
    for earlier, later in zip(states, states[1:]):
        for name in later.sets.keys() & before.sets.keys():  # nothing is lost that was never served
            for key in later.sets[name].elements.keys() & before.sets[name].elements.keys():
                element, former = later.sets[name].elements[key], before.sets[name].elements[key]
                desired = after.sets[name].elements.get(key, former) if name in after.sets else former
                assert element.target in (former.target, desired.target)
                if isinstance(element.target, Verdict) and element.target.target:
                    assert earlier.chains[element.target.target].rules
    for name, wanted in after.sets.items():
        for key in wanted.elements.keys() & (before.sets[name].elements.keys() if name in before.sets else set()):
            assert all(key in state.sets[name].elements for state in states)


def test_an_endpoint_more_is_there_before_it_is_drawn_and_one_less_goes_after() -> None:
    three = compile_rules(view(service("a", "10.96.0.1", endpoints=4), service("b", "10.96.0.2", endpoints=3)), CONFIG)
    first, second, last = stages(plan(three, TWO))
    assert kinds(first) == {"add chain": 1, "add rule": 2, "add element": 2}  # slots 2 and 3
    assert kinds(second) == {"delete element": 1, "add element": 1}  # of the map services
    assert kinds(last) == {"flush chain": 1, "delete chain": 1}  # that of two endpoints
    first, second, last = stages(plan(TWO, three))
    assert (kinds(first), kinds(second)) == ({"add chain": 1, "add rule": 2}, {"delete element": 1, "add element": 1})
    assert kinds(last) == {"flush chain": 1, "delete chain": 1, "delete element": 2}


def test_a_change_that_leads_nothing_elsewhere_is_one_transaction() -> None:
    other = compile_rules(view(service("a", "10.96.0.1"), service("c", "10.96.0.3")), CONFIG)
    assert len(stages(plan(other, TWO))) == len(stages(plan(TWO, None))) == len(stages(plan(None, TWO))) == 1
    assert stages(()) == ()


def test_a_service_more_is_elements_only() -> None:
    three = compile_rules(
        view(service("a", "10.96.0.1"), service("b", "10.96.0.2", endpoints=3), service("c", "10.96.0.3", endpoints=3)),
        CONFIG,
    )
    assert kinds(plan(three, TWO)) == {"add element": 2 + 3}  # cluster-ips, services, and an endpoint each
    assert kinds(plan(TWO, three)) == {"delete element": 2 + 3}


def test_an_endpoint_that_is_another_is_two_operations() -> None:
    changed = service("b", "10.96.0.2", endpoints=3)
    moved = changed.endpoints[2]._replace(address="10.1.9.9")
    other = compile_rules(
        view(service("a", "10.96.0.1"), changed._replace(endpoints=(*changed.endpoints[:2], moved))), CONFIG
    )
    assert kinds(plan(other, TWO)) == {"delete element": 1, "add element": 1}


def test_an_unused_chain_goes_after_the_element_that_led_to_it() -> None:
    one = compile_rules(view(service("a", "10.96.0.1")), CONFIG)
    operations = [operation.kind for operation in plan(one, TWO)]
    assert operations[0] == "flush chain"
    assert operations[-1] == "delete chain"
    assert set(operations[1:-1]) == {"delete element"}


def test_another_priority_makes_base_chains_anew_in_the_same_transaction() -> None:
    before = compile_rules(view(service("a", "10.96.0.1")), CONFIG)
    after = compile_rules(view(service("a", "10.96.0.1")), CONFIG, priority_offset=-1)
    assert kinds(plan(after, before)) == {"flush chain": 5, "delete chain": 5, "add chain": 5, "add rule": 6}
    assert commit(plan(after, before), before) == after


def test_what_someone_else_changed_is_put_right() -> None:
    """An element taken out, one put in, a rule added, a chain added, a policy changed, a chain gone."""
    services, chains = TWO.sets["services"], dict(TWO.chains)
    key = ("10.96.0.1", "tcp", "80")
    elements = {k: v for k, v in services.elements.items() if k != key}
    elements["10.96.0.9", "tcp", "80"] = Element(("10.96.0.9", "tcp", "80"), Verdict(DROP))
    chains["services"] = replace(chains["services"], rules=(Rule((Verdict(DROP),)), *chains["services"].rules))
    chains["stale"] = Chain("stale", (Rule((Verdict("jump", "older"),)),))
    chains["older"] = Chain("older", (Rule((Verdict(DROP),)),))
    chains["filter-forward"] = replace(chains["filter-forward"], base=Hook("filter", "forward", 0, "drop"))
    found = replace(TWO, chains=chains, sets={**TWO.sets, "services": replace(services, elements=elements)})
    operations = plan(TWO, found)
    assert commit(operations, found) == TWO
    assert kinds(operations)["delete element"] == kinds(operations)["add element"] == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"sets": {**TWO.sets, "cluster-ips": Set("cluster-ips", ("ipv4_addr",), flags=("interval",))}},
        {"flags": ("dormant",)},
        {"objects": (("counter", "x"),)},
        {"chains": {**TWO.chains, "filter-forward": Chain("filter-forward")}},
    ],
)
def test_what_cannot_be_changed_in_place_is_made_anew_in_one_transaction(changes: dict[str, object]) -> None:
    found = replace(TWO, **changes)  # type: ignore[arg-type]
    operations = plan(TWO, found)
    assert [operation.kind for operation in operations[:2]] == ["delete table", "add table"]
    assert commit(operations, found) == TWO


def test_what_packets_put_into_affinity_sets_stays() -> None:
    wanted = compile_rules(view(service("a", "10.96.0.1")._replace(affinity_seconds=300)), CONFIG)
    sets = {
        name: replace(one, elements={("172.16.0.1",): Element(("172.16.0.1",), timeout_seconds=300)})
        if name.startswith("affinity-")
        else one
        for name, one in wanted.sets.items()
    }
    assert sum(bool(one.elements) for one in sets.values() if one.timeout_seconds) == 2
    assert plan(wanted, replace(wanted, sets=sets)) == ()


def test_tables_of_different_names_are_not_compared() -> None:
    with pytest.raises(ValueError, match="ip kube-proxy was found"):
        plan(TWO, replace(TWO, name="kube-proxy"))


def test_text_is_the_same_each_time_and_one_command_for_many_elements() -> None:
    text = render(plan(TWO, None))
    assert text == render(plan(TWO, None))
    assert text.startswith("add table ip ballast\n")
    assert text.count("add element ip ballast endpoints-tcp {") == 1
    assert "add element ip ballast cluster-ips { 10.96.0.1," in text


def test_a_value_cannot_end_where_it_stands_and_begin_a_command() -> None:
    hostile = Element(("10.0.0.1 }\ndelete table ip filter\n",))
    with pytest.raises(UserError) as caught:
        render((Operation("add element", "ip", "ballast", "cluster-ips", hostile),))
    assert caught.value.id == "rules-nft-unwritable"


def test_an_affinity_set_grows_with_its_sources() -> None:
    """A size that is written is allocated: 1 MiB for each endpoint."""
    wanted = compile_rules(view(service("a", "10.96.0.1")._replace(affinity_seconds=300)), CONFIG)
    text = render(plan(wanted, None))
    assert text.count("add set ip ballast affinity-") == 2
    assert "size" not in text


# On a host


def test_nothing_to_do_runs_nothing() -> None:
    host = FakeHost()
    transaction.commit((), host)
    transaction.check((), host)
    assert host.commands == []


def test_one_command_commits_and_another_only_checks() -> None:
    host, texts = FakeHost(), []

    def nft(call: Call) -> str:
        texts.append(call.stdin.decode())
        return ""

    host.on("nft", answer=nft)
    operations = plan(TWO, None)
    transaction.check(operations, host)
    transaction.commit(operations, host)
    assert host.commands == [("nft", "--check", "-f", "-"), ("nft", "-f", "-")]
    assert texts == [render(operations)] * 2


def test_a_refusal_says_what_nft_said() -> None:
    host = FakeHost()
    host.on("nft", answer=Completed(("nft",), 1, "", "Error: Could not process rule: Operation not supported"))
    with pytest.raises(HostError) as caught:
        transaction.commit(plan(TWO, None), host)
    assert caught.value.id == "rules-nft-refused"
    assert "Operation not supported" in caught.value.found


def test_of_a_change_whose_second_transaction_is_refused_the_first_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    three = compile_rules(view(service("a", "10.96.0.1", endpoints=4), service("b", "10.96.0.2", endpoints=3)), CONFIG)
    operations = plan(three, TWO)
    first, second, _last = stages(operations)
    after_first = commit(first, TWO)
    assert after_first is not None
    host, texts = FakeHost(), []

    def nft(call: Call) -> str | Completed:
        texts.append(call.stdin.decode())
        return Completed(("nft",), 1, "", "Error: no") if texts[-1] == render(second) else ""

    host.on("nft", "-f", "-", answer=nft)
    monkeypatch.setattr(transaction, "read", lambda *_where: after_first)
    with pytest.raises(HostError):
        Nftables().commit(operations, host, TWO)
    assert texts == [render(first), render(second), render(plan(TWO, after_first))]


def test_a_table_that_is_not_there_is_none() -> None:
    host = FakeHost()
    listed = "table ip kube-proxy {\n\tchain services {\n\t}\n}\ntable ip ballast-old {\n}\n"
    host.on("nft", "list", "chains", "ip", answer=listed, reads=True)
    assert transaction.read(host, "ip", "ballast") is None
    assert has_table(host, "ip", "ballast-old")


@pytest.mark.parametrize("count", [1, 999, 1000, 1001, 2000, 2001])
def test_each_of_many_elements_is_in_one_command_that_nft_can_take(count: int) -> None:
    keys = [(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",) for number in range(count)]
    empty = Table("ip", "t", sets={"s": Set("s", ("ipv4_addr",))})
    full = Table("ip", "t", sets={"s": Set("s", ("ipv4_addr",), elements={key: Element(key) for key in keys})})
    for desired, live, start in ((full, empty, "add element ip t s { "), (empty, full, "delete element ip t s { ")):
        commands = render(plan(desired, live)).splitlines()
        assert all(command.startswith(start) and command.endswith(" }") for command in commands)
        named = [command[len(start) : -len(" }")].split(",") for command in commands]
        assert [len(part) for part in named] == [1000] * (count // 1000) + ([count % 1000] if count % 1000 else [])
        assert sorted(address for part in named for address in part) == sorted(address for (address,) in keys)
