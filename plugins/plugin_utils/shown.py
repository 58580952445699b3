# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a task shows while it runs, whichever callback Ansible uses.

With the callback `progress`, events are written to a file of this run of Ansible, which that callback reads; no other run writes to it.
With any other callback, the task prints its own lines to standard error, below the name that the callback printed.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Any, Protocol

from ansible import constants
from ansible.utils.display import Display

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Event, FileSink, NullSink, Sink
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from ansible_collections.ballast.kube.plugins.plugin_utils.relay import (
    POLL_HERE_SECONDS,
    Relay,
    following,
    read_here,
    size_here,
)
from ansible_collections.ballast.kube.plugins.plugin_utils.render import QUIET_SECONDS, Line, Renderer

# The directory belongs to this run and its user; Ansible makes it, and removes it at the end.
RUN_EVENTS = os.path.join(constants.DEFAULT_LOCAL_TMP, "ballast-progress.jsonl")  # type: ignore[attr-defined]

Outcome = dict[str, Any]


class _View(Protocol):
    def emit(self, event: Event) -> None: ...

    def look(self) -> None:
        """Called repeatedly."""

    def finish(self, *, ok: bool) -> None: ...


class _ForCallback:
    def __init__(self) -> None:
        self._sink: Sink = NullSink()
        with contextlib.suppress(HostError):  # showing progress must never fail the work
            self._sink = FileSink(RUN_EVENTS)

    def emit(self, event: Event) -> None:
        self._sink.emit(event)

    def look(self) -> None:
        """Nothing: the callback has its own clock."""

    def finish(self, *, ok: bool) -> None:
        """Nothing: the callback sees the end of the task."""


class _ForOthers:
    def __init__(self) -> None:
        self._renderer = Renderer()
        self._said = time.time()

    def emit(self, event: Event) -> None:
        self._say(*self._renderer.take(event))

    def look(self) -> None:
        now = time.time()
        if now - self._said >= QUIET_SECONDS:
            self._say(*self._renderer.at_work(now=now))

    def finish(self, *, ok: bool) -> None:
        self._say(*self._renderer.finish(ok=ok, now=time.time()))

    def _say(self, *lines: Line) -> None:
        for one in lines:
            Display().display(one.indented, stderr=True)
            self._said = time.time()


def run_shown(path: str, run: Callable[[], Outcome]) -> Outcome:
    """The result of `run`. While it runs, the events that it writes into the file are shown; without a path, none are."""
    if not path:
        return run()
    view: _View = _ForCallback() if os.path.exists(RUN_EVENTS) else _ForOthers()
    relay = Relay(read_here(path), view, offset=size_here(path))

    def look() -> None:
        relay.catch_up()
        view.look()

    with following(look, POLL_HERE_SECONDS):
        outcome = run()
    view.finish(ok=not outcome.get("failed"))
    return outcome
