# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about rules of nftables."""

from __future__ import annotations

from ..._core.text.errors import HostError, Message, Messages, UserError

MESSAGES = Messages(
    "docs/reference/errors-service-rules.md",
    [
        Message(
            id="rules-nft-text",
            error=UserError,
            text="output of nft, line {line}: {problem}: {text!r}",
            remedy="give the whole output of `nft list ruleset`; if it is whole, report this line and what `nft --version` says",
        ),
        Message(
            id="rules-nft-json",
            error=UserError,
            text="output of nft -j, {path}: {problem}: {value}",
            remedy="give the whole output of `nft -j list ruleset`; if it is whole, report this value and what `nft --version` says",
        ),
        Message(
            id="rules-nft-others",
            error=HostError,
            text="the nftables table {table} was not made as one of {owner}: it is neither changed nor removed",
            remedy="name another table, or remove this one yourself when nothing needs it: nft delete table {table}",
        ),
        Message(
            id="rules-nft-unwritable",
            error=UserError,
            text="{what} {value!r} cannot be written for nft",
            remedy="use letters, digits and . _ - / : for names, and no quotation marks in comments",
        ),
        Message(
            id="rules-nft-refused",
            error=HostError,
            text="the kernel refused the rules, and has those that it had before: {command}",
            remedy="see `nft --version`, `uname -r`: it takes nftables 1.0.1, Linux 5.13, and the modules nft_nat, nft_masq, nft_numgen, nft_reject, nft_fib",
        ),
        Message(
            id="rules-nft-trace-unknown",
            error=HostError,
            text="the packet comes to {construct!r}, which the tracer does not know, in {place}: {rule}",
            remedy="trace packets that do not come to this rule; the page lists what a trace follows",
        ),
        Message(
            id="rules-nft-trace-absent",
            error=HostError,
            text="{place} names {name}, which is not in the table: {rule}",
            remedy="give the whole table: nft would not load this one",
        ),
        Message(
            id="rules-nft-trace-loop",
            error=HostError,
            text="{place}: the chain leads back to itself by {rule}",
            remedy="give the rules as a kernel holds them, which refuses such ones",
        ),
        Message(
            id="rules-nft-trace-budget",
            error=HostError,
            text="{place}: a packet passes more than {limit} rules, lots counted one by one",
            remedy="look for chains that many rules jump to, each of which jumps on, and for numgen with a great modulus",
        ),
    ],
)
