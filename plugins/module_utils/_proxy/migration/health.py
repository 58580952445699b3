# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What kube-proxy says of itself, and when it is in order.

It calls itself healthy while it starts and before its first synchronisation, so the moments of its last one count as
well. /livez is asked, not /healthz, which is also 503 for a Node that is being removed. Source: reference of kube-proxy
3, "Rollout gates".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._core.errors import PeerError
from ..._core.exposition import Sample, parse_exposition
from ..._core.host import Host
from .config_file import healthz_url, metrics_url

MODES = ("iptables", "ipvs", "nftables")
_SECONDS = 5
_SYNCED = "kubeproxy_sync_proxy_rules_last_timestamp_seconds"
_QUEUED = "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds"
_PENDING = (
    "kubeproxy_sync_proxy_rules_endpoint_changes_pending",
    "kubeproxy_sync_proxy_rules_service_changes_pending",
)
# Counted from kube-proxy's start. The alpha releases have the first two without a family.
FAILURES = (
    "kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
    "kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total",
    "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
)
SYNC_METRICS = (_SYNCED, _QUEUED, *_PENDING, *FAILURES)


def read_mode(host: Host, config: Mapping[str, Any]) -> str:
    """The mode in effect; "" where kube-proxy does not answer."""
    try:
        answer = host.request(f"{metrics_url(config)}/proxyMode", timeout=_SECONDS)
    except PeerError:
        return ""
    mode = answer.body.decode(errors="replace").strip()
    return mode if answer.status == 200 and mode in MODES else ""


def read_version(host: Host, config: Mapping[str, Any]) -> str:
    """As in "v1.36.4"; "" where it is not told."""
    return version_in(read_metrics(host, config))


def version_in(metrics: str) -> str:
    """The same, of what kube-proxy said."""
    found = re.search(r'kubernetes_build_info\{[^}]*git_version="(v[^"+-]+)', metrics)
    return found[1] if found else ""


def read_samples(host: Host, config: Mapping[str, Any]) -> tuple[Sample, ...]:
    """Those of SYNC_METRICS; empty where kube-proxy does not answer."""
    return parse_exposition(read_metrics(host, config), SYNC_METRICS)


def read_metrics(host: Host, config: Mapping[str, Any]) -> str:
    """All that it tells, in the Prometheus text format; "" where it does not answer."""
    try:
        answer = host.request(f"{metrics_url(config)}/metrics", timeout=_SECONDS)
    except PeerError:
        return ""
    return answer.body.decode(errors="replace") if answer.status == 200 else ""


def not_in_order(host: Host, config: Mapping[str, Any], mode: str) -> str:
    """Why kube-proxy in this mode, which was just started, is not in order yet; "" when it is."""
    found = read_mode(host, config)
    if found != mode:
        return f"it says mode {found}" if found else "it does not answer"
    try:
        status = host.request(f"{healthz_url(config)}/livez", timeout=_SECONDS).status
        if status == 404:  # before 1.29 there is but /healthz
            status = host.request(f"{healthz_url(config)}/healthz", timeout=_SECONDS).status
    except PeerError:
        return "its health port does not answer"
    return f"it answers {status} on /livez" if status != 200 else unsynced(read_samples(host, config))


def unsynced(samples: Sequence[Sample]) -> str:
    """Of SYNC_METRICS; why kube-proxy has not written all that it knows, "" when it has."""
    synced = dict(_by_family(samples, _SYNCED))
    if not any(synced.values()):
        return "its first synchronisation has not ended"
    for family, at in _by_family(samples, _QUEUED):
        if synced.get(family, 0) < at:
            return f"changes wait to be written{family}"
    for name in _PENDING:
        for family, count in _by_family(samples, name):
            if count:
                return f"{count:.0f} changes wait to be written{family}"
    for name in FAILURES:
        for family, count in _by_family(samples, name):
            if count:
                return f"{name}{family} is {count:.0f}"
    return ""


def _by_family(samples: Sequence[Sample], name: str) -> Iterator[tuple[str, float]]:
    """As it is told: " (IPv4)"; "" where a kube-proxy does not tell families apart, as before 1.33."""
    for sample in samples:
        if sample.name == name:
            family = sample.labels.get("ip_family", "")
            yield f" ({family})" if family else "", sample.value
