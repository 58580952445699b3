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
            text="{node}: pods hold what the balloon was to take; of {asked} it is put back to {size}",
            remedy="move pods off {node} (kubectl drain, or fewer replicas), or give it a higher target; then run it again",
        ),
        Message(
            id="balloon-infeasible",
            error=PeerError,
            text="{node}: its kubelet says that the balloon can never have {asked}; it is put back to {size}",
            remedy="do as the kubelet's words say; a static pod, or more than the node has, is refused for good",
        ),
        Message(
            id="balloon-rejected",
            error=PeerError,
            text="{node}: the API server does not take {asked} for the balloon",
            remedy="if it names a ResourceQuota, a LimitRange or a webhook, leave the balloons' namespace out of that; then run it again",
        ),
        Message(
            id="balloon-kubelet-old",
            error=PeerError,
            text="{node}: its kubelet is of {version}, which does not resize pods in place",
            remedy="upgrade it to 1.33 or newer; or leave this node out, and size it with systemReserved",
        ),
        Message(
            id="balloon-would-preempt",
            error=PeerError,
            text="{node}: its balloon is critical, and the Node does not forbid that a resize preempts: to grow, it might cost pods their place",
            remedy="run ballast.kube.balloon with priority: node-critical again, since a Node that registers again loses that setting; or use never-preempt",
        ),
        Message(
            id="balloon-blocked",
            error=PeerError,
            text="{node}: host {host} lacks the capacity for it: it needs {more} more, and {left} are left",
            remedy="see why the nodes that are found hold it, and run it again; or give this one a lower target",
        ),
        Message(
            id="balloon-limit-refused",
            error=HostError,
            text="{node}: its limit could not be set to {limit}",
            remedy="see what is found; then run it again: it goes on where it stopped",
        ),
        Message(
            id="balloon-not-started",
            error=PeerError,
            text="{node}: no balloon has started there within {seconds} s",
            remedy="see `kubectl get pods -A -o wide --field-selector spec.nodeName={node}` and the events of its balloon; role balloons makes the DaemonSet",
        ),
        Message(
            id="balloon-cannot-start",
            error=PeerError,
            text="{node}: the container of its balloon cannot start: {reason}",
            remedy="name an image that the node has or can pull (`image`), and once the DaemonSet has it, replace the pod, which nothing else does: "
            "`kubectl delete pod -n {namespace} {pod}`",
        ),
        Message(
            id="balloon-node-gone",
            error=PeerError,
            text="{node}: the cluster has had no such node for {seconds} s",
            remedy="see whether its kubelet runs, and registers with this name",
        ),
        Message(
            id="balloon-node-unready",
            error=PeerError,
            text="{node}: it has not been Ready for {seconds} s; the balloon had {size} when last reported",
            remedy="see `kubectl describe node {node}` and its kubelet's log; then run it again",
        ),
        Message(
            id="balloon-unanswered",
            error=PeerError,
            text="{node}: its kubelet has not answered for {seconds} s that the balloon is to have {asked}",
            remedy="see `kubectl describe node {node}` and its kubelet's log; then run it again",
        ),
        Message(
            id="balloon-not-actuated",
            error=PeerError,
            text="{node}: the kubelet has granted {asked} to the balloon, and its container runtime has not done it for {seconds} s",
            remedy="see the log of the container runtime; if it cannot, delete the balloon pod: the DaemonSet makes it again",
        ),
        Message(
            id="balloon-not-put-back",
            error=PeerError,
            text="{node}: the balloon cannot have {asked}, and could not be put back to {size} either",
            remedy="run it again; until then the scheduler counts what was asked as taken, and the kubelet may still grant it",
        ),
        Message(
            id="balloon-contended",
            error=PeerError,
            text="{node}: after {tries} tries the balloon is not as asked: the API server did not take them, or somebody else resizes it too",
            remedy="see who writes it (kubectl get pod -o yaml --show-managed-fields); let only one reconciler or run size a host",
        ),
        Message(
            id="balloon-api-silent",
            error=PeerError,
            text="{node}: what was asked of it, {asked}, has neither been refused nor seen for {seconds} s",
            remedy="see whether the API server answers, and its watches; then run it again",
        ),
    ],
)
