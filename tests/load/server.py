# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server of the load: `server.py NAME ADDRESS PORT...` answers TCP and UDP until its standard input ends.

It greets with `NAME:PORT`, sends back what it then receives, and waits for the client to close. So does UDP: each
datagram is answered with the greeting. Standard library only, no import from the project: it runs with `ip netns exec`.
"""

from __future__ import annotations

import resource
import select
import socket
import struct
import sys
import time
from collections import deque
from contextlib import suppress

_BACKLOG = 4096
_AT_ONCE = 256  # taken from one socket before the others have their turn
# A client that has closed while nobody carried its packets is not heard of. When its port comes round, it would meet
# the old connection: a failure that is the load's own. Long-lived ones speak at once.
_SILENT_SECONDS = 10.0
_RESET = struct.pack("ii", 1, 0)


class Server:
    def __init__(self, name: str, address: str, ports: list[int]) -> None:
        self._epoll = select.epoll()
        self._tcp: dict[int, tuple[socket.socket, bytes]] = {}
        self._udp: dict[int, tuple[socket.socket, bytes]] = {}
        self._open: dict[int, socket.socket] = {}
        self._silent: deque[tuple[float, int, socket.socket]] = deque()
        self._spoke: set[int] = set()
        for port in ports:
            greeting = f"{name}:{port}".encode()
            for kind, kept in ((socket.SOCK_STREAM, self._tcp), (socket.SOCK_DGRAM, self._udp)):
                one = socket.socket(socket.AF_INET, kind)
                if kind == socket.SOCK_STREAM:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind((address, port))
                if kind == socket.SOCK_STREAM:
                    one.listen(_BACKLOG)
                one.setblocking(False)
                kept[one.fileno()] = (one, greeting)
                self._epoll.register(one, select.EPOLLIN)
        self._epoll.register(sys.stdin, select.EPOLLIN)

    def run(self) -> None:
        while True:
            for fd, _events in self._epoll.poll(1.0):
                if fd in self._open:
                    self._answer(fd)
                elif fd in self._tcp:
                    self._accept(*self._tcp[fd])
                elif fd in self._udp:
                    _reply(*self._udp[fd])
                else:
                    return
            self._forget()

    def _accept(self, listening: socket.socket, greeting: bytes) -> None:
        for _one in range(_AT_ONCE):
            try:
                connection, _peer = listening.accept()
            except OSError:  # none is left, or who asked has gone
                return
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            try:
                connection.send(greeting)
            except OSError:
                connection.close()
                continue
            fd = connection.fileno()
            self._open[fd] = connection
            self._silent.append((time.monotonic(), fd, connection))
            self._epoll.register(fd, select.EPOLLIN)

    def _answer(self, fd: int) -> None:
        connection = self._open[fd]
        try:
            data = connection.recv(64)
            if data:
                connection.send(data)
                self._spoke.add(fd)
                return
        except OSError:
            pass
        self._close(fd)

    def _close(self, fd: int) -> None:
        self._spoke.discard(fd)
        self._open.pop(fd).close()

    def _forget(self) -> None:
        while self._silent and self._silent[0][0] < time.monotonic() - _SILENT_SECONDS:
            _at, fd, connection = self._silent.popleft()
            if self._open.get(fd) is connection and fd not in self._spoke:
                self._close(fd)


def _reply(one: socket.socket, greeting: bytes) -> None:
    for _one in range(_AT_ONCE):
        try:
            _data, peer = one.recvfrom(64)
        except BlockingIOError:
            return
        except OSError:  # what a client that has gone had ICMP say
            continue
        with suppress(OSError):
            one.sendto(greeting, peer)


def main() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = Server(sys.argv[1], sys.argv[2], [int(port) for port in sys.argv[3:]])
    print("ready", flush=True)
    server.run()


if __name__ == "__main__":
    main()
