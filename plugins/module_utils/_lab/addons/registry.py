# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A registry for the user's own images: Debian's docker-registry, at the address of the lab's first node.

It is a pod in its node's network namespace, so this host and every node reach it at an address on the lab's bridge. A daemon on the
host would need more rights, and would have to be stopped and removed in another way. It speaks plain HTTP, and each containerd
gets a mirror entry that says so.

Source of its configuration: docs/configuration.md of github.com/distribution/distribution, 2.8.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..._core.host.host import Host
from ..._core.text.ip_families import primary
from . import objects
from .addon import Addon

NAME = "registry"
IMAGE = "ballast.local/docker-registry:1"
PORT = 5000
IMAGES = "/var/lib/kubelet/registry"  # in its node
_LABELS = {"app": NAME}
_CONFIGURATION = "/etc/docker/registry"


def registry_address(lab: Mapping[str, Any]) -> str:
    """HOST:PORT, with which the names of its images begin."""
    return f"{primary(lab['nodes'][0]['address'])}:{PORT}"


def registry_mirrors(lab: Mapping[str, Any]) -> dict[str, list[str]]:
    """The mirror entry by which each containerd uses HTTP; empty in a lab without the registry."""
    address = registry_address(lab)
    return {address: [f"http://{address}"]} if NAME in lab.get("addons", ()) else {}


def manifests(lab: Mapping[str, Any], host: Host) -> objects.Objects:
    config = {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": IMAGES}, "delete": {"enabled": True}},
        "http": {"addr": registry_address(lab)},
    }
    made = objects.deployment(NAME, _LABELS, _pod_spec(lab))
    # With a rolling update the new pod would wait for the port of the old one.
    made[REGISTRY.workloads[0]]["spec"]["strategy"] = {"type": "Recreate"}
    return {**objects.config_map(NAME, {"config.yml": json.dumps(config)}, _LABELS), **made}


def _pod_spec(lab: Mapping[str, Any]) -> dict[str, Any]:
    first = lab["nodes"][0]
    probe = {"httpGet": {"path": "/v2/", "port": PORT}}
    return {
        "priorityClassName": "system-cluster-critical",
        "automountServiceAccountToken": False,
        "hostNetwork": True,
        "nodeSelector": {"kubernetes.io/hostname": first["name"]},
        "tolerations": [
            {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]} for taint in first["taints"]
        ],
        "containers": [
            {
                "name": NAME,
                "image": IMAGE,
                "imagePullPolicy": "Never",
                "args": ["serve", f"{_CONFIGURATION}/config.yml"],
                "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
                "livenessProbe": probe,
                "readinessProbe": {**probe, "periodSeconds": 1},
                "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
                "securityContext": objects.security_context(),
                "volumeMounts": [
                    {"name": "config", "mountPath": _CONFIGURATION, "readOnly": True},
                    {"name": "images", "mountPath": IMAGES},
                ],
            }
        ],
        "volumes": [
            {"name": "config", "configMap": {"name": NAME}},
            {"name": "images", "hostPath": {"path": IMAGES, "type": "DirectoryOrCreate"}},
        ],
    }


REGISTRY = Addon(
    name=NAME,
    families=(),
    images=("docker-registry",),
    manifests=manifests,
    workloads=(objects.workload_path("deployments", NAME),),
    needs_ipv4=True,
)
