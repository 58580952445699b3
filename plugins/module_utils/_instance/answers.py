# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host answers to the production readiness questionnaire about its node instances. Pure: from what was read of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .._core.ledger import ledger_path
from .._core.plan import Recorded
from .._core.readiness import (
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
    off,
)
from .readiness import (
    DISK_FULL,
    FEATURE,
    KUBELET_DOWN,
    NAME,
    NEAR_LIMIT,
    NOT_READY,
    PART_MISSING,
    PROXY_UNWELL,
    RUN_OPEN,
    RUNTIME_DOWN,
)
from .usage import HostUse, Use

_FREE_LEAST = 2**30  # bytes
_INFO = "ballast.kube.kubelet_instance_info"
_API_AWAY = "the API does not answer"  # as readings.py begins it
# In the reason of a kubelet that cannot reach its runtime (pkg/kubelet/runtime.go and kubelet.go). One whose runtime answers
# that pods have no network says "container runtime network not ready", which is not among them.
_RUNTIME = ("container runtime is down", "container runtime not ready", "container runtime status check", "PLEG")
_MOST = 40  # lines
Seen = tuple[str, str]  # a failure mode, and what was seen of it


@dataclass(frozen=True)
class Measured:
    """One instance that was asked for."""

    row: Mapping[str, Any]  # as the module returns it
    proxy: str  # "" where its kube-proxy is well, else why not
    pods: int
    memory: Use
    pids: Use

    @property
    def name(self) -> str:
        return str(self.row["name"])


@dataclass(frozen=True)
class Look:
    state_dir: str
    recorded: tuple[Recorded, ...]
    run_is_open: bool
    measured: tuple[Measured, ...]
    broken: tuple[str, ...]  # what of the recorded is gone or changed, and which way
    lacking: tuple[str, ...]  # programs and bridges that the instances need and that are not there
    host: HostUse

    @property
    def running(self) -> tuple[str, ...]:
        """Names of instances that the record has; of one that is stopped it has its files alone."""
        return tuple(dict.fromkeys(one.group.removeprefix("node ") for one in self.recorded if one.kind == "netns"))

    @property
    def unasked(self) -> tuple[str, ...]:
        """Those of which nothing was measured, since nobody named them."""
        return tuple(name for name in self.running if name not in {one.name for one in self.measured})

    @property
    def ledger(self) -> str:
        return ledger_path(self.state_dir)


def reading(look: Look) -> Reading:
    if not look.running:
        there = "its instances are stopped" if look.recorded else "no instance is made here"
        return off(NAME, f"No instance runs on this host: {there}.", look.ledger)
    present = _present(look)
    return Reading(
        NAME,
        {
            ENABLED: Answer(YES, f"Instances are made here: {_listed(look.running)}.", look.ledger),
            IN_USE: _in_use(look),
            HEALTHY: _healthy(look, present),
            DEPENDENCIES: _dependencies(look),
            DISABLING: _disabling(look),
            ROLLBACK: _rollback(look),
            SCALE: _scale(look),
            FAILURES: _failures(look, present),
        },
        present=tuple(dict.fromkeys(id for id, _seen in present)),
        versions=_versions(look),
    )


def _versions(look: Look) -> dict[str, str]:
    """Where instances differ, each version that there is."""
    rows = [one.row for one in look.measured]
    found = {
        "kubelet": {str(row["kubelet_version"]) for row in rows},
        "container runtime": {str(row["container_runtime_version"]) for row in rows},
    }
    return {name: ", ".join(sorted(said - {""})) for name, said in found.items() if said - {""}}


def _in_use(look: Look) -> Answer:
    how = f"directories in {look.state_dir}/NAME/kubelet/pods"
    figures = tuple(Figure(f"pods of {one.name}", one.pods, "", how) for one in look.measured)
    pods = sum(one.pods for one in look.measured)
    if pods:
        return Answer(YES, f"Pods that the kubelets have: {pods}.", how, figures=figures)
    if look.unasked:
        return Answer(UNKNOWN, f"Nothing was asked of {_listed(look.unasked)}.", how, _name_them(look), figures)
    return Answer(NO, "No kubelet has a pod.", how, figures=figures)


# Healthy


_OF_HEALTH = (KUBELET_DOWN, RUNTIME_DOWN, NOT_READY, PROXY_UNWELL)


def _healthy(look: Look, present: Sequence[Seen]) -> Answer:
    how = f"{_INFO}: the condition Ready of each Node, the processes of its services, /healthz of its kube-proxy"
    figures = tuple(_indicators(look))
    seen = [(id, text) for id, text in present if id in _OF_HEALTH]
    if seen:
        unwell = dict.fromkeys(text.split(":")[0] for _id, text in seen)
        text = f"Not well: {_listed(tuple(unwell))}."
        return Answer(NO, text, how, _mitigations(seen), figures, tuple(text for _id, text in seen)[:_MOST])
    if look.unasked:
        text = f"Whether {_listed(look.unasked)} are well is not known: they are here, and were not asked for."
        return Answer(UNKNOWN, text, how, _name_them(look), figures)
    text = "The Node of every instance is Ready, and its kube-proxy is well."
    return Answer(YES, text, how, figures=figures)


def _indicators(look: Look) -> Iterator[Figure]:
    ready = sum(1 for one in look.measured if one.row["ready"])
    yield Figure("instances that are Ready", ready, "", f"{_INFO}: ready")
    for one in look.measured:
        started, memory = one.row["ready_seconds"], one.row["pss_bytes"]
        yield Figure(f"{one.name}, kubelet's start to Ready", started, "s", f"{one.row['home']}/ready.json: seconds")
        yield Figure(f"{one.name}, memory of its services", memory, "B", f"{_INFO}: pss_bytes, from smaps_rollup")


# Dependencies


def _dependencies(look: Look) -> Answer:
    how = "GET /api/v1/nodes/NAME with each kubelet's credentials; the programs and the bridge of the recorded services"
    away = [one for one in look.measured if str(one.row["reason"]).startswith(_API_AWAY)]
    if look.lacking:
        text = f"What instances need is not there: {_listed(look.lacking)}."
        remedy = "Run the role node_instances again: it makes the bridge, and kubernetes_binaries the programs."
        return Answer(NO, text, how, remedy, lines=look.lacking[:_MOST])
    if away:
        lines = tuple(f"{one.name}: {one.row['reason']}" for one in away)
        remedy = "See whether the API server runs and whether this host reaches it: ballast.kube.control_plane_info."
        return Answer(
            NO, f"The API does not answer {_listed([one.name for one in away])}.", how, remedy, lines=lines[:_MOST]
        )
    if look.unasked:
        text = f"Programs and bridge are there; whether the API answers {_listed(look.unasked)} was not asked."
        return Answer(UNKNOWN, text, how, _name_them(look))
    return Answer(YES, "The API answers every kubelet; programs and bridge are there.", how)


# Switching off, and the way back


def _disabling(look: Look) -> Answer:
    how = f"{look.ledger}; ballast.kube.kubelet_instance with state: absent, in check mode"
    text = (
        f"state: absent ends the pods and removes {len(look.recorded)} things, newest first; state: stopped keeps the files. "
        "Nodes stay in the API until they are deleted."
    )
    return Answer(YES, text, how, lines=tuple(_removals(look.recorded))[:_MOST])


def _removals(recorded: Sequence[Recorded]) -> Iterator[str]:
    """By group, in the order of removal."""
    groups: dict[str, dict[str, int]] = {}
    for one in reversed(recorded):
        kinds = groups.setdefault(one.group, {})
        kinds[one.kind] = kinds.get(one.kind, 0) + 1
    for group, kinds in groups.items():
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        yield f"{group or 'host settings'}: {counts}"


def _rollback(look: Look) -> Answer:
    how = look.ledger
    settings = sum(1 for one in look.recorded if one.kind == "sysctl-minimum")
    text = f"All that was made is recorded; {settings} settings of the host go back with the last instance on it."
    if look.run_is_open:
        text += " A run has not ended: the next one goes on from there, or removes it."
    return Answer(YES, text, how)


# Scale


def _scale(look: Look) -> Answer:
    how = "cgroups of the instances; /proc/meminfo, /proc/loadavg and free disk of the host"
    figures = tuple(_room(look))
    near = _near(look)
    if near or _disk_is_full(look):
        ids = [*([NEAR_LIMIT] if near else []), *([DISK_FULL] if _disk_is_full(look) else [])]
        seen = [(id, "") for id in ids]
        text = "; ".join([*near, *([_disk(look)] if _disk_is_full(look) else [])])
        return Answer(NO, f"There is not enough room: {text}.", how, _mitigations(seen), figures)
    if look.host.memory.used is None or look.host.free_bytes is None:
        return Answer(UNKNOWN, "The room of the host cannot be read.", how, "", figures)
    return Answer(YES, "Instances and host are within their memory, process ids and disk.", how, figures=figures)


def _room(look: Look) -> Iterator[Figure]:
    yield Figure("instances", len(look.running), "", look.ledger)
    host = look.host
    yield _figure("memory of the host in use", host.memory, "B", "/proc/meminfo: MemTotal less MemAvailable")
    yield _figure(
        "processes and threads of the host", host.pids, "", "/proc/loadavg, kernel.pid_max, kernel.threads-max"
    )
    free = None if host.free_bytes is None else float(host.free_bytes)
    yield Figure("free disk", free, "B", f"df {look.state_dir}")
    for one in look.measured:
        yield _figure(
            f"{one.name}, memory with its pods", one.memory, "B", "its cgroup, without files not read for long"
        )
        yield _figure(f"{one.name}, processes and threads", one.pids, "", "its cgroup: pids.current")


def _figure(name: str, use: Use, unit: str, how: str) -> Figure:
    return Figure(name, use.used, unit, how, use.most)


def _near(look: Look) -> list[str]:
    uses = [("memory of the host", look.host.memory), ("process ids of the host", look.host.pids)]
    for one in look.measured:
        uses += [(f"memory of {one.name}", one.memory), (f"process ids of {one.name}", one.pids)]
    return [f"{name}: {use.used} of {use.most}" for name, use in uses if use.is_near]


def _disk_is_full(look: Look) -> bool:
    return look.host.free_bytes is not None and look.host.free_bytes < _FREE_LEAST


def _disk(look: Look) -> str:
    return f"{(look.host.free_bytes or 0) >> 20} MiB of disk are free in {look.state_dir}"


# Failure modes


def _present(look: Look) -> list[Seen]:
    return [
        *(one for measured in look.measured for one in _of_instance(measured)),
        *((PART_MISSING, text) for text in look.broken),
        *((NEAR_LIMIT, text) for text in _near(look)),
        *([(DISK_FULL, _disk(look))] if _disk_is_full(look) else []),
        *([(RUN_OPEN, f"{look.ledger} has a run that began and did not end")] if look.run_is_open else []),
    ]


def _of_instance(one: Measured) -> Iterator[Seen]:
    pids: Mapping[str, Optional[int]] = one.row["pids"]
    reason = str(one.row["reason"])
    down = [name for name, pid in pids.items() if pid is None]
    runtime = "containerd" in down or any(word in reason for word in _RUNTIME)
    if "kubelet" in down:
        yield KUBELET_DOWN, f"{one.name}: its kubelet does not run"
    if runtime:
        yield RUNTIME_DOWN, f"{one.name}: {'its containerd does not run' if 'containerd' in down else reason}"
    if not one.row["ready"] and not runtime and "kubelet" not in down:
        yield NOT_READY, f"{one.name}: {reason}"
    if one.proxy:
        yield PROXY_UNWELL, f"{one.name}: {one.proxy}"


def _failures(look: Look, present: Sequence[Seen]) -> Answer:
    how = f"{_INFO} with readiness: true"
    if present:
        text = f"Present: {', '.join(dict.fromkeys(id for id, _text in present))}."
        lines = tuple(f"{id}: {seen}" for id, seen in present)[:_MOST]
        return Answer(NO, text, how, _mitigations(present), lines=lines)
    if look.unasked:
        return Answer(UNKNOWN, f"Nothing was asked of {_listed(look.unasked)}.", how, _name_them(look))
    return Answer(YES, "None of the known failure modes is present.", how)


def _mitigations(present: Sequence[Seen]) -> str:
    return FEATURE.mitigations([id for id, _text in present])


def _name_them(look: Look) -> str:
    return f"Name {_listed(look.unasked)} in the option instances, as kubelet_instance was given them."


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:10])
    return f"{shown} and {len(names) - 10} more" if len(names) > 10 else shown
