# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects of the API of Kubernetes as steps: what is wanted against what is there.

    wanted = {"/api/v1/namespaces/x/serviceaccounts/y": {"apiVersion": ..., "kind": ..., "metadata": {..., "labels": {**OURS}}}}
    found = find_objects(api, wanted)
    for step in object_steps(wanted, found, present=True, foreign=refuse):
        apply_step(api, step)

An object of ours has the label of `OURS`. One without it is somebody else's, and is neither changed nor removed. What the
API server or a controller has filled in besides what is wanted does not count as a difference.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .errors import BallastError, Problems
from .kubeapi import Api
from .names import MARK

OURS: Mapping[str, str] = {"app.kubernetes.io/managed-by": MARK}
MANAGER: Mapping[str, str] = {"fieldManager": MARK}  # query of every request that writes
_OF_THE_API = ("apiVersion", "kind", "metadata", "status")

Object = dict[str, Any]


@dataclass(frozen=True)
class ObjectStep:
    """`before` and `after` as the API has them; None is absent. `path` is that of the object."""

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
    return {path: api.find(path) for path in paths}


def object_steps(
    wanted: Mapping[str, Object],
    found: Mapping[str, Optional[Object]],
    *,
    present: bool,
    foreign: Callable[[str, str], BallastError],
) -> tuple[ObjectStep, ...]:
    """In the order of `wanted`, which is by path; with `present` False those that remove them, the other way round.

    `foreign` makes the error for a kind and a name that are there and not ours; all of them are raised at once.
    """
    pairs = [(path, one, found[path]) for path, one in wanted.items()]
    Problems.raise_if(
        [
            foreign(one["kind"], path.rpartition("/")[2])
            for path, one, there in pairs
            if there is not None and not is_ours(there)
        ]
    )
    if present:
        return tuple(
            ObjectStep(path, one["kind"], before=there, after=one)
            for path, one, there in pairs
            if there is None or not _holds(there, one)
        )
    gone = [ObjectStep(path, one["kind"], before=there, after=None) for path, one, there in pairs if there is not None]
    return tuple(reversed(gone))


def apply_step(api: Api, step: ObjectStep) -> None:
    """PeerError `core-api-conflict` where somebody has made, changed or replaced the object since it was read."""
    if step.after is None:
        api.delete(step.path, _only(step.before))
    elif step.before is None:
        api.create(step.path.rpartition("/")[0], step.after, MANAGER)
    else:
        metadata = _merged(_section(step.before, "metadata"), step.after["metadata"])
        api.replace(step.path, {**step.after, "metadata": metadata}, MANAGER)


def is_ours(found: Mapping[str, Any]) -> bool:
    return _holds(_section(_section(found, "metadata"), "labels"), OURS)


def steps_told(steps: Sequence[ObjectStep]) -> list[dict[str, str]]:
    """As a module returns them."""
    return [{"kind": step.kind, "verb": step.verb, "title": step.title, "target": step.path} for step in steps]


def steps_difference(steps: Sequence[ObjectStep]) -> list[dict[str, str]]:
    """As Ansible's diff mode shows them. Of what is changed, the parts alone that are wanted."""
    return [
        {
            "before_header": step.title,
            "after_header": step.title,
            "before": _shown(
                step.before if step.before is None or step.after is None else _part(step.before, step.after)
            ),
            "after": _shown(step.after),
        }
        for step in steps
    ]


def _holds(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(_holds(found.get(key), part) for key, part in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_holds, found, wanted))
    return type(found) is type(wanted) and bool(found == wanted)


def _part(found: Any, wanted: Any) -> Any:
    """What `found` says of what is wanted."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return {key: _part(found[key], part) for key, part in wanted.items() if key in found}
    if isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        return [_part(*pair) for pair in zip(found, wanted)]
    return found


def _merged(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Object:
    """Metadata: labels and annotations that others have added stay, and the resourceVersion, which guards their changes."""
    merged = {**found, **wanted}
    for key in ("labels", "annotations"):
        if key in wanted:
            merged[key] = {**_section(found, key), **wanted[key]}
    return merged


def _only(found: Optional[Object]) -> Optional[Object]:
    """DeleteOptions for that object and no other of its name."""
    uid = _section(found or {}, "metadata").get("uid")
    return {"preconditions": {"uid": uid}} if isinstance(uid, str) else None


def _section(found: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    section = found.get(key)
    return section if isinstance(section, Mapping) else {}


def _shown(found: Optional[Object]) -> str:
    if found is None:
        return ""
    metadata = _section(found, "metadata")
    marks = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
    body = {key: part for key, part in found.items() if key not in _OF_THE_API}
    return json.dumps({**({"metadata": marks} if marks else {}), **body}, indent=1, sort_keys=True) + "\n"
