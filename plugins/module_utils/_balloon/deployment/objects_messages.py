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
            text="{kind} {name} is there already and was not made by ballast.kube",
            remedy="see what it is for; remove it, then run the same command again",
        ),
        Message(
            id="balloon-elsewhere",
            error=UserError,
            text="namespace: the balloons {name} are in the namespace {there}, and {namespace} is asked for",
            remedy="leave namespace out, or give {there}; to move them, run state: absent, then state: present with the other namespace",
        ),
        Message(
            id="balloon-policy-unserved",
            error=PeerError,
            text="the API server serves no ValidatingAdmissionPolicy (admissionregistration.k8s.io/v1), without which the reconciler's "
            "ServiceAccount could change any field of any Node",
            remedy="use an API server of Kubernetes 1.30 or newer that serves it; kubelets resize pods in place from 1.33 on",
        ),
        Message(
            id="balloon-critical-gate",
            error=PeerError,
            text="priority: node-critical is refused: kubelets that do not say that the gate {gate} is on may kill pods for a balloon that grows",
            remedy="set featureGates: {{{gate}: true}} in their KubeletConfiguration (Kubernetes 1.37 or newer), or use priority: never-preempt",
        ),
        Message(
            id="balloon-critical-dropped",
            error=PeerError,
            text="priority: node-critical is refused: the API server does not keep spec.podPreemptionPolicy.disableResizePreemption of a Node, "
            "without which pods are preempted for a balloon that grows",
            remedy="start kube-apiserver and kube-scheduler of Kubernetes 1.37 or newer with --feature-gates={gate}=true, or use priority: never-preempt",
        ),
        Message(
            id="balloon-critical-conflict",
            error=PeerError,
            text="Node {node} is changed by others all the time: {attempts} attempts to write its podPreemptionPolicy failed",
            remedy="see who writes it (kubectl get node {node} --show-managed-fields -o yaml), then run the same command again",
        ),
    ],
)
