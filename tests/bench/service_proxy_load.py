# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the benchmark of the service proxy does to the cluster, and how it learns when a packet meets that."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple, Optional

from tests.bench import rules_cluster as cluster
from tests.bench import service_proxy_asking
from tests.bench.rules_nodes import Node
from tests.integration.wire import entered

PATIENCE = 120.0  # seconds after which a change that met no packet counts as lost
_WORKERS = 16  # requests to the API server at once
_ASKED_SHARE = 10  # of the Services, one of so many is for changes whose packet is waited for
_FIRST_MOVED, _MOVED = 2**21, 2**21 - 16  # in the network of endpoints, those that come by a change
Answer = Future[Optional[float]]


class Packets:
    """Asks from a client's namespace; see `service_proxy_asking`. Safe for several threads."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._answers: dict[int, Answer] = {}
        threading.Thread(target=self._read, daemon=True).start()

    def ask(self, service: int, expected: Sequence[str], begun: float, patience: float = PATIENCE) -> Answer:
        """When one of `expected` answers (if empty, any endpoint), in seconds after `begun`, which is a time by the monotonic
        clock; None where none does for so long."""
        answer: Answer = Future()
        asked = {"address": cluster.cluster_ip(service), "port": cluster.PORT, "expected": list(expected)}
        assert self._process.stdin is not None
        with self._lock:
            number = next(self._numbers)
            self._answers[number] = answer
            line = {"id": number, "begun": begun, "patience": patience, **asked}
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()
        return answer

    def until_all_answer(self, services: Sequence[int], begun: float, patience: float) -> Optional[float]:
        """Seconds after `begun` until each of them was answered by any endpoint. They are asked one after the other, as what
        is in force stays so."""
        last: Optional[float] = 0.0
        for service in services:
            last = self.ask(service, (), begun, patience).result()
            if last is None:
                return None
        return last

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            found = json.loads(line)
            self._answers.pop(found["id"]).set_result(found["after"])


@contextmanager
def packets(made: Node) -> Iterator[Packets]:
    with entered(made.client.namespace):
        process = subprocess.Popen(
            [sys.executable, "-IS", service_proxy_asking.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    try:
        yield Packets(process)
    finally:
        process.kill()
        process.wait()


class Change(NamedTuple):
    service: int
    slice: cluster.Item
    addresses: Sequence[str]
    is_asked: bool


class Changes:
    """New endpoints for Services, all of them at once, that no Service had before. A Service whose packet is waited for is
    not changed again meanwhile. Safe for several threads."""

    def __init__(self, services: int, *, counts: Sequence[int] = (cluster.ENDPOINTS,), seed: int = 1) -> None:
        """`counts`: of endpoints, one is drawn for each change."""
        self._random = random.Random(seed)
        self._counts = counts
        self._next_address = 0
        asked = max(1, services // _ASKED_SHARE)
        self._free = deque(range(asked))
        self._others = range(asked, services)
        self._lock = threading.Lock()

    def draw(self, *, asks: bool) -> Change:
        """With `asks`, one whose packet is to be waited for, unless all Services for that are waited for already."""
        with self._lock:
            is_asked = asks and bool(self._free)
            service = self._free.popleft() if is_asked else self._random.choice(self._others)
            count = self._random.choice(self._counts)
            addresses = [str(cluster.ENDPOINT_NETWORK[_FIRST_MOVED + self._next_address + n]) for n in range(count)]
            self._next_address = (self._next_address + count) % _MOVED
        return Change(service, cluster.endpoint_slice(cluster.name(service), addresses), addresses, is_asked)

    def release(self, change: Change) -> None:
        """Its packet is not waited for any more."""
        with self._lock:
            self._free.append(change.service)


class Measured(NamedTuple):
    """What a load was. Seconds from when a change was sent to the API server until that had answered (`api`), and until a packet
    met it (`packet`), of those that were asked; `lost` met none."""

    seconds: float
    changes: int
    api: list[float]
    packet: list[float]
    lost: int


def load(
    loader: cluster.Loader, changes: Changes, asked: Packets, *, rate: float, seconds: float, ask_every: int
) -> Measured:
    """So many changes a second, whether or not earlier ones are in force; of one of so many the packet is waited for."""
    waits: list[Answer] = []
    api: list[float] = []

    def do(asks: bool) -> None:
        change = changes.draw(asks=asks)
        begun = time.monotonic()
        if change.is_asked:
            answer = asked.ask(change.service, change.addresses, begun)
            answer.add_done_callback(lambda _answer: changes.release(change))
            waits.append(answer)
        loader.replace(change.slice)
        api.append(time.monotonic() - begun)

    begun = time.monotonic()
    with ThreadPoolExecutor(_WORKERS) as pool:
        sent = []
        for turn in range(max(1, round(rate * seconds))):
            time.sleep(max(0.0, begun + turn / rate - time.monotonic()))
            sent.append(pool.submit(do, turn % ask_every == 0))
        for each in sent:
            each.result()
    spent = time.monotonic() - begun
    after = [wait.result() for wait in waits]
    met = [round(each, 5) for each in after if each is not None]
    return Measured(round(spent, 3), len(sent), [round(each, 5) for each in api], met, len(after) - len(met))
