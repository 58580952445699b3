# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every error of a fleet run: one table for its messages and its page."""

from __future__ import annotations

from .._core.text.errors import HostError, Message, Messages, PeerError, UserError

_AGAIN = "run the same command again: the run is found and followed"

MESSAGES = Messages(
    "docs/reference/errors-fleet-run.md",
    [
        Message(
            id="fleet-run-option",
            error=UserError,
            text="{name}: {value} is not {expected}",
            remedy="{hint}",
        ),
        Message(
            id="fleet-run-file",
            error=UserError,
            text="{name}: {path} is not there",
            remedy="give the path of a file on the machine of Ansible",
        ),
        Message(
            id="fleet-run-daemonset",
            error=UserError,
            text="kube_proxy_admin_kubeconfig is given: a fleet run does not move nodes whose kube-proxy a DaemonSet runs",
            remedy="run the playbook itself from one machine for them: ansible-playbook ballast.kube.{playbook}",
        ),
        Message(
            id="fleet-run-size",
            error=UserError,
            text="the inventory of the slices has {size} bytes, compressed; a Secret holds {most}",
            remedy="give variables of hosts in groups, or run parts of the fleet one after the other",
        ),
        Message(
            id="fleet-run-foreign",
            error=UserError,
            text="{kind} {name} is there, and was not made by this collection",
            remedy="choose another namespace: -e fleet_namespace=NAME",
        ),
        Message(
            id="fleet-run-other",
            error=UserError,
            text="namespace {namespace} has another fleet run, by other variables, hosts or files",
            remedy="follow it by the command that began it, or end it: "
            "ansible-playbook ballast.kube.fleet_run -e fleet_state=absent",
        ),
        Message(
            id="fleet-run-away",
            error=PeerError,
            text="the API server has not answered for {seconds} seconds",
            remedy=_AGAIN,
        ),
        Message(
            id="fleet-run-conflict",
            error=PeerError,
            text="{path} was changed by others each time, {seconds} seconds long",
            remedy=_AGAIN,
        ),
        Message(
            id="fleet-run-record",
            error=PeerError,
            text="ConfigMap {name} is not as this collection writes it: {reason}",
            remedy="see who else writes it, then end the run: ansible-playbook ballast.kube.fleet_run -e fleet_state=absent",
        ),
        Message(
            id="fleet-run-worker",
            error=HostError,
            text="this is no worker of a fleet run: {reason}",
            remedy="begin a run by the playbook: ansible-playbook ballast.kube.fleet_run",
        ),
    ],
)
