# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The HTTP part of `LocalHost`: https with verification, http, and unix sockets. Engines use `Host.request`.

One deadline covers a whole request: name lookup, connection, TLS, headers and body. So every socket operation gets only the
time that remains, in whatever pieces the server sends its answer.
"""

from __future__ import annotations

import functools
import http.client
import ipaddress
import os
import socket
import ssl
import tempfile
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any, NamedTuple, Optional

from ..text.errors import BallastError, Bug, PeerError
from ..text.host_messages import MESSAGES
from .bounded import PIECE, Deadline
from .host import Pem, Response, Stream
from .local_files import host_error

LINE_LIMIT = 8 * 2**20  # bytes of a line of a stream; etcd keeps no object above 1.5 MiB
_PEM_LIMIT = 2**20
_SENDING = (OSError, http.client.HTTPException)  # ssl.SSLError and a missing certificate file are OSErrors
_FAILURES = (*_SENDING, ValueError)  # while reading an answer: http.client parses sizes with int()


class Tls(NamedTuple):
    """How to verify the server and authenticate this client."""

    ca: Optional[Pem]
    cert: Optional[Pem]
    key: Optional[Pem]
    peer: Optional[Pem] = None  # the exact certificate that the server must have


class _Timed(socket.socket):
    """A socket whose operations all end at one deadline, give or take one percent of the remaining time: setting a timeout
    is a system call, and a watch reads a hundred times a second."""

    deadline: Optional[Deadline] = None
    _seconds = 0.0  # the timeout that was set last

    def recv_into(self, *args: Any, **options: Any) -> int:
        self._renew()
        return super().recv_into(*args, **options)

    def send(self, *args: Any, **options: Any) -> int:
        self._renew()
        return super().send(*args, **options)

    def _renew(self) -> None:
        if self.deadline is not None:
            left = self.deadline.seconds_left()
            if abs(self._seconds - left) > left / 100:
                self.settimeout(left)
                self._seconds = left


class _TimedPlain(_Timed):
    def sendall(self, *args: Any, **options: Any) -> None:
        self._renew()
        super().sendall(*args, **options)  # the timeout applies to the whole of sendall


class _TimedTls(_Timed, ssl.SSLSocket):
    """The `sendall` of ssl.SSLSocket calls `send` repeatedly, which renews the timeout."""


class _Connection(http.client.HTTPConnection):
    """A connection to a unix socket or a host, with TLS if there is a context."""

    sock: Any

    def __init__(
        self,
        netloc: str,
        deadline: Deadline,
        *,
        path: str = "",
        context: Optional[ssl.SSLContext] = None,
        peer: bytes = b"",
    ) -> None:
        self.default_port = 80 if context is None else 443
        super().__init__(netloc)
        self._deadline = deadline
        self._path = path
        self._context = context
        self._peer = peer

    def connect(self) -> None:
        plain = self._unix() if self._path else _connect(self.host, self.port, self._deadline)
        if self._context is None:
            self.sock = plain
        else:
            try:
                plain.settimeout(self._deadline.seconds_left())
                self.sock = self._context.wrap_socket(plain, server_hostname=self.host)
                if self._peer and self.sock.getpeercert(binary_form=True) != self._peer:
                    raise ssl.SSLError("the server's certificate differs from the expected one")
            except BaseException:
                plain.close()
                raise
        self.set_deadline(self._deadline)

    def set_deadline(self, deadline: Deadline) -> None:
        self.sock.deadline = deadline

    def _unix(self) -> _TimedPlain:
        plain = _TimedPlain(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            plain.settimeout(self._deadline.seconds_left())
            plain.connect(self._path)
        except PermissionError as error:
            plain.close()
            raise host_error("connect to", self._path, error) from error
        except BaseException:
            plain.close()
            raise
        return plain


def request(
    url: str,
    tls: Tls,
    *,
    method: str,
    body: Optional[bytes],
    headers: Mapping[str, str],
    timeout: float,
    limit: int,
) -> Response:
    """See `Host.request`. Follows no redirects and ignores the proxies named in the environment."""
    try:
        connection, target = _connection(url, tls, Deadline(timeout))
        with closing(connection):
            connection.request(method, target, body=body, headers=dict(headers))
            return _response(connection, method, url, limit)
    except _SENDING as error:
        raise no_answer_error(method, url, error) from error


def _response(connection: _Connection, method: str, url: str, limit: int) -> Response:
    try:
        with closing(connection.getresponse()) as answer:
            return Response(status=answer.status, body=_body(answer, method, url, limit))
    except ValueError as error:
        raise no_answer_error(method, url, error) from error


def _body(answer: http.client.HTTPResponse, method: str, url: str, limit: int) -> bytes:
    if method != "HEAD" and (answer.length or 0) > limit:
        raise answer_too_large(method, url, limit)
    data, piece = bytearray(), bytearray(PIECE)
    # Reuses one buffer: http.client would keep the many tiny chunks that a server may send as a list.
    while True:
        count = answer.readinto(piece)
        if not count:
            break
        data += memoryview(piece)[:count]
        if len(data) > limit:
            raise answer_too_large(method, url, limit)
    if method != "HEAD" and answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    return bytes(data)


@contextmanager
def stream(url: str, tls: Tls, *, headers: Mapping[str, str], timeout: float) -> Iterator[Stream]:
    """See `Host.stream`."""
    with ExitStack() as stack:
        try:
            connection, target = _connection(url, tls, Deadline(timeout))
            stack.enter_context(closing(connection))
            connection.request("GET", target, headers=dict(headers))
            held = connection.sock  # http.client drops its reference if the server will close the connection
            answer = stack.enter_context(closing(connection.getresponse()))
        except _FAILURES as error:
            raise no_answer_error("GET", url, error) from error
        yield Stream(status=answer.status, lines=_lines(answer, held, url, timeout))


def _lines(answer: http.client.HTTPResponse, sock: Any, url: str, timeout: float) -> Iterator[bytes]:
    while True:
        sock.deadline = Deadline(timeout)
        try:
            line = answer.readline(LINE_LIMIT + 1)
        except _FAILURES as error:
            raise no_answer_error("GET", url, error) from error
        if not line:
            return
        if len(line) > LINE_LIMIT:
            raise answer_too_large("a line of GET", url, LINE_LIMIT)
        if not line.endswith(b"\n") and answer.chunked:
            raise no_answer_error("GET", url, ValueError(f"a line without an end, of {len(line)} bytes"))
        yield line


def no_answer_error(method: str, url: str, error: Exception) -> PeerError:
    return PeerError(
        **MESSAGES.texts("core-no-answer", found=str(error) or type(error).__name__, method=method, url=url)
    )


def answer_too_large(method: str, url: str, limit: int) -> BallastError:
    return PeerError(**MESSAGES.texts("core-too-large", what=f"{method} {url}: the response", limit=limit))


def _connection(url: str, tls: Tls, deadline: Deadline) -> tuple[_Connection, str]:
    parts = urllib.parse.urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    if parts.scheme == "unix":
        path, _colon, target = parts.path.partition(":")
        return _Connection("localhost", deadline, path=path), (target or "/") + query
    target = (parts.path or "/") + query
    if parts.scheme == "http":
        return _Connection(parts.netloc, deadline), target
    if parts.scheme != "https":
        raise Bug(**MESSAGES.texts("core-url", url=url))
    return _Connection(parts.netloc, deadline, context=_context(tls), peer=_peer(tls)), target


def _connect(host: str, port: int, deadline: Deadline) -> _TimedPlain:
    """Connect to the first address of `host` that accepts. Each address gets an equal share of the remaining time."""
    addresses = _addresses(host, port, deadline)
    failed: Optional[OSError] = None
    for number, (family, address) in enumerate(addresses):
        plain = _TimedPlain(family, socket.SOCK_STREAM)
        try:
            plain.settimeout(deadline.seconds_left() / (len(addresses) - number))
            plain.connect(address)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            plain.close()
            failed = error
        except BaseException:
            plain.close()
            raise
        else:
            return plain
    raise failed or OSError(f"{host} has no address")


def _addresses(host: str, port: int, deadline: Deadline) -> list[tuple[int, Any]]:
    """Resolve `host` in a thread, since a resolver ignores deadlines. At the deadline the thread is abandoned."""
    addresses: list[Any] = []

    def look_up() -> None:
        try:
            addresses.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as error:
            addresses.append(error)
        except UnicodeError:
            addresses.append(OSError(f"{host} is not a host name"))

    with suppress(ValueError):
        ipaddress.ip_address(host.partition("%")[0])
        look_up()
    if not addresses:
        thread = threading.Thread(target=look_up, daemon=True)
        thread.start()
        thread.join(deadline.seconds_left())
    if not addresses:
        raise TimeoutError(f"timed out: {host} was not resolved")
    if isinstance(addresses[0], Exception):
        raise addresses[0]
    return [(row[0], row[4]) for row in addresses[0]]


def _context(tls: Tls) -> ssl.SSLContext:
    """A TLS context that verifies the peer and its name; with `ca`, by that authority alone. Files that were renewed are
    read again."""
    if tls.ca is None:  # the system's many files, which the distribution renews
        return _make_context(tls)
    return _kept_context(tls, tuple(_version(pem) for pem in tls))


def _version(pem: Optional[Pem]) -> Optional[tuple[int, ...]]:
    """What identifies the version of a file: it changes when the file is replaced or written."""
    if not isinstance(pem, str):
        return None
    try:
        stat = os.stat(pem)
    except OSError:
        return None  # the code that reads the file reports the error
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


@functools.lru_cache(maxsize=8)  # an engine sends many requests to one server
def _kept_context(tls: Tls, _versions: tuple[Optional[tuple[int, ...]], ...]) -> ssl.SSLContext:
    return _make_context(tls)


def _make_context(tls: Tls) -> ssl.SSLContext:
    with _as_file(tls.ca):
        if isinstance(tls.ca, bytes):
            context = ssl.create_default_context(cadata=tls.ca.decode("ascii"))
        else:
            context = ssl.create_default_context(cafile=tls.ca)
    if tls.peer:
        # The certificate itself is compared, before anything is sent.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert:
        with ExitStack() as files, _as_file(tls.key or tls.cert):
            paths = [files.enter_context(_path(pem)) for pem in (tls.cert, tls.key) if pem]
            context.load_cert_chain(*paths)
    context.sslsocket_class = _TimedTls
    return context


def _peer(tls: Tls) -> bytes:
    """The expected certificate of the peer in DER; b"" if there is none."""
    if not tls.peer:
        return b""
    pem = tls.peer
    if isinstance(pem, str):
        with _as_file(pem), open(pem, "rb") as file:
            pem = file.read(_PEM_LIMIT)
    begin, end = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
    _before, _begin, rest = pem.partition(begin)
    first = rest.partition(end)[0]
    if not first:
        raise OSError("there is no PEM certificate to verify the server with")
    return ssl.PEM_cert_to_DER_cert((begin + first + end).decode("ascii"))


@contextmanager
def _as_file(pem: Optional[Pem]) -> Iterator[None]:
    """Name the file in a permission error: OpenSSL does not."""
    try:
        yield
    except PermissionError as error:
        raise host_error("read", pem if isinstance(pem, str) else "a certificate", error) from error


@contextmanager
def _path(pem: Pem) -> Iterator[str]:
    """The path of a PEM. OpenSSL loads certificate chains from files only, so PEM data is put in a temporary file that
    nobody else may read."""
    if isinstance(pem, str):
        yield pem
        return
    with tempfile.NamedTemporaryFile(prefix="ballast-") as file:
        file.write(pem)
        file.flush()
        yield file.name
