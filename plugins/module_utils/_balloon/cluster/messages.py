# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can go wrong with the API server when balloons are read and resized, in one table."""

from __future__ import annotations

from ..._core.text.errors import Message, Messages, PeerError

MESSAGES = Messages(
    "docs/reference/errors-balloons.md",
    [
        Message(
            id="balloon-object",
            error=PeerError,
            text="{where}: the API server returned an object that does not match the Kubernetes API",
            remedy="inspect the object with kubectl get -o json; check that the kubeconfig's server is a Kubernetes API server",
        ),
        Message(
            id="balloon-foreign",
            error=PeerError,
            text="pod {namespace}/{name} on node {node} has the balloon label but is not a balloon",
            remedy="remove the label balloons.ballast.dev/balloon; the pod counts like any other pod",
        ),
        Message(
            id="balloon-two",
            error=PeerError,
            text="node {node} has several balloon pods",
            remedy="delete all but one; the first counts as the balloon, the others like any other pod",
        ),
        Message(
            id="balloon-annotation",
            error=PeerError,
            text="node {node}: the annotation balloons.ballast.dev/target is not a target",
            remedy='run ballast.kube.balloon for the node, or set the annotation like {{"cpu": "1750m", "memory": "7Gi"}}; until then it is ignored',
        ),
        Message(
            id="balloon-refused-quota",
            error=PeerError,
            text="{node}: a ResourceQuota in namespace {namespace} rejects the balloon {size}",
            remedy="increase the quota, or use a namespace without one for balloons",
        ),
        Message(
            id="balloon-refused-limit-range",
            error=PeerError,
            text="{node}: a LimitRange in namespace {namespace} rejects the balloon {size}",
            remedy="increase its max, lower its min, or use a namespace without one for balloons",
        ),
        Message(
            id="balloon-refused-webhook",
            error=PeerError,
            text="{node}: an admission webhook or policy rejects the balloon {size}",
            remedy="exempt the balloons' namespace {namespace} in it for pods/resize",
        ),
        Message(
            id="balloon-refused-access",
            error=PeerError,
            text="{node}: this client may not resize the balloon",
            remedy="grant it patch on pods/resize in namespace {namespace}, as role balloons does",
        ),
        Message(
            id="balloon-refused-unserved",
            error=PeerError,
            text="{node}: the API server does not serve pods/resize",
            remedy="use Kubernetes 1.33 or newer, on the API servers and on the nodes",
        ),
        Message(
            id="balloon-refused-invalid",
            error=PeerError,
            text="{node}: the API server rejects the balloon {size} as invalid",
            remedy="read its message; role balloons creates the balloon, and no other client may change its pod",
        ),
        Message(
            id="balloon-refused-otherwise",
            error=PeerError,
            text="{node}: the API server refuses the balloon {size}",
            remedy="fix what the server reports",
        ),
        Message(
            id="balloon-changed",
            error=PeerError,
            text="{node}: the balloon was modified concurrently",
            remedy="nothing: it is read again and retried",
        ),
        Message(
            id="balloon-untold",
            error=PeerError,
            text="{node}: the balloon has its size, but the target could not be written to the Node",
            remedy="fix what the server reports, then run the same command again to write the target",
        ),
        Message(
            id="balloon-api-lost",
            error=PeerError,
            text="the API server did not respond for {seconds} seconds; unfinished resizes remain, and no host is overcommitted",
            remedy="fix the API server, then run the same command again: it continues from the current state",
        ),
        Message(
            id="balloon-lease-held",
            error=PeerError,
            text="host {host}: {holder} is resizing its balloons and did not finish within {seconds} seconds",
            remedy="wait until it has finished, then run the same command again; kubectl get leases shows the holder",
        ),
        Message(
            id="balloon-lease-lost",
            error=PeerError,
            text="host {host}: {holder} has taken over resizing its balloons",
            remedy="run the same command again: it continues from the current state",
        ),
    ],
)
