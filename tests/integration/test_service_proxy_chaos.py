# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""Faults from around `ballast-service-proxy` while a client opens connections all the time: the API server goes away and comes back,
forgets versions and says nonsense, objects are malformed, the clock jumps, the disk of the log is full, thousands of slices
change at once. After each the kernel has what the API says, and the client has lost no connection.

BALLAST_TEST_EXAMPLES in the environment is the number of sequences.
"""

from __future__ import annotations

import copy
import http.client
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.objects import SERVICE, SLICE, read_object
from tests.integration.changing_cluster import ChangingCluster
from tests.integration.test_service_proxy import (
    SECONDS,
    Proxy,
    answers,
    endpoints,
    eventually,
    web,
)
from tests.integration.test_service_proxy_clients import Client, connecting, standing_for_clients
from tests.integration.wire import entered
from tests.unit.rules.test_parse_anything import change, places

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or any(shutil.which(tool) is None for tool in ("nft", "conntrack")),
    reason="only root can make namespaces, and nft and conntrack are needed",
)

EXAMPLES = int(os.environ.get("BALLAST_TEST_EXAMPLES", "2"))
FAULTS = 16  # of each sequence
BURST = 5000
BURST_SECONDS = 120.0
DAY = 86400.0
FULL_DISK = "/dev/full"
JUNK: tuple[Any, ...] = (None, True, -1, 0, 99999, 1.5, "", "junk", "10.96.0.999", "a" * 300, [], [None], {}, {"x": []})
TRUNCATED = b'{"type": "MODIFIED", "object": {"metadata": {"na'
# Runs a program whose wall clock is off by so many seconds as a file says.
CLOCK = """
import runpy, sys, time
real, offset = time.time, sys.argv[1]
def jumping():
    with open(offset) as file:
        return real() + float(file.read())
time.time = jumping
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass
class Troubled:
    """A proxy, and the faults that meet it. The client's Service is `a`; all others change."""

    proxy: Proxy
    draw: random.Random

    def __post_init__(self) -> None:
        self.cluster = ChangingCluster(self.draw.randrange(2**32))

    def meet(self, fault: str) -> None:
        getattr(self, f"meet_{fault}")()

    def change(self) -> None:
        for deed in self.cluster.change():
            if deed.kind not in (SERVICE, SLICE):
                continue
            if deed.item is None:
                self.proxy.api.remove(deed.kind, deed.name)
            else:
                self.proxy.api.put(deed.kind, deed.item)

    def meet_change(self) -> None:
        self.change()

    def meet_kill(self) -> None:
        self.proxy.kill()
        self.change()
        self.proxy.start()

    def meet_restart_of_the_api(self) -> None:
        self.proxy.api.go_away()
        self.change()
        with entered(self.proxy.host.namespace):
            self.proxy.api.come_back()

    def meet_forgotten_versions(self) -> None:
        self.change()
        self.proxy.api.close_watches(forget=True)

    def meet_truncated_event(self) -> None:
        self.proxy.api.close_watches(last_words=TRUNCATED)
        self.change()

    def meet_malformed_object(self) -> None:
        """What was in force of it stays, unless it can be read."""
        for kind in (SERVICE, SLICE) * 3:
            items = [item for (_namespace, name), item in self.proxy.api.items[kind].items() if name[0] == "s"]
            if items:
                item = self.malformed(self.draw.choice(items))
                if read_object(kind, item).problem:
                    self.proxy.api.lie(kind, item)
                else:
                    self.proxy.api.put(kind, item)

    def malformed(self, item: dict[str, Any]) -> dict[str, Any]:
        made = copy.deepcopy(item)
        paths = [path for path in places(made) if path[0] not in ("metadata", "kind", "apiVersion")]
        change(made, self.draw.choice(paths), self.draw.choice(JUNK))
        return made

    def meet_clock(self) -> None:
        set_clock(self.proxy, self.draw.choice((-3650.0, -1.0, -0.05, 0.0, 0.05, 1.0, 3650.0)) * DAY)
        self.change()

    def meet_full_disk(self) -> None:
        """From its start on; it ends as ever."""
        self.proxy.kill()
        self.proxy.start(FULL_DISK)
        self.change()
        self.proxy.agrees()
        assert eventually(lambda: answers(self.proxy), seconds=SECONDS)
        self.proxy.kill(signal.SIGTERM)
        self.proxy.start()


FAULT_NAMES = [name.removeprefix("meet_") for name in vars(Troubled) if name.startswith("meet_")]


def set_clock(proxy: Proxy, seconds: float) -> None:
    """At once for who reads it."""
    written = proxy.place / "offset.new"
    written.write_text(str(seconds))
    written.rename(proxy.place / "offset")


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    with standing_for_clients(tmp_path, "service-proxy-chaos") as made:
        (tmp_path / "clock.py").write_text(CLOCK)
        made.kill()
        made.python = [sys.executable, str(tmp_path / "clock.py"), str(tmp_path / "offset")]
        set_clock(made, 0.0)
        made.start()
        yield made


@pytest.fixture
def client(proxy: Proxy) -> Iterator[Client]:
    with connecting(proxy) as running:
        yield running


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_a_client_loses_nothing_by_any_fault(proxy: Proxy, client: Client, seed: int) -> None:
    draw = random.Random(seed)
    troubled = Troubled(proxy, draw)
    faults = [*FAULT_NAMES, *draw.choices(FAULT_NAMES, k=max(0, FAULTS - len(FAULT_NAMES)))]
    draw.shuffle(faults)
    for fault in faults:
        troubled.meet(fault)
        try:
            proxy.agrees()
        except AssertionError as error:
            raise AssertionError(f"after {fault} of {faults}") from error
    assert eventually(lambda: answers(proxy), seconds=SECONDS)
    client.goes_on()
    assert client.failures() == []


def test_a_client_loses_nothing_while_thousands_of_slices_change_at_once(proxy: Proxy, client: Client) -> None:
    for generation in range(2):
        slices, services = [], []
        for number in range(BURST):
            name, ip = f"m{number}", f"10.97.{number // 250}.{1 + number % 250}"
            service, item = (
                web(),
                endpoints("a", *(f"10.1.{2 + generation}.{1 + (number + n) % 250}" for n in range(3))),
            )
            service["metadata"] = {**service["metadata"], "name": name, "uid": f"uid-{name}"}
            service["spec"] = {**service["spec"], "clusterIP": ip, "clusterIPs": [ip]}
            metadata = item["metadata"]
            item["metadata"] = {**metadata, "name": f"{name}-x", "labels": {"kubernetes.io/service-name": name}}
            services.append(service)
            slices.append(item)
        if not generation:
            proxy.api.put_all(SERVICE, services)
        proxy.api.put_all(SLICE, slices)
        proxy.agrees(BURST_SECONDS)
    client.goes_on()
    assert client.failures() == []


def test_a_clock_that_jumps_fails_no_check(proxy: Proxy) -> None:
    """A load balancer would take the node away, and a kubelet would restart the pod."""
    assert eventually(lambda: answers(proxy), seconds=SECONDS)
    for days in (1.0, -1.0, 3650.0, -3650.0):
        set_clock(proxy, days * DAY)
        assert livez(proxy) == 200
        proxy.api.put(SERVICE, web("b"))
        proxy.api.put(SLICE, endpoints("b", f"10.1.1.{5 + int(days) % 7}"))
        proxy.agrees()
        status, text = proxy.command("status", "--config", str(proxy.place / "config.json"))
        assert status == 0, text
        assert livez(proxy) == 200


def livez(proxy: Proxy) -> int:
    with entered(proxy.host.namespace):
        connection = http.client.HTTPConnection("127.0.0.1", 10256, timeout=10)
        connection.connect()
    with closing(connection):
        connection.request("GET", "/livez")
        return connection.getresponse().status
