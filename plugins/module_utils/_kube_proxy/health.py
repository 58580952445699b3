# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What kube-proxy reports, and whether it is healthy.

It reports itself healthy even before its first synchronization, so the times of its last one count as well. /livez is read
instead of /healthz, which also returns 503 for a Node that is being deleted. Source: kube-proxy,
healthcheck/proxy_health.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .._core.host.host import Host
from .._core.host.sockets import ask_root
from .._core.text.exposition import Sample, parse_exposition
from .config_file import healthz_url, metrics_url
from .modes import BALLAST, KUBE_PROXY_MODES, rules_of

_SECONDS = 5
_METRICS_SECONDS = 20  # several hundred kilobytes, for which a busy node needs seconds
_WRITE_SECONDS = 30
_WAITING = "wait to be written"
_SYNCED = "kubeproxy_sync_proxy_rules_last_timestamp_seconds"
_QUEUED = "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds"
_PENDING = (
    "kubeproxy_sync_proxy_rules_endpoint_changes_pending",
    "kubeproxy_sync_proxy_rules_service_changes_pending",
)
# Counted since kube-proxy's start. The alpha releases have the first two without a family.
FAILURES = (
    "kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
    "kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total",
    "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
)
SYNC_METRICS = (_SYNCED, _QUEUED, *_PENDING, *FAILURES)


def read_mode(host: Host, config: Mapping[str, Any]) -> str:
    """The mode in effect, which is nftables for our service proxy; "" if kube-proxy does not respond."""
    answer = ask_root(host, f"{metrics_url(config)}/proxyMode", timeout=_SECONDS)
    if answer is None:
        return ""
    mode = answer.body.decode(errors="replace").strip()
    return mode if answer.status == 200 and mode in KUBE_PROXY_MODES else ""


def read_version(host: Host, config: Mapping[str, Any]) -> str:
    """Such as "v1.36.4"; "" if unknown."""
    return version_in(read_metrics(host, config))


def version_in(metrics: str) -> str:
    """Such as "v1.36.4"; "" if the metrics do not have it."""
    match = re.search(r'kubernetes_build_info\{[^}]*git_version="(v[^"+-]+)', metrics)
    return match[1] if match else ""


def read_samples(host: Host, config: Mapping[str, Any]) -> tuple[Sample, ...]:
    """The samples of SYNC_METRICS; empty if kube-proxy does not respond."""
    return parse_exposition(read_metrics(host, config), SYNC_METRICS)


def read_metrics(host: Host, config: Mapping[str, Any]) -> str:
    """All metrics, in Prometheus text format; "" if kube-proxy does not respond."""
    answer = ask_root(host, f"{metrics_url(config)}/metrics", timeout=_METRICS_SECONDS)
    if answer is None:
        return ""
    return answer.body.decode(errors="replace") if answer.status == 200 else ""


def read_problem(host: Host, config: Mapping[str, Any], mode: str) -> str:
    """Why kube-proxy is not (yet) healthy in this mode; "" if it is."""
    reported = read_mode(host, config)
    if reported != rules_of(mode):
        return f"it reports mode {reported}" if reported else "it does not respond"
    path = "/readyz" if mode == BALLAST else "/livez"  # like /livez, but not before its rules are in force
    answer = ask_root(host, f"{healthz_url(config)}{path}", timeout=_SECONDS)
    if answer is not None and answer.status == 404:  # before 1.29 there is only /healthz
        answer = ask_root(host, f"{healthz_url(config)}/healthz", timeout=_SECONDS)
    if answer is None:
        return "its health port does not respond"
    return f"it returns {answer.status} on {path}" if answer.status != 200 else sync_problem(read_samples(host, config))


def read_lasting_problem(host: Host, config: Mapping[str, Any], mode: str) -> str:
    """`read_problem`, but pending changes get a few seconds: if Services change all the time, there are almost always some,
    which is no reason to end a rollout."""
    deadline = host.monotonic() + _WRITE_SECONDS
    while True:
        problem = read_problem(host, config, mode)
        if _WAITING not in problem or host.monotonic() >= deadline:
            return problem
        host.sleep(0.5)


def sync_problem(samples: Sequence[Sample]) -> str:
    """Why kube-proxy has not written all changes, according to SYNC_METRICS; "" if it has."""
    synced = dict(_by_family(samples, _SYNCED))
    if not any(synced.values()):
        return "its first synchronisation has not finished"
    for family, at in _by_family(samples, _QUEUED):
        if synced.get(family, 0) < at:
            return f"changes {_WAITING}{family}"
    for name in _PENDING:
        for family, count in _by_family(samples, name):
            if count:
                return f"{count:.0f} changes {_WAITING}{family}"
    for name in FAILURES:
        for family, count in _by_family(samples, name):
            if count:
                return f"{name}{family} is {count:.0f}"
    return ""


def _by_family(samples: Sequence[Sample], name: str) -> Iterator[tuple[str, float]]:
    """(family, value), with the family as in " (IPv4)"; "" before kube-proxy 1.33, whose metrics do not name families."""
    for sample in samples:
        if sample.name == name:
            family = sample.labels.get("ip_family", "")
            yield f" ({family})" if family else "", sample.value
