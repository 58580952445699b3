# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The classes of differences that an audit finds: id, severity, texts and remedy."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.text.errors import HostError, Message, Messages

ERROR, WARNING = "error", "warning"


@dataclass(frozen=True)
class Class:
    """A class of differences. `expected`, `found` and `remedy` are templates over the fields of `finding()`."""

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
        found="{where} lacks it",
        remedy="{remedy}",
    ),
    Class(
        id="rules-audit-chains",
        severity=ERROR,
        expected="rules that lead packets to Services in: {chains}",
        found="{where} lacks them",
        remedy="{remedy}",
    ),
    Class(
        id="rules-audit-base-chain",
        severity=ERROR,
        expected="chain {chain}: {hook}",
        found="{there}",
        remedy="{remedy}",
    ),
    Class(
        id="rules-audit-unknown-chain",
        severity=WARNING,
        expected="no chain {chain} in this layout",
        found="it is there: {there}",
        remedy="find the program that created it, and give it its own table; {remedy}",
    ),
    Class(
        id="rules-audit-stale-chain",
        severity=WARNING,
        expected="no chains that no rule jumps to",
        found="{chains}",
        remedy="{remedy}",
    ),
    Class(
        id="rules-audit-missing",
        severity=ERROR,
        expected="a packet {packet}: {expected}",
        found="{found}",
        remedy="{remedy}",
    ),
    Class(
        id="rules-audit-wrong",
        severity=ERROR,
        expected="a packet {packet}: {expected}",
        found="{found}",
        remedy="{remedy}",
    ),
    Class(
        id="rules-audit-common",
        severity=ERROR,
        expected="for {count} Services ({services}) with identical rules, a packet {packet}: {expected}",
        found="{found}",
        remedy="a rule that all of them share is missing or changed: {remedy}",
    ),
    Class(
        id="rules-audit-extra",
        severity=ERROR,
        expected="nothing for {destinations}, which no Service has",
        found="rules for it",
        remedy="take a new snapshot if Services were removed since; otherwise {remedy}",
    ),
    Class(
        id="rules-audit-duplicate",
        severity=WARNING,
        expected="{destination} for one Service alone",
        found="{winner} gets it, and {loser}, which also claims it, does not",
        remedy="change one of the Services: give {loser} another address or port",
    ),
    Class(
        id="rules-audit-unclear",
        severity=WARNING,
        expected="a traceable verdict for a packet {packet}",
        found="{problem}",
        remedy="check that rule to see whether it matches such packets; if it is kube-proxy's, report it",
    ),
    Class(
        id="rules-audit-foreign-drop",
        severity=ERROR,
        expected="a packet {packet}: {expected}",
        found="{verdict} by another program's rule: {rule}",
        remedy="let that program accept connections to Services above that rule, in its own configuration: {accept}",
    ),
    Class(
        id="rules-audit-foreign-nat",
        severity=ERROR,
        expected="a packet {packet}: {expected}",
        found="{answer}, by another program's rule: {rule}{more}",
        remedy="{remedy}",
    ),
    Class(
        id="rules-audit-foreign-nat-unclear",
        severity=WARNING,
        expected="a packet {packet}: {expected}",
        found="{answer}; {reason}; another program's rule may match it: {rule}{more}",
        remedy="{remedy}",
    ),
    Class(
        id="rules-audit-foreign-unclear",
        severity=WARNING,
        expected="no chain at the hooks of Services that drops unknown packets",
        found="{chain}, whose rules cannot be traced: {problem}",
        remedy="check that it accepts connections to Services",
    ),
    Class(
        id="rules-audit-foreign-unread",
        severity=WARNING,
        expected="rules of other programs that can be read",
        found="{what}: {problem}",
        remedy="check manually whether they drop or translate connections to Services",
    ),
    Class(
        id="rules-audit-dump-part",
        severity=WARNING,
        expected="a dump with: {part}",
        found="the dump lacks it, so checks that depend on it are skipped",
        remedy="save it too: {remedy}",
    ),
    Class(
        id="rules-audit-undecoded",
        severity=WARNING,
        expected="rules that the printing program can decode",
        found="{count} rules {why}, as in {place}: {rule}",
        remedy="{remedy}",
    ),
    Class(
        id="rules-audit-residue",
        severity=WARNING,
        expected="nothing of the backend {other}, as {backend} is in use",
        found="{what}",
        remedy="{remedy}",
    ),
    Class(
        id="rules-audit-other-backend",
        severity=WARNING,
        expected="rules of the backend {backend}, which was asked for",
        found="none of them in force, and those of another: {what}",
        remedy="set backend to {other} if that is the mode of kube-proxy (curl 127.0.0.1:10249/proxyMode); keep these rules until "
        "those of {backend} are there, as they may serve the Services",
    ),
    Class(
        id="rules-audit-setting",
        severity=ERROR,
        expected="{name} = {required}",
        found="{value}",
        remedy="{remedy}",
    ),
    Class(
        id="rules-audit-conntrack",
        severity=ERROR,
        expected="UDP connections to {destination} that go to a serving endpoint",
        found="{count} that go to {target}",
        remedy="remove them: {command}; each client's next packet opens a new connection",
    ),
    Class(
        id="rules-audit-conntrack-extra",
        severity=ERROR,
        expected="no UDP connections to {destination}, which no Service has",
        found="{count} that go to {target}",
        remedy="take a new snapshot if Services were added since; otherwise remove them, as nothing serves them any more: {command}",
    ),
    Class(
        id="rules-audit-conntrack-unseen",
        severity=WARNING,
        expected="a list of UDP connections, to find stale ones",
        found="{problem}",
        remedy="install conntrack (Red Hat, SUSE: conntrack-tools); if it cannot list them: modprobe nf_conntrack_netlink",
    ),
)
CLASSES = {row.id: row for row in _ROWS}
MESSAGES = Messages(
    "docs/reference/errors-service-rules.md",
    [
        Message(id=row.id, error=HostError, text=f"expected {row.expected}; found: {row.found}", remedy=row.remedy)
        for row in _ROWS
    ],
)
