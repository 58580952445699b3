# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""Messages of the program `ballast-service-proxy`."""

from __future__ import annotations

from .._agent.identity import Agent, program_rows
from .._core.text.errors import HostError, Message, Messages

_NAME, _WHAT, _IDS = "ballast-service-proxy", "service proxy", "service-proxy"
MESSAGES = Messages(
    "docs/reference/errors-service-proxy.md",
    [
        *program_rows(_IDS, name=_NAME, what=_WHAT, role="service_proxy"),
        Message(
            id="service-proxy-running",
            error=HostError,
            text="another service proxy runs on this node, and only one can manage its rules",
            remedy="stop that one first, or give this one its own network namespace and RUNTIME_DIRECTORY",
        ),
        Message(
            id="service-proxy-kernel",
            error=HostError,
            text="the service proxy cannot follow nftables in this kernel",
            remedy="run it with CAP_NET_ADMIN, in the network namespace of the node, on a kernel with nf_tables",
        ),
        Message(
            id="service-proxy-user",
            error=HostError,
            text="the service proxy cannot become user {user}",
            remedy="start it as root with CAP_SETUID, CAP_SETGID and CAP_NET_ADMIN, and check that `getent passwd {user}` finds the user",
        ),
    ],
)
AGENT = Agent(_NAME, _WHAT, _IDS, MESSAGES)
