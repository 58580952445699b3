# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client of the load: opens connections at a steady rate, each with one attempt, and holds others open.

Reads one line of JSON, prints `ready`, and works until its standard input ends:

    {"records": PATH,
     "flows": [{"name", "protocol": "TCP" or "UDP", "source", "ports": [FIRST, LAST], "rate": PER_SECOND, "targets"}],
     "held": {"count", "source", "ports", "targets"} or null}

A target is `{"name", "address", "port", "answers": PORT_OF_THE_SERVERS}`. An attempt succeeds when such a server has
greeted (server.py) within a second; anything else is a failure. What it writes, one JSON object a line; times are
those of CLOCK_MONOTONIC in seconds, which all namespaces share:

    {"at", "flow", "target", "begun", "took"}    successes of 100 ms: microseconds after `at` (may be less than 0), and of each
    {"failed", "flow", "target", "begun", "ended", "port"}    a failure; `failed` is its class: timeout, wrong, closed or an errno
    {"at", "held", "answers", "slowest"}    long-lived connections that are open; seconds of the slowest answer, or of a wait for one
    {"broken", "at", "target", "port", "quiet"}    a long-lived connection has ended; seconds since it was last answered
    {"at", "lag"}    100 ms: by how many seconds the client was late itself

Standard library only, no import from the project: it runs with `ip netns exec`.
"""

from __future__ import annotations

import errno
import heapq
import json
import resource
import select
import socket
import struct
import sys
import time
from collections import deque
from typing import Any, Optional

TIMEOUT_SECONDS = 1.0  # of an attempt. The kernel's first repetition of a SYN comes later
_RECORD_SECONDS = 0.1
_PING_SECONDS = 0.1
_REOPEN_SECONDS = 1.0
_HANGS_SECONDS = 60.0  # without an answer, an application gives up its connection
_AT_ONCE = 50  # attempts that a flow makes up for in one turn, where the client was late
_LINGER_0 = struct.pack("ii", 1, 0)
_UNDER_WAY = (errno.EINPROGRESS, errno.EAGAIN)


def opened(protocol: str, source: str, port: int, target: dict[str, Any]) -> socket.socket:
    """Under way. Linger 0 ends it by a reset: no TIME_WAIT keeps the port."""
    kind = socket.SOCK_STREAM if protocol == "TCP" else socket.SOCK_DGRAM
    one = socket.socket(socket.AF_INET, kind | socket.SOCK_NONBLOCK)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if protocol == "TCP":
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_0)
        one.bind((source, port))
        number = one.connect_ex((target["address"], target["port"]))
        if number not in (0, *_UNDER_WAY):
            raise OSError(number, "connect")
        if protocol == "UDP":
            one.send(b"?")
    except OSError:
        one.close()
        raise
    return one


def error_class(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, "unknown")


class Attempt:
    __slots__ = ("begun", "done", "flow", "port", "socket", "target")

    def __init__(self, flow: Flow, target: int, port: int, begun: float) -> None:
        self.flow, self.target, self.port, self.begun = flow, target, port, begun
        self.done = False
        self.socket: Optional[socket.socket] = None


class Flow:
    """Attempts at a rate. Each target has its own turn of the ports, so that as long as possible passes until a pair of
    port and destination comes again, and connection tracking has forgotten it."""

    def __init__(self, client: Client, asked: dict[str, Any]) -> None:
        self._client = client
        self._asked = asked
        self._targets = asked["targets"]
        self._answers = [f":{target['answers']}".encode() for target in self._targets]
        self._first, self._span = asked["ports"][0], asked["ports"][1] - asked["ports"][0] + 1
        self._made = 0
        self._start = time.monotonic()
        self._pending: deque[Attempt] = deque()
        self._begun: list[list[float]] = [[] for _target in self._targets]
        self._took: list[list[float]] = [[] for _target in self._targets]

    def next_at(self) -> float:
        return self._start + (self._made + 1) / float(self._asked["rate"])

    def open_due(self, now: float) -> None:
        due = int((now - self._start) * self._asked["rate"]) - self._made
        for _one in range(min(due, _AT_ONCE)):
            self._open()

    def _open(self) -> None:
        turn, target = divmod(self._made, len(self._targets))
        self._made += 1
        port = self._first + (turn + target * self._span // len(self._targets)) % self._span
        attempt = Attempt(self, target, port, time.monotonic())
        try:
            attempt.socket = opened(self._asked["protocol"], self._asked["source"], port, self._targets[target])
        except OSError as error:
            self._failed(attempt, error_class(error))
            return
        self._pending.append(attempt)
        self._client.watch(attempt.socket, attempt)

    def ready(self, attempt: Attempt) -> None:
        assert attempt.socket is not None
        try:
            data = attempt.socket.recv(64)
        except BlockingIOError:
            return
        except OSError as error:
            self._failed(attempt, error_class(error))
            return
        now = time.monotonic()
        if now - attempt.begun > TIMEOUT_SECONDS:
            self._failed(attempt, "timeout")
        elif not data:
            self._failed(attempt, "closed")
        elif not data.endswith(self._answers[attempt.target]):
            self._failed(attempt, "wrong")
        else:
            self._begun[attempt.target].append(attempt.begun)
            self._took[attempt.target].append(now - attempt.begun)
            self._client.answered(data)
            self._close(attempt)

    def expire(self, now: float) -> None:
        while self._pending and (self._pending[0].done or now - self._pending[0].begun > TIMEOUT_SECONDS):
            attempt = self._pending.popleft()
            if not attempt.done:
                self._failed(attempt, "timeout")

    @property
    def pending(self) -> bool:
        return any(not attempt.done for attempt in self._pending)

    def _failed(self, attempt: Attempt, what: str) -> None:
        found = {
            "failed": what,
            "flow": self._asked["name"],
            "target": self._targets[attempt.target]["name"],
            "begun": attempt.begun,
            "ended": time.monotonic(),
            "port": attempt.port,
        }
        self._client.record(found)
        self._close(attempt)

    def _close(self, attempt: Attempt) -> None:
        attempt.done = True
        if attempt.socket is not None:
            self._client.unwatch(attempt.socket)
            attempt.socket.close()

    def write(self, now: float) -> None:
        for target, begun, took in zip(self._targets, self._begun, self._took):
            if begun:
                self._client.record(
                    {
                        "at": now,
                        "flow": self._asked["name"],
                        "target": target["name"],
                        "begun": [round((one - now) * 1e6) for one in begun],
                        "took": [round(one * 1e6) for one in took],
                    }
                )
                begun.clear()
                took.clear()


class Held:
    """One long-lived connection. `since` is when it was opened or asked, `heard` when it was last answered."""

    __slots__ = ("established", "heard", "port", "since", "socket", "target", "waiting")

    def __init__(self, target: int) -> None:
        self.target = target
        self.socket: Optional[socket.socket] = None
        self.port, self.since, self.heard = 0, 0.0, 0.0
        self.established = self.waiting = False


class Holder:
    def __init__(self, client: Client, asked: dict[str, Any]) -> None:
        self._client = client
        self._asked = asked
        self._next_port = asked["ports"][0]
        self._answers, self._slowest = 0, 0.0
        self._held = [Held(number % len(asked["targets"])) for number in range(asked["count"])]
        now = time.monotonic()
        apart = _PING_SECONDS / max(1, asked["count"])
        self._agenda = [(now + number * apart, number) for number in range(asked["count"])]
        heapq.heapify(self._agenda)

    def next_at(self) -> float:
        return self._agenda[0][0] if self._agenda else float("inf")

    def act_due(self, now: float) -> None:
        while self._agenda and self._agenda[0][0] <= now:
            at, number = heapq.heappop(self._agenda)
            heapq.heappush(self._agenda, (max(at + _PING_SECONDS, now), number))
            self._act(self._held[number], now)

    def _act(self, held: Held, now: float) -> None:
        if held.socket is None:
            if now - held.since > _REOPEN_SECONDS:
                self._open(held, now)
        elif not held.established:
            if now - held.since > TIMEOUT_SECONDS:
                self._drop(held)
        elif not held.waiting:
            held.since, held.waiting = now, True
            try:
                held.socket.send(b".")
            except OSError as error:
                self._broken(held, error_class(error))
        elif now - held.since > _HANGS_SECONDS:
            self._broken(held, "hangs")

    def _open(self, held: Held, now: float) -> None:
        first, last = self._asked["ports"]
        held.port, held.since = self._next_port, now
        self._next_port = first if held.port == last else held.port + 1
        try:
            held.socket = opened("TCP", self._asked["source"], held.port, self._asked["targets"][held.target])
        except OSError:
            return
        held.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client.watch(held.socket, held)

    def ready(self, held: Held) -> None:
        assert held.socket is not None
        try:
            data = held.socket.recv(64)
        except BlockingIOError:
            return
        except OSError as error:
            self._broken(held, error_class(error))
            return
        if not data:
            self._broken(held, "closed")
            return
        held.heard = time.monotonic()
        if held.established:
            self._answers += 1
            self._slowest = max(self._slowest, held.heard - held.since)
        held.established, held.waiting = True, False

    def _broken(self, held: Held, what: str) -> None:
        if held.established:
            now = time.monotonic()
            name = self._asked["targets"][held.target]["name"]
            found = {"broken": what, "at": now, "target": name, "port": held.port, "quiet": now - held.heard}
            self._client.record(found)
        self._drop(held)

    def _drop(self, held: Held) -> None:
        if held.socket is not None:
            self._client.unwatch(held.socket)
            held.socket.close()
        held.socket = None
        held.since = time.monotonic()
        held.established = held.waiting = False

    def write(self, now: float) -> None:
        waits = [now - held.since for held in self._held if held.waiting]
        is_open = sum(held.established for held in self._held)
        slowest = max([self._slowest, *waits])
        self._client.record({"at": now, "held": is_open, "answers": self._answers, "slowest": round(slowest, 6)})
        self._answers, self._slowest = 0, 0.0


class Client:
    def __init__(self, asked: dict[str, Any]) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, Any] = {}
        self._answered: dict[bytes, int] = {}
        self._out = open(asked["records"], "w", encoding="ascii")  # noqa: SIM115 - closed by run()
        self._flows = [Flow(self, one) for one in asked["flows"]]
        self._holder = Holder(self, asked["held"]) if asked["held"] else None
        self._epoll.register(sys.stdin, select.EPOLLIN)

    def watch(self, one: socket.socket, of: object) -> None:
        self._watched[one.fileno()] = of
        self._epoll.register(one, select.EPOLLIN)

    def unwatch(self, one: socket.socket) -> None:
        del self._watched[one.fileno()]  # closing it takes it from epoll

    def answered(self, greeting: bytes) -> None:
        self._answered[greeting] = self._answered.get(greeting, 0) + 1

    def record(self, found: dict[str, Any]) -> None:
        self._out.write(json.dumps(found, separators=(",", ":")) + "\n")

    def run(self) -> None:
        """Until its standard input ends; then what is under way has its time."""
        record_at = time.monotonic() + _RECORD_SECONDS
        ending, lag = False, 0.0
        while not ending or any(flow.pending for flow in self._flows):
            wake_at = min([record_at] + ([] if ending else [flow.next_at() for flow in self._flows]))
            if self._holder and not ending:
                wake_at = min(wake_at, self._holder.next_at())
            events = self._epoll.poll(max(0.0, wake_at - time.monotonic()))
            lag = max(lag, time.monotonic() - wake_at)
            for fd, _events in events:
                if fd == sys.stdin.fileno():
                    ending = True
                    self._epoll.unregister(fd)
                elif fd in self._watched:
                    self._ready(self._watched[fd])
            now = time.monotonic()
            for flow in self._flows:
                flow.expire(now)
                if not ending:
                    flow.open_due(now)
            if self._holder and not ending:
                self._holder.act_due(now)
            if now >= record_at:
                self._write(now, lag)
                record_at, lag = max(record_at + _RECORD_SECONDS, now), 0.0
        self._write(time.monotonic(), lag)
        self.record({"answered_by": {name.decode(): count for name, count in sorted(self._answered.items())}})
        self._out.close()

    def _ready(self, of: Any) -> None:
        if isinstance(of, Attempt):
            of.flow.ready(of)
        elif self._holder:
            self._holder.ready(of)

    def _write(self, now: float, lag: float) -> None:
        for flow in self._flows:
            flow.write(now)
        if self._holder:
            self._holder.write(now)
        self.record({"at": now, "lag": round(lag, 6)})
        self._out.flush()


def main() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asked = json.loads(sys.stdin.readline())
    client = Client(asked)
    print("ready", flush=True)
    client.run()


if __name__ == "__main__":
    main()
