# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records what an operation makes in the journal of another engine, so that this engine's removal includes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..._core.engine.context import Context
from ..._core.engine.engine import JournalEngine
from ..._core.engine.journal import Journal
from ..._core.engine.plan import ABSENT, Policy, Resource, Step, Value
from ..._core.text.errors import HostError


class Recording:
    """`engine`, `journal` and `ctx` are those of the control plane, not of the operation."""

    def __init__(self, engine: JournalEngine[Any, Any, Any], journal: Journal, ctx: Context[Any]) -> None:
        self._engine = engine
        self._journal = journal
        self._ctx = ctx

    def make(self, resource: Resource) -> None:
        """Create what is missing; existing files are unchanged."""
        if self._engine.read_value(resource.kind, resource.target, self._ctx) != ABSENT:
            return
        step = _step(resource, before=ABSENT, after=resource.value)
        self._journal.doing(step)
        self._engine.change(step, self._ctx, after=step.after, before=ABSENT)
        self._journal.done(step)

    def remove(self, resource: Resource) -> None:
        """Remove it even if the journal cannot be written."""
        step = _step(resource, before=resource.value, after=ABSENT)
        # Remove before recording, as the disk may be full.
        self._engine.change(step, self._ctx, after=ABSENT, before=step.before)
        with suppress(HostError):  # a record of something absent does no harm
            self._journal.doing(step)
            self._journal.done(step)

    def record(self, resource: Resource) -> None:
        """Record what the operation itself makes."""
        self._journal.doing(_step(resource, before=ABSENT, after=resource.value))


@contextmanager
def open_recording(engine: JournalEngine[Any, Any, Any], ctx: Context[Any]) -> Iterator[Recording]:
    """Called with the engine's lock held."""
    journal = engine.journal(ctx)
    journal.begin(Policy.KEEP)
    yield Recording(engine, journal, ctx)
    journal.end()


def _step(resource: Resource, *, before: Value, after: Value) -> Step:
    return Step(resource.kind, resource.title, resource.target, after=after, before=before, group=resource.group)
