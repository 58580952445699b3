# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What aggregation needs in the API: the APIServices, and the rights of the agent that keeps their availability."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Sequence

from ..._core.errors import BallastError
from ..._core.host import Host
from ..._core.kinds import fields
from ..._core.plan import ABSENT, Resource, Value
from ..api import ApiObjectKind, api_object
from .api_services import AGENT_USER, ApiService
from .messages import MESSAGES

_GROUP = "apiregistration.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_SIGNED_BY = " signed by "
_OTHER_AUTHORITY = "its caBundle is another than in the file"


def access(state_dir: str, *, group: str) -> list[Resource]:
    """Lets the agent read APIServices and write their status, and no more."""
    rules: list[Value] = [
        {"apiGroups": [_GROUP], "resources": ["apiservices"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [_GROUP], "resources": ["apiservices/status"], "verbs": ["update"]},
    ]
    role: dict[str, Value] = {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "rules": rules}
    binding: dict[str, Value] = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": AGENT_USER},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": AGENT_USER}],
    }
    path = f"/apis/{_RBAC}/v1"
    return [
        api_object(state_dir, f"{path}/clusterroles/{AGENT_USER}", role, group=group),
        api_object(state_dir, f"{path}/clusterrolebindings/{AGENT_USER}", binding, group=group),
    ]


def registration(state_dir: str, wanted: ApiService, *, group: str) -> Resource:
    """The APIService. What its `caBundle` holds is read from the file when it is made."""
    spec: dict[str, Value] = {
        "group": wanted.group,
        "groupPriorityMinimum": wanted.group_priority_minimum,
        "service": {"name": wanted.service, "namespace": wanted.namespace, "port": wanted.port},
        "version": wanted.version,
        "versionPriority": wanted.version_priority,
    }
    value: Value = {"apiVersion": f"{_GROUP}/v1", "kind": "APIService", "spec": spec, "fault": ""}
    target = api_object(state_dir, f"/apis/{_GROUP}/v1/apiservices/{wanted.name}", {"kind": ""}, group=group).target
    return Resource(
        kind="api-service",
        target=f"{target}{_SIGNED_BY}{wanted.ca}",
        value=value,
        title=f"APIService {wanted.name}",
        group=group,
    )


class ApiServiceKind(ApiObjectKind):
    """Value: that of an API object without `spec.caBundle`, and `fault`, which is empty when that is the file's."""

    def read(self, host: Host, target: str) -> Value:
        plain, _by, ca = target.partition(_SIGNED_BY)
        found = super().read(host, plain)
        if found == ABSENT:
            return ABSENT
        spec = dict(fields(fields(found).get("spec", {})))
        bundle = spec.pop("caBundle", "")
        return {**fields(found), "spec": spec, "fault": "" if bundle == _bundle(host, ca) else _OTHER_AUTHORITY}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        plain, _by, ca = target.partition(_SIGNED_BY)
        whole = {name: part for name, part in fields(after).items() if name != "fault"}
        whole["spec"] = {**fields(whole["spec"]), "caBundle": _bundle(host, ca)}
        super().write(host, plain, whole, before)

    def remove(self, host: Host, target: str, before: Value) -> None:
        super().remove(host, target.partition(_SIGNED_BY)[0], before)


API_SERVICE_KINDS = {"api-service": ApiServiceKind()}


def authority_problems(host: Host, wanted: Sequence[ApiService]) -> list[BallastError]:
    """What is wrong with the files of the authorities that signed the serving certificates. For check mode too early."""
    found = []
    for each in wanted:
        fault = _authority_fault(host, each.ca)
        if fault:
            path = f"aggregation: ca of {each.name}"
            found.append(MESSAGES.error("plane-api-service-ca", path=path, file=each.ca, host=each.host, found=fault))
    return found


def _authority_fault(host: Host, path: str) -> str:
    data = host.read(path)
    if data is None:
        return "there is no such file"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=data.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        return str(error) or type(error).__name__
    return ""


def _bundle(host: Host, path: str) -> str:
    return base64.b64encode(host.read(path) or b"").decode()
