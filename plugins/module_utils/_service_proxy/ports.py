# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""What the loop of `ballast-service-proxy` reports to its faces, and what it needs of its configuration.

    API server ── informer ──▶ cluster model ──▶ changed Services ──▶ one nft transaction ──▶ kernel
                                                                          │
    kernel ── netlink: nftables, addresses ──────▶ loop ◀─────────────────┘
                                                    │ reports
                                                    ▼
                         faces: metrics, health, health check node ports, Events

Only the loop (`loop.py`) changes rules. Everything that happens to them is a report, a frozen value that the loop passes to
one function, `Sink`. The faces keep what they need of it and respond to requests from that, in their own threads: the loop
never waits for a face, and a face never queries the loop.

Times are seconds since 1970 (`time.time`), durations are seconds by the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Union


class ServiceName(NamedTuple):
    namespace: str
    name: str


@dataclass(frozen=True)
class LoopSettings:
    """The loop's settings from KubeProxyConfiguration and the command line."""

    node_name: str  # hostnameOverride, else the host name in lower case
    document: Mapping[str, Any]  # the configuration, as `_rules/config.py` reads it
    service_proxy_name: str = ""  # "": Services without the label service.kubernetes.io/service-proxy-name
    sync_seconds: float = 3600.0  # the longest time between two comparisons of the whole table
    min_sync_seconds: float = 0.0  # nftables.minSyncPeriod if it is set: the shortest time between two transactions


# What is reported


@dataclass(frozen=True)
class Queued:
    """An API change arrived that the kernel does not have yet. A Service counts for both families, an EndpointSlice for its
    own."""

    at: float
    services: int = 0  # changed Services since the last report
    endpoints: int = 0  # changed EndpointSlices
    families: tuple[int, ...] = (4, 6)  # families for which something is queued


class NoLocal(NamedTuple):
    """Ports of Services that have endpoints, but none on this node, by traffic policy."""

    internal: int = 0
    external: int = 0


@dataclass(frozen=True)
class Programmed:
    """The kernel has what the API said, after transactions in each family that differed."""

    at: float
    duration: float  # from the compilation to the kernel's response
    full: bool  # the whole table was compared, not only the changed Services
    families: tuple[int, ...]  # 4, 6: families whose rules are in force
    services: int  # changed Services that are now in force
    operations: int  # 0: the kernel had them already
    behind: tuple[int, ...] = ()  # families that could not be programmed, and will be retried
    pending_services: int = 0  # changes that arrived meanwhile
    pending_endpoints: int = 0
    # For each EndpointSlice in these transactions that has the time of the change behind it
    # (endpoints.kubernetes.io/last-change-trigger-time): (family, that time). Programming took `at` minus that time.
    triggered_at: tuple[tuple[int, float], ...] = ()
    served: int = 0  # Services that have rules now, in the family that has more of them
    no_local: Mapping[int, NoLocal] = field(default_factory=dict)  # by family


@dataclass(frozen=True)
class Failed:
    """The rules could not be brought into the kernel: no nft, no permission, or a refusal that is not due to a Service. It
    will be retried."""

    at: float
    text: str
    families: tuple[int, ...] = ()  # whose rules are not in force because of this; empty if something else failed


@dataclass(frozen=True)
class Refused:
    """A Service whose present form is not in force: the kernel refuses it, or one of its objects cannot be read. Its
    previous form stays in force. Reported once for each text."""

    at: float
    service: ServiceName
    text: str
    uid: str = ""  # the Service's; "" if unknown


@dataclass(frozen=True)
class Accepted:
    """A Service that was refused is now in force or gone."""

    service: ServiceName


@dataclass(frozen=True)
class Repaired:
    """Another program had changed our table, and it has been restored."""

    at: float
    family: int  # 4 or 6
    duration: float  # from the kernel's event to its response
    operations: int
    pid: int = 0  # of the process that changed it; 0 if the kernel does not report it
    program: str = ""  # its name (comm)


@dataclass(frozen=True)
class ConnectionsCleaned:
    """Stale entries were removed from conntrack."""

    family: int
    duration: float
    removed: int


@dataclass(frozen=True)
class Connection:
    """Whether the API server is followed. Reported on each change."""

    at: float
    followed: bool
    text: str = ""  # why not


@dataclass(frozen=True)
class NodeState:
    """This node, as a load balancer sees it. Reported before anything is programmed, then on each change."""

    name: str
    known: bool = True  # the API has a Node with this name
    uid: str = ""
    deleting: bool = False  # metadata.deletionTimestamp
    to_be_deleted: bool = False  # the taint ToBeDeletedByClusterAutoscaler
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HealthCheck:
    """A healthCheckNodePort of a Service in one of its families."""

    service: ServiceName
    port: int
    local_endpoints: int  # ready endpoints on this node, by unique address
    family: int = 4


@dataclass(frozen=True)
class HealthChecks:
    """All health check node ports that this node serves now. Reported when they change, after the rules are in force."""

    checks: tuple[HealthCheck, ...]  # sorted by family, namespace and name
    # Where they are served, by family: () means all addresses of the family, as for nodePortAddresses without a restriction.
    addresses: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


Report = Union[
    Queued,
    Programmed,
    Failed,
    Refused,
    Accepted,
    Repaired,
    ConnectionsCleaned,
    Connection,
    NodeState,
    HealthChecks,
]

# Called in the loop's thread or in the one that cleans connections: must neither block nor raise.
Sink = Callable[[Report], None]
