# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about traces, whichever program wrote the rules."""

from __future__ import annotations

from ..._core.text.errors import HostError, Message, Messages

MESSAGES = Messages(
    "docs/reference/errors-service-rules.md",
    [
        Message(
            id="rules-trace-undecided",
            error=HostError,
            text="a random choice decides what happens to the packet: {outcomes}",
            remedy="check the rules that decided, a map entry may be missing: {rules}",
        ),
        Message(
            id="rules-trace-link",
            error=HostError,
            text="the packet's link is not known, and a rule asks for it, in {place}: {rule}",
            remedy="add the output of `ip -j route; ip -j -6 route` to the dump, or set inbound_interface of the packet",
        ),
    ],
)
