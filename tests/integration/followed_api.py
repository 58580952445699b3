# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""An API server in this process, of what kube-proxy follows: lists by pages, watches from a version, and the faults of a real
one: it goes away, it closes watches, it forgets old versions. kube-proxy can follow it too."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Optional
from urllib.parse import parse_qs, urlsplit

from tests.integration.certificates import issue

PORT = 8802
PATHS = {
    "Service": "/api/v1/services",
    "Node": "/api/v1/nodes",
    "EndpointSlice": "/apis/discovery.k8s.io/v1/endpointslices",
    "ServiceCIDR": "/apis/networking.k8s.io/v1/servicecidrs",
}
VERSIONS = {
    "Service": "v1",
    "Node": "v1",
    "EndpointSlice": "discovery.k8s.io/v1",
    "ServiceCIDR": "networking.k8s.io/v1",
}
CLUSTER_WIDE = ("Node", "ServiceCIDR")
_FAILURE = {"apiVersion": "v1", "kind": "Status", "status": "Failure"}
_KINDS = {path: kind for kind, path in PATHS.items()}
Item = dict[str, Any]


class FollowedApi:
    def __init__(self, place: Path) -> None:
        """`place` gets its certificates: `ca.crt` is what a client has to know."""
        authority = issue(str(place / "ca.crt"), None)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(issue(str(place / "api.crt"), authority, "IP:127.0.0.1"), str(place / "api.key"))
        self.items: dict[str, dict[tuple[str, str], Item]] = {kind: {} for kind in PATHS}
        self.posts: list[Item] = []
        self.lists = 0
        self.last_words = b""
        self._events: list[tuple[int, str, str, Item]] = []  # version, kind, type, object
        self._version = 1
        self._oldest = 0  # a watch from before that is refused
        self._round = 0  # watches of an earlier one end
        self._changed = threading.Condition()
        self._servers: list[_Server] = []

    def put(self, kind: str, item: Item) -> None:
        with self._changed:
            self._put(kind, item)
            self._changed.notify_all()

    def put_all(self, kind: str, items: list[Item]) -> None:
        with self._changed:
            for item in items:
                self._put(kind, item)
            self._changed.notify_all()

    def remove(self, kind: str, name: str, namespace: str = "default") -> None:
        with self._changed:
            item = self.items[kind].pop((namespace, name), None)
            if item is not None:
                self._version += 1
                metadata = {**item["metadata"], "resourceVersion": str(self._version)}
                self._events.append((self._version, kind, "DELETED", {**item, "metadata": metadata}))
                self._changed.notify_all()

    def do(self, kind: str, name: str, item: Optional[Item]) -> None:
        """Put an object, or remove it where `item` is None."""
        if item is None:
            self.remove(kind, name, "" if kind in CLUSTER_WIDE else "default")
        else:
            self.put(kind, item)

    def clear(self) -> None:
        for kind, items in self.items.items():
            for namespace, name in list(items):
                self.remove(kind, name, namespace)

    def lie(self, kind: str, item: Item) -> None:
        """Tell those that watch of an object that it does not have."""
        with self._changed:
            self._version += 1
            self._events.append((self._version, kind, "MODIFIED", self._stored(kind, item)))
            self._changed.notify_all()

    def close_watches(self, *, forget: bool = False, last_words: bytes = b"") -> None:
        """With `forget`, who comes back with an old version has to list. `last_words` is what the watches say at their end."""
        with self._changed:
            self._round += 1
            self.last_words = last_words
            if forget:
                self._version += 1
                self._oldest = self._version
                self._events.clear()
            self._changed.notify_all()

    def go_away(self) -> None:
        servers, self._servers = self._servers, []
        for server in servers:
            server.shutdown()
            server.server_close()
        self.close_watches()

    def come_back(self) -> None:
        """In the network namespace that this thread is in, which may be one of several."""
        server = _Server(("127.0.0.1", PORT), _handler(self))
        server.tls = self._tls
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        self._servers.append(server)

    def page(self, kind: str, query: dict[str, list[str]]) -> Item:
        limit, start = int(query.get("limit", ["500"])[0]), int(query.get("continue", ["0"])[0])
        with self._changed:
            self.lists += 1
            chosen = [item for _key, item in sorted(self.items[kind].items()) if _selected(item, query)]
            metadata: Item = {"resourceVersion": str(self._version)}
        if len(chosen) > start + limit:
            metadata["continue"] = str(start + limit)
        head = {"apiVersion": VERSIONS[kind], "kind": f"{kind}List", "metadata": metadata}
        return {**head, "items": chosen[start : start + limit]}

    def events(self, kind: str, query: dict[str, list[str]]) -> Iterator[Item]:
        version = int(query["resourceVersion"][0])
        with self._changed:
            begun = self._round
            if version < self._oldest:
                yield {"type": "ERROR", "object": {**_FAILURE, "code": 410, "reason": "Expired", "message": "too old"}}
                return
        while True:
            with self._changed:
                if self._round == begun and self._version <= version:
                    self._changed.wait(timeout=0.5)
                if self._round != begun:
                    return
                new = [event for event in self._events if event[0] > version and event[1] == kind]
                version = self._version
            for _version, _kind, what, item in new:
                if _selected(item, query):
                    yield {"type": what, "object": item}
            if not new:
                head = {"apiVersion": VERSIONS[kind], "kind": kind}
                yield {"type": "BOOKMARK", "object": {**head, "metadata": {"resourceVersion": str(version)}}}

    def _put(self, kind: str, item: Item) -> None:
        self._version += 1
        stored = self._stored(kind, item)
        key = (stored["metadata"].get("namespace", ""), stored["metadata"]["name"])
        what = "MODIFIED" if key in self.items[kind] else "ADDED"
        self.items[kind][key] = stored
        self._events.append((self._version, kind, what, stored))

    def _stored(self, kind: str, item: Item) -> Item:
        metadata = {**item["metadata"], "resourceVersion": str(self._version)}
        return {"apiVersion": VERSIONS[kind], "kind": kind, **item, "metadata": metadata}


def _selected(item: Item, query: dict[str, list[str]]) -> bool:
    """Selectors as the service proxy and kube-proxy have them."""
    labels = item["metadata"].get("labels") or {}
    for selector in (one for given in query.get("labelSelector", []) for one in given.split(",")):
        name, equal, value = selector.partition("=")
        if (labels.get(name) != value) if equal else (name.lstrip("!") in labels):
            return False
    return all(_field_holds(item, selector) for selector in query.get("fieldSelector", []))


def _field_holds(item: Item, selector: str) -> bool:
    """metadata.name=n1, spec.clusterIP!=None."""
    path, _equal, value = selector.partition("=")
    found: Any = item
    for key in path.removesuffix("!").split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return (found == value) is not path.endswith("!")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128
    tls: ssl.SSLContext

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            wrapped = self.tls.wrap_socket(request, server_side=True)
        except OSError:
            self.shutdown_request(request)
            return
        super().process_request_thread(wrapped, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed."""


def _handler(api: FollowedApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_words: Any) -> None:
            pass

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = parse_qs(url.query)
            kind = _KINDS.get(url.path)
            if kind is None:
                self._answer(404, {**_FAILURE, "code": 404})
            elif "sendInitialEvents" in query:  # a client lists then
                self._answer(422, {**_FAILURE, "code": 422, "reason": "Invalid"})
            elif "watch" in query:
                self._watch(api.events(kind, query))
            else:
                self._answer(200, api.page(kind, query))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            api.posts.append(body)
            self._answer(201, body)

        do_PATCH = do_POST

        def _watch(self, events: Iterator[Item]) -> None:
            self.close_connection = True
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Connection", "close")
            self.end_headers()
            with suppress(OSError):
                for event in events:
                    self.wfile.write(json.dumps(event).encode() + b"\n")
                    self.wfile.flush()
                self.wfile.write(api.last_words)

        def _answer(self, status: int, body: Item) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


@contextmanager
def followed(place: Path) -> Iterator[FollowedApi]:
    """At 127.0.0.1:PORT of the network namespace that this thread is in."""
    api = FollowedApi(place)
    api.come_back()
    try:
        yield api
    finally:
        api.go_away()
