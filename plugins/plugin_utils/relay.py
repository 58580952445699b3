# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Progress of a module on another machine, shown on this one while the module runs.

Ansible hands over what a module returns when it has ended, and nothing before. So the file of events that the module
writes there is read again and again over the task's own connection, and what is new is appended to a file here.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import EventStream, Sink

POLL_SECONDS = 1.0

# From a place in bytes on, what is in the file; empty where there is no file. It may raise whatever the connection raises.
Read = Callable[[int], bytes]


class Relay:
    """The events that come into a file from `offset` on."""

    def __init__(self, read: Read, sink: Sink, *, offset: int) -> None:
        self._read = read
        self._sink = sink
        self._offset = offset
        self._stream = EventStream()

    def catch_up(self) -> None:
        """What is new goes to the sink, with this machine's time: the other's clock may be another."""
        data = self._read(self._offset)
        self._offset += len(data)
        for event in self._stream.take(data):
            self._sink.emit(replace(event, at=time.time()))


@contextlib.contextmanager
def relayed(read: Read, sink: Sink) -> Iterator[None]:
    """While the block runs, and once more at its end; what was in the file before is left out."""
    over, thread = threading.Event(), None
    # What tells of the work never fails it: where the connection breaks here it breaks for the module, which says so.
    with contextlib.suppress(Exception):
        relay = Relay(read, sink, offset=len(read(0)))
        thread = threading.Thread(target=_follow, args=(relay, over), name="ballast-relay", daemon=True)
        thread.start()
    try:
        yield
    finally:
        over.set()
        if thread is not None:
            thread.join()


def _follow(relay: Relay, over: threading.Event) -> None:
    last = False
    while not last:
        last = over.wait(POLL_SECONDS)
        with contextlib.suppress(Exception):
            relay.catch_up()
