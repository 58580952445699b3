# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proxy's Prometheus metrics."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable
from typing import Any, Callable, Optional

from .pulls import Snapshot
from .request import PullRequest

# From pulls of images that are already present, to images of gigabytes behind a queue.
_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)


class Metrics:
    """An Observer. `pulls`, `duration` and `bytes` count pulls at a runtime, all others count callers."""

    def __init__(self, listeners: Iterable[str]) -> None:
        import prometheus_client

        self.library: Any = prometheus_client
        self.registry = prometheus_client.CollectorRegistry()
        counter, histogram = self._counter, self._histogram
        self._joined = counter("joined", "Callers that joined another caller's pull.")
        self._outcomes = {
            "failed": counter("failed", "Callers whose pull failed at the runtime."),
            "refused": counter("refused", "Rejected callers: no free slot at any attempt, or the proxy was stopping."),
            "cancelled": counter("cancelled", "Callers that left before their pull finished."),
        }
        self._pulls = counter("pulls", "Pulls started at the runtime.")
        self._bytes = counter("bytes", "Sizes of pulled images, from the runtime's ImageStatus.")
        self._wait = histogram("wait_seconds", "Time until a caller's pull started or the caller gave up.")
        self._duration = histogram("duration_seconds", "Duration of pulls at the runtime.")
        by_listener = (self._joined, self._pulls, self._bytes, self._wait, self._duration, *self._outcomes.values())
        for name in listeners:  # exported as 0 before the first event
            for metric in by_listener:
                metric.labels(name)

    def watch(self, listeners: Iterable[str], snapshot: Callable[[], Snapshot]) -> None:
        """Export the pulls in flight and queued; `snapshot` is called at each scrape."""
        self.registry.register(_Gauges(list(listeners), snapshot))

    def add_size(self, listener: str, size: int) -> None:
        """`size` is in bytes."""
        self._bytes.labels(listener).inc(size)

    def on_queued(self, request: PullRequest) -> None:
        pass

    def on_joined(self, request: PullRequest) -> None:
        self._joined.labels(request.listener).inc()

    def on_started(self, request: PullRequest, waited: float) -> None:
        self._pulls.labels(request.listener).inc()

    def on_ended(self, request: PullRequest, seconds: float, error: Optional[BaseException]) -> None:
        self._duration.labels(request.listener).observe(seconds)

    def on_answered(self, request: PullRequest, outcome: str, waited: float) -> None:
        self._wait.labels(request.listener).observe(waited)
        if outcome in self._outcomes:
            self._outcomes[outcome].labels(request.listener).inc()

    def _counter(self, name: str, text: str) -> Any:
        return self.library.Counter(f"ballast_pull_{name}", text, ["listener"], registry=self.registry)

    def _histogram(self, name: str, text: str) -> Any:
        full = f"ballast_pull_{name}"
        return self.library.Histogram(full, text, ["listener"], registry=self.registry, buckets=_BUCKETS)


class _Gauges:
    """Gauges, computed from a snapshot at each scrape."""

    def __init__(self, listeners: list[str], snapshot: Callable[[], Snapshot]) -> None:
        self._listeners = listeners
        self._snapshot = snapshot

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import GaugeMetricFamily

        now = self._snapshot()
        in_flight = Tally(pull.request.listener for pull in now.in_flight)
        queued = Tally(caller.listener for pull in now.queued for caller in pull.callers)
        yield self._gauge("in_flight", "Pulls in flight at the runtime.", in_flight)
        yield self._gauge("queued", "Callers waiting for a slot.", queued)
        text = "Maximum number of pulls in flight, 0 for no limit."
        yield GaugeMetricFamily("ballast_pull_max_in_flight", text, value=now.max_in_flight)

    def _gauge(self, name: str, text: str, values: Tally[str]) -> Any:
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(f"ballast_pull_{name}", text, labels=["listener"])
        for listener in self._listeners:
            family.add_metric([listener], values[listener])
        return family
