# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""API objects of aggregation: the APIServices, and the rights of the agent that updates their availability."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Sequence
from typing import Any

from ..._core.engine.context import Context
from ..._core.engine.kinds import fields
from ..._core.engine.plan import ABSENT, Resource, Value
from ..._core.host.host import Host
from ..._core.text.errors import BallastError
from ..api import ApiObjectKind, api_object
from ..pki.identities import RBAC, bind
from .api_services import AGENT_USER, ApiService
from .messages import MESSAGES

_GROUP = "apiregistration.k8s.io"
_SIGNED_BY = " signed by "
_OTHER_AUTHORITY = "its caBundle is another than in the file"


def agent_rights(state_dir: str, *, group: str) -> list[Resource]:
    """Lets the agent only read APIServices and write their status."""
    rules: list[Value] = [
        {"apiGroups": [_GROUP], "resources": ["apiservices"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [_GROUP], "resources": ["apiservices/status"], "verbs": ["update"]},
    ]
    role: dict[str, Value] = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "rules": rules}
    binding = bind("ClusterRole", AGENT_USER, AGENT_USER)
    path = f"/apis/{RBAC}/v1"
    return [
        api_object(state_dir, f"{path}/clusterroles/{AGENT_USER}", role, group=group),
        api_object(state_dir, f"{path}/clusterrolebindings/{AGENT_USER}", binding, group=group),
    ]


def api_service_resource(state_dir: str, api_service: ApiService, *, group: str) -> Resource:
    """The APIService. Its `caBundle` is read from the file when it is made."""
    spec: dict[str, Value] = {
        "group": api_service.group,
        "groupPriorityMinimum": api_service.group_priority_minimum,
        "service": {"name": api_service.service, "namespace": api_service.namespace, "port": api_service.port},
        "version": api_service.version,
        "versionPriority": api_service.version_priority,
    }
    value: Value = {"apiVersion": f"{_GROUP}/v1", "kind": "APIService", "spec": spec, "fault": ""}
    target = api_object(
        state_dir, f"/apis/{_GROUP}/v1/apiservices/{api_service.name}", {"kind": ""}, group=group
    ).target
    return Resource(
        kind="api-service",
        target=f"{target}{_SIGNED_BY}{api_service.ca}",
        value=value,
        title=f"APIService {api_service.name}",
        group=group,
    )


class ApiServiceKind(ApiObjectKind):
    """Value: that of an API object, with `fault` in place of `spec.caBundle`: empty when the bundle is the CA file's content."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        plain, _by, ca = target.partition(_SIGNED_BY)
        current = super().read(ctx, plain)
        if current == ABSENT:
            return ABSENT
        spec = dict(fields(fields(current).get("spec", {})))
        bundle = spec.pop("caBundle", "")
        return {**fields(current), "spec": spec, "fault": "" if bundle == _bundle(ctx.host, ca) else _OTHER_AUTHORITY}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        plain, _by, ca = target.partition(_SIGNED_BY)
        whole = {name: part for name, part in fields(after).items() if name != "fault"}
        whole["spec"] = {**fields(whole["spec"]), "caBundle": _bundle(ctx.host, ca)}
        super().write(ctx, plain, whole, before)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        super().remove(ctx, target.partition(_SIGNED_BY)[0], before)


API_SERVICE_KINDS = {"api-service": ApiServiceKind()}


def find_authority_problems(host: Host, api_services: Sequence[ApiService]) -> list[BallastError]:
    """Problems of the CA files of extension API servers. Not for check mode, where the files may still be missing."""
    problems = []
    for each in api_services:
        fault = _authority_fault(host, each.ca)
        if fault:
            path = f"aggregation: ca of {each.name}"
            problems.append(
                MESSAGES.error("plane-api-service-ca", path=path, file=each.ca, host=each.host, found=fault)
            )
    return problems


def _authority_fault(host: Host, path: str) -> str:
    data = host.read(path)
    if data is None:
        return "the file does not exist"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=data.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        return str(error) or type(error).__name__
    return ""


def _bundle(host: Host, path: str) -> str:
    return base64.b64encode(host.read(path) or b"").decode()
