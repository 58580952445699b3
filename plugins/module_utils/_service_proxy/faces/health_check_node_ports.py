# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The health check node ports of Services, where a cloud load balancer queries each node whether it has endpoints of the
Service.

A listener for each address and port is opened and closed as Services change: on addresses of each family of a Service, about
its endpoints of that family. If an address and port is taken, an Event of the Service reports it, and it is retried until it
can be opened.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from functools import partial

from ..._agent.http_listener import JSON, Answer, HttpListener, Request, open_sockets
from ..ports import HealthCheck, HealthChecks
from .events import WARNING, Event, service_reference

_ACCEPT_SECONDS = 0.005  # load balancers query each of these from many machines
_EVERYWHERE = {4: ("0.0.0.0",), 6: ("::",)}  # of that family only
REASON = "FailedToStartServiceHealthcheck"
_Place = tuple[str, int]


class HealthCheckNodePorts:
    """Runs in the event loop of the faces. `is_healthy` says whether the rules of this node are up to date."""

    def __init__(self, node: str, is_healthy: Callable[[], bool], post: Callable[[Event], None]) -> None:
        self._node = node
        self._is_healthy = is_healthy
        self._post = post
        self._wanted: dict[_Place, HealthCheck] = {}
        self._open: dict[_Place, HttpListener] = {}

    def take(self, report: HealthChecks) -> None:
        places = {family: given or _EVERYWHERE[family] for family, given in report.addresses.items()}
        self._wanted = {(address, check.port): check for check in report.checks for address in places[check.family]}
        for place in self._open.keys() - self._wanted.keys():
            self._open.pop(place).close()
        self.try_again()

    def try_again(self) -> None:
        """Open what could not be opened before."""
        for place in sorted(self._wanted.keys() - self._open.keys()):
            try:
                sockets = _open(place)
            except OSError as error:
                self._fail(place, error)
                continue
            answer = partial(self._answer, place)
            self._open[place] = HttpListener(answer, sockets, accept_seconds=_ACCEPT_SECONDS)

    @property
    def closed(self) -> int:
        """The number of addresses and ports that should be open and could not be opened."""
        return len(self._wanted.keys() - self._open.keys())

    def close(self) -> None:
        for listener in self._open.values():
            listener.close()
        self._open.clear()

    def _fail(self, place: _Place, error: OSError) -> None:
        check, (address, port) = self._wanted[place], place
        service = f"{check.service.namespace}/{check.service.name}"
        where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        note = f"node {self._node} cannot answer health checks of {service} at {where}: {error.strerror}"
        self._post(Event(service_reference(check.service), WARNING, REASON, "Listen", note))

    def _answer(self, place: _Place, _request: Request) -> Answer:
        check, healthy = self._wanted[place], self._is_healthy()
        body = {
            "service": {"namespace": check.service.namespace, "name": check.service.name},
            "localEndpoints": check.local_endpoints,
            "serviceProxyHealthy": healthy,
        }
        weight = ("X-Load-Balancing-Endpoint-Weight", str(check.local_endpoints))
        status = 200 if healthy and check.local_endpoints else 503
        return Answer(status, json.dumps(body, indent="\t").encode(), JSON, (weight,))


def _open(place: _Place) -> list[socket.socket]:
    return open_sockets([(socket.AF_INET6 if ":" in place[0] else socket.AF_INET, place)])
