# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the agent counts, for Prometheus.

ballast_aggregation_available{api_service}            1 or 0, as of the last look
ballast_aggregation_connections{service}              open now
ballast_aggregation_connects_total{result}            of the API server: connected, refused, failed, malformed
ballast_aggregation_bytes_total{direction}            sent to extension API servers, and received
ballast_aggregation_probes_total{well}                health probes, by whether they passed
ballast_aggregation_api_calls_total                   requests to the API server
ballast_aggregation_errors_total{id}                  failures of the agent's own work, by their id
ballast_aggregation_last_success_timestamp_seconds    when it last saw, and wrote, everything
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union

from .availability import ServiceStatus
from .condition import PASSED
from .counts import RECEIVED, RESULTS, SENT, Counts

_PREFIX = "ballast_aggregation"


class Metrics:
    """Collected at each scrape."""

    def __init__(self, counts: Counts, seen: Callable[[], list[ServiceStatus]]) -> None:
        import prometheus_client

        self.library: Any = prometheus_client
        self.registry = prometheus_client.CollectorRegistry()
        self._counts = counts
        self._seen = seen
        self.registry.register(self)

    def describe(self) -> Iterable[Any]:
        """Nothing, so that registration does not call `collect` before anything is known."""
        return []

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        def gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> Any:
            return _fill(GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=[label]), values)

        def counter(name: str, text: str, label: str, values: Mapping[str, float]) -> Any:
            return _fill(CounterMetricFamily(f"{_PREFIX}_{name}", text, labels=[label]), values)

        counts = self._counts
        available = {seen.name: float(seen.condition == PASSED) for seen in self._seen()}
        yield gauge("available", "Whether the APIService is available.", "api_service", available)
        yield gauge("connections", "Connections that are open.", "service", dict(counts.open))
        results = {result: counts.requests[result] for result in RESULTS}
        yield counter("connects", "Connections that the API server asked for.", "result", results)
        moved = {direction: counts.bytes[direction] for direction in (SENT, RECEIVED)}
        yield counter("bytes", "Bytes to extension API servers, and from them.", "direction", moved)
        probes = {str(well).lower(): counts.probes[well] for well in (True, False)}
        yield counter("probes", "Health probes of extension API servers.", "well", probes)
        yield counter("errors", "Failures of the agent's own work, by their id.", "id", dict(counts.errors))
        yield CounterMetricFamily(f"{_PREFIX}_api_calls", "Requests to the API server.", value=counts.api_calls)
        text = "When it last saw, and wrote, everything."
        yield GaugeMetricFamily(f"{_PREFIX}_last_success_timestamp_seconds", text, value=counts.last_success or 0)


def _fill(family: Any, values: Mapping[str, Union[int, float]]) -> Any:
    for key, value in values.items():
        family.add_metric([key], value)
    return family
