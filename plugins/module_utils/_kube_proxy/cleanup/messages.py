# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about clean-ups."""

from __future__ import annotations

from ..._core.text.errors import HostError, Message, Messages, PeerError, UserError

MESSAGES = Messages(
    "docs/reference/errors-kube-proxy.md",
    [
        Message(
            id="residue-address",
            error=UserError,
            text="metrics_address: {value} is not an address with a port",
            remedy="write it like metricsBindAddress in kube-proxy's configuration: 127.0.0.1:10249 or [::1]:10249",
        ),
        Message(
            id="residue-mode-unknown",
            error=PeerError,
            text="the mode in use is unknown: kube-proxy does not report one at http://{address}/proxyMode",
            remedy="check that kube-proxy runs, set metrics_address to its metricsBindAddress, or set mode",
        ),
        Message(
            id="residue-mode-other",
            error=UserError,
            text="mode: {mode} is not in use: kube-proxy reports {said}, and a cleanup for {mode} would remove its rules",
            remedy="omit mode, or change kube-proxy's mode first",
        ),
        Message(
            id="residue-nothing-in-use",
            error=HostError,
            text="this node has no rules of mode {mode}, so nothing would serve Services after a cleanup",
            remedy="start kube-proxy in that mode, wait until it has written its rules, then run this again",
        ),
        Message(
            id="residue-stopped",
            error=HostError,
            text="the cleanup stopped at {stage}, {number} of {count}: {problem}",
            remedy="fix the reported problem, then run the same command again: it continues with the rest",
        ),
        Message(
            id="residue-came-back",
            error=HostError,
            text="{artefact} still exists, or was created again",
            remedy="find the program that creates it (a second kube-proxy, an old kubelet), stop it, then run the same command again",
        ),
    ],
)
