# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real packets meet the rules that the running `ballast-service-proxy` wrote: after each change of a random cluster, what becomes
of them is what the Services mean. BALLAST_TEST_EXAMPLES in the environment is the number of clusters."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._audit.expected_verdict import ExpectedVerdicts
from ansible_collections.ballast.kube.plugins.module_utils._rules.config import parse_config
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import Packet, Surroundings
from tests.integration import changing_cluster as changing
from tests.integration.changing_cluster import ChangingCluster, Deed
from tests.integration.fate import expect, is_answered_around_us, real, real_packets
from tests.integration.followed_api import followed
from tests.integration.test_service_proxy import Proxy, install, write_config
from tests.integration.wire import Wire, entered, wire
from tests.unit.rules.strategies import BRIDGE, POOLS, SECOND_LINK, UPLINK, Scenario

EXAMPLES = int(os.environ.get("BALLAST_TEST_EXAMPLES", "2"))
CHANGES = 4  # of each cluster
PACKETS = 80  # of each family, after each change

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nft") is None, reason="only root can make namespaces, and nft is needed"
)


@pytest.fixture(scope="module")
def net() -> Iterator[Wire]:
    with wire("service-proxy") as made:
        made.set_second_link([pool.second for pool in POOLS.values()])
        yield made


@pytest.fixture(scope="module")
def proxy(net: Wire, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    place = tmp_path_factory.mktemp("proxy")
    install(place)
    with ExitStack() as undo:
        with entered(net.node.namespace):
            api = undo.enter_context(followed(place))
        yield Proxy(net.node, api, place)


def do(proxy: Proxy, deeds: list[Deed]) -> None:
    for deed in deeds:
        proxy.api.do(deed.kind, deed.name, deed.item)


def scenario_of(proxy: Proxy, family: int) -> Scenario:
    """The cluster of the API server as the node sees it, on the links of the wire."""
    view, pool = proxy.snapshot().view(family), POOLS[family]
    config = parse_config(proxy.config, backend="nftables", family=family, node=view.node).rules
    links = {"lo": pool.loopback, BRIDGE: pool.gateway, UPLINK: pool.primary, SECOND_LINK: pool.second}
    return real(Scenario(view, config, Surroundings(tuple((link, (address,)) for link, address in links.items()))))


def send(net: Wire, scenario: Scenario, draw: random.Random) -> int:
    """Some packets of every kind, each with the fate that is meant; how many there were."""
    meaning = ExpectedVerdicts(scenario.view, scenario.config, scenario.surroundings)
    # There the proxy itself listens, as kube-proxy does.
    health = {service.health_check_node_port for service in scenario.view.services} - {0}
    every = [packet for packet in real_packets(scenario) if packet.port not in health]
    chosen: list[Packet] = draw.sample(every, min(PACKETS, len(every)))
    pairs = [(packet, meaning.answer(packet)) for packet in chosen]
    pairs = [pair for pair in pairs if not is_answered_around_us(net, *pair)]
    for (packet, answer), happened in zip(pairs, net.send([packet for packet, _answer in pairs])):
        try:
            expect(scenario, packet, answer, happened)
        except AssertionError as error:
            raise AssertionError(f"{packet}\nmeant: {answer}\nhappened: {happened}") from error
    return len(pairs)


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_packets_meet_the_fate_that_services_mean_after_each_change(net: Wire, proxy: Proxy, seed: int) -> None:
    cluster, draw, sent = ChangingCluster(seed), random.Random(seed), 0
    proxy.config = changing.configuration(seed)
    write_config(proxy.place, proxy.config)
    proxy.api.clear()
    do(proxy, cluster.begin())
    proxy.start()
    try:
        for _number in range(CHANGES):
            for _time in range(3):  # with fewer changes between, most packets meet no Service
                do(proxy, cluster.change())
            proxy.agrees()
            sent += sum(send(net, scenario_of(proxy, family), draw) for family in POOLS)
    finally:
        proxy.kill()
    print(f"{sent} packets")
    assert sent > CHANGES * PACKETS
