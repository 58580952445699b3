# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether kube-proxy's rules in the kernel are what the Services mean: the audit of the rule engine, of what matters here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._core.host import Host
from ..backends import KUBE_PROXY_TABLE, Backend, backend_named
from ..model import IPTABLES, IPVS
from ..packet import Surroundings
from ..surroundings import LINK, families, own_addresses, read_links

_STALE = "rules-audit-conntrack"  # of connections, not of rules: they age, and kube-proxy removes them


def differences(
    host: Host, data: Mapping[str, Any], config: Mapping[str, Any], *, mode: str, node: str, variant: str
) -> list[str]:
    """`variant` of iptables is the one that kube-proxy writes to, "" the host's own. Each as a line; empty where packets fare as they should."""
    from ..audit import Audited, audit, read_facts  # a run that changes nothing weighs no rules
    from ..engine import configs_from
    from ..parse import parse_snapshot

    links = read_links(host)
    found = parse_snapshot(data, node_name=node, node_ips=own_addresses(links))
    backend = _backend(host, mode, variant)
    rules = {family: backend.read(host, family) for family in families(host)}
    surroundings = Surroundings(tuple(link for link in links if link[0] != LINK))
    audited = Audited(found, configs_from(config, mode, found), backend, rules, surroundings, owner=KUBE_PROXY_TABLE)
    findings = audit(audited, read_facts(host, mode))
    return [
        f"{one.service or one.id}: expected {one.expected}, found {one.found}"
        for one in findings
        if one.severity == "error" and one.id != _STALE
    ]


def _backend(host: Host, mode: str, variant: str) -> Backend:
    if variant and mode == IPTABLES:
        from ..iptables.backend import Iptables

        return Iptables(variant)
    if variant and mode == IPVS:
        from ..ipvs.backend import Ipvs

        return Ipvs(variant)
    return backend_named(mode, host, table=KUBE_PROXY_TABLE)
