# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What holds a node that is overloaded: `make bench-balloons`.

Three real kubelets on this host, of three sizes. A pod on each, which requests nothing, takes all the CPU and memory that it
can, on all nodes at once:

    balloons        sizes by balloons alone; no cgroup of a node has a limit
    slices          and the limits of the nodes' cgroups in step
    systemReserved  no balloons; each kubelet reserves what is not its node's

Writes tests/bench/results/balloons_overload.json (raw figures and the machine) and the table in docs/benchmarks/balloons.md between its
marks.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import Node
from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.limits import limits_of
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import MIB, Resources
from ansible_collections.ballast.kube.plugins.module_utils._core.host.cgroup_paths import cgroup_hierarchies
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from tests.bench.balloons import DROP_IN
from tests.bench.lab import machine
from tests.bench.page import write_between_marks, write_results
from tests.bench.rules import interrupt, say
from tests.bench.rules_report import markdown
from tests.integration.balloon_lab import BalloonLab, balloon_lab
from tests.integration.kube_proxy import eventually

RESULTS = Path(__file__).resolve().parent / "results/balloons_overload.json"
PAGE = Path(__file__).resolve().parents[2] / "docs/benchmarks/balloons.md"
TARGETS = {"n1": Resources(300, 1024 * MIB), "n2": Resources(500, 2048 * MIB), "n3": Resources(800, 3072 * MIB)}
MODES = ("balloons", "slices", "systemReserved")
TAKEN = 4000 * MIB  # that each pod tries to have
BUSYBOX = "ballast.local/busybox:1"
# A loop for each processor; and two that fill a buffer of half of it, again when the kernel has ended one.
_CPU = "i=0; while [ $i -lt {cpus} ]; do (while :; do :; done) & i=$((i + 1)); done; wait"
_MEMORY = "for i in 1 2; do (while :; do dd if=/dev/zero of=/dev/null bs={bytes} count=1; done) & done; wait"
_SECONDS = 300


class Overload:
    def __init__(self, lab: BalloonLab, seconds: float) -> None:
        self.lab = lab
        self.seconds = seconds
        self.host = LocalHost()

    def set(self, mode: str) -> None:
        lab, most = self.lab, limits_of(self.lab.request({}), self.host)
        assert most is not None
        for name in TARGETS:
            most.write(name, most.most(name))
        if mode == "systemReserved":
            lab.size({name: {} for name in TARGETS}, state="absent", slices=False)
            self.reserve()
            return
        targets = {name: target.as_quantities() for name, target in TARGETS.items()}
        done = lab.size(targets, slices=mode == "slices")
        assert set(done.outcomes.values()) == {"done"}, done.texts

    def reserve(self) -> None:
        """Each kubelet keeps back what is not its node's, and starts anew."""
        for name, node in self.lab.fleet(slices=False).nodes.items():
            document = {
                "apiVersion": "kubelet.config.k8s.io/v1beta1",
                "kind": "KubeletConfiguration",
                "systemReserved": (node.allocatable - TARGETS[name]).as_quantities(),
            }
            path = Path(self.lab.lab.directory, "nodes", name, "etc/kubelet.conf.d", DROP_IN)
            path.write_text(json.dumps(document), encoding="utf-8")
            self.lab.kill_kubelet(name)
        assert eventually(self._all_reserved, seconds=_SECONDS)

    def forget_reserved(self) -> None:
        paths = [Path(self.lab.lab.directory, "nodes", name, "etc/kubelet.conf.d", DROP_IN) for name in TARGETS]
        if not any(path.exists() for path in paths):
            return
        for name, path in zip(TARGETS, paths):
            path.unlink()
            self.lab.kill_kubelet(name)
        assert eventually(
            lambda: all(node.ready and node.allocatable != TARGETS[node.name] for node in self._nodes()),
            seconds=_SECONDS,
        )

    def _nodes(self) -> Iterable[Node]:
        return self.lab.fleet(slices=False).nodes.values()

    def _all_reserved(self) -> bool:
        return all(node.ready and node.allocatable == TARGETS[node.name] for node in self._nodes())

    def run(self) -> dict[str, dict[str, float]]:
        """Of each node the cores and the most memory that its cgroup used."""
        for name in TARGETS:
            self.lab.api.create("/api/v1/namespaces/default/pods", stress(name))
        assert eventually(lambda: self.lab.running(*(f"stress-{name}" for name in TARGETS)), seconds=_SECONDS)
        time.sleep(self.seconds)  # until memory is full
        begun = time.monotonic()
        before = {name: self.cpu_seconds(name) for name in TARGETS}
        memory: dict[str, list[int]] = {name: [] for name in TARGETS}
        while time.monotonic() < begun + self.seconds:
            for name, seen in memory.items():
                seen.append(self.memory(name))
            time.sleep(0.2)
        spent = time.monotonic() - begun
        cores = {name: (self.cpu_seconds(name) - before[name]) / spent for name in TARGETS}
        self.lab.clean()
        # The API forgets a pod before its node has ended the processes.
        assert eventually(lambda: all(self.memory(name) < TARGETS[name].memory for name in TARGETS), seconds=_SECONDS)
        return {name: {"cores": round(cores[name], 3), "memory_bytes": max(memory[name])} for name in TARGETS}

    def cpu_seconds(self, node: str) -> float:
        for name, read in (("cpuacct.usage", _nanoseconds), ("cpu.stat", _usage)):
            for path in self._files(node, name):
                found = read(path.read_text(encoding="ascii"))
                if found is not None:
                    return found
        raise RuntimeError(f"no cgroup of {node} tells of its CPU")

    def memory(self, node: str) -> int:
        for name in ("memory.usage_in_bytes", "memory.current"):
            for path in self._files(node, name):
                return int(path.read_text(encoding="ascii"))
        raise RuntimeError(f"no cgroup of {node} tells of its memory")

    def _files(self, node: str, name: str) -> list[Path]:
        cgroup = f"ballast-{self.lab.lab.name}-{node}"
        paths = [Path(root, cgroup, name) for root in cgroup_hierarchies(self.host)]
        return [path for path in paths if path.exists()]


def _nanoseconds(text: str) -> float:
    return int(text) / 1e9


def _usage(text: str) -> float | None:
    rows = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
    return int(rows["usage_usec"]) / 1e6 if "usage_usec" in rows else None


def stress(node: str) -> dict[str, Any]:
    commands = {"cpu": _CPU.format(cpus=os.cpu_count()), "memory": _MEMORY.format(bytes=TAKEN // 2)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"stress-{node}"},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {"name": name, "image": BUSYBOX, "command": ["sh", "-c", command]} for name, command in commands.items()
            ],
        },
    }


def table(found: Mapping[str, Any]) -> str:
    heads = ["node", "target", *(f"{mode}: CPU, memory" for mode in MODES)]
    rows = [
        [name, f"{target['cpu']}, {target['memory']}", *(_cell(found["runs"][mode], name) for mode in MODES)]
        for name, target in found["targets"].items()
    ]
    box = found["machine"]
    notes = (
        f"Measured on {box['cpus']} cores ({box['cpu']}), {box['memory_mib'] // 1024} GiB, Linux {box['kernel']}, Kubernetes "
        f"{found['kubernetes']}, cgroup v{found['cgroup']}, medians of {found['rounds']} runs of {found['seconds']:.0f} s in turn; each pod "
        f"tries for all processors and {found['taken_bytes'] // MIB} MiB. Memory is the most that the node's cgroup held, kubelet and "
        "containerd included: with slices no more than target and overhead (300 MiB)."
    )
    return "\n".join([*markdown(heads, rows), "", notes])


def _cell(runs: Sequence[Mapping[str, Mapping[str, float]]], node: str) -> str:
    cores = statistics.median(run[node]["cores"] for run in runs)
    memory = statistics.median(run[node]["memory_bytes"] for run in runs)
    return f"{cores * 1000:.0f}m, {memory / MIB:.0f} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round, to try the program; nothing is written")
    arguments = parser.parse_args()
    rounds, seconds = (1, 3.0) if arguments.quick else (3, 15.0)
    signal.signal(signal.SIGTERM, interrupt)
    runs: dict[str, list[dict[str, dict[str, float]]]] = {mode: [] for mode in MODES}
    with balloon_lab("overload") as lab:
        overload = Overload(lab, seconds)
        for _round in range(rounds):
            for mode in MODES:
                overload.set(mode)
                runs[mode].append(overload.run())
                say(f"{mode}: {runs[mode][-1]}")
                overload.forget_reserved()
        found = {
            "machine": machine(),
            "kubernetes": lab.lab.record["kubernetes_version"],
            "cgroup": 2 if len(cgroup_hierarchies(LocalHost())) == 1 else 1,
            "rounds": rounds,
            "seconds": seconds,
            "taken_bytes": TAKEN,
            "targets": {name: target.as_quantities() for name, target in TARGETS.items()},
            "runs": runs,
        }
    text = table(found)
    print(text)
    if not arguments.quick:
        write_results(RESULTS, found)
        write_between_marks(PAGE, "overload", text, RESULTS)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; all that was made for it is removed")
