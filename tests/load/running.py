# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts the servers and the clients of the load in network namespaces, and ends them.

with server(host, "a", "10.0.0.2", [9000]), load([Client("pod", host, flows, held)], place) as running:
    began = time.monotonic()
    ...
    found = running.summary(since=began, until=time.monotonic())
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional

from tests.integration.wire import InNamespace
from tests.load.figures import Records, Summary, summary

CLIENT = Path(__file__).with_name("client.py")
SERVER = Path(__file__).with_name("server.py")
# net.netfilter.nf_conntrack_tcp_timeout_syn_sent: while an outage's entry is there, the same port would meet it.
PORT_REST_SECONDS = 125
_TIMEOUT_SECONDS = 1.0  # of an attempt, client.py
_HELD_SECONDS = 60


@dataclass(frozen=True)
class Target:
    name: str
    address: str
    port: int
    answers: int  # the port of the servers that are to answer


@dataclass(frozen=True)
class Flow:
    name: str
    protocol: str
    source: str
    ports: tuple[int, int]  # first and last of its own
    rate: int  # attempts per second
    targets: tuple[Target, ...]

    def __post_init__(self) -> None:
        rest = (self.ports[1] - self.ports[0] + 1) * len(self.targets) / self.rate
        if rest < PORT_REST_SECONDS:
            raise ValueError(f"{self.name}: its ports come round in {rest:.0f} s")


@dataclass(frozen=True)
class Held:
    """Long-lived connections, which take turns in targets."""

    count: int
    source: str
    ports: tuple[int, int]
    targets: tuple[Target, ...]


@dataclass(frozen=True)
class Client:
    """All load of one namespace."""

    name: str
    host: InNamespace
    flows: tuple[Flow, ...]
    held: Optional[Held] = None


@dataclass(frozen=True)
class Load:
    """Under way. Clients write every tenth of a second, and an attempt is under way for a second at most."""

    records: Sequence[Records]
    held: int  # long-lived connections that are asked for

    def summary(self, *, since: float, until: float) -> Summary:
        """Of the attempts that began in a span of time.monotonic(), once all are decided."""
        time.sleep(max(0.0, until + _TIMEOUT_SECONDS + 0.5 - time.monotonic()))
        for one in self.records:
            one.read()
        return summary(self.records, since, until)

    def wait_for_held(self) -> None:
        """Until all are open."""
        deadline = time.monotonic() + _HELD_SECONDS
        while True:
            for one in self.records:
                one.read()
            is_open = sum(one.held[-1][1] for one in self.records if one.held)
            if is_open == self.held:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"{is_open} of {self.held} long-lived connections are open")
            time.sleep(0.2)


@contextmanager
def load(clients: Sequence[Client], place: Path) -> Iterator[Load]:
    """Until the block ends; records go to `place`."""
    records = [Records(place / f"{client.name}.jsonl") for client in clients]
    with ExitStack() as undo:
        for client, one in zip(clients, records):
            asked = {
                "records": str(one.path),
                "flows": [asdict(flow) for flow in client.flows],
                "held": asdict(client.held) if client.held else None,
            }
            undo.enter_context(_running(client.host, [str(CLIENT)], asked))
        yield Load(records, sum(client.held.count for client in clients if client.held))
    for one in records:
        one.read()


@contextmanager
def server(host: InNamespace, name: str, address: str, ports: Sequence[int]) -> Iterator[None]:
    """Until the block ends."""
    with _running(host, [str(SERVER), name, address, *(str(port) for port in ports)], None):
        yield


@contextmanager
def _running(host: InNamespace, words: Sequence[str], asked: Optional[Mapping[str, Any]]) -> Iterator[None]:
    """A program ends when its standard input does: when the block ends, or when this process is no more.

    It goes before all else that the machine does: who waits for a processor would count failures that are its own.
    """
    argv = ["nice", "-n", "-20", "ip", "netns", "exec", host.namespace, sys.executable, "-IS", *words]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if asked is not None:
                process.stdin.write(json.dumps(asked) + "\n")
                process.stdin.flush()
            if process.stdout.readline() != "ready\n":
                raise RuntimeError(f"{words[0]} does not start in {host.namespace}")
            yield
            if process.poll() is not None:
                raise RuntimeError(f"{words[0]} has ended in {host.namespace}: status {process.returncode}")
        finally:
            process.stdin.close()
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
