# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""Removes stale connections: those that the kernel still handles according to rules that are no longer in force.

Rules decide only about the first packet of a connection, and conntrack keeps the decision: the endpoint, or that nothing is
translated. So after a change, and after rules were missing, conntrack entries for the Services' destinations are deleted if
they would stay wrong for long: the next packet then counts as a first one.

UDP: entries that do not lead to a serving endpoint, by its address and port. An entry lives as long as its client keeps
sending, and a DNS client may use the same source port forever. If a Service has lost its last endpoint or is gone,
translated entries are deleted.
TCP and SCTP: entries that were neither translated nor answered. A client repeats its SYN for two minutes, and each SYN
prolongs the entry, including the SYN of a later connection that happens to use the same source port: a moment without rules
would cost a busy client connections for a long time.

Where several Services claim a destination, the endpoints are those of the one whose rules are in force there, and a node port is
one at the node's own addresses alone. kube-proxy removes entries for each Service, and for a node port at every address.

Policies and topology do not matter, so that a connection stays where a new one would not go. Source: kube-proxy 1.37,
pkg/proxy/conntrack (UDP, after changes); linux/nfnetlink_conntrack.h, nf_conntrack_proto_tcp.c.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, Optional

from .._rules.model import NODE_PORT, Frontend
from .netlink import HEADER, NFGENMSG, attributes_of, open_netfilter
from .ports import ConnectionsCleaned, Sink

_SUBSYSTEM, _NEW, _GET, _DELETE = 1, 0, 1, 2
_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_ERROR, _DONE = 2, 3
_ORIGINAL, _REPLY, _STATUS, _ID, _ZONE, _FILTER, _STATUS_MASK = 1, 2, 3, 12, 18, 25, 26
_FILTER_ORIGINAL, _FILTER_REPLY, _PROTOCOL_NUMBER = 1, 2, 1 << 3
_SEEN_REPLY = 0x2
_IP, _PROTOCOL = 1, 2
_SOURCE, _DESTINATION = {4: 1, 6: 3}, {4: 2, 6: 4}
_NUMBER, _SOURCE_PORT, _DESTINATION_PORT = 1, 2, 3
_UDP = 17
_NUMBERS = {"TCP": 6, "UDP": _UDP, "SCTP": 132}
_AF = {4: socket.AF_INET, 6: socket.AF_INET6}
_ATTRIBUTE, _NESTED = struct.Struct("=HH"), 0x8000
_MOST = 1 << 18
_SECONDS = 10.0
_ABSENT = -2  # ENOENT: it has ended meanwhile


def _attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + b"\0" * (-len(value) % 4)


# Filters that the kernel applies.
_UNANSWERED = _attribute(_STATUS, struct.pack("!I", 0)) + _attribute(_STATUS_MASK, struct.pack("!I", _SEEN_REPLY))
_BY_PROTOCOL = _attribute(_FILTER_ORIGINAL, struct.pack("=I", _PROTOCOL_NUMBER)) + _attribute(_FILTER_REPLY, bytes(4))
_OF_UDP = _attribute(_FILTER | _NESTED, _BY_PROTOCOL) + _attribute(
    _ORIGINAL | _NESTED, _attribute(_PROTOCOL | _NESTED, _attribute(_NUMBER, bytes([_UDP])))
)

Destination = tuple[int, str, int]  # protocol, address and port
Target = tuple[str, int]  # address and port of an endpoint
Serving = Mapping[Destination, frozenset[Target]]  # the endpoints that serve


class Connection(NamedTuple):
    """An entry of conntrack."""

    protocol: int
    destination: str  # of its first packet
    port: int
    endpoint: str  # the source of replies
    endpoint_port: int
    answered: bool
    key: tuple[tuple[int, bytes], ...]  # the attributes that identify it to the kernel


def serving_endpoints(frontends: Iterable[Frontend], own: Collection[str]) -> Serving:
    """`own` are the node's addresses that node ports are served on; one that is an external IP too is that first. A packet to
    the same port of another machine passes, and its connection is not of a Service."""
    serving: dict[Destination, frozenset[Target]] = {}
    for frontend in frontends:
        number, port, endpoints = _NUMBERS[frontend.protocol], frontend.port, frontend.service.endpoints
        targets = frozenset((endpoint.address, endpoint.port) for endpoint in endpoints if endpoint.serving)
        if frontend.kind != NODE_PORT:
            serving[number, frontend.address, port] = targets
        elif number == _UDP:
            for address in own:
                serving.setdefault((number, address, port), targets)
    return serving


def is_stale(connection: Connection, serving: Serving) -> bool:
    """Whether the kernel handles the connection in a way that is no longer right. Only destinations in `serving` are
    judged."""
    protocol, target = connection.protocol, (connection.endpoint, connection.endpoint_port)
    is_translated = target != (connection.destination, connection.port)
    endpoints = serving.get((protocol, connection.destination, connection.port))
    if protocol != _UDP:
        return bool(endpoints) and not is_translated and not connection.answered
    if endpoints is None or target in endpoints:
        return False
    # Without endpoints nothing is translated: an untranslated connection may be to a program of the node on this port.
    return bool(endpoints) or is_translated


def doubtful(before: Serving, after: Serving) -> Serving:
    """The destinations whose connections a change may have made stale, with the endpoints that serve them now."""
    return {
        destination: after.get(destination, frozenset())
        for destination in {**before, **after}
        if destination[0] == _UDP or (after.get(destination) and not before.get(destination))
    }


def read_connections(family: int, *, unanswered: bool) -> Iterator[Connection]:
    """The unanswered connections, or those of UDP. Older kernels (before 5.8, 5.15) list others too. OSError if this process
    lacks the permission."""
    only = _UNANSWERED if unanswered else _OF_UDP
    with open_netfilter(_SECONDS) as asking:
        asking.send(_request(_GET, _REQUEST | _DUMP, family, only))
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
    """Delete connections; returns how many existed."""
    deleted = 0
    with open_netfilter(_SECONDS) as asking:
        for connection in connections:
            attributes = b"".join(_attribute(kind, value) for kind, value in connection.key)
            asking.send(_request(_DELETE, _REQUEST | _ACK, family, attributes))
            for kind, body in _messages(asking.recv(_MOST)):
                code = struct.unpack_from("=i", body)[0] if kind == _ERROR else 0
                if code not in (0, _ABSENT):
                    raise OSError(-code, "the kernel does not delete a connection")
                deleted += not code
    return deleted


class ConnectionCleaner:
    """Cleans up in its own thread, because listing 100,000 connections takes longer than a change of rules should."""

    def __init__(self, sink: Sink, fail: Callable[[str], None]) -> None:
        self._sink = sink
        self._fail = fail
        self._waiting: dict[int, dict[Destination, frozenset[Target]]] = {}  # by family
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="connections", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def clean(self, family: int, before: Iterable[Frontend], after: Iterable[Frontend], own: Collection[str]) -> None:
        """Have the thread clean up after a change. `before` are the destinations whose rules the kernel had last, none if
        that is unknown; `after` are those in force now. `own` is as for `serving_endpoints`."""
        serving = doubtful(serving_endpoints(before, own), serving_endpoints(after, own))
        if serving:
            with self._changed:
                self._waiting.setdefault(family, {}).update(serving)
                self._changed.notify()

    def end(self) -> None:
        """Have the thread end after the clean-up that it is doing; does not wait for it."""
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


def clean(family: int, serving: Serving) -> ConnectionsCleaned:
    """Delete the stale connections of one family to the destinations in `serving`. OSError if the kernel refuses."""
    started, removed = time.monotonic(), 0
    # Of 100,000 connections the kernel selects these in 40 ms; reading all of them takes 3 s.
    for unanswered in (True, False):
        of_these = {at: endpoints for at, endpoints in serving.items() if (at[0] != _UDP) == unanswered}
        if of_these:
            listed = read_connections(family, unanswered=unanswered)
            stale = [connection for connection in listed if is_stale(connection, of_these)]
            removed += delete_connections(family, stale)
    return ConnectionsCleaned(family, time.monotonic() - started, removed)


def _connection(attributes: Mapping[int, bytes], family: int) -> Optional[Connection]:
    original = attributes_of(memoryview(attributes.get(_ORIGINAL, b"")))
    protocol = attributes_of(memoryview(original.get(_PROTOCOL, b"")))
    number = int.from_bytes(protocol.get(_NUMBER, b""), "big")
    if number not in _NUMBERS.values():
        return None
    answered = bool(int.from_bytes(attributes.get(_STATUS, b""), "big") & _SEEN_REPLY)
    addresses = attributes_of(memoryview(original.get(_IP, b"")))
    reply = attributes_of(memoryview(attributes.get(_REPLY, b"")))
    reply_addresses = attributes_of(memoryview(reply.get(_IP, b"")))
    reply_protocol = attributes_of(memoryview(reply.get(_PROTOCOL, b"")))
    kinds = ((_ORIGINAL, _NESTED), (_ID, 0), (_ZONE, 0))
    key = tuple((kind | flag, attributes[kind]) for kind, flag in kinds if kind in attributes)
    try:
        destination = socket.inet_ntop(_AF[family], addresses[_DESTINATION[family]])
        endpoint = socket.inet_ntop(_AF[family], reply_addresses[_SOURCE[family]])
        port = int.from_bytes(protocol[_DESTINATION_PORT], "big")
        endpoint_port = int.from_bytes(reply_protocol[_SOURCE_PORT], "big")
        return Connection(number, destination, port, endpoint, endpoint_port, answered, key)
    except KeyError:  # of the other family: some kernels list both
        return None


def _request(kind: int, flags: int, family: int, attributes: bytes = b"") -> bytes:
    length = HEADER.size + NFGENMSG.size + len(attributes)
    return HEADER.pack(length, _SUBSYSTEM << 8 | kind, flags, 0, 0) + NFGENMSG.pack(_AF[family], 0, 0) + attributes


def _messages(data: bytes) -> Iterator[tuple[int, memoryview]]:
    view, at = memoryview(data), 0
    while at + HEADER.size <= len(data):
        length, kind, _flags, _sequence, _port = HEADER.unpack_from(data, at)
        if length < HEADER.size:
            return
        yield kind, view[at + HEADER.size : at + length]
        at += (length + 3) & ~3
