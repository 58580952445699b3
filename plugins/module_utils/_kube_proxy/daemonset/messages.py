# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of a change of kube-proxy's DaemonSets, in one table."""

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
            text="kubeconfig: there is no file {path} on the machine where the module runs",
            remedy="name one of an administrator, and delegate the task to the machine that has it",
        ),
        Message(
            id="daemonset-none",
            error=PeerError,
            text="there is no {kind} {name} in the namespace {namespace}",
            remedy="name the DaemonSet that runs kube-proxy (kubectl get daemonsets --all-namespaces); there is none where Cilium, Calico eBPF, "
            "kube-router or OVN-Kubernetes carries Services",
        ),
        Message(
            id="daemonset-shape",
            error=PeerError,
            text="DaemonSet {name} is not of the form that kubeadm makes: {reason}",
            remedy="change the mode by the tool that made it; this module moves nodes only where a ConfigMap of that name holds config.conf",
        ),
        Message(
            id="daemonset-answer",
            error=PeerError,
            text="what the API server answered is not as the API of Kubernetes has it: {reason}",
            remedy="see what listens at the address that the kubeconfig names",
        ),
        Message(
            id="daemonset-controller",
            error=PeerError,
            text="the DaemonSet controller has not seen DaemonSet {name} as it is now within {seconds} seconds",
            remedy="see whether kube-controller-manager runs, and its log",
        ),
        Message(
            id="daemonset-foreign",
            error=PeerError,
            text="{kind} {name} is there already and was not made by this module",
            remedy="see what it is for; remove it, then run the same command again",
        ),
        Message(
            id="daemonset-changed",
            error=PeerError,
            text="DaemonSet {name}: somebody has changed {field} since canaries were made",
            remedy="put it back to what this module had set, then run the same command again",
        ),
        Message(
            id="daemonset-early",
            error=PeerError,
            text="nodes have the label of mode {mode} before there are canaries, and would all be moved at once: {nodes}",
            remedy="take the label from them: kubectl label node NODE ballast.kube/kube-proxy-mode-",
        ),
        Message(
            id="daemonset-no-canary",
            error=PeerError,
            text="mode {mode} cannot become that of all nodes: it has no canaries, and DaemonSet {name} is of mode {current}",
            remedy="make canaries with state: canary, and move every node",
        ),
        Message(
            id="daemonset-other",
            error=PeerError,
            text="there are canaries of another mode too: {modes}",
            remedy="move their nodes to {mode}, then end them with state: absent",
        ),
        Message(
            id="daemonset-left",
            error=PeerError,
            text="nodes are left that are not moved to mode {mode}: {nodes}",
            remedy="move them first",
        ),
        Message(
            id="daemonset-not-ready",
            error=PeerError,
            text="kube-proxy of mode {mode} is not ready on {nodes}",
            remedy="see its pods there: kubectl -n {namespace} describe pods",
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
            text="mode {mode} is being made that of all nodes, and a run of that did not end",
            remedy="finish it with state: final and mode: {mode}",
        ),
        Message(
            id="daemonset-conflict",
            error=PeerError,
            text="{path} is changed by others all the time: {attempts} attempts to write it failed",
            remedy="see who writes it (kubectl get --show-managed-fields), and have that wait",
        ),
        Message(
            id="daemonset-meanwhile",
            error=PeerError,
            text="{path} was changed by somebody else during this run; the change was made to what was there then",
            remedy="see whether it is as both want it",
        ),
        Message(
            id="daemonset-lost",
            error=PeerError,
            text="objects were modified concurrently by another program",
            remedy="see who writes them (kubectl get --show-managed-fields), then run the same command again",
        ),
        *(
            Message(
                id=f"daemonset-owner-{owner.name}",
                error=PeerError,
                text=f"{owner.runs}, so nothing is changed in this cluster",
                remedy=owner.kube_proxy,
            )
            for owner in cluster_owners()
        ),
    ],
)
