# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about the service proxy as a DaemonSet."""

from __future__ import annotations

from ..._core.text.errors import Message, Messages, PeerError, UserError

MESSAGES = Messages(
    "docs/reference/errors-service-proxy.md",
    [
        Message(
            id="service-proxy-daemonset-kubeconfig",
            error=UserError,
            text="kubeconfig: {path} does not exist on the machine where the module runs",
            remedy="name an administrator's kubeconfig, and delegate the task to the machine that has it",
        ),
        Message(
            id="service-proxy-daemonset-server",
            error=UserError,
            text="server: {value} is not the address of an API server",
            remedy="write https://HOST:PORT, an address that every node reaches without a Service, as in a kubelet's kubeconfig",
        ),
        Message(
            id="service-proxy-daemonset-image",
            error=UserError,
            text="image: {value} is not an image name",
            remedy="include registry host and tag, for example ballast.local/service-proxy:1",
        ),
        Message(
            id="service-proxy-daemonset-config",
            error=UserError,
            text="config.{path} is not supported in a DaemonSet: {reason}",
            remedy="remove it",
        ),
        Message(
            id="service-proxy-daemonset-foreign",
            error=PeerError,
            text="{kind} {name} already exists and was not created by this module",
            remedy="check what it is for; remove it, then run the same command again",
        ),
        Message(
            id="service-proxy-daemonset-pods",
            error=PeerError,
            text="pods of DaemonSet {name} are not ready on all nodes within {seconds} seconds",
            remedy="find out why: kubectl -n {namespace} describe pods -l app.kubernetes.io/name={name}; then run the same command again",
        ),
        Message(
            id="service-proxy-daemonset-lost",
            error=PeerError,
            text="objects were modified concurrently: another client changes the same ones",
            remedy="find the client that writes them (kubectl get --show-managed-fields), then run the same command again",
        ),
    ],
)
