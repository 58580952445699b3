# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about changes of kube-proxy's DaemonSets."""

from __future__ import annotations

from ..._core.text.errors import Message, Messages, PeerError, UserError
from ..._kubelet.owners import cluster_owners

MESSAGES = Messages(
    "docs/reference/errors-kube-proxy.md",
    [
        Message(
            id="daemonset-option",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy="see ansible-doc ballast.kube.kube_proxy_daemonset",
        ),
        Message(
            id="daemonset-kubeconfig",
            error=UserError,
            text="kubeconfig: {path} does not exist on the machine where the module runs",
            remedy="name an administrator's kubeconfig, and delegate the task to the machine that has it",
        ),
        Message(
            id="daemonset-none",
            error=PeerError,
            text="{kind} {name} does not exist in namespace {namespace}",
            remedy="name the DaemonSet that runs kube-proxy (kubectl get daemonsets --all-namespaces); clusters where Cilium, Calico eBPF, "
            "kube-router or OVN-Kubernetes serves Services have none",
        ),
        Message(
            id="daemonset-shape",
            error=PeerError,
            text="DaemonSet {name} does not have the form that kubeadm creates: {reason}",
            remedy="change the mode with the tool that created it; this module needs a ConfigMap of that name with config.conf",
        ),
        Message(
            id="daemonset-answer",
            error=PeerError,
            text="the API server's response does not match the Kubernetes API: {reason}",
            remedy="check what listens at the kubeconfig's server address",
        ),
        Message(
            id="daemonset-controller",
            error=PeerError,
            text="the DaemonSet controller did not observe the current DaemonSet {name} within {seconds} seconds",
            remedy="check that kube-controller-manager runs, and read its log",
        ),
        Message(
            id="daemonset-foreign",
            error=PeerError,
            text="{kind} {name} already exists and was not created by this module",
            remedy="check what it is for; remove it, then run the same command again",
        ),
        Message(
            id="daemonset-changed",
            error=PeerError,
            text="DaemonSet {name}: another client changed {field} after the canary DaemonSet was created",
            remedy="restore the value that this module had set, then run the same command again",
        ),
        Message(
            id="daemonset-early",
            error=PeerError,
            text="nodes already have the label of mode {mode} without a canary DaemonSet, and would all move at once: {nodes}",
            remedy="remove the label: kubectl label node NODE ballast.kube/kube-proxy-mode-",
        ),
        Message(
            id="daemonset-no-canary",
            error=PeerError,
            text="mode {mode} cannot become the mode of all nodes: it has no canary DaemonSet, and DaemonSet {name} has mode {current}",
            remedy="create the canary DaemonSet with state: canary, and move every node",
        ),
        Message(
            id="daemonset-other",
            error=PeerError,
            text="canary DaemonSets of other modes exist: {modes}",
            remedy="move their nodes to {mode}, then remove them with state: absent",
        ),
        Message(
            id="daemonset-left",
            error=PeerError,
            text="some nodes have not been moved to mode {mode}: {nodes}",
            remedy="move them first",
        ),
        Message(
            id="daemonset-not-ready",
            error=PeerError,
            text="kube-proxy of mode {mode} is not ready on {nodes}",
            remedy="inspect its pods there: kubectl -n {namespace} describe pods",
        ),
        Message(
            id="daemonset-used",
            error=PeerError,
            text="nodes still run in mode {mode}: {nodes}",
            remedy="move them back first",
        ),
        Message(
            id="daemonset-finishing",
            error=PeerError,
            text="an earlier run that makes {mode} the mode of all nodes was interrupted",
            remedy="finish it with state: final and mode: {mode}",
        ),
        Message(
            id="daemonset-conflict",
            error=PeerError,
            text="{path} could not be written in {attempts} attempts: other clients keep changing it",
            remedy="find the client that writes it (kubectl get --show-managed-fields), and pause it",
        ),
        Message(
            id="daemonset-meanwhile",
            error=PeerError,
            text="another client changed {path} during this run; the module applied its change to that newer version",
            remedy="check that the result has both changes",
        ),
        Message(
            id="daemonset-lost",
            error=PeerError,
            text="objects were modified concurrently by another program",
            remedy="find the client that writes them (kubectl get --show-managed-fields), then run the same command again",
        ),
        *(
            Message(
                id=f"daemonset-owner-{owner.name}",
                error=PeerError,
                text=f"{owner.runs}, so the module changes nothing in this cluster",
                remedy=owner.kube_proxy,
            )
            for owner in cluster_owners()
        ),
    ],
)
