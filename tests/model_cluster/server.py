# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A model API server over real HTTP, on loopback: lists with limit and continue, watches with bookmarks and 410,
resourceVersions that conflict, patches, the subresource resize. What it is asked is counted, and it can be made to fail.
"""

from __future__ import annotations

import base64
import http.server
import json
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from tests.model_cluster import writes
from tests.model_cluster.requests import Asked, Refusal, parse_target, selects
from tests.model_cluster.store import ADDED, DELETED, MODIFIED, Object, Store

_LOOK_SECONDS = 0.05  # how often a watch looks whether it is to be cut
_READS = ("GET", "WATCH")


@dataclass
class Faults:
    """What is wrong with the server. Each may be set at any time; `Server.mend` ends all of them."""

    away: bool = False  # no request is answered: the connection is closed
    silent: bool = False  # no request is answered, and the connection stays open
    slow_seconds: float = 0.0  # before each answer
    status: int = 0  # of all answers: 503, 429, 500
    statuses: int = 0  # the next N answers have 503
    conflicts: int = 0  # the next N writes are told 409, and nothing is written
    lost_answers: int = 0  # the next N writes are done, and the connection is closed without an answer
    watches_stale: bool = False  # nothing comes by a watch, not even a bookmark
    watches_refused: bool = False  # watches are told 503
    resize_refused: Optional[tuple[int, str, str]] = None  # code, reason, message of a quota, a LimitRange, a webhook
    resize_absent: bool = False  # the subresource is not served, as before Kubernetes 1.32


class Server:
    """`calls` counts what was asked by verb and resource, as in "PATCH pods/resize"; `peak` is the most that it answered
    at one moment, watches not counted."""

    def __init__(self, store: Store, *, bookmark_seconds: float = 1.0) -> None:
        self.store = store
        self.faults = Faults()
        self.calls: Counter[str] = Counter()
        self.peak = 0
        self.configz: dict[str, Object] = {}  # by node: what its kubelet answers to /configz
        self.version = {"major": "1", "minor": "36", "gitVersion": "v1.36.4"}
        self.before_read: list[Callable[[str, Asked], None]] = []
        self.before_write: list[Callable[[str, Asked, Object], None]] = []  # may raise a Refusal
        self._bookmark_seconds = bookmark_seconds
        self._lock = threading.Lock()
        self._now = 0
        self._cuts = 0
        self._ended = False
        self._tls: Optional[ssl.SSLContext] = None
        self._http: Optional[http.server.ThreadingHTTPServer] = None

    def start(self, *, cert: Optional[Path] = None, key: Optional[Path] = None) -> str:
        """Its address. With a certificate and its key it speaks TLS."""
        handler = type("Handler", (_Handler,), {"model": self})
        server = _Http(("127.0.0.1", 0), handler)
        if cert is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(cert, key)
        self._http = server
        self._thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{server.server_address[1]}"

    def stop(self) -> None:
        assert self._http is not None
        self._ended = True
        self.mend()
        self.cut_watches()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    # Faults.

    def mend(self) -> None:
        self.faults = Faults()

    def go_away(self) -> None:
        self.faults.away = True
        self.cut_watches()

    def cut_watches(self) -> None:
        with self.store.lock:
            self._cuts += 1
            self.store.lock.notify_all()

    # Answers.

    def counted(self, verb: str, asked: Asked) -> None:
        with self._lock:
            self.calls[f"{verb} {asked.resource}"] += 1

    def entered(self) -> None:
        with self._lock:
            self._now += 1
            self.peak = max(self.peak, self._now)

    def left(self) -> None:
        with self._lock:
            self._now -= 1

    def spent(self, fault: str) -> bool:
        """Whether one of a number of faults is left; it is then used up."""
        with self._lock:
            left = getattr(self.faults, fault)
            setattr(self.faults, fault, max(0, left - 1))
            return left > 0

    def answer(self, verb: str, asked: Asked, content_type: str, body: Any) -> Object:
        if self.faults.slow_seconds:
            time.sleep(self.faults.slow_seconds)
        if self.faults.status or self.spent("statuses"):
            raise Refusal(
                self.faults.status or 503, "ServiceUnavailable", "the server is currently unable to handle the request"
            )
        if asked.collection == "/version":
            return self.version
        if asked.part == "proxy/configz":
            return self._configz(asked)
        if verb == "GET":
            for look in self.before_read:
                look(verb, asked)
            return self._read(asked)
        for check in self.before_write:
            check(verb, asked, body)
        if self.spent("conflicts"):
            raise Refusal(409, "Conflict", f'Operation cannot be fulfilled on {asked.resource} "{asked.name}"')
        if asked.part == "resize":
            self._refuse_resize(asked)
        with self.store.lock:
            return writes.WRITES[verb](self.store, asked, content_type, body)

    def _refuse_resize(self, asked: Asked) -> None:
        if self.faults.resize_absent:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        if self.faults.resize_refused:
            code, reason, message = self.faults.resize_refused
            raise Refusal(code, reason, message.format(name=asked.name))

    def _configz(self, asked: Asked) -> Object:
        if asked.name not in self.configz:
            raise writes.absent(asked)
        return {"kubeletconfig": self.configz[asked.name]}

    def _read(self, asked: Asked) -> Object:
        if asked.name:
            found = self.store.get(asked.collection, asked.name, asked.namespace)
            if found is None:
                raise writes.absent(asked)
            return found
        with self.store.lock:
            version = self.store.version
            items = [item for item in self.store.all(asked.collection) if selects(asked.params, asked.namespace, item)]
        return self._page(items, version, asked.params)

    def _page(self, items: list[Object], version: int, params: dict[str, str]) -> Object:
        """The rest of a list is as of now: a model's reader is to stand that. A forgotten one is 410."""
        limit, start = int(params.get("limit", "0")) or len(items), 0
        if "continue" in params:
            word, _colon, of = base64.b64decode(params["continue"]).decode().partition(":")
            start, version = int(word), int(of)
            if version < self.store.forgotten:
                raise Refusal(410, "Expired", "The provided continue parameter is too old")
        metadata = {"resourceVersion": str(version)}
        if start + limit < len(items):
            metadata["continue"] = base64.b64encode(f"{start + limit}:{version}".encode()).decode()
        return {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items[start : start + limit]}

    # Watches.

    def watch(self, asked: Asked, send: Callable[[Object], None]) -> None:
        """Until it is cut, or `timeoutSeconds` are over."""
        if self.faults.watches_refused or self.faults.status:
            raise Refusal(503, "ServiceUnavailable", "the server is currently unable to handle the request")
        position = int(asked.params.get("resourceVersion") or self.store.version)
        if position < self.store.forgotten:
            raise Refusal(410, "Expired", f"too old resource version: {position} ({self.store.forgotten})")
        cuts, end = self._cuts, time.monotonic() + float(asked.params.get("timeoutSeconds", "1800"))
        next_bookmark = time.monotonic() + self._bookmark_seconds
        send({})  # the head of the answer goes out before there is anything to tell
        while cuts == self._cuts and not self._ended and time.monotonic() < end:
            with self.store.lock:
                if not self.store.since(position):
                    self.store.lock.wait(_LOOK_SECONDS)
                changes, now = self.store.since(position), self.store.version
            if self.faults.watches_stale:
                time.sleep(_LOOK_SECONDS)
                continue
            for change in changes:
                event = self._event(asked, change.kind, change.before, change.item)
                if change.collection == asked.collection and event is not None:
                    send(event)
            position = max(now, position)
            if time.monotonic() > next_bookmark:
                next_bookmark = time.monotonic() + self._bookmark_seconds
                send({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(position)}}})

    def _event(self, asked: Asked, kind: str, before: Optional[Object], item: Object) -> Optional[Object]:
        """An object that a selector shows no longer is deleted to who watches by it."""
        was = selects(asked.params, asked.namespace, before)
        is_now = kind != DELETED and selects(asked.params, asked.namespace, item)
        if is_now:
            return {"type": MODIFIED if was else ADDED, "object": item}
        return {"type": DELETED, "object": item} if was else None


class _Http(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no fault of the model's."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Server

    def setup(self) -> None:
        if self.model._tls is not None:
            self.request = self.model._tls.wrap_socket(self.request, server_side=True)
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def finish(self) -> None:
        super().finish()
        if self.model._tls is not None:  # the server closes but the socket that this one was made of
            self.request.close()

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def _serve(self) -> None:
        model, asked = self.model, parse_target(self.path)
        self.close_connection = True
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        while model.faults.silent and not model._ended:
            time.sleep(_LOOK_SECONDS)
        if model.faults.away or model._ended:
            return
        if asked.params.get("watch") in ("1", "true"):
            model.counted("WATCH", asked)
            self._stream(asked)
            return
        model.counted("LIST" if self.command == "GET" and not asked.name else self.command, asked)
        model.entered()
        try:
            told = model.answer(
                self.command, asked, self.headers.get("Content-Type", ""), json.loads(body) if body else None
            )
            code = 201 if self.command == "POST" else 200
        except Refusal as refusal:
            told, code = refusal.status, refusal.code
        finally:
            model.left()
        if self.command not in _READS and model.spent("lost_answers"):
            return
        self._send(code, json.dumps(told).encode())

    def _send(self, code: int, data: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, asked: Asked) -> None:
        begun = False

        def send(event: Object) -> None:
            nonlocal begun
            if not begun:
                begun = True
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
            if event:
                data = json.dumps(event).encode() + b"\n"
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

        try:
            self.model.watch(asked, send)
            if not self.model.faults.away:
                self.wfile.write(b"0\r\n\r\n")
        except Refusal as refusal:
            self._send(refusal.code, json.dumps(refusal.status).encode())

    def log_message(self, *words: object) -> None:
        pass
