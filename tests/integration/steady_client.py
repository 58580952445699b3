# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program for network namespaces: `ADDRESS PORT SOURCE LISTEN_PORT` opens a connection of TCP to ADDRESS every 4 ms and answers
those that arrive at LISTEN_PORT. It prints a line of JSON for each that ended: when it began, and "" or why it failed. When its
input ends it begins no more, and waits for those that it has.

The connections are independent: one that hangs delays no other. Their source ports are few and come again and again, as they
do with a client that has opened thousands, so that what conntrack keeps of one connection meets a later one. Standard library only.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from typing import NamedTuple

SOURCE_PORTS = range(42000, 42400)
ANSWER = b"here"
_PAUSE = 0.004
_GIVE_UP_SECONDS = 20.0  # the kernel repeats a SYN after 1, 3, 7 and 15 s
_RESET = struct.pack("ii", 1, 0)


class Attempt(NamedTuple):
    socket: socket.socket
    began: float
    source_port: int


def serve(listener: socket.socket) -> None:
    """The server resets each connection after the client has said that it is done: no source port waits in TIME_WAIT."""
    while True:
        connection, _peer = listener.accept()
        with connection, suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            connection.sendall(ANSWER)
            connection.recv(1)


class Client:
    def __init__(self, destination: tuple[str, int], source: str) -> None:
        self._destination = destination
        self._source = source
        self._selector = selectors.DefaultSelector()
        self._busy: dict[int, Attempt] = {}  # by source port
        self._next = 0
        self._goes_on = True

    def run(self) -> None:
        due = time.monotonic()
        self._selector.register(0, selectors.EVENT_READ)
        while self._goes_on or self._busy:
            for key, _events in self._selector.select(max(0.0, due - time.monotonic())):
                if key.data is None:
                    self._goes_on = False
                    self._selector.unregister(0)
                else:
                    self._take(key.data)
            for attempt in list(self._busy.values()):
                if time.time() - attempt.began > _GIVE_UP_SECONDS:
                    self._end(attempt, "timed out")
            if time.monotonic() >= due:
                due = time.monotonic() + _PAUSE
                if self._goes_on:
                    self._begin()

    def _begin(self) -> None:
        port = SOURCE_PORTS[self._next % len(SOURCE_PORTS)]
        self._next += 1
        if port in self._busy:
            return
        opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((self._source, port))
        opened.setblocking(False)
        attempt = self._busy[port] = Attempt(opened, time.time(), port)
        with suppress(BlockingIOError):
            opened.connect(self._destination)
        self._selector.register(opened, selectors.EVENT_READ, attempt)

    def _take(self, attempt: Attempt) -> None:
        try:
            answer = attempt.socket.recv(len(ANSWER))
        except OSError as error:
            self._end(attempt, str(error))
            return
        if answer != ANSWER:
            self._end(attempt, "no answer")
            return
        with suppress(OSError):
            attempt.socket.sendall(b"x")
            attempt.socket.settimeout(1.0)
            attempt.socket.recv(1)  # until it is reset
        self._end(attempt, "")

    def _end(self, attempt: Attempt, failure: str) -> None:
        self._selector.unregister(attempt.socket)
        attempt.socket.close()
        del self._busy[attempt.source_port]
        print(json.dumps({"began": attempt.began, "port": attempt.source_port, "failure": failure}), flush=True)


def main(words: list[str]) -> None:
    address, port, source, listen_port = words
    listener = socket.create_server(("", int(listen_port)), backlog=128)
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    Client((address, int(port)), source).run()


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)
