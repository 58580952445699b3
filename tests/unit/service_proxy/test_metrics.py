# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.faces.metrics import Metrics
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.ports import (
    Accepted,
    Connection,
    Failed,
    Queued,
    Refused,
    Repaired,
    ServiceName,
)
from tests.unit.service_proxy import exposed
from tests.unit.service_proxy.scraped import full, programmed, scrape

OF_KUBE_PROXY = Path(__file__).parent / "cases/kube-proxy-1.37.1.metrics"
SERVICE = ServiceName("default", "a")


def samples(metrics: Metrics) -> dict[str, float]:
    """By name and labels, in the order of their names."""
    found = {}
    for line in scrape(metrics).splitlines():
        if not line.startswith("#"):
            name, _blank, value = line.rpartition(" ")
            found[re.sub(r"\{(.*)\}", lambda match: "{" + ",".join(sorted(match[1].split(","))) + "}", name)] = float(
                value
            )
    return found


def test_names_types_labels_and_bounds_are_those_of_kube_proxy() -> None:
    theirs = exposed.parse(OF_KUBE_PROXY.read_text())
    ours = exposed.parse(scrape(full()))
    assert len(theirs) == 16
    assert {name: ours.get(name) for name in theirs} == theirs
    assert {name for name in ours if name.startswith("kubeproxy_")} == set(theirs)


def test_values() -> None:
    found = samples(full())
    sync = "kubeproxy_sync_proxy_rules"
    assert found[f'{sync}_last_queued_timestamp_seconds{{ip_family="IPv6"}}'] == 100.0
    assert found[f'{sync}_last_timestamp_seconds{{ip_family="IPv4"}}'] == 101.0
    assert found[f"{sync}_service_changes_total"] == 6  # of each family, as in kube-proxy
    assert found[f"{sync}_endpoint_changes_total"] == 1
    assert found[f"{sync}_service_changes_pending"] == 0
    assert found[f'{sync}_no_local_endpoints_total{{ip_family="IPv4",traffic_policy="internal"}}'] == 3
    assert found[f'{sync}_no_local_endpoints_total{{ip_family="IPv4",traffic_policy="external"}}'] == 1
    assert found[f'{sync}_no_local_endpoints_total{{ip_family="IPv6",traffic_policy="internal"}}'] == 2
    assert found[f'{sync}_nftables_sync_failures_total{{ip_family="IPv4"}}'] == 1
    assert found[f'{sync}_duration_seconds_count{{ip_family="IPv4"}}'] == 2
    assert found[f'{sync}_duration_seconds_bucket{{ip_family="IPv4",le="0.002"}}'] == 0
    assert found[f'{sync}_duration_seconds_bucket{{ip_family="IPv4",le="0.004"}}'] == 2
    assert found['kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"}'] == 1
    assert found['kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv4"}'] == 1
    programming = "kubeproxy_network_programming_duration_seconds"
    assert found[f'{programming}_bucket{{ip_family="IPv4",le="0.25"}}'] == 1
    assert round(found[f'{programming}_sum{{ip_family="IPv4"}}'], 6) == 0.2
    assert round(found[f'{programming}_sum{{ip_family="IPv6"}}'], 6) == 0.5
    assert found['kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"}'] == 2
    assert found['kubeproxy_proxy_healthz_total{code="503"}'] == 1


def test_changes_that_arrived_meanwhile_are_pending() -> None:
    metrics = Metrics()
    metrics.take(Queued(1.0, services=2, endpoints=5))
    pending = "kubeproxy_sync_proxy_rules_{}_changes_pending".format
    assert (samples(metrics)[pending("service")], samples(metrics)[pending("endpoint")]) == (2, 5)
    metrics.take(programmed(pending_services=1, pending_endpoints=2))
    assert (samples(metrics)[pending("service")], samples(metrics)[pending("endpoint")]) == (1, 2)


def test_a_change_that_no_rule_depends_on_counts_and_is_not_pending() -> None:
    """As of EndpointSlices of Services that another proxy serves: nothing is programmed for them."""
    metrics = Metrics()
    metrics.take(programmed())
    metrics.take(Queued(1.0, endpoints=5, families=()))
    found = samples(metrics)
    assert found["kubeproxy_sync_proxy_rules_endpoint_changes_total"] == 5
    assert found["kubeproxy_sync_proxy_rules_endpoint_changes_pending"] == 0


def test_a_change_of_one_family_and_one_that_is_behind_leave_the_other_as_it_was() -> None:
    metrics, queued = Metrics(), "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds"
    metrics.take(programmed(at=1.0))
    metrics.take(Queued(2.0, endpoints=1, families=(6,)))
    found = samples(metrics)
    assert (found.get(f'{queued}{{ip_family="IPv4"}}'), found[f'{queued}{{ip_family="IPv6"}}']) == (None, 2.0)
    metrics.take(programmed(at=3.0, families=(6,), behind=(4,)))
    found = samples(metrics)
    last = "kubeproxy_sync_proxy_rules_last_timestamp_seconds"
    assert (found[f'{last}{{ip_family="IPv4"}}'], found[f'{last}{{ip_family="IPv6"}}']) == (1.0, 3.0)


def test_a_node_of_one_family_has_no_rows_of_the_other() -> None:
    metrics = Metrics()
    metrics.take(programmed(families=(4,)))
    metrics.take(Queued(2.0, services=1))
    metrics.take(Failed(3.0, "no nft", (4,)))
    assert "IPv6" not in scrape(metrics)
    assert samples(metrics)["kubeproxy_sync_proxy_rules_service_changes_total"] == 1


def test_a_failure_counts_once_for_each_family_that_has_it() -> None:
    metrics = Metrics()
    metrics.take(programmed())
    metrics.take(Failed(3.0, "no nft", (6,)))
    metrics.take(Failed(4.0, "stale connections stay"))
    found, failures = samples(metrics), "kubeproxy_sync_proxy_rules_nftables_sync_failures_total"
    assert {name: value for name, value in found.items() if name.startswith(failures)} == {
        f'{failures}{{ip_family="IPv6"}}': 1
    }


def test_our_own() -> None:
    metrics = Metrics()
    own = "ballast_service_proxy"
    assert samples(metrics)[f"{own}_api_followed"] == 0
    metrics.take(Connection(1.0, followed=True))
    metrics.take(Refused(1.0, SERVICE, "no"))
    metrics.take(Refused(1.0, SERVICE, "no, otherwise"))
    metrics.take(Repaired(2.0, 6, 0.2, 9, 77, "nft"))
    metrics.events_dropped = 4
    found = samples(metrics)
    assert (found[f"{own}_api_followed"], found[f"{own}_refused_services"]) == (1, 1)
    assert found[f'{own}_repairs_total{{ip_family="IPv6"}}'] == 1
    assert found[f'{own}_repair_duration_seconds_bucket{{ip_family="IPv6",le="0.256"}}'] == 1
    assert found[f"{own}_events_dropped_total"] == 4
    metrics.take(Accepted(SERVICE))
    assert samples(metrics)[f"{own}_refused_services"] == 0


def test_the_process_counts_itself() -> None:
    assert samples(Metrics())["process_resident_memory_bytes"] > 0
