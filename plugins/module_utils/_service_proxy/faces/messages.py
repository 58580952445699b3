# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about the addresses of `ballast-service-proxy`."""

from __future__ import annotations

from ..._core.text.errors import HostError, Message, Messages

MESSAGES = Messages(
    "docs/reference/errors-service-proxy.md",
    [
        Message(
            id="service-proxy-address-taken",
            error=HostError,
            text="the service proxy cannot listen on {address} for its {what}",
            remedy="find the listening program with `ss -ltnp` and stop it, or set {key} to another address",
        ),
    ],
)
