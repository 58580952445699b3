# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Enforces NetworkPolicies: kube-network-policies, on every node.

On each node it has nftables queue the first packet of every connection of a pod that a policy selects, and decides whether the
packet may pass. While it does not run, those connections wait and fail: a policy is never silently off.

Source of the rights and options: install.yaml of sigs.k8s.io/kube-network-policies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._core.host.host import Host
from ..trial import Trial
from . import objects
from .addon import Addon

NAME = "kube-network-policies"
IMAGE = f"ballast.local/{NAME}:1"
_LABELS = {"app": NAME}
_METRICS_PORT = 9080
_RULES = (
    ("", ("pods", "namespaces"), ("list", "watch")),
    ("networking.k8s.io", ("networkpolicies",), ("list", "watch")),
)


def manifests(lab: Mapping[str, Any], host: Host) -> objects.Objects:
    return {
        **objects.service_account(NAME),
        **objects.cluster_role(NAME, objects.rules(_RULES)),
        **objects.cluster_role_binding(NAME, NAME, NAME),
        **objects.daemon_set(NAME, _LABELS, _pod()),
    }


def _pod() -> dict[str, Any]:
    """A pod on every node, whatever its taints. It uses the node's network namespace, whose packets it judges."""
    answers = {"httpGet": {"path": "/metrics", "port": _METRICS_PORT}}
    node = {"name": "NODE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}}
    return {
        "priorityClassName": "system-node-critical",
        "serviceAccountName": NAME,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 15,  # it removes its rules from the kernel, and ends 5 s later
        "containers": [
            {
                "name": NAME,
                "image": IMAGE,
                "imagePullPolicy": "Never",
                # Pod addresses come from the API: NRI would need a socket of the node's containerd.
                "args": ["--hostname-override=$(NODE)", "--disable-nri", f"--metrics-bind-address=:{_METRICS_PORT}"],
                "env": [node],
                "ports": [{"name": "metrics", "containerPort": _METRICS_PORT, "protocol": "TCP"}],
                "livenessProbe": answers,
                "readinessProbe": {**answers, "periodSeconds": 1},
                "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "170Mi"}},
                "securityContext": objects.security_context("NET_ADMIN"),
            }
        ],
    }


NETWORK_POLICY = Addon(
    name="network_policy",
    families=({"name": NAME},),
    images=(NAME,),
    manifests=manifests,
    workloads=(objects.workload_path("daemonsets", NAME),),
    needs=(
        Trial(
            feature="nftables with queues",
            argv=(
                "nft",
                "add table ip p; add chain ip p c { type filter hook forward priority 0; }; add rule ip p c queue to 98",
            ),
            hint="load the modules nft_queue and nfnetlink_queue; if the kernel was built without them (CONFIG_NFT_QUEUE), use target vm, or omit "
            "the add-on network_policy",
        ),
    ),
)
