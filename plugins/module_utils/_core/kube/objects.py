# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reconciles API objects: desired against existing ones, as steps.

    desired = {"/api/v1/namespaces/x/serviceaccounts/y": {"apiVersion": ..., "kind": ..., "metadata": {..., "labels": {**OURS}}}}
    actual = find_objects(api, desired)
    for step in object_steps(desired, actual, present=True, foreign=refuse):
        apply_step(api, step)

An object of ours has the label `OURS`. One without it is somebody else's and is neither changed nor removed. Fields that the
API server or a controller adds do not count as differences."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ..host.names import MARK
from ..text.errors import BallastError, Problems
from ..text.json_text import mapping_in
from .client import Api

OURS: Mapping[str, str] = {"app.kubernetes.io/managed-by": MARK}
MANAGER: Mapping[str, str] = {"fieldManager": MARK}  # query of every write request
_OF_THE_API = ("apiVersion", "kind", "metadata", "status")

Object = dict[str, Any]


@dataclass(frozen=True)
class ObjectStep:
    """`before` and `after` are API objects, or None for absent. `path` is that of the object."""

    path: str
    kind: str
    before: Optional[Object]
    after: Optional[Object]

    @property
    def verb(self) -> str:
        return "remove" if self.after is None else "make" if self.before is None else "change"

    @property
    def title(self) -> str:
        return f"{self.kind} {self.path.rpartition('/')[2]}"


def find_objects(api: Api, paths: Iterable[str]) -> dict[str, Optional[Object]]:
    """The object at each path; None for an absent one."""
    return {path: api.find(path) for path in paths}


def object_steps(
    desired: Mapping[str, Object],
    actual: Mapping[str, Optional[Object]],
    *,
    present: bool,
    foreign: Callable[[str, str], BallastError],
) -> tuple[ObjectStep, ...]:
    """The steps in the order of `desired`, whose keys are paths; if `present` is False, the steps that remove the objects,
    in reverse order.

    `foreign` makes the error for an existing object that this collection did not create; all of them are raised together.
    """
    pairs = [(path, manifest, actual[path]) for path, manifest in desired.items()]
    Problems.raise_if(
        [
            foreign(manifest["kind"], path.rpartition("/")[2])
            for path, manifest, there in pairs
            if there is not None and not is_ours(there)
        ]
    )
    if present:
        return tuple(
            ObjectStep(path, manifest["kind"], before=there, after=manifest)
            for path, manifest, there in pairs
            if there is None or not _matches(there, manifest)
        )
    gone = [
        ObjectStep(path, manifest["kind"], before=there, after=None)
        for path, manifest, there in pairs
        if there is not None
    ]
    return tuple(reversed(gone))


def apply_step(api: Api, step: ObjectStep) -> None:
    """PeerError `core-api-conflict` if the object was created, changed or replaced since it was read."""
    if step.after is None:
        api.delete(step.path, _only(step.before))
    elif step.before is None:
        api.create(step.path.rpartition("/")[0], step.after, MANAGER)
    else:
        metadata = _merge_metadata(mapping_in(step.before, "metadata"), step.after["metadata"])
        api.replace(step.path, {**step.after, "metadata": metadata}, MANAGER)


def is_ours(manifest: Mapping[str, Any]) -> bool:
    return _matches(mapping_in(manifest, "metadata", "labels"), OURS)


def steps_as_result(steps: Sequence[ObjectStep]) -> list[dict[str, str]]:
    """The steps as a module returns them."""
    return [{"kind": step.kind, "verb": step.verb, "title": step.title, "target": step.path} for step in steps]


def steps_diff(steps: Sequence[ObjectStep]) -> list[dict[str, str]]:
    """The steps as Ansible's diff mode shows them; for a changed object only the fields that are desired."""
    return [
        {
            "before_header": step.title,
            "after_header": step.title,
            "before": _as_text(
                step.before if step.before is None or step.after is None else _part(step.before, step.after)
            ),
            "after": _as_text(step.after),
        }
        for step in steps
    ]


def _matches(actual: Any, desired: Any) -> bool:
    if isinstance(desired, Mapping):
        return isinstance(actual, Mapping) and all(_matches(actual.get(key), part) for key, part in desired.items())
    if isinstance(desired, list):
        return isinstance(actual, list) and len(actual) == len(desired) and all(map(_matches, actual, desired))
    return type(actual) is type(desired) and bool(actual == desired)


def _part(actual: Any, desired: Any) -> Any:
    """The part of `actual` that `desired` specifies."""
    if isinstance(desired, Mapping) and isinstance(actual, Mapping):
        return {key: _part(actual[key], part) for key, part in desired.items() if key in actual}
    if isinstance(desired, list) and isinstance(actual, list) and len(actual) == len(desired):
        return [_part(*pair) for pair in zip(actual, desired)]
    return actual


def _merge_metadata(actual: Mapping[str, Any], desired: Mapping[str, Any]) -> Object:
    """The desired metadata, plus labels and annotations that others have added, and the resourceVersion, which protects
    concurrent changes."""
    merged = {**actual, **desired}
    for key in ("labels", "annotations"):
        if key in desired:
            merged[key] = {**mapping_in(actual, key), **desired[key]}
    return merged


def _only(actual: Optional[Object]) -> Optional[Object]:
    """DeleteOptions that match this object and no other with its name."""
    uid = mapping_in(actual, "metadata").get("uid")
    return {"preconditions": {"uid": uid}} if isinstance(uid, str) else None


def _as_text(manifest: Optional[Object]) -> str:
    if manifest is None:
        return ""
    metadata = mapping_in(manifest, "metadata")
    marks = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
    body = {key: part for key, part in manifest.items() if key not in _OF_THE_API}
    return json.dumps({**({"metadata": marks} if marks else {}), **body}, indent=1, sort_keys=True) + "\n"
