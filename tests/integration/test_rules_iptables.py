# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The compiled iptables rules in a real kernel, by both variants: what is saved is what was compiled, and real packets
meet the fate that the tracer tells."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._audit.expected_verdict import ExpectedVerdicts
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Host
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.compile import (
    compile_rules,
    required_sysctls,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.names import LAYOUT
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import (
    Accounting,
    Chain,
    Tables,
    rule,
    tables,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.restore import (
    LEGACY,
    NFT,
    VARIANTS,
    Operation,
    commit,
    plan,
    plan_removal,
    read,
    select_own,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.text import render
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import Answer, Packet
from tests.integration import echo
from tests.integration.fate import expect, is_answered_around_us, real, real_packets
from tests.integration.wire import InNamespace, Wire, namespace, wire
from tests.unit.audit.answers import trace
from tests.unit.rules.iptables.views import config, everything, here, service, view
from tests.unit.rules.strategies import SECOND_LINK, Scenario, scenarios, worthwhile_packets

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not all(shutil.which(f"iptables-{one}-restore") for one in VARIANTS),
    reason="only root can make namespaces, and both variants of iptables are needed",
)

RANDOM = settings(
    max_examples=40, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
FOREIGN = b"""\
*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*filter
:FORWARD DROP [0:0]
:MINE - [0:0]
-A FORWARD -p tcp -m multiport --dports 22,443 -m comment --comment "mine, not \\"yours\\"" -j MINE
-A MINE -m limit --limit 5/sec -j ACCEPT
COMMIT
*nat
:KUBE-MARK-MASQ - [0:0]
:CNI-HOSTPORT-SETMARK - [0:0]
-A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ
-A POSTROUTING -o eth9 -j MASQUERADE
COMMIT
"""


@pytest.fixture
def kernel(request: pytest.FixtureRequest) -> Iterator[InNamespace]:
    with namespace("iptables") as host:
        yield host


@pytest.fixture(scope="module")
def net() -> Iterator[Wire]:
    with wire("iptables") as made:
        yield made


def put(host: Host, wanted: Tables, *, variant: str) -> tuple[Operation, ...]:
    found = read(host, family=wanted.family, variant=variant)
    operations = plan(wanted, found, LAYOUT)
    commit(operations, host, live=found, layout=LAYOUT, variant=variant)
    return operations


def remove(host: Host, *, family: int, variant: str) -> None:
    found = read(host, family=family, variant=variant)
    commit(plan_removal(found, LAYOUT), host, live=found, layout=LAYOUT, variant=variant)


def load_foreign(host: Host, *, family: int, variant: str) -> None:
    program = "iptables" if family == 4 else "ip6tables"
    host.run([f"{program}-{variant}-restore", "--noflush"], stdin=FOREIGN, timeout=60)


def without(found: Tables, chain: str) -> Tables:
    return tables(
        found.family,
        {table.name: {name: one for name, one in table.by_name.items() if name != chain} for table in found.tables},
    )


# The rules


@RANDOM
@given(scenario=scenarios(backend="iptables"))
@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_saved_is_what_was_compiled(kernel: InNamespace, variant: str, scenario: Scenario) -> None:
    """Each from whatever the one before left, in one restore; rules of others stay as they are."""
    family = scenario.view.family
    if read(kernel, family=family, variant=variant).chain("filter", "MINE") is None:
        load_foreign(kernel, family=family, variant=variant)
    wanted = compile_rules(scenario.view, scenario.config)
    put(kernel, wanted, variant=variant)
    found = read(kernel, family=family, variant=variant)
    assert select_own(found, LAYOUT) == select_own(wanted, LAYOUT)
    assert plan(wanted, found, LAYOUT) == ()
    saved = render(found).splitlines()
    theirs = [line for line in FOREIGN.decode().splitlines() if line.startswith((":KUBE-K", ":KUBE-I", "-A"))]
    assert [line for line in theirs if line not in saved] == []
    assert ":FORWARD DROP [0:0]" in saved


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("variant", VARIANTS)
def test_when_all_is_removed_what_others_have_is_left(kernel: InNamespace, variant: str, family: int) -> None:
    load_foreign(kernel, family=family, variant=variant)
    before = read(kernel, family=family, variant=variant)
    put(kernel, compile_rules(everything(family), config(family=family)), variant=variant)
    remove(kernel, family=family, variant=variant)
    after = read(kernel, family=family, variant=variant)
    if family == 4:  # the guard of loopback is the kubelet's as well
        assert after.chain("filter", "KUBE-FIREWALL") is not None
        inserted = [after.chain("filter", name) for name in ("INPUT", "OUTPUT")]
        assert [len(one.rules) for one in inserted if one] == [1, 1]
    else:
        assert after == before
    assert after.chain("nat", "KUBE-MARK-MASQ") == Chain("KUBE-MARK-MASQ"), "a plugin of CNI names it"
    assert after.chain("filter", "FORWARD") == before.chain("filter", "FORWARD")
    assert after.table("nat") == before.table("nat")


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_table_that_the_kernel_refuses_leaves_the_other_as_it_was(kernel: InNamespace, variant: str) -> None:
    load_foreign(kernel, family=4, variant=variant)
    put(kernel, compile_rules(view([service("one", here("10.1.0.5"))]), config()), variant=variant)
    before = read(kernel, family=4, variant=variant)
    wanted = compile_rules(everything(4), config())
    # No counter has this name, which the kernel sees when the table is committed: after nat was.
    broken = without(wanted, "KUBE-FORWARD")
    chains = {table.name: dict(table.by_name) for table in broken.tables}
    chains["filter"]["KUBE-FORWARD"] = Chain("KUBE-FORWARD", (rule(Accounting("ballast-test-none")),))
    with pytest.raises(BallastError) as caught:
        put(kernel, tables(4, chains), variant=variant)
    assert caught.value.id == "rules-iptables-restore"
    assert "all changes were undone" in caught.value.text
    assert read(kernel, family=4, variant=variant) == before
    put(kernel, wanted, variant=variant)
    assert select_own(read(kernel, family=4, variant=variant), LAYOUT) == select_own(wanted, LAYOUT)


def test_the_variants_do_not_see_each_other(kernel: InNamespace) -> None:
    put(kernel, compile_rules(everything(4), config()), variant=LEGACY)
    assert read(kernel, family=4, variant=NFT) == Tables(4)
    put(kernel, compile_rules(everything(4), config()), variant=NFT)
    remove(kernel, family=4, variant=LEGACY)
    assert "KUBE-SERVICES" not in render(read(kernel, family=4, variant=LEGACY))
    assert "KUBE-SERVICES" in render(read(kernel, family=4, variant=NFT))


# Packets


def packets_of(scenario: Scenario) -> Iterator[Packet]:
    """Also those that the node sends from its loopback address: of the backends only this one serves node ports there."""
    yield from real_packets(scenario)
    for packet in worthwhile_packets(scenario):
        if packet.source == scenario.pool.loopback and echo.has(packet.protocol):
            yield packet


@settings(RANDOM, max_examples=6)
@given(data=st.data())
@pytest.mark.parametrize("variant", VARIANTS)
def test_packets_meet_the_fate_that_is_traced(net: Wire, variant: str, data: st.DataObject) -> None:
    scenario = real(data.draw(scenarios(backend="iptables")))
    assume(scenario.view.node.primary and scenario.view.frontends)
    net.set_second_link(dict(scenario.surroundings.interfaces)[SECOND_LINK])
    every = list(packets_of(scenario))
    packets = data.draw(st.lists(st.sampled_from(every), min_size=60, max_size=150, unique=True))
    sysctls = {"net.ipv4.conf.all.route_localnet": "0", **dict(required_sysctls(scenario.view, scenario.config))}
    net.node.run(["sysctl", "-qw", *(f"{name}={value}" for name, value in sysctls.items())], timeout=60)
    try:
        put(net.node, compile_rules(scenario.view, scenario.config), variant=variant)
        found = read(net.node, family=scenario.view.family, variant=variant)
        meaning = ExpectedVerdicts(scenario.view, scenario.config, scenario.surroundings)
        answers = [trace(found, packet, scenario.surroundings) for packet in packets]
        assert answers == [meaning.answer(packet) for packet in packets]
        pairs = [pair for pair in zip(packets, answers) if not is_answered_around_us(net, *pair)]
        first, again = (net.send([packet for packet, _answer in pairs]) for _time in range(2))
    finally:
        remove(net.node, family=scenario.view.family, variant=variant)
    for (packet, answer), happened, then in zip(pairs, first, again):
        for one in (happened, then):
            try:
                expect(scenario, packet, answer, one)
            except AssertionError as error:
                raise AssertionError(f"{packet}\ntraced: {answer}\n{answer.why}\nhappened: {one}") from error
        if answer.affinity_seconds > 60 and is_of_one_list(packet, answer, pairs):
            assert then == happened, f"{packet} was not sent to the same endpoint again"


def is_of_one_list(packet: Packet, answer: Answer, pairs: Sequence[tuple[Packet, Answer]]) -> bool:
    """Whether all that this source asks of these endpoints is drawn from one list. Where a policy makes two lists of a
    Service's endpoints, the source is remembered by one of each, and may go to either when it comes again."""
    lists = {
        other.endpoints
        for sent, other in pairs
        if sent.source == packet.source and not set(other.endpoints).isdisjoint(answer.endpoints)
    }
    return lists == {answer.endpoints}
