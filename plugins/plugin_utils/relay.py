# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Progress of a module, shown while the module runs.

Ansible hands over what a module returns when it has ended, and nothing before. So the file of events that the module
writes is read again and again, on another machine over the task's own connection, and what is new goes to a sink here.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import EventStream, Sink
from ansible_collections.ballast.kube.plugins.module_utils._core.host.bounded import open_file

POLL_SECONDS = 1.0  # of another machine, for which each look is a command
POLL_HERE_SECONDS = 0.1
_READ_MAX = 2**20

# From a place in bytes on, what is in the file; empty where there is no file. It may raise whatever the connection raises.
Read = Callable[[int], bytes]


def read_here(path: str) -> Read:
    """Reads a file of this machine that this user or root wrote."""

    def read(offset: int) -> bytes:
        with contextlib.suppress(OSError), open_file(path, follow=False) as file:
            if os.fstat(file.fileno()).st_uid in (0, os.geteuid()):
                file.seek(offset)
                return file.read(_READ_MAX)
        return b""

    return read


def size_here(path: str) -> int:
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


class Relay:
    """The events that come into a file from `offset` on."""

    def __init__(self, read: Read, sink: Sink, *, offset: int, has_own_clock: bool = False) -> None:
        self._read = read
        self._sink = sink
        self._offset = offset
        self._has_own_clock = has_own_clock  # then events get the time of this machine
        self._stream = EventStream()

    def catch_up(self) -> None:
        """What is new goes to the sink."""
        data = self._read(self._offset)
        self._offset += len(data)
        for event in self._stream.take(data):
            self._sink.emit(replace(event, at=time.time()) if self._has_own_clock else event)


@contextlib.contextmanager
def relayed(read: Read, sink: Sink) -> Iterator[None]:
    """From another machine, while the block runs, and once more at its end; what was in the file before is left out."""
    # What tells of the work never fails it: where the connection breaks here it breaks for the module, which says so.
    relay = None
    with contextlib.suppress(Exception):
        relay = Relay(read, sink, offset=len(read(0)), has_own_clock=True)
    with following(relay.catch_up if relay else lambda: None, POLL_SECONDS):
        yield


@contextlib.contextmanager
def following(look: Callable[[], None], seconds: float) -> Iterator[None]:
    """`look` is called again and again while the block runs, and once at its end."""
    over = threading.Event()
    thread = threading.Thread(target=_follow, args=(look, over, seconds), name="ballast-relay", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _follow(look: Callable[[], None], over: threading.Event, seconds: float) -> None:
    last = False
    while not last:
        last = over.wait(seconds)
        with contextlib.suppress(Exception):
            look()
