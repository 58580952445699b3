# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about the ipvs backend."""

from __future__ import annotations

from ..._core.text.errors import HostError, Message, Messages, UserError

_OTHER_ADDRESS = "give the Service an address that no machine uses, or let its load balancer report ipMode: Proxy; otherwise use backend "
"nftables or iptables"

MESSAGES = Messages(
    "docs/reference/errors-service-rules.md",
    [
        Message(
            id="rules-ipvs-dump",
            error=UserError,
            text="{what}, line {number}: {reason}: {line}",
            remedy="create the dump again: {command}",
        ),
        Message(
            id="rules-ipvs-addresses",
            error=UserError,
            text="listing of addresses: {reason}",
            remedy="create it again: ip -j address show",
        ),
        Message(
            id="rules-ipvs-unknown",
            error=UserError,
            text="a packet reaches {what}, which the tracer does not support",
            remedy="trace a packet that does not reach it, or find what created it: ipvsadm -S -n; ipset save",
        ),
        Message(
            id="rules-ipvs-set-type",
            error=HostError,
            text="ipset {name} has type {there}, but kube-proxy's ipvs mode needs type {wanted} under that name",
            remedy="find its owner: ipset list {name}; let that program use another name, or choose another backend",
        ),
        Message(
            id="rules-ipvs-set-small",
            error=HostError,
            text="ipset {name} is limited to {room} elements, but {wanted} are needed",
            remedy="remove the rules first (state: absent), so that the set is created again; Services are unreachable until the rules are back",
        ),
        Message(
            id="rules-ipvs-excluded",
            error=HostError,
            text="virtual server {server} belongs to a Service, but excludeCIDRs reserves it for the program that created it",
            remedy="give one of the two another address, or remove it from excludeCIDRs",
        ),
        Message(
            id="rules-ipvs-address-in-use",
            error=HostError,
            text="{address}, {field} of Service {service}, is an address of {user}: ipvs binds it on this node, which then reaches "
            "only the Service there",
            remedy=_OTHER_ADDRESS,
        ),
        Message(
            id="rules-ipvs-own-address",
            error=HostError,
            text="{address}, {field} of Service {service}, is an address of this node, {user}: every other node with ipvs rules binds it "
            "and can then no longer reach {user} there",
            remedy=_OTHER_ADDRESS,
        ),
        Message(
            id="rules-ipvs-commit",
            error=HostError,
            text="the ipvs rules could not be changed: {problem}; {state}",
            remedy="fix the reported problem; if the kernel lacks a module: modprobe -a ip_vs ip_set dummy, and ip_vs_ with the name of the "
            "scheduler",
        ),
    ],
)
