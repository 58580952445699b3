# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""What the loop of `ballast-service-proxy` tells its faces, and what it needs of its configuration.

    API server ── informer ──▶ cluster model ──▶ changed Services ──▶ one nft transaction ──▶ kernel
                                                                          │
    kernel ── netlink: nftables, addresses ──────▶ loop ◀─────────────────┘
                                                    │ reports
                                                    ▼
                         faces: metrics, health, health check node ports, Events

The loop (`loop.py`) is the only one that changes rules. Whatever happens to them is a report, a frozen value that the
loop hands to one function, `Sink`. The faces keep what they need of it and answer from that, in threads
of their own: the loop never waits for a face, and a face never asks the loop.

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
    """What the loop takes from KubeProxyConfiguration and the command line."""

    node_name: str  # hostnameOverride, else the host's name in small letters
    document: Mapping[str, Any]  # the configuration, as `_rules/config.py` reads it
    service_proxy_name: str = ""  # "": Services without the label service.kubernetes.io/service-proxy-name
    sync_seconds: float = 3600.0  # all of the table is compared with the kernel at least so often
    min_sync_seconds: float = (
        0.0  # nftables.minSyncPeriod where it was given: the shortest time between two transactions
    )


# What is reported


@dataclass(frozen=True)
class Queued:
    """A change of the API arrived that the kernel does not have yet: of a Service for each family, of an EndpointSlice for its own."""

    at: float
    services: int = 0  # changed Services, since the last report
    endpoints: int = 0  # changed EndpointSlices
    families: tuple[int, ...] = (4, 6)  # those for which something waits


class NoLocal(NamedTuple):
    """Ports of Services with endpoints elsewhere and none on this node, by traffic policy."""

    internal: int = 0
    external: int = 0


@dataclass(frozen=True)
class Programmed:
    """The kernel has what the API said: transactions of each family that differed."""

    at: float
    duration: float  # from the compilation to the kernel's answer
    full: bool  # all of the table was compared, not the changed Services alone
    families: tuple[int, ...]  # 4, 6: those whose rules are in force
    services: int  # changed Services that are in force now
    operations: int  # 0: the kernel had it already
    behind: tuple[int, ...] = ()  # those that could not be programmed, and are tried again
    pending_services: int = 0  # changes that arrived meanwhile
    pending_endpoints: int = 0
    # For each EndpointSlice of these transactions that says so, its family and the time of the change behind it
    # (endpoints.kubernetes.io/last-change-trigger-time): programming took `at` less each of them.
    triggered_at: tuple[tuple[int, float], ...] = ()
    served: int = 0  # Services that have rules now, in the family that has more of them
    no_local: Mapping[int, NoLocal] = field(default_factory=dict)  # by family


@dataclass(frozen=True)
class Failed:
    """The rules could not be brought to the kernel: no nft, no right, a refusal that belongs to no Service. It is tried again."""

    at: float
    text: str
    families: tuple[int, ...] = ()  # those whose rules are not in force by that; none where something else failed


@dataclass(frozen=True)
class Refused:
    """A Service whose present form is not in force: the kernel refuses it, or an object of it cannot be read. What was in
    force of it stays. Reported once for each text."""

    at: float
    service: ServiceName
    text: str
    uid: str = ""  # of the Service, "" where it is not known


@dataclass(frozen=True)
class Accepted:
    """A Service that was refused is in force, or is gone."""

    service: ServiceName


@dataclass(frozen=True)
class Repaired:
    """Another program had changed our table, and it is as it should be again."""

    at: float
    family: int  # 4 or 6
    duration: float  # from the kernel's event to its answer
    operations: int
    pid: int = 0  # of the process that did it, 0 where the kernel does not say
    program: str = ""  # its name (comm)


@dataclass(frozen=True)
class ConnectionsCleaned:
    """Stale entries were removed from conntrack."""

    family: int
    duration: float
    removed: int


@dataclass(frozen=True)
class Connection:
    """Whether the API server is followed; reported on each change."""

    at: float
    followed: bool
    text: str = ""  # why not


@dataclass(frozen=True)
class NodeState:
    """This node, as a load balancer would ask: reported first before anything is programmed, then on each change."""

    name: str
    known: bool = True  # the API has a Node of this name
    uid: str = ""
    deleting: bool = False  # metadata.deletionTimestamp
    to_be_deleted: bool = False  # the taint ToBeDeletedByClusterAutoscaler
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HealthCheck:
    """A healthCheckNodePort of a Service, in one of its families."""

    service: ServiceName
    port: int
    local_endpoints: int  # ready ones on this node, each address once
    family: int = 4


@dataclass(frozen=True)
class HealthChecks:
    """All health check node ports that this node serves now; reported when they changed, after the rules are in force."""

    checks: tuple[HealthCheck, ...]  # by family, namespace and name
    # Where they are served, by family: () is every address of it, as nodePortAddresses without a limit.
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

# Called in the loop's thread, or in that which cleans connections: it must neither wait nor raise.
Sink = Callable[[Report], None]
