# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resource usage of nodes and pods: metrics-server, behind the API group metrics.k8s.io.

metrics-server asks every kubelet. It trusts their serving certificates by the CA that every pod gets for the API server.

Source of the rights and options: the manifests and the README.md of sigs.k8s.io/metrics-server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._core.host.host import Host
from . import objects
from .addon import Addon

NAME = "metrics-server"
IMAGE = "ballast.local/metrics-server:1"
GROUP_VERSION = ("metrics.k8s.io", "v1beta1")
_LABELS = {"k8s-app": NAME}
_PORT = 10250
_USER = 1000
_RESOLUTION = "10s"  # the shortest that it accepts; figures are available twice as soon as by default
_AUTHORITY = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
_READER = "system:aggregated-metrics-reader"


def manifests(lab: Mapping[str, Any], host: Host) -> objects.Objects:
    group, version = GROUP_VERSION
    rules = [
        {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
    ]
    read = [{"apiGroups": [group], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}]
    to_roles = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in ("view", "edit", "admin")}
    ports = [{"name": "https", "port": 443, "targetPort": _PORT, "protocol": "TCP"}]
    return {
        **objects.service_account(NAME),
        **objects.cluster_role(_READER, read, to_roles),
        **objects.cluster_role(f"system:{NAME}", rules),
        **objects.cluster_role_binding(f"system:{NAME}", NAME, f"system:{NAME}"),
        **objects.cluster_role_binding(f"{NAME}:auth-delegator", NAME, "system:auth-delegator"),
        **objects.role_binding(NAME, NAME, "extension-apiserver-authentication-reader"),
        **objects.deployment(NAME, _LABELS, _pod_spec(lab)),
        **objects.service(NAME, _LABELS, _LABELS, ports),
        f"/apis/apiregistration.k8s.io/v1/apiservices/{version}.{group}": {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{version}.{group}"},
            "spec": {
                "group": group,
                "version": version,
                "service": {"name": NAME, "namespace": objects.NAMESPACE},
                # metrics-server signs its certificate itself, at each start.
                "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            },
        },
    }


def _pod_spec(lab: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "priorityClassName": "system-cluster-critical",
        "serviceAccountName": NAME,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}, *objects.needed_tolerations(lab)],
        "securityContext": {"runAsNonRoot": True, "runAsUser": _USER},
        "containers": [
            {
                "name": NAME,
                "image": IMAGE,
                "imagePullPolicy": "Never",
                "args": [
                    *("--cert-dir=/tmp", f"--secure-port={_PORT}"),
                    *(f"--metric-resolution={_RESOLUTION}", "--kubelet-request-timeout=5s"),
                    *("--kubelet-preferred-address-types=InternalIP", "--kubelet-use-node-status-port"),
                    f"--kubelet-certificate-authority={_AUTHORITY}",
                ],
                "ports": [{"name": "https", "containerPort": _PORT, "protocol": "TCP"}],
                "livenessProbe": {"httpGet": {"path": "/livez", "port": _PORT, "scheme": "HTTPS"}},
                "readinessProbe": {
                    "httpGet": {"path": "/readyz", "port": _PORT, "scheme": "HTTPS"},
                    "periodSeconds": 1,
                },
                "resources": {"requests": {"cpu": "10m", "memory": "48Mi"}, "limits": {"memory": "200Mi"}},
                "securityContext": objects.security_context(),
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }


METRICS = Addon(
    name="metrics",
    families=({"name": "metrics-server"},),
    images=("metrics-server",),
    manifests=manifests,
    workloads=(objects.workload_path("deployments", NAME),),
)
