# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The compiled nftables rules in a real kernel: what is read back is what was compiled, and real packets meet the fate
that the tracer tells."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._audit.expected_verdict import ExpectedVerdicts
from ansible_collections.ballast.kube.plugins.module_utils._audit.tracing.packet_path import Tracer
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import Endpoint
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables import transaction
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.compile import compile_rules
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.expressions import GOTO, Verdict
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.objects import Element, Table
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.text import parse_text
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.transaction import (
    ADD_ELEMENT,
    Operation,
    commit,
    plan,
    read,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_rules import rules_of_one
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import Packet, endpoint_text
from tests.integration.fate import expect, is_answered_around_us, real, real_packets
from tests.integration.wire import InNamespace, Wire, namespace, wire
from tests.unit.rules.nftables.views import CONFIG, service, view
from tests.unit.rules.strategies import (
    POOLS,
    SECOND_LINK,
    TARGET_PORTS,
    Scenario,
    scenarios,
)

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nft") is None, reason="only root can make namespaces, and nft is needed"
)

RANDOM = settings(
    max_examples=30, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def kernel() -> Iterator[InNamespace]:
    with namespace("nft") as host:
        yield host


@pytest.fixture(scope="module")
def net() -> Iterator[Wire]:
    with wire("nft") as made:
        yield made


def put(host: InNamespace, wanted: Table) -> tuple[Operation, ...]:
    operations = plan(wanted, read(host, wanted.family, wanted.name))
    commit(operations, host)
    return operations


# The table


@RANDOM
@given(scenario=scenarios(backend="nftables"), offset=st.sampled_from((0, -1)))
def test_what_is_read_back_is_what_was_compiled(kernel: InNamespace, scenario: Scenario, offset: int) -> None:
    """Each from whatever the one before left, in one transaction."""
    wanted = compile_rules(scenario.view, scenario.config, priority_offset=offset)
    transaction.check(plan(wanted, read(kernel, wanted.family, wanted.name)), kernel)
    put(kernel, wanted)
    found = read(kernel, wanted.family, wanted.name)
    assert found == wanted
    assert plan(wanted, found) == ()
    text = kernel.run(["nft", "list", "table", wanted.family, wanted.name], timeout=60).stdout
    assert parse_text(text).tables[wanted.family, wanted.name] == wanted


@pytest.mark.parametrize(
    "networks",
    [
        ("11.0.0.0/8", "12.0.0.0/8"),
        ("172.16.5.0/24", "172.16.6.0/32"),
        ("172.16.5.255/32", "172.16.6.0/32"),
        ("0.0.0.0/1",),
        ("255.255.255.255/32", "0.0.0.0/32", "255.0.0.0/9"),
    ],
)
def test_networks_that_follow_one_another_are_read_back_as_they_are(
    kernel: InNamespace, networks: tuple[str, ...]
) -> None:
    guarded = service("a", "10.96.0.1", load_balancer_ips=("198.51.100.1",), source_ranges=networks)
    wanted = compile_rules(view(guarded, service_cidrs=networks), CONFIG, table="ballast-networks")
    put(kernel, wanted)
    assert read(kernel, "ip", "ballast-networks") == wanted


def test_a_failure_in_the_middle_leaves_what_was_there(kernel: InNamespace) -> None:
    before = compile_rules(view(service("a", "10.96.0.1")), CONFIG, table="ballast-atomic")
    after = compile_rules(view(service("a", "10.96.0.1"), service("b", "10.96.0.2")), CONFIG, table="ballast-atomic")
    put(kernel, before)
    operations = list(plan(after, before))
    stray = Element(("10.96.0.9", "tcp", "80"), Verdict(GOTO, "no-such-chain"))
    operations.insert(len(operations) // 2, Operation(ADD_ELEMENT, "ip", "ballast-atomic", "services", stray))
    with pytest.raises(HostError) as caught:
        commit(operations, kernel)
    assert caught.value.id == "rules-nft-refused"
    assert read(kernel, "ip", "ballast-atomic") == before
    put(kernel, after)
    assert read(kernel, "ip", "ballast-atomic") == after


def test_an_element_and_the_chain_that_it_led_to_go_in_one_transaction(kernel: InNamespace) -> None:
    both = compile_rules(
        view(service("a", "10.96.0.1"), service("b", "10.96.0.2", endpoints=3)), CONFIG, table="ballast-b"
    )
    one = compile_rules(view(service("a", "10.96.0.1")), CONFIG, table="ballast-b")
    put(kernel, both)
    assert {"delete element", "delete chain"} <= {operation.kind for operation in put(kernel, one)}
    assert read(kernel, "ip", "ballast-b") == one


def test_a_drifted_table_is_made_anew_and_others_are_left_alone(kernel: InNamespace) -> None:
    foreign = "table ip kube-proxy {\n\tchain x {\n\t\taccept\n\t}\n}\n"
    kernel.run(["nft", "-f", "-"], stdin=foreign.encode(), timeout=60)
    wanted = compile_rules(view(service("a", "10.96.0.1")), CONFIG, table="ballast-c")
    put(kernel, wanted)
    kernel.run(["nft", "add", "counter", "ip", "ballast-c", "x"], timeout=60)
    kernel.run(["nft", "delete", "element", "ip", "ballast-c", "cluster-ips", "{ 10.96.0.1 }"], timeout=60)
    assert put(kernel, wanted)[0].kind == "delete table"
    assert read(kernel, "ip", "ballast-c") == wanted
    commit(plan(None, wanted), kernel)
    assert read(kernel, "ip", "ballast-c") is None
    assert kernel.run(["nft", "list", "table", "ip", "kube-proxy"], timeout=60).stdout == foreign


# Packets


@settings(RANDOM, max_examples=6)
@given(data=st.data())
def test_packets_meet_the_fate_that_the_tracer_tells(net: Wire, data: st.DataObject) -> None:
    scenario = real(data.draw(scenarios(backend="nftables")))
    assume(scenario.view.node.primary and scenario.view.frontends)
    links = dict(scenario.surroundings.interfaces)
    net.set_second_link(links[SECOND_LINK])
    every = list(real_packets(scenario))
    packets = data.draw(st.lists(st.sampled_from(every), min_size=60, max_size=150, unique=True))
    wanted = compile_rules(scenario.view, scenario.config)
    put(net.node, wanted)
    tracer = Tracer(rules_of_one(wanted, variant="nft"), scenario.surroundings)
    answers = [tracer.answer(packet) for packet in packets]
    meaning = ExpectedVerdicts(scenario.view, scenario.config, scenario.surroundings)
    assert answers == [meaning.answer(packet) for packet in packets]
    pairs = [pair for pair in zip(packets, answers) if not is_answered_around_us(net, *pair)]
    first, again = (net.send([packet for packet, _answer in pairs]) for _time in range(2))
    for (packet, answer), happened, then in zip(pairs, first, again):
        for one in (happened, then):
            try:
                expect(scenario, packet, answer, one)
            except AssertionError as error:
                raise AssertionError(f"{packet}\ntold: {answer}\nhappened: {one}") from error


def test_a_source_keeps_its_endpoint_whichever_address_it_asks_for(net: Wire) -> None:
    pool = POOLS[4]
    net.set_second_link((pool.second,))
    endpoints = tuple(Endpoint(address, port, node="n1") for address in pool.local_pods for port in TARGET_PORTS)
    sticky = service("a", pool.cluster_ips[0])._replace(endpoints=endpoints, node_port=30080, affinity_seconds=300)
    put(net.node, compile_rules(view(sticky), CONFIG))
    for source in (*pool.clients, pool.idle_pod):
        inside, outside = Packet(source, pool.cluster_ips[0], 80, "TCP"), Packet(source, pool.primary, 30080, "TCP")
        answers = [net.send([packet])[0].partition(" ")[0] for packet in (inside, inside, outside, inside, outside)]
        assert set(answers) == {answers[0]} <= {one.text for one in endpoints}
    put(net.node, compile_rules(view(sticky._replace(affinity_seconds=0)), CONFIG))
    every = [Packet(source, pool.cluster_ips[0], 80, "TCP") for source in pool.clients for _time in range(30)]
    assert len({answer.partition(" ")[0] for answer in net.send(every)}) > 3


@pytest.mark.parametrize("destination", ["cluster IP", "node port"])
def test_sctp_is_translated(net: Wire, destination: str) -> None:
    pool = POOLS[4]
    net.set_second_link((pool.second,))
    endpoint = Endpoint(pool.local_pods[1], 8081, node="n1")
    one = service("a", pool.cluster_ips[1])._replace(protocol="SCTP", endpoints=(endpoint,), node_port=30081)
    put(net.node, compile_rules(view(one), CONFIG))
    tracked = ["sysctl", "-n", "net.netfilter.nf_conntrack_sctp_timeout_established"]
    if net.node.run(tracked, timeout=60, check=False).status != 0:
        pytest.skip("this kernel does not track SCTP")
    address, port = (pool.cluster_ips[1], 80) if destination == "cluster IP" else (pool.primary, 30081)
    from_pod = Packet(pool.idle_pod, address, port, "SCTP")
    from_client = Packet(pool.clients[0], address, port, "SCTP")
    masqueraded = f"{endpoint.text} from {pool.gateway}"
    assert net.send_sctp(from_client, heard_in="pod1") == masqueraded
    kept = f"{endpoint.text} from {pool.idle_pod}"
    assert net.send_sctp(from_pod, heard_in="pod1") == (kept if destination == "cluster IP" else masqueraded)


def test_a_table_beside_it_neither_translates_nor_masquerades_again(net: Wire) -> None:
    """Another one with the same Service stands one priority later, as kube-proxy's does during a migration, and would send it elsewhere."""
    pool = POOLS[4]
    net.set_second_link((pool.second,))
    ours = service("a", pool.cluster_ips[0], endpoints=0)
    ours = ours._replace(endpoints=(Endpoint(pool.local_pods[0], 8080, node="n1"),))
    theirs = ours._replace(endpoints=(Endpoint(pool.local_pods[1], 8080, node="n1"),))
    other = compile_rules(view(theirs), CONFIG, table="ballast-other")
    commit(plan(None, read(net.node, "ip", "ballast")), net.node)
    put(net.node, other)
    sources = (pool.clients[0], pool.idle_pod, pool.local_pods[0])
    packets = [Packet(source, pool.cluster_ips[0], 80, "TCP") for source in sources]
    before = [happened.partition(" from ")[0] for happened in net.send(packets)]
    assert before == [endpoint_text(pool.local_pods[1], 8080)] * 3
    put(net.node, compile_rules(view(ours), CONFIG, priority_offset=-1))
    endpoint = endpoint_text(pool.local_pods[0], 8080)
    # Masqueraded from outside and as a hairpin, by one of the two tables alone.
    assert net.send(packets) == [
        f"{endpoint} from {pool.gateway}",
        f"{endpoint} from {pool.idle_pod}",
        f"{endpoint} from {pool.gateway}",
    ]
    commit(plan(None, read(net.node, "ip", "ballast-other")), net.node)
