# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects of a fleet run in the management cluster, in a Namespace of its own. Pure.

The Jobs: a worker that crashed is retried, as its nodes have everything needed to continue; one that was evicted is replaced and does
not count (DisruptionTarget); one that ended its slice because the run may not continue is not retried. `maxFailedIndexes` is never
reached: the Job would then remove working pods in the middle of their batches. Workers end the run by the record, which they read
between batches.
"""

from __future__ import annotations

import base64
from typing import Any

from .._core.kube.objects import OURS, Object
from .record import MAX_FAIL
from .request import INPUT, FleetRunRequest
from .slices import CANARY, SLICE

NAME = "ballast-fleet-run"
CONTAINER = "worker"
RUN_LABEL = {"app.kubernetes.io/name": NAME}
DIGEST = "ballast.dev/fleet-run"  # annotation of the Namespace: the creator adds it, and it is removed last
STOPPED = 3  # exit status of a worker whose slice ended early; it is not retried
_RETRIES = 3  # of a crashed worker
_GRACE_SECONDS = 300  # for an evicted worker to finish its batch
_GROUP = "rbac.authorization.k8s.io"
_USER = 1000  # user of the image; its group is root
_WORKER = "ansible_collections.ballast.kube.plugins.module_utils._fleet_run.worker"
_COLLECTIONS = "/usr/share/ansible/collections"
# https://kubernetes.io/docs/concepts/security/pod-security-standards/
_SECURITY = {"pod-security.kubernetes.io/enforce": "restricted"}


def namespace_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}"


def job_path(namespace: str, job: str) -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs/{NAME}-{job}"


def secret_path(namespace: str) -> str:
    return f"{namespace_path(namespace)}/secrets/{NAME}"


def record_path(namespace: str) -> str:
    return f"{namespace_path(namespace)}/configmaps/{NAME}"


def report_name(slice_name: str) -> str:
    return f"{NAME}-{slice_name}"


def report_path(namespace: str, slice_name: str) -> str:
    return f"{namespace_path(namespace)}/configmaps/{report_name(slice_name)}"


def build_objects(request: FleetRunRequest) -> dict[str, Object]:
    """Objects by path, in the order of creation; without the Jobs."""
    space = request.namespace
    names = [NAME, *map(report_name, request.slices.by_name)]
    head = _head("v1", "Namespace", space, **{DIGEST: request.digest})
    files = {name: base64.b64encode(data).decode() for name, data in request.secret.items()}
    return {
        namespace_path(space): {**head, "metadata": {**head["metadata"], "labels": {**OURS, **RUN_LABEL, **_SECURITY}}},
        f"{namespace_path(space)}/serviceaccounts/{NAME}": _head("v1", "ServiceAccount", NAME),
        **worker_rights(space, names),
        record_path(space): {**_head("v1", "ConfigMap", NAME), "data": {MAX_FAIL: str(request.max_fail)}},
        **{report_path(space, name): _head("v1", "ConfigMap", report_name(name)) for name in request.slices.by_name},
        secret_path(space): {
            **_head("v1", "Secret", NAME),
            "type": "Opaque",
            "data": files,
        },
    }


def worker_rights(namespace: str, config_maps: list[str]) -> dict[str, Object]:
    """RBAC of the workers: read and patch the record and the reports, by name."""
    rules = f"/apis/{_GROUP}/v1/namespaces/{namespace}"
    return {
        f"{rules}/roles/{NAME}": {
            **_head(f"{_GROUP}/v1", "Role", NAME),
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["configmaps"],
                    "resourceNames": config_maps,
                    "verbs": ["get", "patch"],
                }
            ],
        },
        f"{rules}/rolebindings/{NAME}": {
            **_head(f"{_GROUP}/v1", "RoleBinding", NAME),
            "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
        },
    }


def build_job(request: FleetRunRequest, job: str) -> Object:
    """`job` is CANARY or SLICE."""
    count = {CANARY: 1, SLICE: len(request.slices.slices)}[job]
    return {
        **_head("batch/v1", "Job", f"{NAME}-{job}"),
        "spec": {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": min(request.parallelism, count),
            "backoffLimitPerIndex": _RETRIES,
            "maxFailedIndexes": count,
            # Never two workers of one slice, if the kubelet can report that the first has ended.
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailIndex",
                        "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [STOPPED]},
                    },
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                ]
            },
            "template": {"metadata": {"labels": {**OURS, **RUN_LABEL}}, "spec": _pod(request, job)},
        },
    }


def _pod(request: FleetRunRequest, job: str) -> dict[str, Any]:
    container = {
        "name": CONTAINER,
        "image": request.image,
        "imagePullPolicy": "IfNotPresent",
        # No command, as the image's own first process finds the user's name and passes signals on.
        "args": ["python3", "-m", _WORKER, job],
        "env": [
            {"name": "PYTHONPATH", "value": _COLLECTIONS},
            {"name": "BALLAST_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "BALLAST_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        ],
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        # It works in the image's own /runner, as the directory of an emptyDir is world-writable.
        "volumeMounts": [{"name": "input", "mountPath": INPUT, "readOnly": True}],
    }
    return {
        "serviceAccountName": NAME,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "dnsPolicy": "Default",  # host names are resolved as on the machines, not as in the cluster
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": 0,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            # ssh refuses a key that belongs to its user and that the group may read; it accepts such a key of root.
            {"name": "input", "secret": {"secretName": NAME, "defaultMode": 0o440}},
        ],
    }


def _head(version: str, kind: str, name: str, **annotations: str) -> Object:
    metadata: dict[str, Any] = {"name": name, "labels": {**OURS, **RUN_LABEL}}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
