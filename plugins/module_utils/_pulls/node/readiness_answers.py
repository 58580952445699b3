# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The production readiness of a node's limits of image pulls. Pure: turns facts into a `Reading`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ..._core.engine.journal import journal_path
from ..._core.engine.plan import Recorded
from ..._core.engine.readiness import (
    DEPENDENCIES,
    DISABLING,
    ENABLED,
    FAILURES,
    HEALTHY,
    IN_USE,
    NO,
    ROLLBACK,
    SCALE,
    UNKNOWN,
    YES,
    Answer,
    Figure,
    Reading,
)
from ..._core.engine.readiness_common import OpenFiles, distribution, failures_answer, pluralize, removal_lines
from ..._core.kube.kubelet_api import ALLOW
from ..._core.text.errors import BallastError
from ..._core.text.exposition import Sample, histogram, total
from ..._core.text.json_text import mapping_in

NAME = "image_pulls"
FLAG_WINS = "image-pulls-flag-wins"
NOT_IN_EFFECT = "image-pulls-not-in-effect"
KUBELET_UNHEALTHY = "image-pulls-kubelet-unhealthy"
RUNTIME_UNHEALTHY = "image-pulls-runtime-unhealthy"
OTHER_WAY = "image-pulls-other-way"
BROKEN_OFF = "image-pulls-broken-off"
SERIAL_BEHIND_PROXY = "image-pulls-serial-behind-proxy"
PROXY_AWAY = "image-pulls-proxy-away"

_DURATION, _PULLS, _FAILED = (
    "kubelet_image_pull_duration_seconds",
    "kubelet_runtime_operations_total",
    "kubelet_runtime_operations_errors_total",
)
_BUILD = "kubernetes_build_info"
METRICS = frozenset({f"{_DURATION}_bucket", _PULLS, _FAILED, _BUILD})
_PULL = {"operation_type": "pull_image"}
_ALLOW = f"set kubeconfig to one on the node that {ALLOW}"
_PROVE = (
    "run ballast.kube.image_pulls again with the same options: it verifies each level, and reports why where it cannot"
)

Level = Mapping[str, Any]


@dataclass(frozen=True)
class Facts:
    """`levels` is what `image_pulls_info` returns. By level, `errors` says why part of it is unknown, and `set_here` has the keys and
    values that this collection has set."""

    state_dir: str
    recorded: tuple[Recorded, ...]
    unfinished: bool  # a run was killed, and no later run has resumed it
    levels: Mapping[str, Level]
    errors: Mapping[str, Sequence[BallastError]]
    set_here: Mapping[str, Mapping[str, Any]]
    gone: tuple[str, ...]  # files that were written and no longer exist
    pending: tuple[str, ...]  # files that were written, but whose service was not restarted
    kubelet_problem: str  # why it is not healthy; "" if it is
    runtime_problem: str
    proxy_problem: str  # why the kubelet's image service endpoint does not answer; "" if it does, or is not set
    open_files: OpenFiles  # of the container runtime
    metrics: Optional[tuple[Sample, ...]]  # the kubelet's; None if they could not be read
    metrics_place: str  # their URL, as messages show it
    metrics_problem: Optional[BallastError] = None

    @property
    def journal(self) -> str:
        return journal_path(self.state_dir)

    def settings(self, level: str) -> Mapping[str, Mapping[str, Any]]:
        """By key, rows with `value`, of a level: "kubelet", "runtime" or "host"."""
        return mapping_in(self.levels[level], "settings")

    def value(self, level: str, key: str) -> Any:
        """None for a key that is not set, or not known."""
        return self.settings(level).get(key, {}).get("value")

    @property
    def read_back(self) -> bool:
        """Whether the kubelet's effective configuration was read."""
        return bool(self.levels["kubelet"].get("read_back"))

    @property
    def behind_a_proxy(self) -> bool:
        """Whether this collection has set the kubelet's imageServiceEndpoint."""
        return bool(self.set_here.get("kubelet", {}).get("imageServiceEndpoint"))


def reading_of(facts: Facts) -> Reading:
    """The Reading, also where no limit is set."""
    present = present_failures(facts)
    answers = {
        ENABLED: _answer_enabled(facts),
        IN_USE: _in_use(facts),
        HEALTHY: _healthy(facts),
        DEPENDENCIES: _dependencies(facts),
        DISABLING: _disabling(facts),
        ROLLBACK: _rollback(facts),
        SCALE: _scale(facts),
        FAILURES: failures_answer(present),
    }
    return Reading(NAME, answers, tuple(present), _versions(facts))


def present_failures(facts: Facts) -> dict[str, str]:
    """What shows each known failure mode that is present, by its id."""
    errors = [error for level in facts.errors.values() for error in level]
    texts_by_id = {
        FLAG_WINS: _flags(facts),
        NOT_IN_EFFECT: [*(f"{path} is not there" for path in facts.gone), *_differing(facts)],
        KUBELET_UNHEALTHY: [facts.kubelet_problem],
        RUNTIME_UNHEALTHY: [facts.runtime_problem],
        OTHER_WAY: [error.in_one_line for error in errors if error.id == "pulls-node-local-pull"],
        BROKEN_OFF: _broken_off(facts),
        SERIAL_BEHIND_PROXY: _tighter_than_the_proxy(facts),
        PROXY_AWAY: [facts.proxy_problem],
    }
    joined = {id: "; ".join(text for text in texts if text) for id, texts in texts_by_id.items()}
    return {id: text for id, text in joined.items() if text}


def _flags(facts: Facts) -> list[str]:
    ours, settings = facts.set_here.get("kubelet", {}), facts.settings("kubelet")
    sources = {key: str(settings.get(key, {}).get("source")) for key in ours}
    return [f"{key} is set by {source}" for key, source in sorted(sources.items()) if source.startswith("--")]


def _differing(facts: Facts) -> list[str]:
    """What this collection has set and is not in effect. Skips levels whose values could not be read."""
    lines = []
    for level, ours in sorted(facts.set_here.items()):
        if level == "kubelet" and not facts.read_back or not facts.settings(level):
            continue
        for key, expected in sorted(ours.items()):
            effective = facts.value(level, key)
            if effective != expected:
                lines.append(f"{key} of the {level} is {json.dumps(effective)}, and was set to {json.dumps(expected)}")
    return lines


def _broken_off(facts: Facts) -> list[str]:
    journal = [f"{facts.journal} records an interrupted run"] if facts.unfinished else []
    return journal + [f"{path} is marked as not yet in effect" for path in facts.pending]


def _tighter_than_the_proxy(facts: Facts) -> list[str]:
    if not facts.behind_a_proxy:
        return []
    reasons = ["serializeImagePulls is true"] if facts.value("kubelet", "serializeImagePulls") else []
    rate = facts.value("kubelet", "registryPullQPS")
    return reasons + ([f"registryPullQPS is {rate}"] if isinstance(rate, int) and rate > 0 else [])


def _answer_enabled(facts: Facts) -> Answer:
    titles = tuple(entry.title for entry in facts.recorded)
    limits = [f"{key}: {json.dumps(value)}" for ours in facts.set_here.values() for key, value in sorted(ours.items())]
    shown = ", ".join(limits) or "the limits of the pull proxy"
    return Answer(YES, f"set on this node: {shown}", f"{facts.journal}, and the files that it names", lines=titles)


def _in_use(facts: Facts) -> Answer:
    how = f"{_PULLS}{{operation_type=pull_image}} of {facts.metrics_place}"
    if facts.metrics is None:
        why = facts.metrics_problem
        text = "the kubelet's metrics could not be read" + (f": {why.in_one_line}" if why else "")
        return Answer(UNKNOWN, text, how, _ALLOW)
    pulls = total(facts.metrics, _PULLS, **_PULL) or 0.0
    figure = Figure("image pulls since the kubelet started", pulls, "", how)
    text = f"the kubelet has asked its runtime for {pulls:.0f} images since it started"
    return Answer(YES if pulls else NO, text, how, figures=(figure,))


def _healthy(facts: Facts) -> Answer:
    how = "/healthz and /configz of the kubelet, the plugins of containerd, and configured against effective values"
    wrong = [facts.kubelet_problem, facts.runtime_problem, facts.proxy_problem, *_differing(facts), *_broken_off(facts)]
    wrong += [f"{path} is not there" for path in facts.gone]
    lines = tuple(text for text in wrong if text)
    figures = _healthy_figures(facts)
    if lines:
        return Answer(NO, "; ".join(lines), how, _PROVE, figures, lines)
    if facts.set_here.get("kubelet") and not facts.read_back:
        why = facts.errors.get("kubelet", ())
        text = f"the kubelet's effective configuration is unknown: {'; '.join(error.in_one_line for error in why)}"
        return Answer(UNKNOWN, text, how, _ALLOW, figures)
    return Answer(YES, "kubelet and runtime are healthy, and all configured limits are in effect", how, figures=figures)


def _healthy_figures(facts: Facts) -> tuple[Figure, ...]:
    samples = facts.metrics or ()
    place = f"{_DURATION} of {facts.metrics_place}"
    duration = distribution(f"{_DURATION}, 99th percentile", histogram(samples, _DURATION), place)
    failed = None if facts.metrics is None else total(samples, _FAILED, **_PULL) or 0.0
    how = f"{_FAILED}{{operation_type=pull_image}} of {facts.metrics_place}"
    return duration, Figure("image pulls that failed since the kubelet started", failed, "", how)


def _dependencies(facts: Facts) -> Answer:
    how = "the services of kubelet and runtime, the kubelet's command line, `ballast-pull-proxy status`"
    kubelet, host = facts.levels["kubelet"], facts.levels["host"]
    needs = [(bool(kubelet.get("running")), "a running kubelet", _remedy(facts, "kubelet", "start it"))]
    if any(entry.kind == "kubelet-drop-in" for entry in facts.recorded):
        there = bool(kubelet.get("config_dir"))
        needs.append(
            (
                there,
                "--config-dir of the kubelet",
                "run ballast.kube.image_pulls again: it adds the flag on kubeadm nodes",
            )
        )
    if "runtime" in facts.set_here:
        there = not facts.errors.get("runtime")
        needs.append((there, "a running container runtime", _remedy(facts, "runtime", "start it")))
    if "host" in facts.set_here or facts.behind_a_proxy:
        there = not facts.proxy_problem and ("host" not in facts.set_here or bool(host.get("running")))
        needs.append(
            (there, "the pull proxy", "check ballast.kube.image_pull_proxy_info; install it with role image_pull_proxy")
        )
    missing = [(name, remedy) for there, name, remedy in needs if not there]
    if missing:
        text = f"missing: {', '.join(name for name, _do in missing)}"
        return Answer(NO, text, how, "; ".join(remedy for _name, remedy in missing))
    return Answer(YES, f"available: {', '.join(name for _there, name, _do in needs)}", how)


def _disabling(facts: Facts) -> Answer:
    lines = removal_lines(facts.recorded)
    restarts = [name for name in ("runtime", "kubelet") if name in facts.set_here]
    restart_text = f"restarts {' and '.join(restarts)}" if restarts else "restarts nothing"
    text = f"state: absent takes {pluralize(len(lines), 'step')}, and {restart_text}; pods continue, and interrupted pulls are requested again"
    return Answer(
        YES, text, f"the plan of ballast.kube.image_pulls with state: absent, from {facts.journal}", lines=lines
    )


def _rollback(facts: Facts) -> Answer:
    how = f"`original` of each entry of {facts.journal}"
    lost = [error for error in facts.errors.get("runtime", ()) if error.id == "pulls-node-runtime-config"]
    if lost and "runtime" in facts.set_here:
        return Answer(NO, f"the file with the limits cannot be used: {lost[0].in_one_line}", how, lost[0].remedy)
    return Answer(YES, f"the journal has the previous state of all {len(facts.recorded)}", how)


def _scale(facts: Facts) -> Answer:
    files = facts.open_files
    most = facts.value("kubelet", "maxParallelImagePulls")
    serial = facts.value("kubelet", "serializeImagePulls")
    pulls = Figure(
        "concurrent pulls of this kubelet",
        1.0 if serial else float(most) if isinstance(most, int) else None,
        "",
        "maxParallelImagePulls and serializeImagePulls of /configz; no value means no limit",
    )
    layers = facts.value("runtime", "max_concurrent_downloads")
    scope = facts.levels["runtime"].get("scope") or "layers"
    downloads = Figure(
        f"concurrent downloads: {scope}",
        float(layers) if isinstance(layers, int) else None,
        "",
        "max_concurrent_downloads of `containerd config dump`",
    )
    figures = (files.figure, pulls, downloads)
    remedy = (
        ""
        if files.verdict == YES
        else "increase LimitNOFILE in the runtime's unit, or lower the pull limits; run this as root"
    )
    return Answer(files.verdict, files.text, files.figure.how, remedy, figures)


def _versions(facts: Facts) -> Mapping[str, str]:
    builds = [sample.labels.get("git_version", "") for sample in facts.metrics or () if sample.name == _BUILD]
    runtime = facts.levels["runtime"]
    versions = {
        "kubelet": builds[0] if builds else "",
        str(runtime.get("name") or "runtime"): str(runtime.get("version") or ""),
    }
    return {name: version for name, version in versions.items() if version}


def _remedy(facts: Facts, level: str, otherwise: str) -> str:
    remedies = [error.remedy for error in facts.errors.get(level, ()) if error.remedy]
    return remedies[0] if remedies else otherwise
