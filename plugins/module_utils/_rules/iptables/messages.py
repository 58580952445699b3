# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about iptables rules."""

from __future__ import annotations

from ..._core.text.errors import HostError, Message, Messages, UserError

MESSAGES = Messages(
    "docs/reference/errors-service-rules.md",
    [
        Message(
            id="rules-iptables-line",
            error=UserError,
            text="line {number} of iptables-save: {problem}: {line}",
            remedy="provide the unmodified output of iptables-save 1.8.7 or later",
        ),
        Message(
            id="rules-iptables-cut",
            error=UserError,
            text="iptables-save ends within table {table}, after line {number}",
            remedy="save it again: a complete table ends with COMMIT",
        ),
        Message(
            id="rules-iptables-hidden",
            error=HostError,
            text="line {number} of iptables-save: table {table} has nft rules that iptables cannot show",
            remedy="find the program that wrote them: nft list ruleset",
        ),
        Message(
            id="rules-iptables-unknown",
            error=HostError,
            text="the packet reaches {part!r}, which the tracer does not support, in table {table}: {rule}",
            remedy="trace packets that do not reach this rule; the page lists what the tracer supports",
        ),
        Message(
            id="rules-iptables-ipset",
            error=HostError,
            text="the packet reaches {what}, in table {table}: {rule}",
            remedy="save it with the rules: ipset save; on a node, install ipset; the page lists the set types that the tracer supports",
        ),
        Message(
            id="rules-iptables-chain",
            error=UserError,
            text="table {table} lacks chain {chain}, which a rule names",
            remedy="save the complete table",
        ),
        Message(
            id="rules-iptables-loop",
            error=UserError,
            text="table {table}: chain {chain} leads back to itself",
            remedy="save the rules from a kernel: a kernel refuses such rules",
        ),
        Message(
            id="rules-iptables-deep",
            error=UserError,
            text="table {table}: chains jump to chains more than {limit} deep, down to {chain}",
            remedy="save the rules from a kernel; if they come from one, use fewer nested chains",
        ),
        Message(
            id="rules-iptables-budget",
            error=UserError,
            text="a packet passes more than {limit} rules",
            remedy="look for chains that many rules jump to and that jump further",
        ),
        Message(
            id="rules-iptables-variant",
            error=HostError,
            text="iptables --version does not say whether it is legacy or nf_tables: {said!r}",
            remedy="install iptables 1.8.7 or later",
        ),
        Message(
            id="rules-iptables-restore",
            error=HostError,
            text="{command} refused the rules of IPv{family}; {state}",
            remedy="load the kernel modules of the match or target in the line below, or report the line",
        ),
    ],
)
