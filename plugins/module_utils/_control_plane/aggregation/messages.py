# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every message of aggregated APIs and the aggregation agent, by id."""

from __future__ import annotations

from ..._agent.identity import Agent, program_rows
from ..._core.text.errors import HostError, Message, Messages, UserError

_NAME, _WHAT, _IDS = "ballast-aggregation", "aggregation agent", "plane-aggregation"
_COMMAND = "STATE_DIR/lib/ballast-NAME-aggregation"  # each control plane has its own
MESSAGES = Messages(
    "docs/reference/errors-control-plane.md",
    [
        *program_rows(_IDS, name=_COMMAND, what=_WHAT, role="control_plane"),
        Message(
            id="plane-aggregation-option",
            error=UserError,
            text="aggregation: {value} is neither true, false nor a list of APIServices",
            remedy="write true, false, or a list of mappings with name, service, namespace, address and ca",
        ),
        Message(
            id="plane-aggregation-full",
            error=UserError,
            text="aggregation: profile full does not accept a list of APIServices",
            remedy="set aggregation: true, and create the Service, its EndpointSlice and the APIService in the cluster: kube-apiserver resolves "
            "and checks APIServices itself, and needs the egress that a list occupies to reach kubelets",
        ),
        Message(
            id="plane-aggregation-metrics-unused",
            error=UserError,
            text="aggregation_metrics applies only to a list of APIServices, but aggregation is not a list",
            remedy="remove it, or set aggregation to a list of APIServices",
        ),
        Message(
            id="plane-api-service-setting",
            error=UserError,
            text="{path}: unknown setting {key}; allowed: {allowed}",
            remedy="remove it, or use an allowed setting",
        ),
        Message(
            id="plane-api-service-missing",
            error=UserError,
            text="{path} is required",
            remedy="set it to {wanted}",
        ),
        Message(
            id="plane-api-service-value",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy="set it to {wanted}",
        ),
        Message(
            id="plane-api-service-native",
            error=UserError,
            text="{path}: {value} is a version of the group {group}, which the API server serves itself",
            remedy="use another group for the extension API server; the API server manages the APIServices of its own groups",
        ),
        Message(
            id="plane-api-service-twice",
            error=UserError,
            text="{path}: {value} is listed twice",
            remedy="list each APIService once",
        ),
        Message(
            id="plane-api-service-two-addresses",
            error=UserError,
            text="{path}: {service} has the address {value} here, but {other} in {other_path}",
            remedy="use the same address in both, or services with different names",
        ),
        Message(
            id="plane-api-service-ca",
            error=HostError,
            text="{path}: {file} is not a PEM file of certificates",
            remedy="use the certificate of the authority that signed the extension API server's serving certificate, which must be valid for {host}",
        ),
        Message(
            id="plane-aggregation-service-twice",
            error=UserError,
            text="{path}: {value} with this port is already listed in {other}",
            remedy="list each host with its port once",
        ),
        Message(
            id="plane-aggregation-kubeconfig",
            error=HostError,
            text="{path}: this kubeconfig does not exist",
            remedy="run ballast.kube.control_plane again, which creates it",
        ),
        Message(
            id="plane-aggregation-running",
            error=HostError,
            text="another aggregation agent of this control plane is already running on this machine",
            remedy="stop it, or inspect it with its command status; a control plane needs only one",
        ),
    ],
)
AGENT = Agent(_NAME, _WHAT, _IDS, MESSAGES)
