# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""Removes stale connections of UDP: those that the kernel still sends to an endpoint that does not serve any more.

Rules decide for the first packet of a connection alone. One of TCP to an endpoint that is gone ends; one of UDP lives as long as
its client goes on sending, and a client of DNS may use the same source port for ever. So after a change of a Service with ports
of UDP, entries of conntrack for its destinations are deleted whose endpoint is none that serves: the next packet is a first one.
Policies and topology do not matter, so that a connection stays where a new one would not go, as with TCP. Where a Service has
lost its last endpoint or is gone, entries that were translated go. Source: kube-proxy 1.37, pkg/proxy/conntrack; linux/nfnetlink_conntrack.h.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Optional

from .family_rules import Ports
from .netlink import HEADER, NFGENMSG, attributes_of, open_netfilter
from .ports import ConnectionsCleaned, Sink

_SUBSYSTEM, _NEW, _GET, _DELETE = 1, 0, 1, 2
_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_ERROR, _DONE = 2, 3
_ORIGINAL, _REPLY, _ID, _ZONE = 1, 2, 12, 18
_IP, _PROTOCOL = 1, 2
_SOURCE, _DESTINATION = {4: 1, 6: 3}, {4: 2, 6: 4}
_NUMBER, _DESTINATION_PORT = 1, 3
_UDP = 17
_AF = {4: socket.AF_INET, 6: socket.AF_INET6}
_ATTRIBUTE = struct.Struct("=HH")
_MOST = 1 << 18
_SECONDS = 10.0
_ABSENT = -2  # ENOENT: it has ended meanwhile

Destination = tuple[str, int]  # address, "" for a node port, and port


class Connection(NamedTuple):
    """An entry of UDP."""

    destination: str  # of its first packet
    port: int
    endpoint: str  # that answers: the source of replies
    key: Mapping[int, bytes]  # the attributes by which the kernel knows it


def serving_endpoints(ports: Iterable[Ports]) -> Mapping[Destination, frozenset[str]]:
    """The endpoints that serve, for each destination of UDP."""
    serving: dict[Destination, frozenset[str]] = {}
    for port in (port for of_service in ports for port in of_service if port.protocol == "UDP"):
        addresses = frozenset(endpoint.address for endpoint in port.endpoints if endpoint.serving)
        for address in (port.cluster_ip, *port.external_ips, *port.load_balancer_ips):
            serving[address, port.port] = addresses
        if port.node_port:
            serving["", port.node_port] = addresses
    return serving


def is_stale(connection: Connection, serving: Mapping[Destination, frozenset[str]]) -> bool:
    of_address = serving.get((connection.destination, connection.port))
    endpoints = serving.get(("", connection.port)) if of_address is None else of_address
    if endpoints is None or connection.endpoint in endpoints:
        return False
    # Without endpoints nothing is translated: what was not, may be with a program of the node at this port.
    return bool(endpoints) or connection.endpoint != connection.destination


def read_connections(family: int) -> Iterator[Connection]:
    """All of UDP. OSError where this process may not."""
    with open_netfilter(_SECONDS) as asking:
        asking.send(_request(_GET, _REQUEST | _DUMP, family))
        while True:
            for kind, body in _messages(asking.recv(_MOST)):
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    raise OSError(-struct.unpack_from("=i", body)[0], "the kernel does not list its connections")
                connection = _connection(attributes_of(body[NFGENMSG.size :]), family)
                if connection is not None:
                    yield connection


def delete_connections(family: int, connections: Iterable[Connection]) -> int:
    """How many were there."""
    deleted = 0
    with open_netfilter(_SECONDS) as asking:
        for connection in connections:
            attributes = b"".join(_attribute(kind, value) for kind, value in connection.key.items())
            asking.send(_request(_DELETE, _REQUEST | _ACK, family, attributes))
            for kind, body in _messages(asking.recv(_MOST)):
                code = struct.unpack_from("=i", body)[0] if kind == _ERROR else 0
                if code not in (0, _ABSENT):
                    raise OSError(-code, "the kernel does not delete a connection")
                deleted += not code
    return deleted


class ConnectionCleaner:
    """Cleans up in a thread of its own: to list 100,000 connections takes longer than a change of rules may."""

    def __init__(self, sink: Sink, fail: Callable[[str], None]) -> None:
        self._sink = sink
        self._fail = fail
        self._waiting: dict[int, dict[Destination, frozenset[str]]] = {}  # by family
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="connections", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def clean(self, family: int, before: Iterable[Ports], after: Iterable[Ports]) -> None:
        """These Services have changed, and the rules are in force."""
        serving = {**dict.fromkeys(serving_endpoints(before), frozenset[str]()), **serving_endpoints(after)}
        if serving:
            with self._changed:
                self._waiting.setdefault(family, {}).update(serving)
                self._changed.notify()

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                if self._ended:
                    return
                waiting, self._waiting = self._waiting, {}
            for family, serving in waiting.items():
                try:
                    self._sink(clean(family, serving))
                except OSError as error:
                    self._fail(error.strerror or str(error))


def clean(family: int, serving: Mapping[Destination, frozenset[str]]) -> ConnectionsCleaned:
    started = time.monotonic()
    stale = [connection for connection in read_connections(family) if is_stale(connection, serving)]
    removed = delete_connections(family, stale)
    return ConnectionsCleaned(family, time.monotonic() - started, removed)


def _connection(attributes: Mapping[int, bytes], family: int) -> Optional[Connection]:
    original = attributes_of(memoryview(attributes.get(_ORIGINAL, b"")))
    protocol = attributes_of(memoryview(original.get(_PROTOCOL, b"")))
    if protocol.get(_NUMBER) != bytes([_UDP]):
        return None
    addresses = attributes_of(memoryview(original.get(_IP, b"")))
    reply = attributes_of(memoryview(attributes_of(memoryview(attributes.get(_REPLY, b""))).get(_IP, b"")))
    key = {kind: attributes[kind] for kind in (_ORIGINAL, _ID, _ZONE) if kind in attributes}
    try:
        destination = socket.inet_ntop(_AF[family], addresses[_DESTINATION[family]])
        endpoint = socket.inet_ntop(_AF[family], reply[_SOURCE[family]])
        return Connection(destination, int.from_bytes(protocol[_DESTINATION_PORT], "big"), endpoint, key)
    except KeyError:  # of the other family: some kernels list both
        return None


def _request(kind: int, flags: int, family: int, attributes: bytes = b"") -> bytes:
    length = HEADER.size + NFGENMSG.size + len(attributes)
    return HEADER.pack(length, _SUBSYSTEM << 8 | kind, flags, 0, 0) + NFGENMSG.pack(_AF[family], 0, 0) + attributes


def _attribute(kind: int, value: bytes) -> bytes:
    nested = 0x8000 if kind == _ORIGINAL else 0
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind | nested) + value + b"\0" * (-len(value) % 4)


def _messages(data: bytes) -> Iterator[tuple[int, memoryview]]:
    view, at = memoryview(data), 0
    while at + HEADER.size <= len(data):
        length, kind, _flags, _sequence, _port = HEADER.unpack_from(data, at)
        if length < HEADER.size:
            return
        yield kind, view[at + HEADER.size : at + length]
        at += (length + 3) & ~3
