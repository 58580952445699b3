# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbooks' reports by name, each with the variables that it reads."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Optional

from . import balloon_run, image_pull_run, kube_proxy_looks, kube_proxy_preview, kube_proxy_run
from .report import Report, Result, Results
from .request import Request
from .run import judge


@dataclass(frozen=True)
class Facts:
    """What the action passes to a report: registered results of hosts, and variables of the task."""

    request: Request
    results: Callable[[str], Results]  # by variable; of all hosts of the request and all machines that it names
    value: Callable[[str], Any]  # registered for the task's host; None if nothing was
    local: Callable[[str], Any]  # the same for localhost
    batch: Sequence[str] = ()
    is_check: bool = False
    elsewhere: Sequence[str] = ()  # hosts that failed in other slices of a fleet run

    @property
    def gate(self) -> dict[str, Any]:
        """Further arguments of `judge`: results of the operator's gate after the present batch, and failures in other slices."""
        return {
            "command": self.value("fleet_gate_ran"),
            "answer": self.value("fleet_gate_answer"),
            "elsewhere": self.elsewhere,
        }


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
        **facts.gate,
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
        now=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
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
    """Hosts that failed in judged batches."""
    verdicts = facts.results("fleet_verdict")
    return [host for host, verdict in verdicts.items() if verdict and host in verdict["failed_hosts"]]


def _image_pull_looks(facts: Facts) -> image_pull_run.Looks:
    return image_pull_run.Looks(
        found=facts.results("image_pull_proxy_before"),
        proxies=facts.results("image_pull_proxy_result"),
        kubelets=facts.results("image_pull_proxy_kubelet_result"),
    )


def _judge_stage(
    facts: Facts, stage: str, reason: Callable[[Optional[Result], Optional[Result]], str], changed: str, after: str
) -> Report:
    """Verdict on a stage of the pull proxy. `changed` and `after` are the variables with a host's results of the change, and after the
    pause."""
    results, looks = facts.results(changed), facts.results(after)
    earlier = [
        *facts.local(stage)["failed_before"],
        *image_pull_run.judged(stage, facts.results("fleet_verdict")).failed,
    ]
    verdict = judge(
        facts.request,
        facts.batch,
        {host: reason(results.get(host), looks.get(host)) for host in facts.batch},
        failed_before=[host for host in earlier if host not in facts.batch],
        **facts.gate,
    )
    return replace(verdict, facts={**verdict.facts, "stage": stage})


def _proxies_batch(facts: Facts, stage: str) -> Report:
    def reason(changed: Optional[Result], after: Optional[Result]) -> str:
        return image_pull_run.judge_proxy(facts.request, changed, after)

    return _judge_stage(facts, stage, reason, "image_pull_proxy_result", "image_pull_proxy_after")


def _kubelets_batch(facts: Facts) -> Report:
    names = ("image_pull_proxy_kubelet_result", "image_pull_proxy_kubelet_after")
    return _judge_stage(facts, image_pull_run.KUBELETS, image_pull_run.judge_kubelet, *names)


def _image_pull_outcome(facts: Facts) -> Report:
    run = image_pull_run.Run(
        before=facts.local(image_pull_run.PROXIES),
        kubelets=facts.local(image_pull_run.KUBELETS),
        removal=facts.local(image_pull_run.REMOVAL),
        gone=image_pull_run.judged(image_pull_run.REMOVAL, facts.results("fleet_verdict")),
        looks=facts.results("image_pull_proxy_kubelet_result"),
        proxy_results=facts.results("image_pull_proxy_result"),
        kubelet_results=facts.results("image_pull_proxy_kubelet_result"),
        is_check=facts.is_check,
    )
    return image_pull_run.outcome(facts.request, run)


def _sized(facts: Facts) -> balloon_run.Sized:
    leaders = facts.local("balloons_preview")["leaders"]
    return balloon_run.Sized(facts.request, leaders, facts.results("balloons_result"), facts.results("balloons_after"))


def _balloons_batch(facts: Facts) -> Report:
    sized = _sized(facts)
    earlier = [host for host in _failed(facts) if host not in facts.batch]
    return judge(
        facts.request,
        facts.batch,
        {host: sized.reason(host) for host in facts.batch},
        failed_before=[*facts.local("balloons_preview")["silent"], *earlier],
        **facts.gate,
    )


def _balloons_outcome(facts: Facts) -> Report:
    """The fact `machines` names those whose nodes were all sized, for the reconciler."""
    before, verdicts = facts.local("balloons_preview"), [row for row in facts.results("fleet_verdict").values() if row]
    report = balloon_run.outcome(
        facts.request,
        before,
        _sized(facts),
        begun=frozenset(host for row in verdicts for host in row["batch"]),
        failed=frozenset(_failed(facts)),
        is_check=facts.is_check,
    )
    machines = facts.request.details["machines"] if facts.request.acts and not report.failure else []
    return replace(report, facts={**report.facts, "machines": machines})


REPORTS: Mapping[str, Callable[[Facts], Report]] = {
    "kube_proxy_preview": _preview,
    "kube_proxy_batch": _batch,
    "kube_proxy_way_back": _way_back,
    "kube_proxy_outcome": _outcome,
    "image_pull_proxy_preview": lambda facts: image_pull_run.preview(facts.request, _image_pull_looks(facts)),
    "image_pull_proxy_proxies_batch": lambda facts: _proxies_batch(facts, image_pull_run.PROXIES),
    "image_pull_proxy_kubelets": lambda facts: image_pull_run.kubelets_stage(
        facts.request, facts.local(image_pull_run.PROXIES), facts.results("fleet_verdict")
    ),
    "image_pull_proxy_kubelets_batch": _kubelets_batch,
    "image_pull_proxy_removal": lambda facts: image_pull_run.removal_stage(
        facts.request,
        facts.local(image_pull_run.PROXIES),
        facts.local(image_pull_run.KUBELETS),
        facts.results("fleet_verdict"),
    ),
    "image_pull_proxy_removal_batch": lambda facts: _proxies_batch(facts, image_pull_run.REMOVAL),
    "image_pull_proxy_outcome": _image_pull_outcome,
    "balloons_preview": lambda facts: balloon_run.preview(facts.request, facts.results("balloons_result")),
    "balloons_batch": _balloons_batch,
    "balloons_outcome": _balloons_outcome,
    "kube_proxy_audit": lambda facts: kube_proxy_looks.audit(facts.results("kube_proxy_found")),
    "kube_proxy_cleanup": lambda facts: kube_proxy_looks.cleanup(facts.request, facts.results("kube_proxy_cleanup")),
}


def plan_text(plan: Mapping[str, Any]) -> bytes:
    """JSON with sorted keys, for the plan file: equal plans give equal bytes."""
    return (json.dumps(plan, indent=1, sort_keys=True) + "\n").encode()
