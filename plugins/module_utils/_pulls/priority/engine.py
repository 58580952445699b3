# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The admission policy that copies a pod's priority into an annotation, which the runtime and the pull proxy can read.

CRI requests have the pod's annotations, but not its PriorityClass. The admission plugin Priority runs before this policy and
resolves spec.priority (k8s.io/kubernetes/pkg/kubeapiserver/options/plugins.go). An annotation that a user wrote is overwritten:
only a PriorityClass, which quotas and RBAC protect, grants a priority.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ..._core.engine.context import Context
from ..._core.engine.engine import BaseEngine, Finding
from ..._core.engine.events import PROGRESS_LOG
from ..._core.kube import connection
from ..._core.kube.client import Api
from ..._core.kube.objects import (
    OURS,
    Object,
    ObjectStep,
    apply_step,
    find_objects,
    object_steps,
    steps_as_result,
    steps_diff,
)
from ..._core.text.errors import BallastError, Problems
from .messages import MESSAGES

PRESENT, ABSENT = "present", "absent"
ANNOTATION = "image-pulls.ballast.dev/priority"
NAME = "image-pulls.ballast.dev"  # name of the policy and of its binding
SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": PRESENT, "choices": [PRESENT, ABSENT]},
    **connection.SPEC,
    "annotation": {"type": "str", "default": ANNOTATION},
    **PROGRESS_LOG,
}
_GROUP = "/apis/admissionregistration.k8s.io"
_VERSIONS = ("v1", "v1beta1")  # newest first; the first one served is used
_KINDS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}
_KEY = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)


@dataclass(frozen=True)
class ImagePullPriorityRequest:
    state: str
    kubeconfig: str  # "": as in connection.py
    context: str
    annotation: str

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> ImagePullPriorityRequest:
        problems: list[BallastError] = []
        if connection.is_missing(params["kubeconfig"]):
            problems.append(MESSAGES.error("pulls-priority-kubeconfig", path=params["kubeconfig"]))
        if not _KEY.fullmatch(params["annotation"]):
            problems.append(MESSAGES.error("pulls-priority-annotation", value=params["annotation"]))
        Problems.raise_if(problems)
        return cls(params["state"], params["kubeconfig"] or "", params["context"] or "", params["annotation"])


@dataclass(frozen=True)
class ImagePullPriorityState:
    """The objects by path, None for an absent one. `version` is "" if the API server serves none of them."""

    version: str
    objects: Mapping[str, Optional[Object]]


@dataclass(frozen=True)
class Plan:
    steps: tuple[ObjectStep, ...]


class PriorityEngine(BaseEngine[ImagePullPriorityRequest, ImagePullPriorityState, Plan]):
    def observe(self, ctx: Context[ImagePullPriorityRequest]) -> ImagePullPriorityState:
        api = connection.connect(ctx.host, ctx.desired.kubeconfig, ctx.desired.context)
        version = next((version for version in _VERSIONS if _serves(api, version)), "")
        return ImagePullPriorityState(
            version, find_objects(api, policy_objects(ctx.desired, version)) if version else {}
        )

    def plan(self, desired: ImagePullPriorityRequest, state: ImagePullPriorityState) -> Plan:
        """The policy comes before its binding, and is removed after it."""
        present = desired.state == PRESENT
        if present and not state.version:
            raise MESSAGES.error("pulls-priority-unserved")
        objects = policy_objects(desired, state.version) if state.version else {}
        return Plan(object_steps(objects, state.objects, present=present, foreign=_foreign))

    def as_result(self, plan: Plan) -> dict[str, object]:
        return {"steps": steps_as_result(plan.steps)}

    def diff(self, plan: Plan) -> list[dict[str, str]]:
        return steps_diff(plan.steps)

    def apply(self, plan: Plan, ctx: Context[ImagePullPriorityRequest]) -> Plan:
        api = connection.connect(ctx.host, ctx.desired.kubeconfig, ctx.desired.context)
        for step in plan.steps:
            ctx.progress.started(step.title, f"{step.verb} {step.title}")
            apply_step(api, step)
            ctx.progress.done(step.title, "")
        return plan

    def verify(self, ctx: Context[ImagePullPriorityRequest]) -> list[Finding]:
        if not self.plan(ctx.desired, self.observe(ctx)).steps:
            return []
        error = MESSAGES.error("pulls-priority-lost")
        return [Finding(error.id, NAME, error.text, error.remedy)]

    def preview(self, ctx: Context[ImagePullPriorityRequest]) -> dict[str, object]:
        return {"annotation": ctx.desired.annotation}


ENGINE = PriorityEngine()


def policy_objects(desired: ImagePullPriorityRequest, version: str) -> dict[str, Object]:
    """Objects by path. `failurePolicy: Ignore`: a pod without the annotation waits longer for its image; a refused pod never runs."""
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
