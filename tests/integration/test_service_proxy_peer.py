# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""`ballast-service-proxy` and a real kube-proxy in mode nftables, each in a network namespace with the same addresses, follow one
API server, whose cluster changes at random: after each change both answer every packet alike.

What they may differ in is not drawn: Services that claim the same destination, of which kube-proxy does not say whose it is; another
address of the Node, at which kube-proxy ends; and unused addresses of ServiceCIDRs: kube-proxy 1.37 begins before it knows these,
and was seen not to follow them for 20 seconds, while packets to such addresses pass. BALLAST_TEST_EXAMPLES in the environment is the number of clusters.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._audit.tracing.packet_path import Tracer
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import SERVICE_PROXY_TABLE
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import NODE_PORT, FamilyView
from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables import transaction
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_addresses import read_links
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_rules import rules_of_one
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import Packet, Surroundings
from tests.integration import changing_cluster as changing
from tests.integration import containerds
from tests.integration.changing_cluster import ChangingCluster, Deed
from tests.integration.test_service_proxy import Proxy, add_links, eventually, standing, write_config
from tests.integration.wire import InNamespace, entered, namespace

EXAMPLES = int(os.environ.get("BALLAST_TEST_EXAMPLES", "3"))
CHANGES = 8  # of each cluster
PACKETS = 400  # of each family, after each change
SECONDS = 20.0  # until kube-proxy has a change, on a busy machine
FAMILIES = {4: "ip", 6: "ip6"}
UNDEFINED_PORT = 7

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can make network namespaces")]


@dataclass(frozen=True)
class Peers:
    ours: Proxy
    theirs: InNamespace
    place: Path  # of kube-proxy

    @contextmanager
    def running(self, config: changing.Item, deeds: list[Deed]) -> Iterator[None]:
        """Both, from no rules and the objects of `deeds` alone."""
        api = self.ours.api
        api.clear()
        for deed in deeds:
            self.do(deed)
        written = write_config(self.ours.place, config)
        self.ours.config = config
        client = {**written["clientConnection"], "contentType": "application/json"}
        # What conntrack holds at most belongs to the whole machine.
        own = {"mode": "nftables", "conntrack": {"maxPerCore": 0}, "clientConnection": client}
        (self.place / "config.json").write_text(json.dumps({**written, **own}))
        for host in (self.ours.host, self.theirs):
            host.run(["nft", "flush", "ruleset"], timeout=60)
        with self._kube_proxy():
            self.ours.start()
            try:
                yield
            finally:
                self.ours.kill()

    @contextmanager
    def _kube_proxy(self) -> Iterator[None]:
        argv = [f"{containerds.bin_dir()}/kube-proxy", f"--config={self.place}/config.json", "--v=2"]
        with (self.place / "log").open("w") as log, entered(self.theirs.namespace):
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield
            assert process.poll() is None, (self.place / "log").read_text()[-2000:]
        finally:
            process.terminate()
            process.wait(timeout=60)

    def do(self, deed: Deed) -> None:
        self.ours.api.do(deed.kind, deed.name, deed.item)

    def tracers(self, host: InNamespace, table: str) -> dict[int, Tracer]:
        """Of the rules in its kernel."""
        surroundings = Surroundings(read_links(host))
        return {
            family: Tracer(rules_of_one(transaction.read(host, name, table), variant="nft"), surroundings)
            for family, name in FAMILIES.items()
        }

    def differing(self, packets: list[Packet]) -> list[str]:
        ours = self.tracers(self.ours.host, SERVICE_PROXY_TABLE)
        try:
            theirs = self.tracers(self.theirs, "kube-proxy")
        except BallastError as error:  # the first rules are being written
            return [error.in_one_line]
        found = []
        for packet in packets:
            own, other = (tracers[packet.family].answer(packet) for tracers in (ours, theirs))
            if own != other:
                found.append(f"{packet}\n  ours {own}\n  kube-proxy {other}")
        return found

    def agree(self, draw: random.Random) -> None:
        """Waits until ours has what the API says, and kube-proxy answers alike."""
        self.ours.agrees()
        packets: list[Packet] = []
        for family in FAMILIES:
            every = sorted(packets_of(self.ours.snapshot().view(family)), key=repr)
            packets += draw.sample(every, min(PACKETS, len(every)))
        assert len({packet.family for packet in packets}) == 2
        differing: Optional[list[str]] = None

        def alike() -> bool:
            nonlocal differing
            differing = self.differing(packets)
            return not differing

        assert eventually(alike, seconds=SECONDS), f"{len(differing or ())} of {len(packets)}\n" + "\n".join(
            (differing or [])[:5]
        )


def packets_of(view: FamilyView) -> set[Packet]:
    """To every frontend, an undefined port of it, and elsewhere; from every kind of source."""
    family = "IPv4" if view.family == 4 else "IPv6"
    own = [address for address in changing.ADDRESSES if (":" in address) == (view.family == 6)]
    destinations = {(changing.ELSEWHERE[family], 80, "TCP")}
    for frontend in view.frontends:
        for address in own if frontend.kind == NODE_PORT else [frontend.address]:
            destinations |= {(address, frontend.port, protocol) for protocol in ("TCP", "UDP", "SCTP")}
            destinations.add((address, UNDEFINED_PORT, frontend.protocol))
    pods = (*changing.LOCAL_PODS[family][:2], changing.IDLE_POD[family])
    outside = (*changing.CLIENTS[family], *changing.OTHER_PODS[family])
    sources = [(address, "eth0", False) for address in (*pods, *outside)] + [(address, "", True) for address in own]
    return {
        Packet(source, destination, port, protocol, link, node_local)
        for source, link, node_local in sources
        for destination, port, protocol in destinations
    }


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    place = tmp_path_factory.mktemp("kube-proxy")
    with ExitStack() as undo:
        ours = undo.enter_context(standing(tmp_path_factory.mktemp("proxy"), "service-proxy-ours"))
        theirs = undo.enter_context(namespace("service-proxy-theirs"))
        addresses = [f"{address}/{64 if ':' in address else 24}" for address in changing.ADDRESSES]
        add_links(theirs, addresses)
        for address in addresses[2:]:  # it has those of IPv4
            ours.host.run(["ip", "address", "add", address, "dev", "eth0", "nodad"], timeout=60)
        with entered(theirs.namespace):
            ours.api.come_back()
        for name in ("kubeconfig", "ca.crt"):
            shutil.copy(ours.place / name, place / name)
        yield Peers(ours, theirs, place)


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_both_answer_every_packet_alike_after_each_change(peers: Peers, seed: int) -> None:
    cluster, draw = ChangingCluster(seed), random.Random(seed)
    with peers.running(changing.configuration(seed), cluster.begin()):
        peers.agree(draw)
        for _number in range(CHANGES):
            for deed in cluster.change():
                peers.do(deed)
            peers.agree(draw)
