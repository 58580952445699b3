# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can go wrong with the objects of balloons, and with their priority, in one table."""

from __future__ import annotations

from ..._core.text.errors import Message, Messages, PeerError, UserError

MESSAGES = Messages(
    "docs/reference/errors-balloons.md",
    [
        Message(
            id="balloon-object-foreign",
            error=PeerError,
            text="{kind} {name} already exists and was not created by ballast.kube",
            remedy="check what it is for; remove it, then run the same command again",
        ),
        Message(
            id="balloon-elsewhere",
            error=UserError,
            text="namespace: the balloons {name} are in namespace {there}, not in {namespace}",
            remedy="omit namespace, or set it to {there}; to move them, run state: absent, then state: present with the other namespace",
        ),
        Message(
            id="balloon-policy-unserved",
            error=PeerError,
            text="the API server does not serve ValidatingAdmissionPolicy (admissionregistration.k8s.io/v1), without which the reconciler's "
            "ServiceAccount could change any field of any Node",
            remedy="use an API server of Kubernetes 1.30 or newer; kubelets resize pods in place from 1.33 on",
        ),
        Message(
            id="balloon-critical-gate",
            error=PeerError,
            text="priority: node-critical is refused: kubelets that do not report feature gate {gate} as enabled may kill pods for a growing balloon",
            remedy="set featureGates: {{{gate}: true}} in their KubeletConfiguration (Kubernetes 1.37 or newer), or use priority: never-preempt",
        ),
        Message(
            id="balloon-critical-dropped",
            error=PeerError,
            text="priority: node-critical is refused: the API server does not keep spec.podPreemptionPolicy.disableResizePreemption of a Node, "
            "without which a growing balloon preempts pods",
            remedy="start kube-apiserver and kube-scheduler of Kubernetes 1.37 or newer with --feature-gates={gate}=true, or use priority: "
            "never-preempt",
        ),
        Message(
            id="balloon-critical-conflict",
            error=PeerError,
            text="podPreemptionPolicy of Node {node} could not be written in {attempts} attempts: other clients keep changing the Node",
            remedy="find the client that writes it (kubectl get node {node} --show-managed-fields -o yaml), then run the same command again",
        ),
    ],
)
