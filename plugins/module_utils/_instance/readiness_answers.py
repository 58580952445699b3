# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host's answers to the production readiness questionnaire about its node instances. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .._core.engine.journal import journal_path
from .._core.engine.plan import Recorded
from .._core.engine.readiness import (
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
    off_reading,
)
from .usage import HostUse, Use

NAME = "node_instances"
KUBELET_DOWN = "node-kubelet-down"
RUNTIME_DOWN = "node-runtime-down"
NOT_READY = "node-not-ready"
PROXY_UNWELL = "node-proxy-unwell"
PART_MISSING = "node-part-missing"
NEAR_LIMIT = "node-near-its-limit"
DISK_FULL = "node-disk-nearly-full"
RUN_OPEN = "node-run-not-ended"

_FREE_LEAST = 2**30  # bytes
_INFO = "ballast.kube.kubelet_instance_info"
_API_AWAY = "the API server does not respond"  # how read_node begins it
# Parts of the reason of a kubelet that cannot reach its runtime (pkg/kubelet/runtime.go and kubelet.go). "container runtime
# network not ready" is none of them: there the runtime answers, and pods have no network.
_RUNTIME = ("container runtime is down", "container runtime not ready", "container runtime status check", "PLEG")
_MOST = 40  # lines
Seen = tuple[str, str]  # a failure mode, and what was observed


@dataclass(frozen=True)
class Measured:
    """An instance that the options name, with measurements."""

    row: Mapping[str, Any]  # the module's result for the instance
    proxy: str  # "" when its proxy is healthy, else the reason
    pods: int
    memory: Use
    pids: Use

    @property
    def name(self) -> str:
        return str(self.row["name"])


@dataclass(frozen=True)
class Facts:
    """What was read of a host. `run_is_open`: its journal records a run that has not ended."""

    state_dir: str
    recorded: tuple[Recorded, ...]
    run_is_open: bool
    measured: tuple[Measured, ...]
    broken: tuple[str, ...]  # recorded resources that are gone or changed, and how
    lacking: tuple[str, ...]  # programs and bridges that the instances need and the host lacks
    host: HostUse

    @property
    def running(self) -> tuple[str, ...]:
        """Names of recorded instances; a stopped one has only files recorded."""
        return tuple(dict.fromkeys(r.group.removeprefix("node ") for r in self.recorded if r.kind == "netns"))

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Running instances that the options do not name, so nothing was measured."""
        return tuple(name for name in self.running if name not in {node.name for node in self.measured})

    @property
    def journal(self) -> str:
        return journal_path(self.state_dir)


def reading_of(facts: Facts) -> Reading:
    """Off when no instance is running."""
    if not facts.running:
        there = "its instances are stopped" if facts.recorded else "this host has no instances"
        return off_reading(NAME, f"No instance is running on this host: {there}.", facts.journal)
    present = _find_present(facts)
    return Reading(
        NAME,
        {
            ENABLED: Answer(YES, f"Instances on this host: {_join(facts.running)}.", facts.journal),
            IN_USE: _in_use(facts),
            HEALTHY: _healthy(facts, present),
            DEPENDENCIES: _dependencies(facts),
            DISABLING: _disabling(facts),
            ROLLBACK: _rollback(facts),
            SCALE: _scale(facts),
            FAILURES: _failures(facts, present),
        },
        present=tuple(dict.fromkeys(id for id, _seen in present)),
        versions=_versions(facts),
    )


def _versions(facts: Facts) -> dict[str, str]:
    """Every version in use, as instances may differ."""
    rows = [node.row for node in facts.measured]
    versions = {
        "kubelet": {str(row["kubelet_version"]) for row in rows},
        "container runtime": {str(row["container_runtime_version"]) for row in rows},
    }
    return {name: ", ".join(sorted(names - {""})) for name, names in versions.items() if names - {""}}


def _in_use(facts: Facts) -> Answer:
    how = f"directories in {facts.state_dir}/NAME/kubelet/pods"
    figures = tuple(Figure(f"pods of {node.name}", node.pods, "", how) for node in facts.measured)
    pods = sum(node.pods for node in facts.measured)
    if pods:
        return Answer(YES, f"Pods on the kubelets: {pods}.", how, figures=figures)
    if facts.unmeasured:
        return Answer(UNKNOWN, f"Not checked: {_join(facts.unmeasured)}.", how, _name_them(facts), figures)
    return Answer(NO, "No kubelet has a pod.", how, figures=figures)


# Health


_OF_HEALTH = (KUBELET_DOWN, RUNTIME_DOWN, NOT_READY, PROXY_UNWELL)


def _healthy(facts: Facts, present: Sequence[Seen]) -> Answer:
    how = f"{_INFO}: the condition Ready of each Node, the processes of its services, the health of its proxy"
    figures = tuple(_indicators(facts))
    seen = [(id, text) for id, text in present if id in _OF_HEALTH]
    if seen:
        unwell = dict.fromkeys(text.split(":")[0] for _id, text in seen)
        text = f"Unhealthy: {_join(tuple(unwell))}."
        lines = tuple(text for _id, text in seen)[:_MOST]
        return Answer(NO, text, how, "", figures, lines, tuple(dict.fromkeys(id for id, _text in seen)))
    if facts.unmeasured:
        text = f"The health of {_join(facts.unmeasured)} is unknown: they were not among the checked instances."
        return Answer(UNKNOWN, text, how, _name_them(facts), figures)
    text = "Every instance's Node is Ready, and its proxy is healthy."
    return Answer(YES, text, how, figures=figures)


def _indicators(facts: Facts) -> Iterator[Figure]:
    ready = sum(1 for node in facts.measured if node.row["ready"])
    yield Figure("instances that are Ready", ready, "", f"{_INFO}: ready")
    for node in facts.measured:
        started, memory = node.row["ready_seconds"], node.row["pss_bytes"]
        yield Figure(f"{node.name}, kubelet's start to Ready", started, "s", f"{node.row['home']}/ready.json: seconds")
        yield Figure(f"{node.name}, memory of its services", memory, "B", f"{_INFO}: pss_bytes, from smaps_rollup")


# Dependencies


def _dependencies(facts: Facts) -> Answer:
    how = "GET /api/v1/nodes/NAME with each kubelet's credentials; the binaries and the bridge of the recorded services"
    away = [node for node in facts.measured if str(node.row["reason"]).startswith(_API_AWAY)]
    if facts.lacking:
        text = f"Instances lack what they need: {_join(facts.lacking)}."
        remedy = "Run the role node_instances again, which creates the bridge; the role kubernetes_binaries installs the binaries."
        return Answer(NO, text, how, remedy, lines=facts.lacking[:_MOST])
    if away:
        lines = tuple(f"{node.name}: {node.row['reason']}" for node in away)
        remedy = (
            "Check that the API server is running and that this host can reach it: ballast.kube.control_plane_info."
        )
        names = _join([node.name for node in away])
        return Answer(NO, f"The API server does not respond to {names}.", how, remedy, lines=lines[:_MOST])
    if facts.unmeasured:
        text = f"Binaries and bridge exist; the API server was not checked for {_join(facts.unmeasured)}."
        return Answer(UNKNOWN, text, how, _name_them(facts))
    return Answer(YES, "The API server responds to every kubelet; binaries and bridge exist.", how)


# Disabling, and enabling again


def _disabling(facts: Facts) -> Answer:
    how = f"{facts.journal}; ballast.kube.kubelet_instance with state: absent, in check mode"
    text = (
        f"state: absent ends the pods and removes {len(facts.recorded)} resources, newest first; state: stopped keeps the files. Node objects "
        f"remain in the API until they are deleted."
    )
    return Answer(YES, text, how, lines=tuple(_removals(facts.recorded))[:_MOST])


def _removals(recorded: Sequence[Recorded]) -> Iterator[str]:
    """Counts by group, in the order of removal."""
    groups: dict[str, dict[str, int]] = {}
    for record in reversed(recorded):
        kinds = groups.setdefault(record.group, {})
        kinds[record.kind] = kinds.get(record.kind, 0) + 1
    for group, kinds in groups.items():
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        yield f"{group or 'host settings'}: {counts}"


def _rollback(facts: Facts) -> Answer:
    how = facts.journal
    settings = sum(1 for record in facts.recorded if record.kind == "sysctl-minimum")
    text = f"All resources are recorded; {settings} host settings are restored when the last instance is removed."
    if facts.run_is_open:
        text += " A run was interrupted: the next run resumes it or removes its resources."
    return Answer(YES, text, how)


# Scale


def _scale(facts: Facts) -> Answer:
    how = "cgroups of the instances; /proc/meminfo, /proc/loadavg and free disk of the host"
    figures = tuple(_measure_use(facts))
    near = _find_near_limit(facts)
    if near or _disk_is_full(facts):
        ids = (*([NEAR_LIMIT] if near else []), *([DISK_FULL] if _disk_is_full(facts) else []))
        text = "; ".join([*near, *([_disk(facts)] if _disk_is_full(facts) else [])])
        return Answer(NO, f"Resources are short: {text}.", how, figures=figures, failure_modes=ids)
    if facts.host.memory.used is None or facts.host.free_bytes is None:
        return Answer(UNKNOWN, "The host's free resources cannot be read.", how, "", figures)
    return Answer(
        YES, "Instances and host are within their limits of memory, process ids and disk.", how, figures=figures
    )


def _measure_use(facts: Facts) -> Iterator[Figure]:
    yield Figure("instances", len(facts.running), "", facts.journal)
    host = facts.host
    yield _figure("memory of the host in use", host.memory, "B", "/proc/meminfo: MemTotal less MemAvailable")
    yield _figure(
        "processes and threads of the host", host.pids, "", "/proc/loadavg, kernel.pid_max, kernel.threads-max"
    )
    free = None if host.free_bytes is None else float(host.free_bytes)
    yield Figure("free disk", free, "B", f"df {facts.state_dir}")
    for node in facts.measured:
        yield _figure(
            f"{node.name}, memory with its pods",
            node.memory,
            "B",
            "its cgroup, without inactive file cache",
        )
        yield _figure(f"{node.name}, processes and threads", node.pids, "", "its cgroup: pids.current")


def _figure(name: str, use: Use, unit: str, how: str) -> Figure:
    return Figure(name, use.used, unit, how, use.limit)


def _find_near_limit(facts: Facts) -> list[str]:
    uses = [("memory of the host", facts.host.memory), ("process ids of the host", facts.host.pids)]
    for node in facts.measured:
        uses += [(f"memory of {node.name}", node.memory), (f"process ids of {node.name}", node.pids)]
    return [f"{name}: {use.used} of {use.limit}" for name, use in uses if use.is_near]


def _disk_is_full(facts: Facts) -> bool:
    return facts.host.free_bytes is not None and facts.host.free_bytes < _FREE_LEAST


def _disk(facts: Facts) -> str:
    return f"{(facts.host.free_bytes or 0) >> 20} MiB of disk are free in {facts.state_dir}"


# Failure modes


def _find_present(facts: Facts) -> list[Seen]:
    return [
        *(seen for measured in facts.measured for seen in _of_instance(measured)),
        *((PART_MISSING, text) for text in facts.broken),
        *((NEAR_LIMIT, text) for text in _find_near_limit(facts)),
        *([(DISK_FULL, _disk(facts))] if _disk_is_full(facts) else []),
        *([(RUN_OPEN, f"{facts.journal} records an interrupted run")] if facts.run_is_open else []),
    ]


def _of_instance(node: Measured) -> Iterator[Seen]:
    pids: Mapping[str, Optional[int]] = node.row["pids"]
    reason = str(node.row["reason"])
    down = [name for name, pid in pids.items() if pid is None]
    runtime = "containerd" in down or any(word in reason for word in _RUNTIME)
    if "kubelet" in down:
        yield KUBELET_DOWN, f"{node.name}: its kubelet is not running"
    if runtime:
        yield RUNTIME_DOWN, f"{node.name}: {'its containerd is not running' if 'containerd' in down else reason}"
    if not node.row["ready"] and not runtime and "kubelet" not in down:
        yield NOT_READY, f"{node.name}: {reason}"
    if node.proxy:
        yield PROXY_UNWELL, f"{node.name}: {node.proxy}"


def _failures(facts: Facts, present: Sequence[Seen]) -> Answer:
    how = f"{_INFO} with readiness: true"
    if present:
        text = f"Present: {', '.join(dict.fromkeys(id for id, _text in present))}."
        lines = tuple(f"{id}: {seen}" for id, seen in present)[:_MOST]
        return Answer(NO, text, how, lines=lines)
    if facts.unmeasured:
        return Answer(UNKNOWN, f"Not checked: {_join(facts.unmeasured)}.", how, _name_them(facts))
    return Answer(YES, "None of the known failure modes is present.", how)


def _name_them(facts: Facts) -> str:
    return f"Add {_join(facts.unmeasured)} to the option instances, with the values given to kubelet_instance."


def _join(names: Sequence[str]) -> str:
    shown = ", ".join(names[:10])
    return f"{shown} and {len(names) - 10} more" if len(names) > 10 else shown
