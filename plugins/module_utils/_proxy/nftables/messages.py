# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be wrong with rules of nftables, in one table."""

from __future__ import annotations

from ..._core.errors import HostError, Message, Messages, UserError

MESSAGES = Messages(
    "docs/service-rules.md",
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
            id="rules-nft-unwritable",
            error=UserError,
            text="{what} {value!r} cannot be written for nft",
            remedy="use letters, digits and . _ - / : for names, and no quotation marks in comments",
        ),
        Message(
            id="rules-nft-trace-unknown",
            error=HostError,
            text="table {table}, chain {chain}: what becomes of the packet depends on {construct!r}, which the tracer does not know",
            remedy="see what that rule is for; ask about packets that do not come to it",
        ),
        Message(
            id="rules-nft-trace-absent",
            error=HostError,
            text="table {table}, chain {chain}: a rule names {kind} {name!r}, which is not in the table",
            remedy="give the whole table; nft itself would not load this one",
        ),
        Message(
            id="rules-nft-trace-endless",
            error=HostError,
            text="table {table}, chain {chain}: {problem}",
            remedy="nft itself would not load such rules: give the output of `nft list ruleset` as it is",
        ),
        Message(
            id="rules-nft-trace-mixed",
            error=HostError,
            text="{packet}: the kernel draws lots whose outcomes differ: {outcomes}",
            remedy="an entry of a map is missing or wrong: bring the rules to the snapshot again",
        ),
    ],
)
