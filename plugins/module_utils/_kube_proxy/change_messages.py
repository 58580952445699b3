# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of a change that is made, confirmed and judged over a connection. They are raised on the Ansible control node."""

from __future__ import annotations

from .._core.text.errors import Message, Messages, PeerError, UserError

_AGAIN = "then run the same command again"

MESSAGES = Messages(
    "docs/reference/errors-kube-proxy.md",
    [
        Message(
            id="migrate-change-option",
            error=UserError,
            text="kube_proxy_change: {problem}",
            remedy="see the page of ballast.kube.kube_proxy_change",
        ),
        Message(
            id="migrate-node-unread",
            error=PeerError,
            text="the module changed nothing: it could not read the node's kube-proxy: {why}",
            remedy=f"fix the reported problem, {_AGAIN}",
        ),
        Message(
            id="migrate-node-lost",
            error=PeerError,
            text="the node gave no usable response to {what}: {why}; {fate}",
            remedy=f"restore the connection, check the node with ballast.kube.kube_proxy_info, {_AGAIN}",
        ),
        Message(
            id="migrate-went-back",
            error=PeerError,
            text="the node rolled back to mode {mode}: {why}",
            remedy=f"fix what made the node unreachable, {_AGAIN}",
        ),
        Message(
            id="migrate-judgement",
            error=PeerError,
            text="the node failed the checks after the change: {problems}; {fate}",
            remedy=f"read kube-proxy's log, compare the rules with ballast.kube.kube_proxy_info and audit_rules: true, {_AGAIN}",
        ),
        Message(
            id="migrate-no-way-back",
            error=PeerError,
            text="the node could not be rolled back: {why}",
            remedy="fix the reported problem, then run ballast.kube.kube_proxy_rollback on this node",
        ),
        Message(
            id="migrate-config-unknown",
            error=PeerError,
            text="the node is in mode {mode} as before, but it is unknown whether its configuration was changed",
            remedy="run the same command again",
        ),
    ],
)
