# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What we made on this machine, and the steps of the current run: one file of JSON lines, mode 0600.

    {"op": "recorded", ...}   a resource that we made; lines are in creation order
    {"op": "begin", "policy"} a run begins
    {"op": "replaced", ...}   a record that this run replaces with a new one
    {"op": "doing", ...}      a step, complete, before it is done
    {"op": "done", ...}       the same step, after it was done
    {"op": "undone", ...}     the same step, after it was undone

At the end of a run the file is rewritten with its `recorded` lines only.

A killed run leaves its lines. What it made, or began to make, counts as ours, so that a removal finds it.
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
    """The steps of a killed run, oldest first. The last may have been done in part."""

    policy: Policy
    steps: tuple[Step, ...]


class Journal:
    """The journal in the file `path`, which is read at once: empty if there is no file. HostError `core-ledger` if a
    line has an unknown form, or a kind that is not in `kinds`."""

    def __init__(self, path: str, *, host: Host, kinds: Collection[str]) -> None:
        self.path = path
        self._host = host
        self._recorded: dict[tuple[str, str], Recorded] = {}
        self._dropped: dict[tuple[str, str], Recorded] = {}  # records that the current run replaces or drops
        self._run: list[Step] = []  # one resource may be made and removed in the same run
        self._policy = Policy.KEEP
        self._open = False
        self._torn = False  # the last line is incomplete
        self._load(kinds)

    @property
    def recorded(self) -> tuple[Recorded, ...]:
        """What we made, in creation order."""
        return tuple(self._recorded.values())

    @property
    def open(self) -> bool:
        """Whether a run began and has not ended."""
        return self._open

    @property
    def unfinished(self) -> Unfinished:
        """The steps since the last `begin`, including those undone since; none after `end`."""
        return Unfinished(policy=self._policy, steps=tuple(self._run))

    def begin(self, policy: Policy, *, again: Collection[tuple[str, str]] = ()) -> None:
        """`again` are keys for which this run records what it finds instead of what the first run found. If it is undone,
        the old record is valid again."""
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
        """With KEEP only the record matters. Resources that are removed or changed have one already, so a full disk does not
        stop a removal."""
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
        """End the run: only records remain in the file. A full disk is an error only with UNDO; else the file stays as
        it is."""
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
        if dropped is not None and before != dropped.original:  # its removal was undone, so it is ours again
            self._recorded[key] = dropped

    def _load(self, kinds: Collection[str]) -> None:
        data = self._host.read(self.path) or b""
        # A power cut may truncate the last line. If it was "doing", the step was not begun; if "done", reading the resource
        # will show it.
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
        # Synced to disk only where a step must survive a power cut to be undone. The kernel objects of a lab do not survive
        # one.
        with _as_needed(needed):
            self._host.append(self.path, _line(entry), mode=0o600, sync=self._policy is Policy.UNDO)

    def _compact(self) -> None:
        lines = b"".join(_line({"op": "recorded", **vars(record)}) for record in self._recorded.values())
        self._host.write(self.path, lines, mode=0o600)
        self._torn = False


@contextmanager
def _as_needed(needed: bool) -> Iterator[None]:
    """Ignore a full disk unless the write is `needed`."""
    try:
        yield
    except HostError as error:
        if needed or error.id not in _FULL:
            raise


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry, sort_keys=True).encode() + b"\n"


def journal_path(state_dir: str) -> str:
    return os.path.join(state_dir, "ledger.jsonl")
