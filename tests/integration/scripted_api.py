# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An API server that answers what a test gives it: lists and watches of what kube-proxy follows, and the Events that it gets."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PORT = 8801
_LISTS = {
    "/api/v1/services": ("v1", "Service"),
    "/api/v1/nodes": ("v1", "Node"),
    "/apis/discovery.k8s.io/v1/endpointslices": ("discovery.k8s.io/v1", "EndpointSlice"),
    "/apis/networking.k8s.io/v1/servicecidrs": ("networking.k8s.io/v1", "ServiceCIDR"),
}
Object = dict[str, Any]


class ScriptedApi:
    def __init__(self) -> None:
        self.events: list[Object] = []
        self._objects: dict[str, dict[str, Object]] = {path: {} for path in _LISTS}
        self._watches: dict[str, list[queue.Queue[Object]]] = {path: [] for path in _LISTS}
        self._version = 1
        self._lock = threading.Lock()

    def put(self, item: Object) -> None:
        path = next(path for path, (_version, kind) in _LISTS.items() if kind == item["kind"])
        with self._lock:
            self._version += 1
            name, there = item["metadata"]["name"], self._objects[path]
            kind = "MODIFIED" if name in there else "ADDED"
            there[name] = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self._version)}}
            for watch in self._watches[path]:
                watch.put({"type": kind, "object": there[name]})

    def listed(self, path: str) -> Object:
        version, kind = _LISTS[path]
        with self._lock:
            metadata, items = {"resourceVersion": str(self._version)}, list(self._objects[path].values())
        return {"apiVersion": version, "kind": f"{kind}List", "metadata": metadata, "items": items}

    def watch(self, path: str) -> queue.Queue[Object]:
        made: queue.Queue[Object] = queue.Queue()
        with self._lock:
            self._watches[path].append(made)
        return made


@contextmanager
def served() -> Iterator[ScriptedApi]:
    """At 127.0.0.1:PORT of the network namespace that this thread is in."""
    api = ScriptedApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_words: Any) -> None:
            pass

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = parse_qs(url.query)
            if url.path not in _LISTS:
                self._answer(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404})
            elif "sendInitialEvents" in query:  # a client lists then
                status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422, "reason": "Invalid"}
                self._answer(422, status)
            elif "watch" in query:
                self._watch(url.path)
            else:
                self._answer(200, api.listed(url.path))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            if body.get("kind") == "Event":
                api.events.append(body)
            self._answer(201, body)

        do_PATCH = do_POST

        def _watch(self, path: str) -> None:
            watch = api.watch(path)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                while True:
                    line = json.dumps(watch.get()).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                    self.wfile.flush()
            except OSError:
                return

        def _answer(self, status: int, body: Object) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
