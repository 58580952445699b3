# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every error of a fleet run: one table for its messages and its page."""

from __future__ import annotations

from .._core.text.errors import HostError, Message, Messages, PeerError, UserError

_AGAIN = "run the same command again: it follows the existing run"

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
            text="{name}: {path} does not exist",
            remedy="set it to the path of a file on the Ansible control node",
        ),
        Message(
            id="fleet-run-passphrase",
            error=UserError,
            text="ssh_key: {path} has a passphrase, and workers have nobody to ask for it",
            remedy="use a key of the fleet without one: ssh-keygen -t ed25519 -N '' -f fleet",
        ),
        Message(
            id="fleet-run-daemonset",
            error=UserError,
            text="kube_proxy_admin_kubeconfig is set: a fleet run does not move nodes whose kube-proxy runs in a DaemonSet",
            remedy="run the playbook for them from one machine: ansible-playbook ballast.kube.{playbook}",
        ),
        Message(
            id="fleet-run-size",
            error=UserError,
            text="the slices' inventory has {size} bytes compressed, but a Secret holds at most {most}",
            remedy="move host variables to groups, or run parts of the fleet one after the other",
        ),
        Message(
            id="fleet-run-names",
            error=UserError,
            text="{what} can have {size} bytes, but a ConfigMap of a run holds at most {most}",
            remedy="{hint}",
        ),
        Message(
            id="fleet-run-foreign",
            error=UserError,
            text="{kind} {name} exists and was not created by a fleet run",
            remedy="choose another namespace: -e fleet_namespace=NAME",
        ),
        Message(
            id="fleet-run-other",
            error=UserError,
            text="namespace {namespace} has another fleet run with different variables, hosts or files",
            remedy="follow it with the command that started it, or end "
            "it: ansible-playbook ballast.kube.fleet_run -e fleet_state=absent",
        ),
        Message(
            id="fleet-run-removed",
            error=PeerError,
            text="namespace {namespace} was removed before this command had a report: the run was ended, or another command finished it",
            remedy="see what each node has: ansible-playbook ballast.kube.kube_proxy_audit; the same command starts a new run",
        ),
        Message(
            id="fleet-run-away",
            error=PeerError,
            text="the API server did not respond for {seconds} seconds",
            remedy=_AGAIN,
        ),
        Message(
            id="fleet-run-conflict",
            error=PeerError,
            text="{path} could not be written for {seconds} seconds: other clients keep changing it",
            remedy=_AGAIN,
        ),
        Message(
            id="fleet-run-record",
            error=PeerError,
            text="ConfigMap {name} does not have this collection's format: {reason}",
            remedy="find the client that writes it, then end the run: ansible-playbook ballast.kube.fleet_run -e fleet_state=absent",
        ),
        Message(
            id="fleet-run-worker",
            error=HostError,
            text="this process is not a worker of a fleet run: {reason}",
            remedy="start a run with the playbook: ansible-playbook ballast.kube.fleet_run",
        ),
    ],
)
