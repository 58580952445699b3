# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about the backend ipvs."""

from __future__ import annotations

from ..._core.text.errors import HostError, Message, Messages, UserError

_OTHER_ADDRESS = "give the Service an address that no machine has, or let its load balancer report ipMode: Proxy; else use the backend nftables or iptables"

MESSAGES = Messages(
    "docs/reference/errors-service-rules.md",
    [
        Message(
            id="rules-ipvs-dump",
            error=UserError,
            text="{what}, line {number}: {reason}: {line}",
            remedy="make the dump again: {command}",
        ),
        Message(
            id="rules-ipvs-addresses",
            error=UserError,
            text="listing of addresses: {reason}",
            remedy="make it again: ip -j address show",
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
            remedy="see whose it is: ipset list {name}; let its program use another name, or choose another backend",
        ),
        Message(
            id="rules-ipvs-set-small",
            error=HostError,
            text="the ipset {name} has room for {room} elements; {wanted} are needed",
            remedy="remove the rules first (state: absent), so that the set is created again; Services are not reached until they are back",
        ),
        Message(
            id="rules-ipvs-excluded",
            error=HostError,
            text="the virtual server {server} belongs to a Service, but excludeCIDRs keeps it for another program, which has made it",
            remedy="give one of the two another address, or take it out of excludeCIDRs",
        ),
        Message(
            id="rules-ipvs-address-in-use",
            error=HostError,
            text="{address}, {field} of Service {service}, is an address of {user}: ipvs binds it on this node, and then nothing but "
            "the Service answers there",
            remedy=_OTHER_ADDRESS,
        ),
        Message(
            id="rules-ipvs-own-address",
            error=HostError,
            text="{address}, {field} of Service {service}, is an address of this node, {user}: each other node with ipvs rules binds it, "
            "and then no longer reaches {user} there",
            remedy=_OTHER_ADDRESS,
        ),
        Message(
            id="rules-ipvs-commit",
            error=HostError,
            text="the ipvs rules could not be changed: {problem}; {state}",
            remedy="fix the reported problem; if the kernel lacks a module: modprobe -a ip_vs ip_set dummy, and ip_vs_ with the name of the scheduler",
        ),
    ],
)
