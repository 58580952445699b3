# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of the ipvs backend."""

from __future__ import annotations

from ..._core.errors import HostError, Message, Messages, UserError

MESSAGES = Messages(
    "docs/service-rules.md",
    [
        Message(
            id="rules-ipvs-dump",
            error=UserError,
            text="{what}, line {number}: {reason}: {line}",
            remedy="make the dump anew: {command}",
        ),
        Message(
            id="rules-ipvs-addresses",
            error=UserError,
            text="listing of addresses: {reason}",
            remedy="make it anew: ip -j address show",
        ),
        Message(
            id="rules-ipvs-unknown",
            error=UserError,
            text="a packet comes to {what}, which this tracer does not know",
            remedy="trace a packet that does not meet it, or see what made it: ipvsadm -S -n; ipset save",
        ),
        Message(
            id="rules-ipvs-set-type",
            error=HostError,
            text="the ipset {name} has type {there}; kube-proxy's ipvs mode has {wanted} of that name",
            remedy="see whose it is: ipset list {name}; remove it, or leave ipvs mode",
        ),
        Message(
            id="rules-ipvs-set-small",
            error=HostError,
            text="the ipset {name} has room for {room} elements; {wanted} are needed",
            remedy="remove the rules first (state: absent), so that the set is made anew",
        ),
        Message(
            id="rules-ipvs-excluded",
            error=HostError,
            text="the virtual server {server} belongs to a Service, but excludeCIDRs keeps it for another program, which has made it",
            remedy="give one of the two another address, or take it out of excludeCIDRs",
        ),
        Message(
            id="rules-ipvs-commit",
            error=HostError,
            text="the ipvs rules could not be changed: {problem}; {state}",
            remedy="mend what it says; where it misses a part of the kernel: modprobe -a ip_vs ip_set dummy, and ip_vs_ with the name of the scheduler",
        ),
    ],
)
