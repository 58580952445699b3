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
            text="{where}: the API server gives an object of another form than Kubernetes'",
            remedy="see the object with kubectl get -o json; what listens at the server of the kubeconfig may be something else",
        ),
        Message(
            id="balloon-foreign",
            error=PeerError,
            text="pod {namespace}/{name} on node {node} has the label of a balloon and is none",
            remedy="take the label balloons.ballast.dev/balloon off it; it is counted as any other pod",
        ),
        Message(
            id="balloon-two",
            error=PeerError,
            text="node {node} has several balloon pods",
            remedy="delete all but one of them; the first is taken for the balloon, the others are counted as any other pod",
        ),
        Message(
            id="balloon-annotation",
            error=PeerError,
            text="node {node}: the annotation balloons.ballast.dev/target is not a target",
            remedy='run ballast.kube.balloon for the node, or annotate it as in {{"cpu": "1750m", "memory": "7Gi"}}; until then it counts as not there',
        ),
        Message(
            id="balloon-refused-quota",
            error=PeerError,
            text="{node}: a ResourceQuota of the namespace {namespace} does not allow the balloon {size}",
            remedy="raise the quota, or keep balloons in a namespace without one",
        ),
        Message(
            id="balloon-refused-limit-range",
            error=PeerError,
            text="{node}: a LimitRange of the namespace {namespace} does not allow the balloon {size}",
            remedy="raise its max, lower its min, or keep balloons in a namespace without one",
        ),
        Message(
            id="balloon-refused-webhook",
            error=PeerError,
            text="{node}: an admission webhook or policy does not allow the balloon {size}",
            remedy="exempt the balloons' namespace {namespace} there, for pods/resize",
        ),
        Message(
            id="balloon-refused-access",
            error=PeerError,
            text="{node}: this client may not resize the balloon",
            remedy="allow it patch on pods/resize in the namespace {namespace}, as the role balloons does",
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
            text="{node}: the API server takes the balloon {size} for invalid",
            remedy="see what it says; a balloon is made by the role balloons, and nothing else should change its pod",
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
            text="{node}: the balloon has changed since it was read",
            remedy="nothing: it is read and decided again",
        ),
        Message(
            id="balloon-untold",
            error=PeerError,
            text="{node}: the balloon is at its size, but the target could not be written to its Node",
            remedy="fix what the server reports, then run the same command again: it writes the target",
        ),
        Message(
            id="balloon-api-lost",
            error=PeerError,
            text="the API server was away for {seconds} seconds; the resizes were left as they are, and overcommit no host",
            remedy="fix the API server, then run the same command again: it continues from the present state",
        ),
        Message(
            id="balloon-lease-held",
            error=PeerError,
            text="host {host}: {holder} is at work on its balloons, and did not end within {seconds} seconds",
            remedy="wait for its end, then run the same command again; kubectl get leases shows the holder",
        ),
        Message(
            id="balloon-lease-lost",
            error=PeerError,
            text="host {host}: {holder} has taken the work on its balloons over",
            remedy="run the same command again: it continues from the present state",
        ),
    ],
)
