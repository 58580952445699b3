# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about services and cgroups."""

from __future__ import annotations

from .errors import PAGE, HostError, Message, Messages, UserError

MESSAGES = Messages(
    PAGE,
    [
        Message(
            id="core-service-text",
            error=UserError,
            text="service {name}: {faults} is not allowed in a service",
            remedy="use paths and names of letters, digits and / _ . -",
        ),
        Message(
            id="core-unit-taken",
            error=HostError,
            text="{path} was not created by this collection",
            remedy="use another name, or remove that unit",
        ),
        Message(
            id="core-supervisor",
            error=HostError,
            text="{name}: its supervisor did not {action}",
            remedy="find the reason: {where}; then run the same command again",
        ),
        Message(
            id="core-no-controller",
            error=HostError,
            text="this kernel lacks the cgroup controller {controller}",
            remedy="boot a kernel with it (cgroup_enable={controller}), or remove limits of that kind",
        ),
        Message(
            id="core-processes-stay",
            error=HostError,
            text="{what} did not end after SIGKILL",
            remedy="find what they wait for: cat /proc/PID/stack; then run the same command again",
        ),
    ],
)
