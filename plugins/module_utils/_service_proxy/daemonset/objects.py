# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects of the service proxy as a DaemonSet, by path. Pure.

A container gives capabilities only to root. So the program starts as root, with the capabilities needed to become its own
user, and from then on has only CAP_NET_ADMIN (`_agent/privileges.py`). It must reach the API server at an address that is
not a Service's, because it is the one that makes those work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

from ..._core.engine.kinds import digest
from ..._core.kube.objects import OURS, Object
from ..deployment.request import STOP_SECONDS, USER
from ..messages import AGENT
from .request import DaemonSetRequest

NAMESPACE = "kube-system"
NAME = AGENT.name
ACCOUNT = f"{AGENT.name}-pod"  # and its role; a node's service has another account (files/rights.yml)
NAME_LABEL, CONFIG_ANNOTATION = "app.kubernetes.io/name", "ballast.kube/config"
# The API groups and resources that it follows, and the Events that it writes.
RIGHTS: Sequence[tuple[str, Sequence[str], Sequence[str]]] = (
    ("", ("services", "nodes"), ("list", "watch")),
    ("discovery.k8s.io", ("endpointslices",), ("list", "watch")),
    ("networking.k8s.io", ("servicecidrs",), ("list", "watch")),
    ("events.k8s.io", ("events",), ("create",)),
)
_RBAC = "rbac.authorization.k8s.io"
_NAMESPACED = f"namespaces/{NAMESPACE}"
SET_PATH = f"/apis/apps/v1/{_NAMESPACED}/daemonsets/{NAME}"
_CONFIG_DIRECTORY, _CONFIG_KEY = "/etc/ballast", "config.conf"
_IDLE = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [15]); signal.sigwait([15])"


def daemonset_objects(desired: DaemonSetRequest) -> dict[str, Object]:
    return {
        f"/api/v1/{_NAMESPACED}/serviceaccounts/{ACCOUNT}": _object("v1", "ServiceAccount", ACCOUNT),
        f"/apis/{_RBAC}/v1/clusterroles/{ACCOUNT}": _object(f"{_RBAC}/v1", "ClusterRole", ACCOUNT, rules=_rules()),
        f"/apis/{_RBAC}/v1/clusterrolebindings/{ACCOUNT}": _object(
            f"{_RBAC}/v1",
            "ClusterRoleBinding",
            ACCOUNT,
            roleRef={"apiGroup": _RBAC, "kind": "ClusterRole", "name": ACCOUNT},
            subjects=[{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        ),
        f"/api/v1/{_NAMESPACED}/configmaps/{NAME}": _object("v1", "ConfigMap", NAME, data={_CONFIG_KEY: desired.text}),
        SET_PATH: _daemonset(_pod(desired), annotations={CONFIG_ANNOTATION: digest(desired.text)}, unavailable=1),
    }


def cleaning_daemonset(there: Object) -> Object:
    """A replacement for the existing DaemonSet: its pods remove the rules of their node and wait. On all nodes at once,
    since no rules serve traffic any more."""
    pod = there["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    image = {key: container[key] for key in ("image", "imagePullPolicy") if key in container}
    cleanup = {**image, "name": "cleanup", "args": ["--cleanup"], "securityContext": _security("NET_ADMIN")}
    idle = {
        **image,
        "name": "wait",
        "command": ["/usr/bin/python3", "-I", "-c", _IDLE],
        "securityContext": _security(),
    }
    kept = {key: pod[key] for key in ("hostNetwork", "nodeSelector", "priorityClassName", "tolerations") if key in pod}
    spec = {**kept, "automountServiceAccountToken": False, "initContainers": [cleanup], "containers": [idle]}
    return _daemonset(spec, annotations={}, unavailable="100%")


def missing_pods(daemonset: Mapping[str, Any]) -> str:
    """Which pods do not match their template yet; "" if all do."""
    status = daemonset.get("status") or {}
    if status.get("observedGeneration", 0) < daemonset["metadata"].get("generation", 0):
        return "its controller has not observed it yet"
    scheduled = status.get("desiredNumberScheduled", 0)
    counts = {name: status.get(name, 0) for name in ("updatedNumberScheduled", "numberReady")}
    if all(count >= scheduled for count in counts.values()):
        return ""
    return f"{scheduled} nodes, {counts['updatedNumberScheduled']} updated pods, {counts['numberReady']} ready"


def _pod(desired: DaemonSetRequest) -> Object:
    host, port = desired.healthz
    name = ["--service-proxy-name", desired.service_proxy_name] if desired.service_proxy_name else []
    container = {
        "name": AGENT.short,
        "image": desired.image,
        "imagePullPolicy": "IfNotPresent",
        "args": [
            *("--config", f"{_CONFIG_DIRECTORY}/{_CONFIG_KEY}"),
            *("--user", USER),
            *("--hostname-override", "$(NODE_NAME)"),
            *name,
        ],
        "env": [
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}},
            {"name": "KUBERNETES_SERVICE_HOST", "value": desired.host},
            {"name": "KUBERNETES_SERVICE_PORT", "value": str(desired.port)},
        ],
        # A rolling update continues with the next node once the rules of this one are in force.
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": port, "scheme": "HTTP", **_probe_host(host)},
            "periodSeconds": 2,
        },
        "resources": {"requests": {"cpu": "100m", "memory": "150Mi"}},
        "securityContext": _security("NET_ADMIN", "SETGID", "SETUID"),
        "volumeMounts": [{"name": "config", "mountPath": _CONFIG_DIRECTORY, "readOnly": True}],
    }
    return {
        "serviceAccountName": ACCOUNT,
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {"kubernetes.io/os": "linux", **desired.node_selector},
        "terminationGracePeriodSeconds": STOP_SECONDS,
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": NAME}}],
    }


def _probe_host(host: str) -> Mapping[str, str]:
    """Without a host, the kubelet probes the pod's address, which is the node's."""
    return {} if host in ("0.0.0.0", "::") else {"host": host}


def _security(*capabilities: str) -> Object:
    """Its lock and sockets are root's files in /run of the container: an emptyDir would be accessible to all users."""
    added = {"add": list(capabilities)} if capabilities else {}
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {**added, "drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _daemonset(pod: Object, *, annotations: Mapping[str, str], unavailable: Union[int, str]) -> Object:
    selector = {NAME_LABEL: NAME}
    template = {"metadata": {"labels": {**selector, **OURS}, "annotations": dict(annotations)}, "spec": pod}
    return _object(
        "apps/v1",
        "DaemonSet",
        NAME,
        spec={
            "selector": {"matchLabels": selector},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable}},
            "template": template,
        },
    )


def _rules() -> list[Object]:
    return [{"apiGroups": [group], "resources": [*names], "verbs": [*verbs]} for group, names, verbs in RIGHTS]


def _object(version: str, kind: str, name: str, **body: Any) -> Object:
    metadata: Object = {"name": name, "labels": {NAME_LABEL: NAME, **OURS}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **body}
