# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The admission policy that copies a pod's priority to where a runtime, and so the pull proxy, can read it.

CRI carries no PriorityClass, but the annotations of a pod. The admission plugin Priority, which runs before, has resolved
spec.priority by then (k8s.io/kubernetes/pkg/kubeapiserver/options/plugins.go). An annotation that somebody wrote himself is
overwritten: a priority is granted by a PriorityClass, which quotas and RBAC guard.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ..._core.engine import Finding
from ..._core.errors import BallastError, Problems
from ..._core.events import Progress
from ..._core.host import Host
from ..._core.kubeapi import Api
from ..._core.kubeconfig import credentials
from ..._core.names import MARK
from .messages import MESSAGES

PRESENT, ABSENT = "present", "absent"
ANNOTATION = "image-pulls.ballast.dev/priority"
NAME = "image-pulls.ballast.dev"  # of the policy and of its binding
SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": PRESENT, "choices": [PRESENT, ABSENT]},
    "kubeconfig": {"type": "path", "required": True},
    "annotation": {"type": "str", "default": ANNOTATION},
    "events": {"type": "path"},
}
_GROUP = "/apis/admissionregistration.k8s.io"
_VERSIONS = ("v1", "v1beta1")  # the newest that is served is used
_KINDS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}
_MANAGED_BY = "app.kubernetes.io/managed-by"
_MANAGER = {"fieldManager": MARK}
_KEY = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)

Object = dict[str, Any]


@dataclass(frozen=True)
class Desired:
    state: str
    kubeconfig: str
    annotation: str

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Desired:
        problems: list[BallastError] = []
        if not os.path.isfile(params["kubeconfig"]):
            problems.append(MESSAGES.error("pulls-priority-kubeconfig", path=params["kubeconfig"]))
        if not _KEY.fullmatch(params["annotation"]):
            problems.append(MESSAGES.error("pulls-priority-annotation", value=params["annotation"]))
        Problems.raise_if(problems)
        return cls(params["state"], params["kubeconfig"], params["annotation"])


@dataclass(frozen=True)
class Found:
    """The objects by kind, None for one that is not there. `version` is "" where the API server serves none of them."""

    version: str
    objects: Mapping[str, Optional[Object]]


@dataclass(frozen=True)
class Step:
    """`before` and `after` as the API has them; None is absent."""

    path: str
    kind: str
    before: Optional[Object]
    after: Optional[Object]

    @property
    def verb(self) -> str:
        return "remove" if self.after is None else "make" if self.before is None else "change"

    @property
    def title(self) -> str:
        return f"{self.kind} {NAME}"


@dataclass(frozen=True)
class Plan:
    steps: tuple[Step, ...]


class PriorityEngine:
    planning = "plan"

    def observe(self, desired: Desired, host: Host) -> Found:
        api = _api(desired, host)
        version = next((one for one in _VERSIONS if _serves(api, one)), "")
        objects = {kind: api.find(_path(version, kind)) if version else None for kind in _KINDS}
        return Found(version, objects)

    def plan(self, desired: Desired, state: Found) -> Plan:
        """The policy before its binding; a removal the other way round."""
        if desired.state == PRESENT and not state.version:
            raise MESSAGES.error("pulls-priority-unserved")
        wanted = wanted_objects(desired, state.version) if desired.state == PRESENT else dict.fromkeys(_KINDS)
        for kind, found in state.objects.items():
            if found is not None and not _is_ours(found):
                raise MESSAGES.error("pulls-priority-foreign", kind=kind, name=NAME)
        steps = [
            Step(_path(state.version, kind), kind, before=state.objects[kind], after=wanted[kind])
            for kind in _KINDS
            if not _same(state.objects[kind], wanted[kind])
        ]
        return Plan(tuple(steps if desired.state == PRESENT else reversed(steps)))

    def told(self, plan: Plan) -> dict[str, object]:
        return {"steps": [{"kind": s.kind, "verb": s.verb, "title": s.title, "target": s.path} for s in plan.steps]}

    def difference(self, plan: Plan) -> list[dict[str, str]]:
        return [
            {
                "before_header": step.title,
                "after_header": step.title,
                "before": _shown(step.before),
                "after": _shown(step.after),
            }
            for step in plan.steps
        ]

    def require(self, desired: Desired, host: Host) -> None:
        """Nothing: what it needs it has asked the API server for."""

    def apply(self, plan: Plan, desired: Desired, host: Host, progress: Progress) -> tuple[Step, ...]:
        api = _api(desired, host)
        for step in plan.steps:
            progress.started(step.title, f"{step.verb} {step.title}")
            if step.after is None:
                api.delete(step.path)
            elif step.before is None:
                api.create(step.path.rpartition("/")[0], step.after, _MANAGER)
            else:
                metadata = {**step.before["metadata"], **step.after["metadata"]}
                api.replace(step.path, {**step.after, "metadata": metadata}, _MANAGER)
            progress.done(step.title, "")
        return plan.steps

    def verify(self, desired: Desired, host: Host, progress: Progress) -> list[Finding]:
        if not self.plan(desired, self.observe(desired, host)).steps:
            return []
        error = MESSAGES.error("pulls-priority-lost")
        return [Finding(error.id, NAME, error.text, error.remedy)]

    def preview(self, desired: Desired) -> dict[str, object]:
        return {"annotation": desired.annotation}

    def report(self, desired: Desired, host: Host) -> dict[str, object]:
        return self.preview(desired)


ENGINE = PriorityEngine()


def wanted_objects(desired: Desired, version: str) -> dict[str, Object]:
    """`failurePolicy: Ignore`: a pod without its annotation waits longer for its image, one that is refused does not run."""
    key = json.dumps(desired.annotation)
    expression = f"Object{{metadata: Object.metadata{{annotations: {{{key}: string(object.spec.priority)}}}}}}"
    policy = {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["pods"],
                    "scope": "Namespaced",
                }
            ]
        },
        "matchConditions": [{"name": "has-priority", "expression": "has(object.spec.priority)"}],
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
    }
    specs = {"MutatingAdmissionPolicy": policy, "MutatingAdmissionPolicyBinding": {"policyName": NAME}}
    return {
        kind: {
            "apiVersion": f"admissionregistration.k8s.io/{version}",
            "kind": kind,
            "metadata": {"name": NAME, "labels": {_MANAGED_BY: MARK}},
            "spec": spec,
        }
        for kind, spec in specs.items()
    }


def _api(desired: Desired, host: Host) -> Api:
    path = desired.kubeconfig
    text = (host.read(path) or b"").decode(errors="replace")
    return Api(host, credentials(text, base_dir=os.path.dirname(path), name=path))


def _serves(api: Api, version: str) -> bool:
    listed = api.find(f"{_GROUP}/{version}")
    rows = listed.get("resources") if listed is not None else None
    names = {row.get("name") for row in rows if isinstance(row, dict)} if isinstance(rows, list) else set()
    return set(_KINDS.values()) <= names


def _path(version: str, kind: str) -> str:
    return f"{_GROUP}/{version}/{_KINDS[kind]}/{NAME}"


def _is_ours(found: Object) -> bool:
    metadata = found.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return isinstance(labels, dict) and labels.get(_MANAGED_BY) == MARK


def _same(found: Optional[Object], wanted: Optional[Object]) -> bool:
    """Whether what is wanted is there; what the API server has filled in besides does not count."""
    if found is None or wanted is None:
        return found is wanted
    return _holds(found.get("spec"), wanted["spec"])


def _holds(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(_holds(found.get(key), part) for key, part in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_holds, found, wanted))
    return bool(found == wanted)


def _shown(found: Optional[Object]) -> str:
    return "" if found is None else json.dumps(found.get("spec"), indent=1, sort_keys=True) + "\n"
