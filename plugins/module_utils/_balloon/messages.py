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
            text="kubeconfig: {path} does not exist on this machine",
            remedy="use the kubeconfig of a client that may read nodes and pods and patch pods/resize",
        ),
        Message(
            id="balloon-value",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy="set {path} to such a value",
        ),
        Message(
            id="balloon-no-nodes",
            error=UserError,
            text="nodes: the list is empty",
            remedy="list at least one node with target, share or weight",
        ),
        Message(
            id="balloon-node-twice",
            error=UserError,
            text="{path}: {name} is already listed in {first}",
            remedy="put all settings of a node into one entry",
        ),
        Message(
            id="balloon-two-limits",
            error=UserError,
            text="slices: true and vm: true exclude each other",
            remedy="set slices if the nodes are kubelets on one kernel, vm if each node is a virtual machine",
        ),
        Message(
            id="balloon-limit-missing",
            error=UserError,
            text="{path} is missing: {option}: true requires it for every node",
            remedy="set {wanted}, or omit {option} to resize only the balloon",
        ),
        Message(
            id="balloon-limit-unused",
            error=UserError,
            text="{path} has no effect without {option}: true",
            remedy="set {option}: true, or omit {path}",
        ),
        Message(
            id="balloon-unknown-node",
            error=UserError,
            text="{name}: the cluster has no such node",
            remedy="use the names shown by `kubectl get nodes`",
        ),
        Message(
            id="balloon-shares-over",
            error=UserError,
            text="host {host}: its nodes' shares add up to {shares}, which is more than 1",
            remedy="lower them, or use weight, which divides the available capacity",
        ),
        Message(
            id="balloon-over-room",
            error=UserError,
            text="host {host}: targets add up to {asked} {resource}, more than its unreserved {unreserved}",
            remedy="lower a target or a share, or list unchanged nodes with lower targets; unreserved is the capacity minus the reserve",
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
            text="{node}: target {asked} {resource} exceeds what the node can offer its pods, {most}",
            remedy="lower the target; the maximum is the node's allocatable minus the balloon's minimum of 1m and 16Mi",
        ),
        Message(
            id="balloon-below-pods",
            error=UserError,
            text="{node}: target {target} {resource} is below the requests of its static and DaemonSet pods, {needed}",
            remedy="increase the target, or reduce these pods' requests",
        ),
        Message(
            id="balloon-reserve-over",
            error=UserError,
            text="host {host}: the reserve, {reserve}, exceeds its capacity, {capacity}",
            remedy="lower the reserve, or the reservations of this host's kubelets",
        ),
        Message(
            id="balloon-reserve-low",
            error=UserError,
            text="host {host}: the reserve, {reserve}, is below the {overhead} that its nodes reserve",
            remedy="omit reserve, or increase it: each node's limit is its target plus its kubelet's reservation",
        ),
        Message(
            id="balloon-not-ready",
            error=PeerError,
            text="the node is not Ready, so its kubelet may not resize the balloon yet",
            remedy="check `kubectl describe node`; run the same command again, or let the reconciler finish",
        ),
        Message(
            id="balloon-oversold",
            error=HostError,
            text="the host is overcommitted: {promised} schedulable, {unreserved} unreserved",
            remedy="set targets for all of its nodes with ballast.kube.balloon",
        ),
        Message(
            id="balloon-limits-over",
            error=HostError,
            text="the host is overcommitted: its nodes' limits allow pods {allowed}, {unreserved} unreserved",
            remedy="set targets for all of its nodes with ballast.kube.balloon and slices or vm",
        ),
        Message(
            id="balloon-over-limit",
            error=HostError,
            text="the node is overcommitted: {promised} schedulable, but its limit allows pods {left}",
            remedy="set a target with ballast.kube.balloon, with slices or vm as when the limit was set",
        ),
    ],
)
