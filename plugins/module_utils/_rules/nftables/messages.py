# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about nftables rules."""

from __future__ import annotations

from ..._core.text.errors import HostError, Message, Messages, UserError

MESSAGES = Messages(
    "docs/reference/errors-service-rules.md",
    [
        Message(
            id="rules-nft-text",
            error=UserError,
            text="output of nft, line {line}: {problem}: {text!r}",
            remedy="provide the complete output of `nft list ruleset`; if it is complete, report this line and what `nft --version` says",
        ),
        Message(
            id="rules-nft-json",
            error=UserError,
            text="output of nft -j, {path}: {problem}: {value}",
            remedy="provide the complete output of `nft -j list ruleset`; if it is complete, report this value and what `nft --version` says",
        ),
        Message(
            id="rules-nft-others",
            error=HostError,
            text="nftables table {table} exists and was not created by {owner}, so it is neither changed nor removed",
            remedy="choose another table, or remove this one manually if nothing needs it: nft delete table {table}",
        ),
        Message(
            id="rules-nft-unwritable",
            error=UserError,
            text="{what} {value!r} cannot be written in nft syntax",
            remedy="use letters, digits and . _ - / : for names, and no quotation marks in comments",
        ),
        Message(
            id="rules-nft-refused",
            error=HostError,
            text="the kernel refused the rules and kept the previous ones: {command}",
            remedy="check `nft --version` and `uname -r`: the rules need nftables 1.0.1, Linux 5.13, and the modules nft_nat, nft_masq, "
            "nft_numgen, nft_reject, nft_fib",
        ),
        Message(
            id="rules-nft-trace-unknown",
            error=HostError,
            text="the packet reaches {construct!r}, which the tracer does not support, in {place}: {rule}",
            remedy="trace packets that do not reach this rule; the page lists what the tracer supports",
        ),
        Message(
            id="rules-nft-trace-absent",
            error=HostError,
            text="{place} uses {name}, which the table lacks: {rule}",
            remedy="provide the complete table: nft would not load this one",
        ),
        Message(
            id="rules-nft-trace-loop",
            error=HostError,
            text="{place}: the chain leads back to itself by {rule}",
            remedy="provide rules from a kernel: a kernel refuses such rules",
        ),
        Message(
            id="rules-nft-trace-budget",
            error=HostError,
            text="{place}: a packet passes more than {limit} rules, counting each random choice separately",
            remedy="look for chains that many rules jump to and that jump further, and for numgen with a great modulus",
        ),
    ],
)
