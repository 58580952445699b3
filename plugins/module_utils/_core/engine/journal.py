# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What we made on this machine, and the journal of the run that is at work: one file of JSON lines, mode 0600.

    {"op": "recorded", ...}   one of our resources, in the order of making
    {"op": "begin", "policy"} a run
    {"op": "replaced", ...}   a record in whose place this run puts its own
    {"op": "doing", ...}      the step, whole, before it is done
    {"op": "done", ...}       the same step, after
    {"op": "undone", ...}     the same step, undone

When the run is over the file is rewritten with its `recorded` lines alone.

A run that was killed leaves its lines. What it made, or had begun to make, counts as ours, so that a removal finds it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..host.host import Host
from ..text.errors import HostError
from ..text.json_text import parse_json
from ..text.run_messages import MESSAGES
from .plan import Policy, Recorded, Step

_FULL = ("core-enospc", "core-edquot")


@dataclass(frozen=True)
class Unfinished:
    """The steps of a killed run, oldest first; the last may be done in part."""

    policy: Policy
    steps: tuple[Step, ...]


class Journal:
    def __init__(self, path: str, *, host: Host, kinds: Collection[str]) -> None:
        self.path = path
        self._host = host
        self._recorded: dict[tuple[str, str], Recorded] = {}
        self._dropped: dict[tuple[str, str], Recorded] = {}  # by the run at work
        self._run: list[Step] = []  # one thing may be made and taken away again in one run
        self._policy = Policy.KEEP
        self._open = False
        self._torn = False  # the last line is not whole
        self._load(kinds)

    @property
    def recorded(self) -> tuple[Recorded, ...]:
        return tuple(self._recorded.values())

    @property
    def open(self) -> bool:
        """Whether a run began and did not end."""
        return self._open

    @property
    def unfinished(self) -> Unfinished:
        return Unfinished(policy=self._policy, steps=tuple(self._run))

    def begin(self, policy: Policy, *, again: Collection[tuple[str, str]] = ()) -> None:
        """`again` are keys of which this run records what it finds, not what the first run found; with its undoing, the old
        record holds again."""
        old = [self._recorded.pop(key) for key in again if key in self._recorded]
        self._run, self._dropped, self._policy = [], {record.key: record for record in old}, policy
        needed = policy is Policy.UNDO or bool(old)
        with _as_needed(needed):
            self._compact()
        self._open = True
        self._append({"op": "begin", "policy": policy.value}, needed=needed)
        for record in old:
            self._append({"op": "replaced", **vars(record)})

    def doing(self, step: Step) -> None:
        """With KEEP only the record counts, and the journal has that of what is removed or changed: a full disk stops no removal."""
        is_recorded = step.key in self._recorded
        self._append({"op": "doing", **vars(step)}, needed=self._policy is Policy.UNDO or not is_recorded)
        self._note_doing(step)

    def done(self, step: Step) -> None:
        line = {"op": "done", "kind": step.kind, "target": step.target, "after": step.after}
        self._append(line, needed=self._policy is Policy.UNDO)
        self._note_done(step.key, step.after)

    def undone(self, step: Step) -> None:
        if self._torn:
            self._host.write(self.path, self._whole_lines(), mode=0o600)
            self._torn = False
        self._append({"op": "undone", "kind": step.kind, "target": step.target, "before": step.before})
        self._note_undone(step.key, step.before)

    def end(self) -> None:
        self._run, self._open = [], False
        with _as_needed(self._policy is Policy.UNDO):
            self._compact()

    def forget_file(self) -> None:
        self._host.remove(self.path)

    def _note_doing(self, step: Step) -> None:
        self._run.append(step)
        if step.key not in self._recorded:
            self._recorded[step.key] = Recorded(
                kind=step.kind, target=step.target, title=step.title, original=step.before, group=step.group
            )

    def _note_done(self, key: tuple[str, str], after: object) -> None:
        record = self._recorded.get(key)
        if record is not None and after == record.original:
            self._dropped.setdefault(key, self._recorded.pop(key))

    def _note_undone(self, key: tuple[str, str], before: object) -> None:
        self._note_done(key, before)
        dropped = self._dropped.get(key)
        if dropped is not None and before != dropped.original:  # its removal was undone: it is ours again
            self._recorded[key] = dropped

    def _load(self, kinds: Collection[str]) -> None:
        data = self._host.read(self.path) or b""
        # A power cut may shorten the last line. What it says was not begun (doing) or will be found so (done).
        self._torn = not data.endswith(b"\n") and data != b""
        for number, line in enumerate(self._whole_lines().splitlines(), start=1):
            try:
                self._take(parse_json(line), kinds)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                texts = MESSAGES.texts("core-ledger", found=str(error), path=self.path, line=number)
                raise HostError(**texts) from error

    def _whole_lines(self) -> bytes:
        data = self._host.read(self.path) or b""
        return data[: data.rfind(b"\n") + 1]

    def _take(self, entry: dict[str, Any], kinds: Collection[str]) -> None:
        op = entry.pop("op")
        if op == "begin":
            self._run, self._policy, self._open = [], Policy(entry["policy"]), True
            return
        if entry["kind"] not in kinds:
            raise ValueError(f"unknown kind {entry['kind']!r}")
        if op in ("recorded", "replaced"):
            record = Recorded(**entry)
            (self._recorded if op == "recorded" else self._dropped)[record.key] = record
        elif op == "doing":
            self._note_doing(Step(**entry))
        elif op == "done":
            self._note_done((entry["kind"], entry["target"]), entry["after"])
        elif op == "undone":
            self._note_undone((entry["kind"], entry["target"]), entry["before"])
        else:
            raise ValueError(f"unknown op {op!r}")

    def _append(self, entry: dict[str, Any], *, needed: bool = True) -> None:
        # Flushed to the disk only where a step must survive a power cut to be undone. A lab's kernel objects do not
        # survive one themselves.
        with _as_needed(needed):
            self._host.append(self.path, _line(entry), mode=0o600, sync=self._policy is Policy.UNDO)

    def _compact(self) -> None:
        lines = b"".join(_line({"op": "recorded", **vars(record)}) for record in self._recorded.values())
        self._host.write(self.path, lines, mode=0o600)
        self._torn = False


@contextmanager
def _as_needed(needed: bool) -> Iterator[None]:
    """A full disk stops what is needed alone."""
    try:
        yield
    except HostError as error:
        if needed or error.id not in _FULL:
            raise


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry, sort_keys=True).encode() + b"\n"


def journal_path(state_dir: str) -> str:
    return os.path.join(state_dir, "ledger.jsonl")
