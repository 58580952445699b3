# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Events of Services and of the Node (events.k8s.io/v1), written by a separate thread, with limits.

| limit | beyond it |
|---|---|
| the same Event once in ten minutes | it is omitted |
| 25 Events at once, then one in 5 s | dropped and counted |
| 100 waiting for the API server | dropped and counted |
| 10 attempts to write one, over about a minute | dropped and counted |
"""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

from ..._core.kube.client import Api, is_temporary
from ..._core.kube.informer import backoff
from ..._core.text.errors import BallastError, shorten
from ..ports import NodeState, ServiceName
from .health import format_time

CONTROLLER = "ballast-service-proxy"
NORMAL, WARNING = "Normal", "Warning"
_SAME_SECONDS = 600
_REMEMBERED = 1000
_BURST, _REFILL_SECONDS = 25, 5.0
_WAITING = 100
_ATTEMPTS = 10
# The API allows 1024, 128 and 253 characters; shortening a note adds a remark about that.
_NOTE, _INSTANCE, _NAME = 900, 128, 230


@dataclass(frozen=True)
class Reference:
    """The object that an Event is about."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""

    def body(self) -> dict[str, str]:
        rows = {"apiVersion": "v1", "kind": self.kind, "name": self.name, "namespace": self.namespace, "uid": self.uid}
        return {key: value for key, value in rows.items() if value}


@dataclass(frozen=True)
class Event:
    regarding: Reference
    type: str  # NORMAL or WARNING
    reason: str
    action: str
    note: str = ""


def service_reference(service: ServiceName, uid: str = "") -> Reference:
    return Reference("Service", service.name, service.namespace, uid)


def node_reference(node: NodeState) -> Reference:
    return Reference("Node", node.name, uid=node.uid)


class EventWriter:
    """`connect` is called in the writer thread for each attempt, because credentials may expire. `post` may be called from
    any single thread."""

    def __init__(self, connect: Callable[[], Api], node: str, *, clock: Callable[[], float] = time.time) -> None:
        self.dropped = 0
        self._connect = connect
        self._instance = f"{CONTROLLER}-{node}"[:_INSTANCE]
        self._clock = clock
        self._waiting: queue.Queue[Optional[dict[str, Any]]] = queue.Queue(_WAITING)
        self._posted: dict[Event, float] = {}  # oldest first
        self._tokens, self._refilled_at = float(_BURST), clock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def post(self, event: Event) -> None:
        """Queue an Event; never blocks."""
        now = self._clock()
        self._forget(now)
        if event in self._posted:
            return
        if not self._take_token(now):
            self.dropped += 1
            return
        self._posted[event] = now
        try:
            self._waiting.put_nowait(self._body(event, now))
        except queue.Full:
            self.dropped += 1

    def end(self, seconds: float) -> None:
        """Write what is queued, for at most `seconds`."""
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            self._ended.set()
        self._thread.join(seconds)
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            body = self._waiting.get()
            if body is None:
                return
            self._write(body)

    def _write(self, body: dict[str, Any]) -> None:
        path = f"/apis/events.k8s.io/v1/namespaces/{body['metadata']['namespace']}/events"
        for attempt in range(_ATTEMPTS):
            try:
                self._connect().create(path, body)
                return
            except BallastError as error:
                if error.id == "core-api-conflict":  # an attempt without a response has written it
                    return
                if not is_temporary(error) or self._ended.wait(backoff(attempt)):
                    break
            except Exception:  # a bug, after which the others still have to be written
                break
        self.dropped += 1

    def _forget(self, now: float) -> None:
        for event, at in list(self._posted.items()):
            if len(self._posted) < _REMEMBERED and 0 <= now - at < _SAME_SECONDS:
                return
            del self._posted[event]

    def _take_token(self, now: float) -> bool:
        self._tokens = min(float(_BURST), self._tokens + max(0.0, now - self._refilled_at) / _REFILL_SECONDS)
        self._refilled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _body(self, event: Event, now: float) -> dict[str, Any]:
        regarding = event.regarding
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{regarding.name[:_NAME].rstrip('-.')}.{uuid.uuid4().hex[:16]}",
                "namespace": regarding.namespace or "default",
            },
            "eventTime": format_time(now),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "regarding": regarding.body(),
            "type": event.type,
            "reason": event.reason,
            "action": event.action,
            "note": shorten(event.note, limit=_NOTE),
        }
