# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pods that the tests of a lab start: what writes, keeps, scales or pulls, and what is said inside of one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.integration.lab import Lab

# Of a node, where pods write.
PLACES = ("etc", "it-made", "mnt", "opt", "root", "tmp", "var/lib", "var/log")


SCALED = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "busy"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "busy"},
        "minReplicas": 1,
        "maxReplicas": 2,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1"}},
            }
        ],
    },
}


def said_by(lab: Lab, pod: str, command: str) -> str:
    try:
        return lab.kubectl("exec", pod, "--", "sh", "-c", command)
    except subprocess.CalledProcessError as error:
        return str(error.stderr)


def claim(name: str, path: Path) -> str:
    """A file with a claim in the default class, and a pod that mounts it."""
    container = {
        "name": "main",
        "image": "ballast.local/busybox:1",
        "command": ["sh", "-c", "trap exit TERM; sleep 600 & wait"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    items = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "securityContext": {"runAsUser": 1000},
                "containers": [container],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
                "tolerations": [{"operator": "Exists"}],
            },
        },
    ]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    return str(path)


def writer(node: str) -> dict[str, object]:
    """A pod that writes a file of its node's name into directories of its node."""
    places = " ".join(f"/host/{place}" for place in PLACES)
    command = f"mkdir -p /host/it-made; for place in {places}; do echo x >$place/it-{node}; done; sleep 1000000"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"writer-{node}"},
        "spec": {
            "nodeName": node,
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
            "containers": [
                {
                    "name": "main",
                    "image": "ballast.local/busybox:1",
                    "command": ["sh", "-c", command],
                    "volumeMounts": [{"name": "host", "mountPath": "/host"}],
                    "readinessProbe": {
                        "exec": {"command": ["test", "-e", f"/host/it-made/it-{node}"]},
                        "periodSeconds": 1,
                    },
                }
            ],
        },
    }


def runs_on_every_node(lab: Lab, name: str, image_name: str) -> bool:
    """Whether a pod of the image becomes ready on each; nothing of them is left."""
    pods = [f"{name}-{node['name']}" for node in lab.record["nodes"]]
    for node, pod in zip(lab.record["nodes"], pods):
        spec = {"spec": {"nodeName": node["name"], "terminationGracePeriodSeconds": 0}}
        lab.kubectl("run", pod, f"--image={image_name}", f"--overrides={json.dumps(spec)}")
    try:
        lab.kubectl("wait", "--for=condition=Ready", "--timeout=60s", *(f"pod/{pod}" for pod in pods))
    finally:
        print(lab.kubectl("describe", *(f"pod/{pod}" for pod in pods)))
        lab.kubectl("delete", "pod", "--now", *pods)
    return True
