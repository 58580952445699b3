# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Prometheus scrapes: kube-proxy's metrics with its names, labels and buckets, so that dashboards and alerts keep
working, and our own.

Bucket bounds are written as Go writes them (`le="1"`, not `1.0`): otherwise a sum over nodes with both programs would have
every bucket twice. A test compares names, types, labels and bounds with a scrape of kube-proxy 1.37.1 in mode nftables.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..ports import (
    Accepted,
    Connection,
    ConnectionsCleaned,
    Failed,
    NoLocal,
    Programmed,
    Queued,
    Refused,
    Repaired,
    Report,
    ServiceName,
)

_SECONDS = tuple(0.001 * 2**power for power in range(15))  # of one transaction: 1 ms to 16.384 s
_PROGRAMMING = (  # from a change to its rules; finer where values are normally expected
    *(0, 0.25, 0.5),
    *range(1, 60),
    *range(60, 120, 5),
    *range(120, 301, 30),
)
_FAMILY = {4: "IPv4", 6: "IPv6"}
_SYNC = "kubeproxy_sync_proxy_rules"
_OWN = "ballast_service_proxy"


class _Histogram:
    """Durations by label."""

    def __init__(self, name: str, text: str, bounds: Sequence[float]) -> None:
        self.name = name
        self._text = text
        self._bounds = bounds
        self._rows: dict[str, tuple[list[int], list[float]]] = {}  # counts of buckets, the last beyond all bounds; sum

    def observe(self, family: int, seconds: float) -> None:
        counts, total = self._rows.setdefault(_FAMILY[family], ([0] * (len(self._bounds) + 1), [0.0]))
        counts[bisect_left(self._bounds, seconds)] += 1
        total[0] += seconds

    def collect(self, core: Any) -> Any:
        metric = core.HistogramMetricFamily(self.name, self._text, labels=["ip_family"])
        for family, (counts, total) in self._rows.items():
            below, buckets = 0, []
            for bound, count in zip([*(f"{bound:g}" for bound in self._bounds), "+Inf"], counts):
                below += count
                buckets.append((bound, below))
            metric.add_metric([family], buckets=buckets, sum_value=total[0])
        return metric


class Metrics:
    """Receives the loop's reports; prometheus_client calls `collect`. Both in the same thread."""

    def __init__(self) -> None:
        import prometheus_client.core

        self.library: Any = prometheus_client
        self.registry = prometheus_client.CollectorRegistry()
        self._families: tuple[int, ...] = (4, 6)  # until the first report says which are served
        self._queued_at: dict[int, float] = {}
        self._programmed_at: dict[int, float] = {}
        self._no_local: Mapping[int, NoLocal] = {}
        self._pending = (0, 0)
        self._counts: Counter[str] = Counter()
        self._probes: Counter[tuple[str, int]] = Counter()
        self._failures: Counter[int] = Counter()
        self._removed: Counter[int] = Counter()
        self._repairs: Counter[int] = Counter()
        self._refused: set[ServiceName] = set()
        self._followed = False
        self.events_dropped = 0
        seconds = "Time from queued changes to the kernel's response, per transaction, in seconds"
        self._sync = _Histogram(f"{_SYNC}_duration_seconds", f"{seconds}.", _SECONDS)
        self._full = _Histogram(
            "kubeproxy_sync_full_proxy_rules_duration_seconds",
            f"{seconds}, for transactions that compared all rules.",
            _SECONDS,
        )
        self._partial = _Histogram(
            "kubeproxy_sync_partial_proxy_rules_duration_seconds",
            f"{seconds}, for transactions with changed Services only.",
            _SECONDS,
        )
        self._programming = _Histogram(
            "kubeproxy_network_programming_duration_seconds",
            "Time from a change of endpoints in the cluster to its rules on this node, in seconds.",
            _PROGRAMMING,
        )
        self._cleaning = _Histogram(
            "kubeproxy_conntrack_reconciler_sync_duration_seconds",
            "Time to look for stale connections, in seconds.",
            _SECONDS,
        )
        self._repairing = _Histogram(
            f"{_OWN}_repair_duration_seconds",
            "Time from another program's change of our rules to their repair, in seconds.",
            _SECONDS,
        )
        self.registry.register(self)
        prometheus_client.ProcessCollector(registry=self.registry)

    def take(self, report: Report) -> None:
        if isinstance(report, Queued):
            self._queued_at.update(dict.fromkeys(report.families, report.at))
            # kube-proxy follows Services once per family, while an EndpointSlice belongs to one.
            self._counts["services"] += report.services * len(self._families)
            self._counts["endpoints"] += report.endpoints
            if report.families:
                self._pending = (self._pending[0] + report.services, self._pending[1] + report.endpoints)
        elif isinstance(report, Programmed):
            self._take_programmed(report)
        elif isinstance(report, Failed):
            self._failures.update(report.families)
        elif isinstance(report, ConnectionsCleaned):
            self._cleaning.observe(report.family, report.duration)
            self._removed[report.family] += report.removed
        elif isinstance(report, Repaired):
            self._repairing.observe(report.family, report.duration)
            self._repairs[report.family] += 1
        elif isinstance(report, Refused):
            self._refused.add(report.service)
        elif isinstance(report, Accepted):
            self._refused.discard(report.service)
        elif isinstance(report, Connection):
            self._followed = report.followed

    def count_probe(self, face: str, status: int) -> None:
        """`face` is healthz or livez."""
        self._probes[(face, status)] += 1

    def collect(self) -> Iterator[Any]:
        core = self.library.core
        for histogram in (self._sync, self._full, self._partial, self._programming, self._cleaning, self._repairing):
            yield histogram.collect(core)
        yield from self._sync_gauges(core)
        yield from self._sync_counters(core)
        yield from self._own(core)
        for face in ("healthz", "livez"):
            probes = core.CounterMetricFamily(
                f"kubeproxy_proxy_{face}", f"Responses at /{face} by status.", labels=["code"]
            )
            for (of, status), count in sorted(self._probes.items()):
                if of == face:
                    probes.add_metric([str(status)], count)
            yield probes

    def _take_programmed(self, report: Programmed) -> None:
        self._families = tuple(sorted({*report.families, *report.behind, *self._programmed_at}))
        for family in report.families:
            self._sync.observe(family, report.duration)
            (self._full if report.full else self._partial).observe(family, report.duration)
            self._programmed_at[family] = report.at
        self._no_local = report.no_local
        for family, triggered_at in report.triggered_at:
            self._programming.observe(family, report.at - triggered_at)
        self._pending = (report.pending_services, report.pending_endpoints)

    def _sync_gauges(self, core: Any) -> Iterator[Any]:
        families = sorted(self._programmed_at)
        queued = [(family, at) for family, at in sorted(self._queued_at.items()) if family in self._families]
        text = "Time at which a change was last queued, in seconds since 1970."
        yield _by_family(core, f"{_SYNC}_last_queued_timestamp_seconds", text, queued)
        text = "Time at which rules were last up to date, in seconds since 1970."
        programmed = [(family, self._programmed_at[family]) for family in families]
        yield _by_family(core, f"{_SYNC}_last_timestamp_seconds", text, programmed)
        name, text = (
            f"{_SYNC}_no_local_endpoints_total",
            "Service ports with traffic policy Local and no endpoint on this node.",
        )
        no_local = core.GaugeMetricFamily(name, text, labels=["ip_family", "traffic_policy"])
        for family in families:
            internal, external = self._no_local.get(family, NoLocal())
            no_local.add_metric([_FAMILY[family], "internal"], internal)
            no_local.add_metric([_FAMILY[family], "external"], external)
        yield no_local
        for what, value in zip(("service", "endpoint"), self._pending):
            text = f"Changes of {what}s that are not yet active."
            yield core.GaugeMetricFamily(f"{_SYNC}_{what}_changes_pending", text, value=value)

    def _sync_counters(self, core: Any) -> Iterator[Any]:
        for what in ("service", "endpoint"):
            name, value = f"{_SYNC}_{what}_changes", self._counts[f"{what}s"]
            yield core.CounterMetricFamily(name, f"Received changes of {what}s, per IP family.", value=value)
        name, text = (
            f"{_SYNC}_nftables_sync_failures",
            "Transactions that the kernel refused or that could not be sent.",
        )
        yield _count_by_family(core, name, text, self._failures)
        name, text = "kubeproxy_conntrack_reconciler_deleted_entries", "Removed stale connections."
        yield _count_by_family(core, name, text, self._removed)

    def _own(self, core: Any) -> Iterable[Any]:
        yield _count_by_family(core, f"{_OWN}_repairs", "Repairs of rules that another program changed.", self._repairs)
        text = "Services whose current version is not active."
        yield core.GaugeMetricFamily(f"{_OWN}_refused_services", text, value=len(self._refused))
        text = "Whether the program follows the API server."
        yield core.GaugeMetricFamily(f"{_OWN}_api_followed", text, value=int(self._followed))
        text = "Events that were dropped, because of their rate or an API server error."
        yield core.CounterMetricFamily(f"{_OWN}_events_dropped", text, value=self.events_dropped)


def _by_family(core: Any, name: str, text: str, rows: Iterable[tuple[int, float]]) -> Any:
    metric = core.GaugeMetricFamily(name, text, labels=["ip_family"])
    for family, value in rows:
        metric.add_metric([_FAMILY[family]], value)
    return metric


def _count_by_family(core: Any, name: str, text: str, counts: Counter[int]) -> Any:
    metric = core.CounterMetricFamily(name, text, labels=["ip_family"])
    for family, value in sorted(counts.items()):
        metric.add_metric([_FAMILY[family]], value)
    return metric
