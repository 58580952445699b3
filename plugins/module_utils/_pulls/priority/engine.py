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
from ..._core.kubeapi import Api, api_by
from ..._core.objects import (
    OURS,
    Object,
    ObjectStep,
    apply_step,
    find_objects,
    object_steps,
    steps_difference,
    steps_told,
)
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
_KEY = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)


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
    """The objects by path, None for one that is not there. `version` is "" where the API server serves none of them."""

    version: str
    objects: Mapping[str, Optional[Object]]


@dataclass(frozen=True)
class Plan:
    steps: tuple[ObjectStep, ...]


class PriorityEngine:
    planning = "plan"

    def observe(self, desired: Desired, host: Host) -> Found:
        api = api_by(host, desired.kubeconfig)
        version = next((one for one in _VERSIONS if _serves(api, one)), "")
        return Found(version, find_objects(api, wanted_objects(desired, version)) if version else {})

    def plan(self, desired: Desired, state: Found) -> Plan:
        """The policy before its binding; a removal the other way round."""
        present = desired.state == PRESENT
        if present and not state.version:
            raise MESSAGES.error("pulls-priority-unserved")
        wanted = wanted_objects(desired, state.version) if state.version else {}
        return Plan(object_steps(wanted, state.objects, present=present, foreign=_foreign))

    def told(self, plan: Plan) -> dict[str, object]:
        return {"steps": steps_told(plan.steps)}

    def difference(self, plan: Plan) -> list[dict[str, str]]:
        return steps_difference(plan.steps)

    def require(self, desired: Desired, host: Host) -> None:
        """Nothing: what it needs it has asked the API server for."""

    def apply(self, plan: Plan, desired: Desired, host: Host, progress: Progress) -> tuple[ObjectStep, ...]:
        api = api_by(host, desired.kubeconfig)
        for step in plan.steps:
            progress.started(step.title, f"{step.verb} {step.title}")
            apply_step(api, step)
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
    """By path. `failurePolicy: Ignore`: a pod without its annotation waits longer for its image, one that is refused does not run."""
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
        _path(version, kind): {
            "apiVersion": f"admissionregistration.k8s.io/{version}",
            "kind": kind,
            "metadata": {"name": NAME, "labels": {**OURS}},
            "spec": spec,
        }
        for kind, spec in specs.items()
    }


def _serves(api: Api, version: str) -> bool:
    listed = api.find(f"{_GROUP}/{version}")
    rows = listed.get("resources") if listed is not None else None
    names = {row.get("name") for row in rows if isinstance(row, dict)} if isinstance(rows, list) else set()
    return set(_KINDS.values()) <= names


def _path(version: str, kind: str) -> str:
    return f"{_GROUP}/{version}/{_KINDS[kind]}/{NAME}"


def _foreign(kind: str, name: str) -> BallastError:
    return MESSAGES.error("pulls-priority-foreign", kind=kind, name=name)
