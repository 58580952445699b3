# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about the configuration file of `ballast-service-proxy`. Those about single keys are in `_rules`."""

from __future__ import annotations

from .._core.text.errors import Message, Messages, UserError

MESSAGES = Messages(
    "docs/reference/errors-service-proxy.md",
    [
        Message(
            id="service-proxy-config-shape",
            error=UserError,
            text="{path} is not a KubeProxyConfiguration of kubeproxy.config.k8s.io/v1alpha1",
            remedy="start it with `apiVersion: kubeproxy.config.k8s.io/v1alpha1` and `kind: KubeProxyConfiguration`",
        ),
        Message(
            id="service-proxy-config-unused",
            error=UserError,
            text="{path}: {value} has no effect: {reason}",
            remedy="{remedy}",
        ),
        Message(
            id="service-proxy-name",
            error=UserError,
            text="service_proxy_name: {value} is not a valid label value",
            remedy="use up to 63 letters, digits and - _ . that start and end with a letter or digit",
        ),
        Message(
            id="service-proxy-kubeconfig",
            error=UserError,
            text="config.clientConnection.kubeconfig is not set",
            remedy="set it to the path of the service proxy's kubeconfig on the node",
        ),
        Message(
            id="service-proxy-kubeconfig-closed",
            error=UserError,
            text="the service proxy runs as user {user}, who cannot reach {path}",
            remedy="move the file below /etc/ballast, or let other users enter that directory: chmod o+x {directory}",
        ),
        Message(
            id="service-proxy-kubeconfig-group",
            error=UserError,
            text="{path} belongs to another group, which would lose access if it were given to {user}, the service proxy's user",
            remedy="give the service proxy its own kubeconfig, owned by root with mode 0600",
        ),
    ],
)
