# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares kube-proxy's rules in the kernel with the Services, by the audit of the rule engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._core.host.host import Host
from .._rules.backend import KUBE_PROXY_TABLE
from .._rules.backends import backend_named
from .._rules.node_addresses import own_addresses, surroundings_with

# About connections, which age and which kube-proxy removes; and about other programs, which a preflight has reported.
_OTHERS = ("rules-audit-conntrack", "rules-audit-conntrack-extra", "rules-audit-foreign-nat")


def compare_rules(
    host: Host, data: Mapping[str, Any], config: Mapping[str, Any], *, mode: str, node: str, variant: str
) -> list[str]:
    """A line for each difference. `variant` of iptables is the one that kube-proxy writes, "" the host's own."""
    # A run that changes nothing compares no rules.
    from .._audit.audit import AuditInput, audit
    from .._audit.facts import read_facts
    from .._audit.kernel_reading import KernelReading
    from .._rules.engine import configs_from
    from .._rules.parse import parse_snapshot

    reading = KernelReading(host, backend_named(mode, host, variant=variant, table=KUBE_PROXY_TABLE))
    links = reading.links
    snapshot = parse_snapshot(data, node_name=node, node_ips=own_addresses(links), config=config)
    rules = {family: reading.rules(family) for family in reading.families}
    surroundings = surroundings_with(links)
    audited = AuditInput(
        snapshot,
        configs_from(config, mode, snapshot),
        reading.backend,
        rules,
        surroundings,
        owner=KUBE_PROXY_TABLE,
    )
    findings = audit(audited, read_facts(host, reading, mode))
    return [
        f"{finding.service or finding.id}: expected {finding.expected}, found {finding.found}"
        for finding in findings
        if finding.severity == "error" and finding.id not in _OTHERS
    ]
