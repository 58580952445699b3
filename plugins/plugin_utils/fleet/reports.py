# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reports of the playbooks, by name, each with the variables that it reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import kube_proxy_looks, kube_proxy_preview, kube_proxy_run, node_features
from .report import Report, Results
from .request import Request


@dataclass(frozen=True)
class Facts:
    """What the action gives a report: registered results of hosts, and variables of the task."""

    request: Request
    results: Callable[[str], Results]  # by variable, of all hosts of the request and all machines that it names
    value: Callable[[str], Any]  # what was registered for the host that the task runs for; None where nothing was
    local: Callable[[str], Any]  # the same for localhost
    batch: Sequence[str] = ()


def _preview(facts: Facts) -> Report:
    configured = [host for host, config in facts.results("kube_proxy_config").items() if config]
    return kube_proxy_preview.preview(facts.request, facts.results("kube_proxy_found"), configured=configured)


def _batch(facts: Facts) -> Report:
    earlier = [host for host in _failed(facts) if host not in facts.batch]
    return kube_proxy_run.judge_batch(
        facts.request,
        facts.batch,
        facts.results("kube_proxy_changed"),
        facts.results("kube_proxy_after"),
        failed_before=[*facts.local("kube_proxy_preview")["silent"], *earlier],
        command=facts.value("kube_proxy_gate_ran"),
        answer=facts.value("kube_proxy_gate_answer"),
    )


def _outcome(facts: Facts) -> Report:
    preview = facts.local("kube_proxy_preview")
    run = kube_proxy_run.Run(
        looks=facts.results("kube_proxy_found"),
        silent=preview["silent"],
        changing=preview["changing"],
        changed=facts.results("kube_proxy_changed"),
        back=facts.results("kube_proxy_taken_back"),
        cleaned=facts.results("kube_proxy_cleaned"),
        failed=_failed(facts),
    )
    return kube_proxy_run.outcome(facts.request, run)


def _way_back(facts: Facts) -> Report:
    preview = facts.local("kube_proxy_preview")
    return kube_proxy_preview.way_back(
        preview["changing"],
        facts.results("kube_proxy_found"),
        daemonsets=facts.local("kube_proxy_second")["results"],
        from_modes=preview["from_modes"] if facts.request.admin_kubeconfig else [],
    )


def _failed(facts: Facts) -> list[str]:
    """Hosts that failed in batches that were judged."""
    verdicts = facts.results("kube_proxy_batch")
    return [host for host, verdict in verdicts.items() if verdict and host in verdict["failed_hosts"]]


REPORTS: Mapping[str, Callable[[Facts], Report]] = {
    "kube_proxy_preview": _preview,
    "kube_proxy_batch": _batch,
    "kube_proxy_way_back": _way_back,
    "kube_proxy_outcome": _outcome,
    "image_pull_proxy_preview": lambda facts: node_features.image_pull_proxy(
        facts.request, facts.results("image_pull_proxy_before"), facts.results("image_pull_proxy_kubelet_result")
    ),
    "balloons_preview": lambda facts: node_features.balloons(facts.request, facts.results("balloons_result")),
    "balloons_outcome": lambda facts: node_features.balloon_sizes(facts.request, facts.results("balloons_result")),
    "kube_proxy_audit": lambda facts: kube_proxy_looks.audit(facts.request, facts.results("kube_proxy_found")),
    "kube_proxy_cleanup": lambda facts: kube_proxy_looks.cleanup(facts.request, facts.results("kube_proxy_residue")),
}


def plan_text(plan: Mapping[str, Any]) -> bytes:
    return (json.dumps(plan, indent=1, sort_keys=True) + "\n").encode()
