# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""Counts over all Services of a family, updated as they change."""

from __future__ import annotations

from typing import NamedTuple

from .._rules.topology import reachable
from .family_rules import Ports
from .ports import HealthCheck, NoLocal, ServiceName


class _Counts(NamedTuple):
    internal: int  # ports with policy Local that have endpoints, but none on this node
    external: int
    check: int  # healthCheckNodePort
    local: int  # ready endpoints on this node, by unique address


class Tallies:
    def __init__(self, family: int) -> None:
        self._family = family
        self._counts: dict[ServiceName, _Counts] = {}  # only Services with a count above 0
        self.no_local = NoLocal()

    def replace(self, name: ServiceName, ports: Ports, node: str) -> None:
        """Count a Service as it is now; without ports it is no longer counted. `node` is the name of this node."""
        before, after = self._counts.pop(name, _Counts(0, 0, 0, 0)), _count(ports, node)
        if any(after):
            self._counts[name] = after
        internal, external = self.no_local
        self.no_local = NoLocal(
            internal + after.internal - before.internal, external + after.external - before.external
        )

    def health_checks(self) -> tuple[HealthCheck, ...]:
        """The health check node ports, sorted by Service."""
        return tuple(
            HealthCheck(name, counts.check, counts.local, self._family)
            for name, counts in sorted(self._counts.items())
            if counts.check
        )


def _count(ports: Ports, node: str) -> _Counts:
    internal = external = check = 0
    local: set[str] = set()
    for port in ports:
        if not (port.internal_local or port.external_local):
            continue
        reach = reachable(port, node=node, zone="")
        lacks = reach.has_any and not reach.local
        internal += lacks and port.internal_local
        external += lacks and port.external_local and port.externally_accessible
        check = port.health_check_node_port or check
        local.update(endpoint.address for endpoint in port.endpoints if endpoint.ready and endpoint.node == node)
    return _Counts(internal, external, check, len(local) if check else 0)
