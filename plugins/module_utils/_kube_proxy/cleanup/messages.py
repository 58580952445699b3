# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of a clean-up, in one table."""

from __future__ import annotations

from ..._core.text.errors import HostError, Message, Messages, PeerError, UserError

MESSAGES = Messages(
    "docs/reference/errors-kube-proxy.md",
    [
        Message(
            id="residue-address",
            error=UserError,
            text="metrics_address: {value} is not an address with a port",
            remedy="give it as metricsBindAddress of kube-proxy's configuration has it, 127.0.0.1:10249 or [::1]:10249",
        ),
        Message(
            id="residue-mode-unknown",
            error=PeerError,
            text="which mode is in use is not known: kube-proxy does not answer http://{address}/proxyMode with one",
            remedy="see whether it runs and what its metricsBindAddress is (metrics_address), or name the mode (mode)",
        ),
        Message(
            id="residue-mode-other",
            error=UserError,
            text="mode: {mode} is not in use: kube-proxy says {said}, whose rules a clean-up for {mode} would remove",
            remedy="leave the mode out, or change kube-proxy's mode first",
        ),
        Message(
            id="residue-nothing-in-use",
            error=HostError,
            text="there are no rules of the mode {mode} here, so that nothing would carry Services after a clean-up",
            remedy="start kube-proxy in that mode, see that its rules are there, then run this again",
        ),
        Message(
            id="residue-stopped",
            error=HostError,
            text="the clean-up stopped at {stage}, {number} of {count}: {problem}",
            remedy="fix the reported problem, then run the same command again: it goes on with what is left",
        ),
        Message(
            id="residue-came-back",
            error=HostError,
            text="{artefact} is there again, or still",
            remedy="see which program makes it (a second kube-proxy, an old kubelet), end it, then run the same command again",
        ),
    ],
)
