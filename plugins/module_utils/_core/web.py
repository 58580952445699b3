# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The HTTP half of `LocalHost`: https with verification, http, and unix sockets. Engines use `Host.request`."""

from __future__ import annotations

import http.client
import socket
import ssl
import tempfile
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Optional

from .errors import Bug, PeerError
from .host import Pem, Response, Stream

_BODY_LIMIT = 64 * 2**20  # bytes kept of an answer; a list of 50,000 Services is below it


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, *, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def request(
    url: str,
    *,
    method: str,
    body: Optional[bytes],
    headers: Mapping[str, str],
    ca: Optional[Pem],
    cert: Optional[Pem],
    key: Optional[Pem],
    timeout: float,
) -> Response:
    """See `Host.request`. No redirect is followed, and no proxy of the environment is asked."""
    try:
        connection, target = _connection(url, ca=ca, cert=cert, key=key, timeout=timeout)
        with closing(connection):
            connection.request(method, target, body=body, headers=dict(headers))
            answer = connection.getresponse()
            return Response(status=answer.status, body=answer.read(_BODY_LIMIT))
    except (OSError, http.client.HTTPException) as error:  # ssl.SSLError, a missing certificate file: OSError
        raise no_answer_error(method, url, error) from error


@contextmanager
def stream(
    url: str,
    *,
    headers: Mapping[str, str],
    ca: Optional[Pem],
    cert: Optional[Pem],
    key: Optional[Pem],
    timeout: float,
) -> Iterator[Stream]:
    """See `Host.stream`."""
    try:
        connection, target = _connection(url, ca=ca, cert=cert, key=key, timeout=timeout)
    except OSError as error:
        raise no_answer_error("GET", url, error) from error
    with closing(connection):
        try:
            connection.request("GET", target, headers=dict(headers))
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise no_answer_error("GET", url, error) from error
        yield Stream(status=answer.status, lines=_lines(answer, url))


def _lines(answer: http.client.HTTPResponse, url: str) -> Iterator[bytes]:
    while True:
        try:
            line = answer.readline(_BODY_LIMIT)
        except (OSError, http.client.HTTPException) as error:
            raise no_answer_error("GET", url, error) from error
        if not line:
            return
        if not line.endswith(b"\n") and (answer.chunked or len(line) == _BODY_LIMIT):
            raise no_answer_error("GET", url, ValueError(f"a line without an end, of {len(line)} bytes"))
        yield line


def no_answer_error(method: str, url: str, error: Exception) -> PeerError:
    return PeerError(
        f"{method} {url}: no answer",
        id="core-no-answer",
        found=str(error) or type(error).__name__,
        remedy="see whether the program that serves it runs, and its log",
        page="docs/errors.md",
    )


def _connection(
    url: str, *, ca: Optional[Pem], cert: Optional[Pem], key: Optional[Pem], timeout: float
) -> tuple[http.client.HTTPConnection, str]:
    parts = urllib.parse.urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    if parts.scheme == "unix":
        path, _colon, target = parts.path.partition(":")
        return _UnixConnection(path, timeout=timeout), (target or "/") + query
    target = (parts.path or "/") + query
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.netloc, timeout=timeout), target
    if parts.scheme != "https":
        raise Bug(f"not an address that a request can go to: {url}", id="core-url")
    context = _context(ca=ca, cert=cert, key=key)
    return http.client.HTTPSConnection(parts.netloc, timeout=timeout, context=context), target


def _context(*, ca: Optional[Pem], cert: Optional[Pem], key: Optional[Pem]) -> ssl.SSLContext:
    """Verifies the peer and its name; with `ca`, by that authority alone."""
    if isinstance(ca, bytes):
        context = ssl.create_default_context(cadata=ca.decode("ascii"))
    else:
        context = ssl.create_default_context(cafile=ca)
    if cert:
        with ExitStack() as files:
            paths = [files.enter_context(_path(pem)) for pem in (cert, key) if pem]
            context.load_cert_chain(*paths)
    return context


@contextmanager
def _path(pem: Pem) -> Iterator[str]:
    """OpenSSL reads a chain from files only: from one that nobody else may read, for as long as that takes."""
    if isinstance(pem, str):
        yield pem
        return
    with tempfile.NamedTemporaryFile(prefix="ballast-") as file:
        file.write(pem)
        file.flush()
        yield file.name
