# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Probes an extension API server: requests its discovery of the group version, as kube-aggregator does.

The server is verified as the API server does: by the APIService's caBundle, for SERVICE.NAMESPACE.svc.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from dataclasses import dataclass

from ..api_services import split_address
from .connect import fault_of

_SECONDS = 5.0  # kube-aggregator, remote available controller
_TRIES = 3
_PAUSE_SECONDS = 0.2
_LINE_BYTES = 8 * 1024
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})( [^\r\n]*)?\r?\n")
# X509_V_FLAG_PARTIAL_CHAIN: as in Go, a trusted certificate need not be self-signed. Python names it since 3.10.
_PARTIAL_CHAIN = 0x80000


class ProbeFailed(Exception):
    """The text says why."""


class UnknownHost(Exception):
    """The host name has no address."""


@dataclass(frozen=True)
class Identity:
    """The probe's identity: it has the client certificate of a front proxy, whose headers name the user."""

    certificate: str  # paths
    key: str
    user: str
    group: str = "system:authenticated"


@dataclass(frozen=True)
class DiscoveryRequest:
    host: str  # "wardle.default.svc"
    port: int
    address: str  # "127.0.0.1:8443"; empty to dial the host by its name
    path: str  # "/apis/wardle.example.com/v1"
    bundle: str  # PEM; empty for the authorities of this machine
    verified: bool = True

    @property
    def url(self) -> str:
        return f"https://{self.host}:{self.port}{self.path}"


async def probe(question: DiscoveryRequest, identity: Identity) -> None:
    """Raises ProbeFailed when three tries fail, UnknownHost when the host name has no address."""
    for tries_left in reversed(range(_TRIES)):
        try:
            status = await asyncio.wait_for(_status(question, identity), _SECONDS)
        except asyncio.TimeoutError:
            raise ProbeFailed(f"timed out waiting for {question.url}") from None
        except (OSError, EOFError, ValueError) as error:
            if isinstance(error, socket.gaierror) and error.errno == socket.EAI_NONAME:
                raise UnknownHost(question.host) from None
            fault = fault_of(error)
        else:
            if 200 <= status < 300:
                return
            fault = f"bad status from {question.url}: {status}"
        if tries_left:
            await asyncio.sleep(_PAUSE_SECONDS)
    place = f"{question.url} at {question.address}" if question.address else question.url
    raise ProbeFailed(f"failing or missing response from {place}: {fault}")


async def _status(question: DiscoveryRequest, identity: Identity) -> int:
    host, port = split_address(question.address) if question.address else (question.host, question.port)
    reader, writer = await asyncio.open_connection(
        host, port, ssl=_context(question, identity), server_hostname=question.host, limit=_LINE_BYTES
    )
    try:
        writer.write(_request(question, identity))
        await writer.drain()
        line = await reader.readline()
    finally:
        writer.transport.abort()
    match = _STATUS.fullmatch(line)
    if match is None:
        raise ValueError("the answer is not HTTP")
    return int(match[1])


def _request(question: DiscoveryRequest, identity: Identity) -> bytes:
    lines = [
        f"GET {question.path} HTTP/1.1",
        f"Host: {question.host}:{question.port}",
        "Accept: application/json",
        "User-Agent: ballast-aggregation",
        f"X-Remote-User: {identity.user}",
        f"X-Remote-Group: {identity.group}",
        "Connection: close",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def _context(question: DiscoveryRequest, identity: Identity) -> ssl.SSLContext:
    """Made for each request, so that a renewed certificate is used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= _PARTIAL_CHAIN
    if not question.verified:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif question.bundle:
        context.load_verify_locations(cadata=question.bundle)
    else:
        context.load_default_certs()
    context.load_cert_chain(identity.certificate, identity.key)
    return context
