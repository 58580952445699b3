# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""kube-proxy as kubeadm runs it: one ConfigMap and one DaemonSet for all nodes.

Source of the objects: kubeadm, cmd/kubeadm/app/phases/addons/proxy, and the objects that it creates in a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._control_plane.pki.identities import LAB_KUBE_PROXY
from .._core.engine.context import Context
from .._core.engine.engine import ResourceEngine
from .._core.engine.events import PROGRESS_LOG
from .._core.engine.kinds import Kind
from .._core.engine.plan import Resource
from .._core.text.ip_families import is_ipv6, split
from .._instance.model import KUBE_PROXY_MODES
from .manifests import manifest_kinds, manifest_resources

IMAGE = "ballast.local/kube-proxy:1"
NAMESPACE = "kube-system"
NAME = "kube-proxy"
_LABELS = {"k8s-app": NAME}
_HOME = "/var/lib/kube-proxy"
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_BINDING = "kubeadm:node-proxier"

SPEC: dict[str, Any] = {
    "state_dir": {"type": "path", "required": True},
    **PROGRESS_LOG,
    "plane_dir": {"type": "path", "required": True},
    "api_server": {"type": "str", "required": True},
    "cluster_cidr": {"type": "str", "required": True},
    "mode": {"type": "str", "default": KUBE_PROXY_MODES[0], "choices": list(KUBE_PROXY_MODES)},
}


@dataclass(frozen=True)
class LabKubeProxyRequest:
    state_dir: str
    plane_dir: str
    api_server: str
    cluster_cidr: str
    mode: str

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> LabKubeProxyRequest:
        return cls(
            state_dir=params["state_dir"].rstrip("/"),
            plane_dir=params["plane_dir"].rstrip("/"),
            api_server=params["api_server"],
            cluster_cidr=params["cluster_cidr"],
            mode=params["mode"],
        )


class KubeProxyEngine(ResourceEngine[LabKubeProxyRequest]):
    name = "kube-proxy"
    kinds: Mapping[str, Kind] = manifest_kinds(LAB_KUBE_PROXY)

    def wanted(self, ctx: Context[LabKubeProxyRequest]) -> list[Resource]:
        return manifest_resources(ctx.desired.plane_dir, manifests(ctx.desired), group=self.name)


ENGINE = KubeProxyEngine()


def manifests(desired: LabKubeProxyRequest) -> dict[str, dict[str, Any]]:
    """The objects by path. JSON is written where YAML is read."""
    namespaced = f"namespaces/{NAMESPACE}"
    metadata = {"name": NAME, "labels": _LABELS}
    return {
        f"/api/v1/{namespaced}/serviceaccounts/{NAME}": {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": NAME},
        },
        f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{_BINDING}": {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": _BINDING},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "system:node-proxier",
            },
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
        },
        f"/api/v1/{namespaced}/configmaps/{NAME}": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {
                "config.conf": json.dumps(_config(desired), indent=2) + "\n",
                "kubeconfig.conf": json.dumps(_kubeconfig(desired), indent=2) + "\n",
            },
        },
        f"/apis/apps/v1/{namespaced}/daemonsets/{NAME}": {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": metadata,
            "spec": {
                "selector": {"matchLabels": _LABELS},
                "updateStrategy": {"type": "RollingUpdate"},
                "template": {"metadata": {"labels": _LABELS}, "spec": _pod_spec()},
            },
        },
    }


def _config(desired: LabKubeProxyRequest) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        # Without an IPv4 default where there is IPv6. A change of this text restarts kube-proxy on all nodes.
        **({} if any(map(is_ipv6, split(desired.cluster_cidr))) else {"bindAddress": "0.0.0.0"}),
        "clientConnection": {"kubeconfig": f"{_HOME}/kubeconfig.conf"},
        "clusterCIDR": desired.cluster_cidr,
        # nf_conntrack_max belongs to the whole host: leave it alone.
        "conntrack": {"maxPerCore": 0},
        "healthzBindAddress": "",
        "metricsBindAddress": "",
        "mode": desired.mode,
        "nodePortAddresses": ["primary"],
    }


def _kubeconfig(desired: LabKubeProxyRequest) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "default",
                "cluster": {"certificate-authority": f"{_ACCOUNT}/ca.crt", "server": desired.api_server},
            }
        ],
        "contexts": [{"name": "default", "context": {"cluster": "default", "namespace": "default", "user": "default"}}],
        "current-context": "default",
        "users": [{"name": "default", "user": {"tokenFile": f"{_ACCOUNT}/token"}}],
    }


def _pod_spec() -> dict[str, Any]:
    mounts = {NAME: (_HOME, False), "xtables-lock": ("/run/xtables.lock", False), "lib-modules": ("/lib/modules", True)}
    return {
        "priorityClassName": "system-node-critical",
        "serviceAccountName": NAME,
        "hostNetwork": True,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "containers": [
            {
                "name": NAME,
                "image": IMAGE,
                "imagePullPolicy": "IfNotPresent",
                "command": [
                    "/usr/local/bin/kube-proxy",
                    f"--config={_HOME}/config.conf",
                    "--hostname-override=$(NODE_NAME)",
                ],
                "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                "securityContext": {"privileged": True},
                "volumeMounts": [
                    {"name": name, "mountPath": path, "readOnly": read_only}
                    for name, (path, read_only) in mounts.items()
                ],
            }
        ],
        "volumes": [
            {"name": NAME, "configMap": {"name": NAME}},
            {"name": "xtables-lock", "hostPath": {"path": "/run/xtables.lock", "type": "FileOrCreate"}},
            {"name": "lib-modules", "hostPath": {"path": "/lib/modules"}},
        ],
    }
