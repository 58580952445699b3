# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares kube-proxy's rules in the kernel with the Services, using the audit of the rule engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .._core.host.host import Host
from .._core.host.names import MARK
from .._rules.backend import KUBE_PROXY_TABLE, SERVICE_PROXY_TABLE, Backend
from .._rules.backends import backend_named
from .._rules.node_addresses import own_addresses, surroundings_with
from .modes import BALLAST, rules_of

# Ignored: connections, which age and which kube-proxy removes; and other programs, which a preflight has reported.
_OTHERS = ("rules-audit-conntrack", "rules-audit-conntrack-extra", "rules-audit-foreign-nat")

# Services and endpoints change during a comparison, and kube-proxy writes each change a little later (its minSyncPeriod is
# one second by default). So only what every comparison finds counts as a difference.
AUDIT_TRIES = 3
AUDIT_INTERVAL = 2.0  # seconds


@dataclass(frozen=True)
class Difference:
    subject: str  # the Service, else the id of the finding
    line: str


def still_there(before: Optional[Sequence[Difference]], now: Sequence[Difference]) -> list[Difference]:
    """Those of `now` whose subject differed `before` too; all of them if there was no earlier comparison."""
    subjects = None if before is None else {difference.subject for difference in before}
    return [difference for difference in now if subjects is None or difference.subject in subjects]


def lasting_differences(host: Host, compare: Callable[[], Sequence[Difference]]) -> list[Difference]:
    """The differences that each of AUDIT_TRIES comparisons finds. Stops after a comparison without any."""
    lasting = still_there(None, compare())
    for _again in range(AUDIT_TRIES - 1):
        if not lasting:
            break
        host.sleep(AUDIT_INTERVAL)
        lasting = still_there(lasting, compare())
    return lasting


def compare_rules(
    host: Host, data: Mapping[str, Any], config: Mapping[str, Any], *, mode: str, node: str, variant: str
) -> list[Difference]:
    """`variant` is the variant of iptables that kube-proxy writes; "" means the host's own. In mode ballast the rules are
    our own."""
    # imported late: a run that changes nothing does not compare rules
    from .._audit.audit import AuditInput, audit
    from .._audit.facts import read_facts
    from .._audit.kernel_reading import KernelReading
    from .._rules.engine import configs_from
    from .._rules.parse import parse_snapshot

    reading = KernelReading(host, _backend(host, mode, variant))
    links = reading.links
    snapshot = parse_snapshot(data, node_name=node, node_ips=own_addresses(links), config=config)
    rules = {family: reading.rules(family) for family in reading.families}
    surroundings = surroundings_with(links)
    audited = AuditInput(
        snapshot,
        configs_from(config, rules_of(mode), snapshot),
        reading.backend,
        rules,
        surroundings,
        owner=MARK if mode == BALLAST else KUBE_PROXY_TABLE,
    )
    findings = audit(audited, read_facts(host, reading, rules_of(mode)))
    return [
        Difference(
            finding.service or finding.id,
            f"{finding.service or finding.id}: expected {finding.expected}, found {finding.found}",
        )
        for finding in findings
        if finding.severity == "error" and finding.id not in _OTHERS
    ]


def _backend(host: Host, mode: str, variant: str) -> Backend:
    if mode != BALLAST:
        return backend_named(mode, host, variant=variant, table=KUBE_PROXY_TABLE)
    from .._rules.nftables.backend import Nftables
    from .._rules.nftables.layout import SERVICE_PROXY

    return Nftables(SERVICE_PROXY_TABLE, owner=SERVICE_PROXY)
