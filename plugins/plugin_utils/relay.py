# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shows the progress of a module while it runs.

Ansible returns the result of a module when it has ended, and nothing before. So the module's file of events is read again and
again, on another machine over the task's own connection, and new events go to a sink here.
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

POLL_SECONDS = 1.0  # for another machine, where each look is a command
POLL_HERE_SECONDS = 0.1
_READ_MAX = 2**20

# From an offset in bytes to the file's content after it; empty without a file. May raise whatever the connection raises.
Read = Callable[[int], bytes]


def read_here(path: str) -> Read:
    """A reader of a file on this machine that this user or root wrote."""

    def read(offset: int) -> bytes:
        with contextlib.suppress(OSError), open_file(path, follow=False) as file:
            if os.fstat(file.fileno()).st_uid in (0, os.geteuid()):
                file.seek(offset)
                return file.read(_READ_MAX)
        return b""

    return read


def size_here(path: str) -> int:
    """In bytes; 0 for anything but a regular file, also for a link to one."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


class Relay:
    """Passes on the events that are appended to a file after `offset`."""

    def __init__(self, read: Read, sink: Sink, *, offset: int, has_own_clock: bool = False) -> None:
        self._read = read
        self._sink = sink
        self._offset = offset
        self._has_own_clock = has_own_clock  # whether events get the time of this machine
        self._stream = EventStream()

    def catch_up(self) -> None:
        """Pass new events to the sink."""
        data = self._read(self._offset)
        self._offset += len(data)
        for event in self._stream.take(data):
            self._sink.emit(replace(event, at=time.time()) if self._has_own_clock else event)


@contextlib.contextmanager
def relayed(read: Read, sink: Sink) -> Iterator[None]:
    """Pass on events from another machine while the block runs, and once more at its end, without those that the file had before."""
    # Showing progress must never fail the work: if the connection breaks here, it breaks for the module, which reports it.
    relay = None
    with contextlib.suppress(Exception):
        relay = Relay(read, sink, offset=len(read(0)), has_own_clock=True)
    with following(relay.catch_up if relay else lambda: None, POLL_SECONDS):
        yield


@contextlib.contextmanager
def following(look: Callable[[], None], seconds: float) -> Iterator[None]:
    """Call `look` again and again while the block runs, and once at its end."""
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
