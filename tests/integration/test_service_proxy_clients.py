# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""What a client of a Service loses while `ballast-service-proxy` is killed, Services change and other programs take rules away:
connections that began without rules, and no later one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import SERVICE_PROXY_TABLE as TABLE
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.connections import read_connections
from tests.integration import steady_client
from tests.integration.test_service_proxy import (
    SECONDS,
    Proxy,
    answers,
    endpoints,
    endpoints_of,
    eventually,
    node_of,
    send,
    settled,
    standing,
    web,
)
from tests.integration.wire import entered

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or any(shutil.which(tool) is None for tool in ("nft", "conntrack")),
    reason="only root can make namespaces, and nft and conntrack are needed",
)

ADDRESS = "10.96.0.1"
ROUND = len(steady_client.SOURCE_PORTS)
FLUSH = ("delete", "table", "ip", TABLE)
EDIT = ("flush", "map", "ip", TABLE, "endpoints-tcp")
OTHERS = "table ip others { chain output { type filter hook output priority 10; ct state established accept; }; }"


class Client:
    """New connections to port 80 of ADDRESS, all the time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.ended: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def goes_on(self) -> None:
        """Until each source port was used again, and again."""
        end = len(self.ended) + 3 * ROUND
        assert eventually(lambda: len(self.ended) >= end, seconds=60)

    def loses_nothing_from_now_on(self, proxy: Proxy) -> None:
        """From when nothing is left of the connections that began without rules."""
        assert eventually(lambda: untranslated(proxy) == 0, seconds=SECONDS)
        now = time.time()
        self.goes_on()
        assert self.failures(since=now) == []

    def failures(self, *, since: float = 0.0) -> list[dict[str, Any]]:
        """Of all that it has begun, once they ended."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self._thread.join()
        return [attempt for attempt in self.ended if attempt["failure"] and attempt["began"] > since]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.ended.append(json.loads(line))

    def close(self) -> None:
        self.process.kill()
        self._thread.join()
        with self.process, suppress(BrokenPipeError):  # closes its pipes, and waits
            pass


@contextmanager
def standing_for_clients(place: Path, name: str) -> Iterator[Proxy]:
    """One that runs, where connections can be opened to ADDRESS."""
    with standing(place, name) as made:
        # What is not translated goes out, and nobody answers.
        neighbour = [
            "ip",
            "neighbour",
            "add",
            ADDRESS,
            "lladdr",
            "02:00:00:00:00:01",
            "dev",
            "eth0",
            "nud",
            "permanent",
        ]
        made.host.run(neighbour, timeout=60)
        # A connection that has ended leaves its source port, translation included, to the next one for a second and not for ten.
        made.host.run(["sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_timeout_close=1"], timeout=60)
        # As on a node, where others need conntrack too: without them the kernel ends it with our last rule.
        made.host.run(["nft", "-f", "-"], stdin=OTHERS.encode(), timeout=60)
        made.api.put("Node", node_of("192.168.1.10"))
        made.start()
        made.agrees()
        yield made


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with standing_for_clients(tmp_path_factory.mktemp("proxy"), "service-proxy-clients") as made:
        yield made


@contextmanager
def connecting(proxy: Proxy) -> Iterator[Client]:
    """A client of Service `a`, whose first connections were answered."""
    settled(proxy)
    proxy.api.put("EndpointSlice", endpoints("a", "10.50.0.10"))
    proxy.agrees()
    proxy.host.run(["conntrack", "-F"], timeout=60)  # what another test left
    assert eventually(lambda: answers(proxy), seconds=SECONDS)
    words = [ADDRESS, "80", "192.168.1.10", "8080"]
    with entered(proxy.host.namespace):
        process = subprocess.Popen(
            [sys.executable, "-IS", steady_client.__file__, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    running = Client(process)
    try:
        running.goes_on()
        yield running
    finally:
        running.close()


@pytest.fixture
def client(proxy: Proxy) -> Iterator[Client]:
    with connecting(proxy) as running:
        yield running


def repairs(proxy: Proxy) -> int:
    count: int = proxy.status().get("repairs", 0)
    return count


def untranslated(proxy: Proxy) -> int:
    """Connections that lead to the Service's own address, and were not answered."""
    with entered(proxy.host.namespace):
        found = list(read_connections(4, unanswered=True))
    assert not any(connection.answered for connection in found)
    return sum(connection.endpoint == ADDRESS for connection in found)


def test_a_client_loses_nothing_while_the_program_is_killed_and_services_change(proxy: Proxy, client: Client) -> None:
    for number in range(6):
        proxy.api.put("Service", web("c"))
        proxy.api.put("EndpointSlice", endpoints("c", *(f"10.1.1.{n}" for n in range(5, 7 + number))))
        if number % 2:
            proxy.agrees()
        proxy.kill()
        proxy.api.remove("Service", "c")
        proxy.start()
        assert eventually(lambda: answers(proxy), seconds=SECONDS)
        proxy.agrees()
        proxy.api.close_watches(forget=True)
    client.goes_on()
    assert client.failures() == []


@pytest.mark.parametrize("change", [FLUSH, EDIT], ids=["flush", "edit"])
def test_a_client_loses_nothing_once_another_program_s_change_is_repaired(
    proxy: Proxy, client: Client, change: tuple[str, ...]
) -> None:
    """Later connections have the source ports of those that began without rules."""
    before = repairs(proxy)
    proxy.nft(*change)
    assert eventually(lambda: repairs(proxy) > before, seconds=SECONDS)
    client.loses_nothing_from_now_on(proxy)


def test_a_client_loses_nothing_once_a_start_has_brought_missing_rules_back(proxy: Proxy, client: Client) -> None:
    proxy.kill()
    proxy.nft(*FLUSH)
    assert eventually(lambda: untranslated(proxy) > 0, seconds=10)
    proxy.start()
    proxy.agrees()
    client.loses_nothing_from_now_on(proxy)


def test_a_client_of_udp_that_began_without_rules_is_served_once_there_are_some(proxy: Proxy) -> None:
    """Whose packets go on to come from the same port, so that no connection of it would ever be a new one."""
    settled(proxy)
    proxy.api.put("Service", web("a", ports=[{"name": "http", "port": 53, "protocol": "UDP"}]))
    udp = {**endpoints("a", "10.1.1.5"), "ports": [{"name": "http", "port": 5353, "protocol": "UDP"}]}
    proxy.api.put("EndpointSlice", udp)
    proxy.agrees()
    proxy.kill()
    proxy.nft(*FLUSH)
    send(proxy, ADDRESS, 53, 40000)
    assert endpoints_of(proxy, ADDRESS) == {ADDRESS: 1}
    proxy.start()
    assert eventually(lambda: endpoints_of(proxy, ADDRESS) == {}, seconds=SECONDS)
    send(proxy, ADDRESS, 53, 40000)
    assert endpoints_of(proxy, ADDRESS) == {"10.1.1.5": 1}
