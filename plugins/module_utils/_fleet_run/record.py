# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the slices of a run share: one ConfigMap, in which each slice writes its own key.

    max_fail   number of nodes of the whole run that may fail
    slice-3    {"holder": UID of the working pod, "former": [UIDs of earlier ones], "begun": [...], "failed": [...],
               "done": [...], "batches": 2, "ended": ""}

`ended` is why the slice ended the run: a closed gate, or a check before the first change.

The values come from the API, and are untrusted.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .._core.text.json_text import mapping_in, parse_json
from .messages import MESSAGES

MAX_FAIL = "max_fail"


@dataclass(frozen=True)
class SliceRecord:
    """`begun`, `failed` and `done` are host names, each in only one of them. A begun host is at work, or was when a pod ended."""

    holder: str = ""
    former: tuple[str, ...] = ()
    begun: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    batches: int = 0
    ended: str = ""

    def claim(self, holder: str) -> SliceRecord:
        """The record with the pod `holder` at work; a pod that it replaces is among `former`."""
        former = (*self.former, self.holder) if self.holder not in ("", holder) else self.former
        return replace(self, holder=holder, former=former)

    def begin(self, batch: Collection[str]) -> SliceRecord:
        """The record with these hosts at work, except those that have their outcome."""
        return replace(self, begun=tuple(sorted({*self.begun, *batch} - {*self.failed, *self.done})))

    def add(
        self, failed: Collection[str] = (), done: Collection[str] = (), *, batches: int = 0, ended: str = ""
    ) -> SliceRecord:
        """The record with these results. A failed host stays failed: it is not retried in this run."""
        all_failed = {*self.failed, *failed}
        all_done = {*self.done, *done} - all_failed
        return replace(
            self,
            begun=tuple(host for host in self.begun if host not in all_failed | all_done),
            failed=tuple(sorted(all_failed)),
            done=tuple(sorted(all_done)),
            batches=self.batches + batches,
            ended=self.ended or ended,
        )

    def as_text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class Record:
    """The whole run: over when more than `max_fail` hosts failed, or when a slice has ended it."""

    max_fail: int
    slices: Mapping[str, SliceRecord] = field(default_factory=dict)

    @property
    def failed(self) -> frozenset[str]:
        """Failed hosts of all slices."""
        return frozenset(host for row in self.slices.values() for host in row.failed)

    @property
    def is_over(self) -> bool:
        """Whether no slice may begin another batch."""
        return bool(self.why)

    @property
    def why(self) -> str:
        """Why no slice may begin another batch; "" while they may."""
        ended = [f"{name} ended the run: {row.ended}" for name, row in self.slices.items() if row.ended]
        if ended:
            return ended[0]
        if len(self.failed) <= self.max_fail:
            return ""
        return f"{len(self.failed)} nodes of the whole run failed, and max_fail allows {self.max_fail}"

    def of(self, name: str) -> SliceRecord:
        """The record of a slice; an empty one before the slice was claimed."""
        return self.slices.get(name, SliceRecord())


def read_record(config_map: Mapping[str, Any]) -> Record:
    """PeerError `fleet-run-record` when its form is not that of the slices: then nothing is begun."""
    name = str(mapping_in(config_map, "metadata").get("name", ""))
    data = mapping_in(config_map, "data")
    try:
        most = int(data[MAX_FAIL])
        rows = {key: _read_row(value) for key, value in data.items() if key != MAX_FAIL}
    except (KeyError, TypeError, ValueError) as error:
        raise MESSAGES.error("fleet-run-record", name=name, reason=repr(error)) from error
    return Record(most, rows)


def _read_row(text: Any) -> SliceRecord:
    row = parse_json(text)
    lists = ("former", "begun", "failed", "done")
    for names in (row[key] for key in lists):
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("pods or hosts is not a list of names")
    if not isinstance(row["batches"], int) or not isinstance(row["holder"], str) or not isinstance(row["ended"], str):
        raise TypeError("batches is not a number, or holder or ended is not text")
    names_by_key = {key: tuple(row[key]) for key in lists}
    return SliceRecord(holder=row["holder"], batches=row["batches"], ended=row["ended"], **names_by_key)
