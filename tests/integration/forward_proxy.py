# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A forward proxy for plain HTTP, which sends what it is asked for to one registry, and notes hosts and passwords."""

from __future__ import annotations

import base64
import http.client
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_PASSED = ("Accept", "Range")


@dataclass
class ForwardProxy:
    address: str
    port: int = 0
    asked: set[tuple[str, str]] = field(default_factory=set)  # (host, "user:password")


@contextmanager
def forward_proxy(address: str, to: tuple[str, int]) -> Iterator[ForwardProxy]:
    """GET and HEAD of any host are answered by the registry at `to`."""
    served = ForwardProxy(address)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urllib.parse.urlsplit(self.path)
            credentials = self.headers.get("Proxy-Authorization", "").removeprefix("Basic ")
            served.asked.add((url.netloc, base64.b64decode(credentials).decode()))
            with closing(http.client.HTTPConnection(*to, timeout=60)) as connection:
                headers = {name: self.headers[name] for name in _PASSED if name in self.headers}
                connection.request(self.command, f"{url.path}?{url.query}", headers=headers)
                answer = connection.getresponse()
                body = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name not in ("Transfer-Encoding", "Connection"):
                        self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_arguments: object) -> None:
            """Nothing: `asked` says it."""

    server = ThreadingHTTPServer((address, 0), Handler)
    served.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
