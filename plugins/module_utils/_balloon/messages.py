# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be wrong with requested sizes, and with the sums of a host, in one table."""

from __future__ import annotations

from .._core.text.errors import HostError, Message, Messages, PeerError, UserError

MESSAGES = Messages(
    "docs/reference/errors-balloons.md",
    [
        Message(
            id="balloon-kubeconfig",
            error=UserError,
            text="kubeconfig: there is no file {path} on this machine",
            remedy="name the kubeconfig of a client that may read nodes and pods and patch pods/resize",
        ),
        Message(
            id="balloon-value",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy="give {path} such a value",
        ),
        Message(
            id="balloon-no-nodes",
            error=UserError,
            text="nodes: no node is named",
            remedy="name at least one, with target, share or weight",
        ),
        Message(
            id="balloon-node-twice",
            error=UserError,
            text="{path}: {name} is named in {first} already",
            remedy="say all that is asked of a node in one row",
        ),
        Message(
            id="balloon-two-limits",
            error=UserError,
            text="slices: true and vm: true exclude each other",
            remedy="set slices where the nodes are kubelets of one kernel, vm where each is a virtual machine",
        ),
        Message(
            id="balloon-limit-missing",
            error=UserError,
            text="{path} is missing, which {option}: true takes of every node",
            remedy="give {wanted}, or leave {option} out: then the balloon alone is resized",
        ),
        Message(
            id="balloon-limit-unused",
            error=UserError,
            text="{path} has no effect without {option}: true",
            remedy="set {option}: true, or leave {path} out",
        ),
        Message(
            id="balloon-unknown-node",
            error=UserError,
            text="{name}: the cluster has no such node",
            remedy="see `kubectl get nodes`; a node is named as there",
        ),
        Message(
            id="balloon-shares-over",
            error=UserError,
            text="host {host}: the shares of its nodes are {shares} together, which is more than 1",
            remedy="lower them, or use weight, which divides what there is",
        ),
        Message(
            id="balloon-over-room",
            error=UserError,
            text="host {host}: targets of {asked} {resource} together are more than its room of {unreserved}",
            remedy="lower a target or a share, or name nodes that keep what they have, with less; the room is the capacity less the reserve",
        ),
        Message(
            id="balloon-nothing-left",
            error=UserError,
            text="{node}: targets and shares leave no {resource} of host {host} to divide by weight",
            remedy="lower a target or a share, or give {node} a target",
        ),
        Message(
            id="balloon-above-node",
            error=UserError,
            text="{node}: target {asked} {resource} is more than the node can give its pods, {most}",
            remedy="lower the target; a node has its allocatable less the balloon's floor of 1m and 16Mi",
        ),
        Message(
            id="balloon-below-pods",
            error=UserError,
            text="{node}: target {target} {resource} is less than its static and DaemonSet pods request, {needed}",
            remedy="raise the target, or make these pods smaller",
        ),
        Message(
            id="balloon-reserve-over",
            error=UserError,
            text="host {host}: the reserve, {reserve}, is more than its capacity, {capacity}",
            remedy="lower the reserve, or what the kubelets of this host reserve",
        ),
        Message(
            id="balloon-reserve-low",
            error=UserError,
            text="host {host}: the reserve, {reserve}, is below the {overhead} that its nodes keep for themselves",
            remedy="leave reserve out, or raise it: each node's limit is its target and what its kubelet reserves",
        ),
        Message(
            id="balloon-not-ready",
            error=PeerError,
            text="the node is not Ready: its kubelet may not resize the balloon before it is",
            remedy="see `kubectl describe node`; run it again, or leave the rest to the reconciler",
        ),
        Message(
            id="balloon-oversold",
            error=HostError,
            text="the host's nodes may promise {promised} to pods, and {unreserved} are there",
            remedy="give its nodes targets, all of them, with ballast.kube.balloon",
        ),
        Message(
            id="balloon-limits-over",
            error=HostError,
            text="the limits of the host's nodes leave {allowed} to pods, and {unreserved} are there",
            remedy="give its nodes targets, all of them, with ballast.kube.balloon, with slices or vm",
        ),
        Message(
            id="balloon-over-limit",
            error=HostError,
            text="the node may promise {promised} to pods, and its limit leaves them {left}",
            remedy="give it a target with ballast.kube.balloon, with slices or vm as when the limit was set",
        ),
    ],
)
