# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every input error of this collection's playbooks."""

from __future__ import annotations

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import Message, Messages, UserError

MESSAGES = Messages(
    "docs/reference/errors-fleet.md",
    [
        Message(
            id="fleet-unknown-variable",
            error=UserError,
            text="{name} is not a variable of this playbook",
            remedy="{hint}",
        ),
        Message(
            id="fleet-hosts-missing",
            error=UserError,
            text="{name} is not set: it selects the nodes",
            remedy="set it to hosts or groups of the inventory: -e {name}=workers; for every host: -e {name}=all",
        ),
        Message(
            id="fleet-hosts-unknown",
            error=UserError,
            text="{name}: {pattern}: no host of the inventory matches {parts}",
            remedy="use hosts or groups of the inventory (ansible-inventory --graph), and pass the inventory with -i",
        ),
        Message(
            id="fleet-hosts-empty",
            error=UserError,
            text="{name}: {pattern} selects no host",
            remedy="use hosts or groups of the inventory (ansible-inventory --graph), and pass the inventory with -i",
        ),
        Message(
            id="fleet-limit",
            error=UserError,
            text="--limit leaves out hosts of the request: {hosts}",
            remedy="select the nodes with the variable *_hosts, and omit --limit",
        ),
        Message(
            id="fleet-canaries",
            error=UserError,
            text="{name}: {hosts}: not among {selection}",
            remedy="choose canaries from the hosts to change",
        ),
        Message(
            id="fleet-value",
            error=UserError,
            text="{name}: {value} is not {expected}",
            remedy="{hint}",
        ),
        Message(
            id="fleet-missing",
            error=UserError,
            text="{name} is not set: {why}",
            remedy="set it: -e {name}={example}",
        ),
        Message(
            id="fleet-exclusive",
            error=UserError,
            text="{first} and {second} exclude each other",
            remedy="{hint}",
        ),
        Message(
            id="fleet-machines-alone",
            error=UserError,
            text="{name} selects machines that host nodes, but no node",
            remedy="select the nodes: ansible-inventory --graph",
        ),
        Message(
            id="fleet-machine-unknown",
            error=UserError,
            text="balloons_machine: {machines} is not a host of the inventory",
            remedy="set it to the host that has the nodes' slices or virtual machines",
        ),
        Message(
            id="fleet-shared-proxy",
            error=UserError,
            text="image_pull_proxy_hosts omits {nodes}, which use the same pull proxy",
            remedy="select all nodes of {machines}",
        ),
    ],
)
