# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metrics of the reconciler, for Prometheus.

Of nodes and hosts, as of the last look:

    ballast_balloon_target{node,resource,unit}            what pods of the node may request in all
    ballast_balloon_desired|allocated|actual{...}         the balloon: requested, allocated, actual
    ballast_balloon_free{...}                             what the scheduler may still place
    ballast_balloon_at_target{node}                       1 or 0
    ballast_balloon_present{node}                         1 or 0: a balloon pod that its kubelet has admitted
    ballast_balloon_host_room{host,resource,unit}         capacity less the reserve
    ballast_balloon_host_open{...}                        what pods of its nodes may request together
    ballast_balloon_host_holds{host}                      1 or 0: not overcommitted

Of its work, since the start:

    ballast_balloon_resizes_total{outcome}                resizes that ended, by outcome
    ballast_balloon_api_calls_total                       requests to the API server
    ballast_balloon_errors_total{id}                      failures of the reconciler's own work, by their id
    ballast_balloon_leases_denied_total                   hosts left to another holder of their lease
    ballast_balloon_last_success_timestamp_seconds        when it last saw everything, with nothing left to do

`resource` and `unit` are those of kube-state-metrics: cpu in cores, memory in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from ..cluster.facts import OUTCOMES, STARTING, Fleet, Node
from ..resize.resize_steps import is_overcommitted
from ..sizing.resources import Resources, total

_PREFIX = "ballast_balloon"
_UNITS = (("cpu", "core"), ("memory", "byte"))
_MILLI = 1000


@dataclass(frozen=True)
class View:
    """The result of the last look; empty before the first."""

    fleet: Fleet = field(default_factory=lambda: Fleet({}))
    targets: Mapping[str, Resources] = field(default_factory=dict)  # of nodes with a target
    reached: frozenset[str] = frozenset()  # nodes of `targets` that are at their target

    @property
    def hosts(self) -> list[str]:
        """Hosts of nodes with a target; sorted."""
        return sorted({self.fleet.nodes[name].host for name in self.targets})


class Metrics:
    def __init__(self, view: Callable[[], View], calls: Callable[[], int]) -> None:
        """`calls` is the number of requests to the API server so far."""
        import prometheus_client

        self.library: Any = prometheus_client
        self.registry = prometheus_client.CollectorRegistry()
        self._resizes = self._counter("resizes", "Completed nodes, by outcome.", ["outcome"])
        self._errors = self._counter("errors", "Failures of the reconciler itself, by message id.", ["id"])
        self._denied = self._counter("leases_denied", "Hosts skipped because another client holds their lease.", [])
        self._success = prometheus_client.Gauge(
            f"{_PREFIX}_last_success_timestamp_seconds",
            "Time of the last full pass that found all nodes at their targets.",
            registry=self.registry,
        )
        for outcome in OUTCOMES:  # each is exported as 0 before it first happens
            self._resizes.labels(outcome)
        self.registry.register(_Gauges(view, calls))

    def count_outcome(self, outcome: str) -> None:
        self._resizes.labels(outcome).inc()

    def count_error(self, id: str) -> None:
        self._errors.labels(id).inc()

    def count_denied(self) -> None:
        self._denied.inc()

    def note_success(self, now: float) -> None:
        """`now` is Unix time."""
        self._success.set(now)

    def _counter(self, name: str, text: str, labels: list[str]) -> Any:
        return self.library.Counter(f"{_PREFIX}_{name}", text, labels, registry=self.registry)


class _Gauges:
    """Gauges that are computed at each scrape."""

    def __init__(self, view: Callable[[], View], calls: Callable[[], int]) -> None:
        self._view = view
        self._calls = calls

    def describe(self) -> Iterable[Any]:
        """Nothing, as nothing is known at registration."""
        return []

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import CounterMetricFamily

        view = self._view()
        nodes = [view.fleet.nodes[name] for name in sorted(view.targets)]
        yield self._amounts("target", "Target of the node: what its pods may request in total.", "node", _targets(view))
        for name, text, read in _OF_NODES:
            yield self._amounts(name, text, "node", {node.name: read(node) for node in nodes})
        reached = {node.name: node.name in view.reached for node in nodes}
        yield self._flags("at_target", "Whether the node's balloon matches its target.", "node", reached)
        present = {node.name: _is_present(node) for node in nodes}
        yield self._flags("present", "Whether the node has a balloon that its kubelet has admitted.", "node", present)
        unreserved = {host: view.fleet.unreserved(host) for host in view.hosts}
        yield self._amounts(
            "host_room", "Schedulable resources of the host's nodes, in total.", "host", dict(unreserved)
        )
        by_host = view.fleet.by_host
        promised = {host: total(node.schedulable for node in by_host[host]) for host in view.hosts}
        yield self._amounts("host_open", "Unreserved resources of the host.", "host", dict(promised))
        kept = {host: not is_overcommitted(_alone(view.fleet, by_host[host]), host) for host in view.hosts}
        yield self._flags("host_holds", "Whether the host is not overcommitted.", "host", kept)
        yield CounterMetricFamily(f"{_PREFIX}_api_calls", "Requests to the API server.", value=self._calls())

    def _amounts(self, name: str, text: str, label: str, values: Mapping[str, Optional[Resources]]) -> Any:
        """Omits names whose value is None."""
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=[label, "resource", "unit"])
        for key, amount in values.items():
            if amount is not None:
                for (resource, unit), value in zip(_UNITS, (amount.cpu / _MILLI, amount.memory)):
                    family.add_metric([key, resource, unit], value)
        return family

    def _flags(self, name: str, text: str, label: str, values: Mapping[str, bool]) -> Any:
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=[label])
        for key, value in values.items():
            family.add_metric([key], value)
        return family


def _alone(fleet: Fleet, nodes: Iterable[Node]) -> Fleet:
    """A fleet of one host's nodes, so that `is_overcommitted` does not search all nodes for each host."""
    return Fleet({node.name: node for node in nodes}, fleet.capacities, fleet.reserve)


def _targets(view: View) -> dict[str, Optional[Resources]]:
    return dict(sorted(view.targets.items()))


def _is_present(node: Node) -> bool:
    return node.balloon is not None and node.balloon.state != STARTING


def _size(part: str) -> Callable[[Node], Optional[Resources]]:
    return lambda node: None if node.balloon is None else getattr(node.balloon, part)


_OF_NODES: tuple[tuple[str, str, Callable[[Node], Optional[Resources]]], ...] = (
    ("desired", "Resources that the balloon's spec requests.", _size("desired")),
    ("allocated", "Resources that the kubelet has allocated to the balloon.", _size("allocated")),
    ("actual", "Resources that the container runtime has applied to the balloon.", _size("actual")),
    ("free", "Resources that the scheduler may still place.", lambda node: node.free),
)
