# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every message of aggregated APIs and the aggregation agent, by id."""

from __future__ import annotations

from ..._agent.identity import Agent, program_rows
from ..._core.text.errors import HostError, Message, Messages, UserError

_NAME, _WHAT, _IDS = "ballast-aggregation", "aggregation agent", "plane-aggregation"
_COMMAND = "STATE_DIR/lib/ballast-NAME-aggregation"  # of each control plane its own
MESSAGES = Messages(
    "docs/reference/errors-control-plane.md",
    [
        *program_rows(_IDS, name=_COMMAND, what=_WHAT, role="control_plane"),
        Message(
            id="plane-aggregation-option",
            error=UserError,
            text="aggregation: {value} is neither true, false nor a list of APIServices",
            remedy="write true or false, or a list of mappings with name, service, namespace, address and ca",
        ),
        Message(
            id="plane-aggregation-full",
            error=UserError,
            text="aggregation: profile full does not take a list of APIServices",
            remedy="set aggregation: true, and make the Service, its EndpointSlice and the APIService in the cluster: "
            "kube-apiserver finds and checks APIServices by these itself, and reaches kubelets by the egress that a list takes",
        ),
        Message(
            id="plane-aggregation-metrics-unused",
            error=UserError,
            text="aggregation_metrics: these are of a list of APIServices, and aggregation is none",
            remedy="leave it out, or list APIServices as aggregation",
        ),
        Message(
            id="plane-api-service-setting",
            error=UserError,
            text="{path}: there is no setting {key}; there are {allowed}",
            remedy="remove it, or write it as one of these",
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
            text="{path}: {value} is a version of the API server's own group {group}",
            remedy="give the extension API server a group of its own; the API server manages the APIServices of its groups itself",
        ),
        Message(
            id="plane-api-service-twice",
            error=UserError,
            text="{path}: {value} is there twice",
            remedy="list each APIService once",
        ),
        Message(
            id="plane-api-service-two-addresses",
            error=UserError,
            text="{path}: {service} listens on {value} here, and on {other} in {other_path}",
            remedy="give both the same address, or services of different names",
        ),
        Message(
            id="plane-api-service-ca",
            error=HostError,
            text="{path}: {file} is no PEM file of certificates",
            remedy="name the file of the authority that signed the serving certificate of the extension API server, which must be "
            "for {host}",
        ),
        Message(
            id="plane-aggregation-service-twice",
            error=UserError,
            text="{path}: {value} with this port is named in {other} already",
            remedy="name each host with its port once",
        ),
        Message(
            id="plane-aggregation-kubeconfig",
            error=HostError,
            text="{path}: there is no such kubeconfig",
            remedy="run ballast.kube.control_plane again, which writes it",
        ),
        Message(
            id="plane-aggregation-running",
            error=HostError,
            text="another aggregation agent of this control plane runs on this machine",
            remedy="end it, or see it by its command status; one control plane needs but one",
        ),
    ],
)
AGENT = Agent(_NAME, _WHAT, _IDS, MESSAGES)
