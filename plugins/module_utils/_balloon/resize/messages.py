# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a node did not reach its target, in one table."""

from __future__ import annotations

from ..._core.text.errors import HostError, Message, Messages, PeerError

MESSAGES = Messages(
    "docs/reference/errors-balloons.md",
    [
        Message(
            id="balloon-reverted",
            error=PeerError,
            text="{node}: pods occupy capacity that the balloon needs; instead of {asked} it is back at {size}",
            remedy="move pods off {node} (kubectl drain, or fewer replicas), or increase its target; then run the same command again",
        ),
        Message(
            id="balloon-infeasible",
            error=PeerError,
            text="{node}: its kubelet reports that the balloon can never have {asked}; it is back at {size}",
            remedy="follow the kubelet's message; it never resizes a static pod or beyond the node's capacity",
        ),
        Message(
            id="balloon-rejected",
            error=PeerError,
            text="{node}: the API server rejects {asked} for the balloon",
            remedy="if it names a ResourceQuota, a LimitRange or a webhook, exempt the balloons' namespace; then run the same command again",
        ),
        Message(
            id="balloon-kubelet-old",
            error=PeerError,
            text="{node}: its kubelet has {version}, which does not resize pods in place",
            remedy="upgrade it to 1.33 or newer; or omit this node, and size it with systemReserved",
        ),
        Message(
            id="balloon-would-preempt",
            error=PeerError,
            text="{node}: its balloon is critical, and the Node does not disable resize preemption: a growing balloon could preempt pods",
            remedy="run ballast.kube.balloon with priority: node-critical again, since a Node that registers again loses that setting; or use "
            "never-preempt",
        ),
        Message(
            id="balloon-blocked",
            error=PeerError,
            text="{node}: host {host} lacks capacity: {more} more needed, {left} unreserved",
            remedy="check why the listed nodes keep it, then run the same command again; or lower this node's target",
        ),
        Message(
            id="balloon-limit-refused",
            error=HostError,
            text="{node}: its limit could not be set to {limit}",
            remedy="fix the reported problem; then run the same command again to continue",
        ),
        Message(
            id="balloon-not-started",
            error=PeerError,
            text="{node}: no balloon started on this node within {seconds} s",
            remedy="check `kubectl get pods -A -o wide --field-selector spec.nodeName={node}` and the events of its balloon; role balloons "
            "creates the DaemonSet",
        ),
        Message(
            id="balloon-cannot-start",
            error=PeerError,
            text="{node}: the container of its balloon cannot start: {reason}",
            remedy="set `image` to one that the node has or can pull; once the DaemonSet uses it, replace the pod manually: "
            "`kubectl delete pod -n {namespace} {pod}`",
        ),
        Message(
            id="balloon-node-gone",
            error=PeerError,
            text="{node}: the cluster had no such node for {seconds} s",
            remedy="check that its kubelet runs and registers with this name",
        ),
        Message(
            id="balloon-node-unready",
            error=PeerError,
            text="{node}: the node was not Ready for {seconds} s; its balloon last reported {size}",
            remedy="check `kubectl describe node {node}` and its kubelet's log; then run the same command again",
        ),
        Message(
            id="balloon-unanswered",
            error=PeerError,
            text="{node}: its kubelet did not react within {seconds} s to the request for {asked}",
            remedy="check `kubectl describe node {node}` and its kubelet's log; then run the same command again",
        ),
        Message(
            id="balloon-not-actuated",
            error=PeerError,
            text="{node}: the kubelet allocated {asked} to the balloon, but the container runtime did not apply it within {seconds} s",
            remedy="read the container runtime's log; if it cannot apply it, delete the balloon pod: the DaemonSet recreates it",
        ),
        Message(
            id="balloon-not-put-back",
            error=PeerError,
            text="{node}: the balloon could neither get {asked} nor return to {size}",
            remedy="run the same command again; until then the scheduler counts the request as used, and the kubelet may still allocate it",
        ),
        Message(
            id="balloon-contended",
            error=PeerError,
            text="{node}: the balloon does not match after {tries} tries: the API server rejected them, or another client resizes it too",
            remedy="find the client that writes it (kubectl get pod -o yaml --show-managed-fields); let only one reconciler or run size a host",
        ),
        Message(
            id="balloon-api-silent",
            error=PeerError,
            text="{node}: the request for {asked} was neither accepted nor refused within {seconds} s",
            remedy="check that the API server and its watches respond; then run the same command again",
        ),
    ],
)
