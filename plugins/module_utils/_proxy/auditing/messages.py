# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an audit can find, in one table: each class of difference with its id, its severity and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from ..._core.errors import HostError, Message, Messages

ERROR, WARNING = "error", "warning"


@dataclass(frozen=True)
class Class:
    """A class of differences; `expected`, `found` and `remedy` are templates over the fields that
    findings.py is given."""

    id: str
    severity: str
    expected: str
    found: str
    remedy: str

    def __post_init__(self) -> None:
        if self.severity not in (ERROR, WARNING):
            raise ValueError(f"class {self.id} has the severity {self.severity}")


_ROWS = (
    Class(
        id="rules-audit-table",
        severity=ERROR,
        expected="{what}",
        found="none of it is there",
        remedy="{mend}; then find who removes it: nft flush ruleset in a service, a firewall that loads its rules anew",
    ),
    Class(
        id="rules-audit-chains",
        severity=ERROR,
        expected="rules that lead packets to Services in: {chains}",
        found="they are missing",
        remedy="{mend}; then find who removes them: nft flush ruleset in a service, a firewall that loads its rules anew",
    ),
    Class(
        id="rules-audit-base-chain",
        severity=ERROR,
        expected="chain {chain}: {wanted}",
        found="{there}",
        remedy="{mend}",
    ),
    Class(
        id="rules-audit-unknown-chain",
        severity=WARNING,
        expected="no chain {chain} in this layout",
        found="it is there: {there}",
        remedy="find who made it, and let that program use a table of its own; {mend}",
    ),
    Class(
        id="rules-audit-stale-chain",
        severity=WARNING,
        expected="no chains that nothing leads to",
        found="{chains}",
        remedy="{mend}",
    ),
    Class(
        id="rules-audit-missing",
        severity=ERROR,
        expected="a packet {packet}: {expected}",
        found="{found}",
        remedy="{mend}",
    ),
    Class(
        id="rules-audit-wrong",
        severity=ERROR,
        expected="a packet {packet}: {expected}",
        found="{found}",
        remedy="{mend}",
    ),
    Class(
        id="rules-audit-common",
        severity=ERROR,
        expected="of {count} Services ({services}) alike, a packet {packet}: {expected}",
        found="{found}",
        remedy="one rule that all of them share is missing or changed: {mend}",
    ),
    Class(
        id="rules-audit-extra",
        severity=ERROR,
        expected="nothing for {destinations}, which no Service has",
        found="rules for it",
        remedy="take a new snapshot if Services were removed since; else {mend}",
    ),
    Class(
        id="rules-audit-unclear",
        severity=WARNING,
        expected="rules that say what becomes of a packet {packet}",
        found="{problem}",
        remedy="find who made that rule",
    ),
    Class(
        id="rules-audit-foreign-drop",
        severity=ERROR,
        expected="a packet {packet}: {expected}",
        found="{verdict} by another program's rule: {rule}",
        remedy="let that program accept connections to Services: ct status dnat accept, or marked and forwarded packets",
    ),
    Class(
        id="rules-audit-foreign-unclear",
        severity=WARNING,
        expected="no chain that drops what it does not know, at the hooks of Services",
        found="{chain}, and its rules cannot be followed for certain: {problem}",
        remedy="see whether it lets connections to Services pass",
    ),
    Class(
        id="rules-audit-foreign-unread",
        severity=WARNING,
        expected="rules of other programs that can be read",
        found="{what}: {problem}",
        remedy="see by hand whether they drop connections to Services",
    ),
    Class(
        id="rules-audit-residue",
        severity=WARNING,
        expected="nothing of the backend {other}, as {backend} is in use",
        found="{what}",
        remedy="remove it: ballast.kube.kube_proxy_residue; what service_rules left, by that module with backend {other} and state absent",
    ),
    Class(
        id="rules-audit-setting",
        severity=ERROR,
        expected="{name} = {wanted}",
        found="{value}",
        remedy="set it: sysctl -w {name}={wanted}",
    ),
    Class(
        id="rules-audit-conntrack",
        severity=ERROR,
        expected="UDP connections to {destination} that go to an endpoint which serves",
        found="{count} that go to {target}",
        remedy="remove them: conntrack -D -p udp --orig-dst {address} --orig-port-dst {port} --reply-src {target}",
    ),
    Class(
        id="rules-audit-conntrack-unseen",
        severity=WARNING,
        expected="a list of UDP connections, by which stale ones are found",
        found="{problem}",
        remedy="install conntrack (apt-get install conntrack), or load nf_conntrack",
    ),
)
CLASSES = {row.id: row for row in _ROWS}
MESSAGES = Messages(
    "docs/service-rules.md",
    [
        Message(id=row.id, error=HostError, text=f"expected {row.expected}; found: {row.found}", remedy=row.remedy)
        for row in _ROWS
    ],
)
