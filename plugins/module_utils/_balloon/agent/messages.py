# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can go wrong with the reconciler, in one table."""

from __future__ import annotations

from ..._agent.identity import Agent, program_rows
from ..._core.text.errors import HostError, Message, Messages, UserError

_NAME, _WHAT, _IDS = "ballast-balloons", "reconciler", "balloon-agent"
MESSAGES = Messages(
    "docs/reference/errors-balloon-reconciler.md",
    [
        *program_rows(_IDS, name=_NAME, what=_WHAT, role="balloons"),
        Message(
            id="balloon-agent-limits-of-all",
            error=UserError,
            text="{path}: {option}: true requires a list of this machine's nodes, each with {wanted}",
            remedy="list them under nodes, each with name and {wanted}",
        ),
        Message(
            id="balloon-agent-node-twice",
            error=UserError,
            text="{path}: {value} is already listed in {other}",
            remedy="list each node once",
        ),
        Message(
            id="balloon-agent-two-limits",
            error=UserError,
            text="{path}: slices: true and vm: true exclude each other",
            remedy="set slices if the nodes are kubelets on one kernel, vm if each node is a virtual machine",
        ),
        Message(
            id="balloon-agent-limit-unused",
            error=UserError,
            text="{path} has no effect without {option}: true",
            remedy="set {option}: true, or omit {path}",
        ),
        Message(
            id="balloon-agent-quantity",
            error=UserError,
            text="{path}: {value} is not a quantity of 0 or more",
            remedy="write it as Kubernetes does, in quotes: '500m', '2', '512Mi', '1Gi'",
        ),
        Message(
            id="balloon-agent-kubeconfig",
            error=HostError,
            text="{path}: the kubeconfig cannot be used",
            remedy="give the reconciler its ServiceAccount's kubeconfig, readable only by root (mode 0600)",
        ),
        Message(
            id="balloon-agent-kubeconfig-open",
            error=HostError,
            text="{path}: other users may read this kubeconfig, which contains a key or a token",
            remedy="chmod 0600 {path}",
        ),
        Message(
            id="balloon-agent-running",
            error=HostError,
            text="another reconciler runs on this machine",
            remedy="stop it, or inspect it with `ballast-balloons status --config FILE`; one machine needs only one",
        ),
    ],
)
AGENT = Agent(_NAME, _WHAT, _IDS, MESSAGES)
