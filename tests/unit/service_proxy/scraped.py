# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metrics of a program that has had every kind of report, as a scrape. It runs with the library of any Python."""

from __future__ import annotations

from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.faces.metrics import Metrics
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.ports import (
    ConnectionsCleaned,
    Failed,
    NoLocal,
    Programmed,
    Queued,
)


def programmed(**more: object) -> Programmed:
    given = {"at": 100.0, "duration": 0.003, "full": False, "families": (4, 6), "services": 1, "operations": 2}
    return Programmed(**{**given, **more})  # type: ignore[arg-type]


def full() -> Metrics:
    metrics = Metrics()
    metrics.take(Queued(99.0, services=2, endpoints=1))
    metrics.take(programmed(full=True))
    metrics.take(Queued(100.0, services=1))
    no_local = {4: NoLocal(3, 1), 6: NoLocal(2, 0)}
    metrics.take(programmed(at=101.0, triggered_at=((4, 100.8), (6, 100.5)), no_local=no_local))
    metrics.take(ConnectionsCleaned(4, 0.01, 2))
    metrics.take(Failed(102.0, "no nft", (4, 6)))
    metrics.count_probe("healthz", 200)
    metrics.count_probe("healthz", 503)
    metrics.count_probe("livez", 200)
    return metrics


def scrape(metrics: Metrics) -> str:
    return str(metrics.library.generate_latest(metrics.registry).decode())


def main() -> None:
    print(scrape(full()))
