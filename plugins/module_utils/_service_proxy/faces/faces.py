# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What others see of `ballast-service-proxy`: health, metrics, health check node ports, Events. One thread serves all but
Events.

    faces = Faces(configuration, connect=..., log=log)
    faces.start()            # HostError if a port is taken and bindAddressHardFail is set
    faces.report(report)     # the loop's Sink: callable from any thread, never blocks
    faces.reload(configuration)
    faces.close()

| address | paths |
|---|---|
| healthzBindAddress | /healthz, /livez, /readyz |
| metricsBindAddress | /healthz (`ok`), /proxyMode (`nftables`), /configz, /metrics |
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from ..._agent.http_listener import JSON, Answer, HttpListener, Request, open_place
from ..._agent.log import Log
from ..._agent.open_files import raise_open_files
from ..._agent.scrape import metrics_answer
from ..._core.kube.client import Api
from ..._core.text.errors import BallastError
from ..._core.text.ip_families import with_port
from ..._rules.model import NFTABLES
from ..configuration import Configuration
from ..ports import Failed, HealthChecks, NodeState, Programmed, Queued, Refused, Repaired, Report
from .events import NORMAL, WARNING, Event, EventWriter, node_reference, service_reference
from .health import Health
from .health_check_node_ports import HealthCheckNodePorts
from .messages import MESSAGES
from .metrics import Metrics

_AGAIN_SECONDS = 5.0  # interval of attempts to open a port that is taken
_END_SECONDS = 5.0
_MOST_WAITING = 256  # reports
_ACCEPT_SECONDS = 0.005  # load balancers query /healthz from many machines


@dataclass(frozen=True)
class _Server:
    what: str  # its name in log lines
    key: str  # the key of its address
    place: tuple[str, int]
    paths: Mapping[str, Callable[[], Answer]]
    reason: str  # of the Event if its address is taken


class Faces:
    def __init__(
        self,
        configuration: Configuration,
        *,
        connect: Callable[[], Api],
        log: Log,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`connect` returns the API to which Events are written."""
        self._configuration = configuration
        self._log = log
        self._clock = clock
        self._node = NodeState(configuration.node_name)
        self._health = Health(configuration.sync_seconds)
        self._metrics = Metrics()
        self._events = EventWriter(connect, configuration.node_name, clock=clock)
        self._node_ports = HealthCheckNodePorts(configuration.node_name, self._is_healthy, self._events.post)
        self._waiting: deque[Report] = deque()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="faces", daemon=True)
        self._listeners: dict[str, HttpListener] = {}
        self._servers = (
            _Server(
                "health",
                "healthzBindAddress",
                configuration.healthz,
                self._health_paths(),
                "FailedToStartProxierHealthcheck",
            ),
            _Server(
                "metrics",
                "metricsBindAddress",
                configuration.metrics,
                self._metrics_paths(),
                "FailedToStartMetricServer",
            ),
        )

    def start(self) -> None:
        """HostError if a port is taken and the configuration makes that an error."""
        raise_open_files()  # each health check node port is a socket, and a cluster may have thousands
        self._events.start()
        self._thread.start()
        failed = asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()
        if failed and self._configuration.must_bind:
            self.close()
            raise failed[0]
        self._loop.call_soon_threadsafe(self._begin)

    def report(self, report: Report) -> None:
        """Pass on a report. Reports of every change wait until a request needs them: waking the thread costs more than
        processing them."""
        self._waiting.append(report)
        if isinstance(report, (Queued, Programmed)) and len(self._waiting) < _MOST_WAITING:
            return
        with suppress(RuntimeError):  # already closed
            self._loop.call_soon_threadsafe(self._take_waiting)

    def reload(self, configuration: Configuration) -> None:
        """Use these settings from now on, still at the original addresses."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._reload, configuration)

    def close(self) -> None:
        """Stop. Requests are served until then; queued Events get a few seconds."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_SECONDS)
        self._events.end(_END_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        for listener in self._listeners.values():
            listener.close()
        self._node_ports.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    def _begin(self) -> None:
        self._events.post(Event(node_reference(self._node), NORMAL, "Starting", "StartKubeProxy"))
        self._again = asyncio.ensure_future(self._try_again())

    async def _try_again(self) -> None:
        while True:
            await asyncio.sleep(_AGAIN_SECONDS)
            await self._open()
            self._node_ports.try_again()

    async def _open(self) -> list[BallastError]:
        """Listen on the addresses that are not open yet. Returns an error for each that cannot be opened."""
        failed = []
        for server in self._servers:
            if server.what in self._listeners:
                continue
            try:
                sockets = open_place(*server.place)
            except OSError as error:
                failed.append(self._not_open(server, error))
                continue
            answer = partial(self._answer, server.paths)
            self._listeners[server.what] = HttpListener(answer, sockets, accept_seconds=_ACCEPT_SECONDS)
            self._log.event("listening", what=server.what, address=with_port(*server.place))
        return failed

    def _not_open(self, server: _Server, error: OSError) -> BallastError:
        address = with_port(*server.place)
        reason = error.strerror or str(error)
        problem = MESSAGES.error(
            "service-proxy-address-taken", what=server.what, address=address, key=server.key, found=reason
        )
        event = Event(node_reference(self._node), WARNING, server.reason, "Listen", problem.in_one_line)
        self._events.post(event)
        return problem

    def _reload(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._health.sync_seconds = configuration.sync_seconds

    def _answer(self, paths: Mapping[str, Callable[[], Answer]], request: Request) -> Answer:
        self._take_waiting()
        face = paths.get(request.path)
        return Answer(404, f"available: {', '.join(paths)}\n".encode()) if face is None else face()

    def _is_healthy(self) -> bool:
        self._take_waiting()
        return self._health.is_healthy(self._clock())

    def _take_waiting(self) -> None:
        while self._waiting:
            self._take(self._waiting.popleft())

    def _take(self, report: Report) -> None:
        self._metrics.take(report)
        self._health.take(report)
        if isinstance(report, NodeState):
            self._node = report
        elif isinstance(report, HealthChecks):
            self._node_ports.take(report)
        elif isinstance(report, Refused):
            about = service_reference(report.service, report.uid)
            self._events.post(Event(about, WARNING, "FailedToProgramService", "ProgramService", report.text))
        elif isinstance(report, Failed):
            about = node_reference(self._node)
            self._events.post(Event(about, WARNING, "FailedToProgramRules", "ProgramRules", report.text))
        elif isinstance(report, Repaired):
            self._events.post(
                Event(node_reference(self._node), WARNING, "RulesRepaired", "RepairRules", _culprit(report))
            )

    def _health_paths(self) -> Mapping[str, Callable[[], Answer]]:
        return {
            "/healthz": lambda: self._count_probe("healthz", self._health.healthz(self._clock())),
            "/livez": lambda: self._count_probe("livez", self._health.livez(self._clock())),
            "/readyz": lambda: self._health.readyz(self._clock()),
        }

    def _count_probe(self, face: str, answer: Answer) -> Answer:
        self._metrics.count_probe(face, answer.status)
        return answer

    def _metrics_paths(self) -> Mapping[str, Callable[[], Answer]]:
        return {
            "/healthz": lambda: Answer(200, b"ok"),
            "/proxyMode": lambda: Answer(200, NFTABLES.encode()),
            "/configz": lambda: Answer(200, _json(self._configuration.configz()), JSON),
            "/metrics": self._scrape,
        }

    def _scrape(self) -> Answer:
        self._metrics.events_dropped = self._events.dropped
        return metrics_answer(self._metrics.library, self._metrics.registry)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _culprit(report: Repaired) -> str:
    by = f" by {report.program or 'a process'} (pid {report.pid})" if report.pid else ""
    return f"rules of IPv{report.family} were changed{by} and are being repaired"
