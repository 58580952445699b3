# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Volumes: local-path-provisioner, behind the default StorageClass.

A volume is a directory on the node where its first pod runs. Every node has its own directory at /var/lib/kubelet, which is in
the lab's directory and is removed with the node. Volumes are in it, so one path fits all nodes, also those that join later.

Source of the configuration: README.md of github.com/rancher/local-path-provisioner.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..._core.host.host import Host
from . import objects
from .addon import Addon

NAME = "local-path-provisioner"
CLASS = "local-path"
IMAGE = "ballast.local/local-path-provisioner:1"
VOLUMES = "/var/lib/kubelet/local-path"  # in every node
_PROVISIONER = "rancher.io/local-path"
_HELPER_IMAGE = "ballast.local/busybox:1"  # which every node has for the lab's check
_ANY_NODE = "DEFAULT_PATH_FOR_NON_LISTED_NODES"
_LABELS = {"app": NAME}
_CONFIGURATION = "/etc/local-path"
_READ = ("get", "list", "watch")
_CLUSTER_RULES = (
    ("", ("nodes", "persistentvolumeclaims"), _READ),
    ("", ("persistentvolumes",), (*_READ, "create", "patch", "update", "delete")),
    ("", ("events",), ("create", "patch")),
    ("storage.k8s.io", ("storageclasses",), _READ),
)
_HELPER_RULES = (("", ("pods",), ("get", "create", "delete")), ("", ("pods/log",), ("get",)))


def manifests(lab: Mapping[str, Any], host: Host) -> dict[str, dict[str, Any]]:
    return {
        **objects.service_account(NAME),
        **objects.cluster_role(NAME, objects.rules(_CLUSTER_RULES)),
        **objects.cluster_role_binding(NAME, NAME, NAME),
        **objects.role(NAME, objects.rules(_HELPER_RULES)),
        **objects.role_binding(NAME, NAME, NAME),
        **objects.config_map(NAME, _configuration(), _LABELS),
        **objects.deployment(NAME, _LABELS, _pod_spec(lab)),
        f"/apis/storage.k8s.io/v1/storageclasses/{CLASS}": {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": _PROVISIONER,
            "volumeBindingMode": "WaitForFirstConsumer",  # a volume is where its pod is
            "reclaimPolicy": "Delete",
        },
    }


def _configuration() -> dict[str, str]:
    """`setup` and `teardown` run in a pod on the volume's node. `setup` lets a pod of any user write to its volume."""
    helper = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "local-path-helper"},
        "spec": {
            "priorityClassName": "system-node-critical",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "helper-pod", "image": _HELPER_IMAGE, "imagePullPolicy": "Never"}],
        },
    }
    return {
        "config.json": json.dumps({"nodePathMap": [{"node": _ANY_NODE, "paths": [VOLUMES]}]}),
        "helperPod.yaml": json.dumps(helper),
        "setup": '#!/bin/sh\nset -eu\nmkdir -m 0777 -p "$VOL_DIR"\n',
        "teardown": '#!/bin/sh\nset -eu\nrm -rf "$VOL_DIR"\n',
    }


def _pod_spec(lab: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "priorityClassName": "system-cluster-critical",
        "serviceAccountName": NAME,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}, *objects.needed_tolerations(lab)],
        "containers": [
            {
                "name": NAME,
                "image": IMAGE,
                "imagePullPolicy": "Never",
                "args": [
                    *("start", "--config", f"{_CONFIGURATION}/config.json"),
                    *("--helper-pod-file", f"{_CONFIGURATION}/helperPod.yaml", "--configmap-name", NAME),
                    *("--namespace", objects.NAMESPACE, "--service-account-name", NAME),
                ],
                "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "170Mi"}},
                "securityContext": objects.security_context(),
                "volumeMounts": [{"name": "config", "mountPath": _CONFIGURATION, "readOnly": True}],
            }
        ],
        "volumes": [{"name": "config", "configMap": {"name": NAME}}],
    }


STORAGE = Addon(
    name="storage",
    families=({"name": "local-path-provisioner"},),
    images=("local-path-provisioner",),
    manifests=manifests,
    workloads=(objects.workload_path("deployments", NAME),),
)
