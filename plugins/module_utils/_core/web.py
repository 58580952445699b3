# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The HTTP half of `LocalHost`: https with verification, http, and unix sockets. Engines use `Host.request`."""

from __future__ import annotations

import http.client
import socket
import ssl
import urllib.parse
from collections.abc import Mapping
from contextlib import closing
from typing import Optional

from .errors import Bug, PeerError
from .host import Response

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
    ca: Optional[str],
    cert: Optional[str],
    key: Optional[str],
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


def no_answer_error(method: str, url: str, error: Exception) -> PeerError:
    return PeerError(
        f"{method} {url}: no answer",
        id="core-no-answer",
        found=str(error) or type(error).__name__,
        remedy="see whether the program that serves it runs, and its log",
        page="docs/errors.md",
    )


def _connection(
    url: str, *, ca: Optional[str], cert: Optional[str], key: Optional[str], timeout: float
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
    # Verifies the peer and its name; with `ca`, by that authority alone.
    context = ssl.create_default_context(cafile=ca)
    if cert:
        context.load_cert_chain(cert, key)
    return http.client.HTTPSConnection(parts.netloc, timeout=timeout, context=context), target
