# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A rollout over 300 simulated nodes with planted failures: `make bench-fleet-rollout`.

The playbook is ballast.kube.kube_proxy_migrate as users run it, with forks 5, 20 and 50. Nodes are files (rollout_node.py), which a
connection plugin of the tests runs modules on (rollout/simulated.py). Two rehearsals:

    few     16 nodes have a fault, 8 of them one by which they fail, and kube_proxy_max_fail allows 10: the run goes to its end
    many    every fifth node fails, and the run must end in the first batch in which more than 10 have failed

Every node must end confirmed or in its former mode. Writes tests/bench/results/rollout.json (raw figures and the machine), and the
table in docs/fleet.md between its marks. `--rehearsals few --forks 50` measures a part: rows that were measured under the same
circumstances stay beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.bench.lab import machine
from tests.bench.rollout_node import (
    GARBAGE,
    LOST_AFTER,
    LOST_DURING,
    REFUSES,
    Faults,
    SimulatedNode,
    dump,
    load,
)
from tests.bench.rollout_report import write_report

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests/bench/results/rollout.json"
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
PLUGINS = Path(__file__).with_name("rollout")
NODES, FORKS, MAX_FAIL = 300, (5, 20, 50), 10
OLD, NEW = "iptables", "nftables"
CONFIRM_WITHIN = 20
CHANGE_SECONDS, READ_SECONDS = (3.0, 5.0), 0.3
_SAMPLE_SECONDS = 0.5
# Faults by which a node is not in the new mode in the end.
FAILING: dict[str, dict[str, Any]] = {
    "killed during the change": {"fates": (LOST_DURING,)},
    "gone after the change": {"gone_after_change": 3600.0},
    "refuses": {"fates": (REFUSES,)},
    "fails its audit": {"bad_audits": 9},
}
# Faults that a rollout gets over.
PASSING: dict[str, dict[str, Any]] = {
    "answer lost": {"fates": (LOST_AFTER,)},
    "answer garbled": {"fates": (GARBAGE,)},
    "gone for a moment": {"gone_after_change": CONFIRM_WITHIN / 2},
    "slow": {"slow": 3.0},
}


@dataclass(frozen=True)
class Rehearsal:
    name: str
    faults: Mapping[str, str]  # by node: the name of its fault


@dataclass(frozen=True)
class Run:
    """What a rollout came to. `failed` counts nodes that were begun and have a fault by which they fail."""

    rehearsal: str
    forks: int
    nodes: int
    planted: int
    confirmed: int
    back: int
    lost: tuple[str, ...]  # nodes that are neither
    failed: int
    batch: int  # the largest
    seconds: float
    cpu_seconds: float  # of the controller
    memory_mib: float  # of the controller and its forks, the most that was seen
    longest_wait: float  # seconds that a change waited for its confirmation, of nodes that were reached


def name_of(number: int) -> str:
    return f"n{number:03}"


def few(count: int) -> Rehearsal:
    """Each fault on two nodes, or on one where there are few nodes."""
    names = [name for name in (*FAILING, *PASSING) for _ in range(2 if count > 100 else 1)]
    chosen = random.Random(28).sample(range(1, count + 1), len(names))
    return Rehearsal("few", {name_of(number): name for number, name in zip(chosen, names)})


def many(count: int) -> Rehearsal:
    kinds = list(FAILING)
    return Rehearsal("many", {name_of(number): kinds[number // 5 % len(kinds)] for number in range(5, count + 1, 5)})


REHEARSALS: Mapping[str, Callable[[int], Rehearsal]] = {"few": few, "many": many}


def faults_of(name: str) -> Faults:
    return Faults(**{"from_change": True, **{**FAILING, **PASSING}.get(name, {})})


class Bench:
    """In a directory of its own: the inventory, and a file for each node."""

    def __init__(self, place: Path, count: int, change_seconds: tuple[float, float] = CHANGE_SECONDS) -> None:
        self.place, self.count, self._change_seconds = place, count, change_seconds
        self.nodes = place / "nodes"
        self.nodes.mkdir()
        self.inventory = place / "inventory.json"
        common = {"ansible_connection": "simulated", "ansible_python_interpreter": "/usr/bin/python3"}
        hosts = {name_of(number): {} for number in range(1, count + 1)}
        self.inventory.write_text(json.dumps({"nodes": {"hosts": hosts, "vars": common}}), encoding="utf-8")

    def run(self, rehearsal: Rehearsal, forks: int, **variables: Any) -> tuple[Run, str]:
        """A rollout, and what it printed."""
        delays = random.Random(forks)
        for number in range(1, self.count + 1):
            name = name_of(number)
            node = SimulatedNode(
                name,
                OLD,
                delays.uniform(*self._change_seconds),
                READ_SECONDS,
                faults_of(rehearsal.faults.get(name, "")),
            )
            self.write_node(node)
        begun = time.monotonic()
        text, cpu, memory = self.play(forks, variables)
        seconds = time.monotonic() - begun
        return self._read(rehearsal, forks, seconds, cpu, memory), text

    def write_node(self, node: SimulatedNode) -> None:
        (self.nodes / node.name).write_text(dump(node), encoding="utf-8")

    def play(self, forks: int, variables: Mapping[str, Any]) -> tuple[str, float, float]:
        """What the playbook printed, seconds of the cores, and the most memory of the controller and its forks, in MiB."""
        given = {
            "kube_proxy_hosts": "nodes",
            "kube_proxy_mode": NEW,
            "kube_proxy_confirm": True,
            "kube_proxy_confirm_within": CONFIRM_WITHIN,
            "kube_proxy_max_fail": MAX_FAIL,
            "kube_proxy_serial": [1, 5, "10%"],
            **variables,
        }
        argv = [str(PLAYBOOK), "-i", str(self.inventory), "--forks", str(forks), "-e", json.dumps(given)]
        env = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build/collections"),
            "ANSIBLE_HOME": str(self.place / "ansible"),
            "ANSIBLE_CONNECTION_PLUGINS": str(PLUGINS),
            "ANSIBLE_NOCOLOR": "1",
            "BALLAST_ROLLOUT": str(self.nodes),
            "PYTHONPATH": str(ROOT),
        }
        before, memory = os.times(), 0.0
        with (self.place / "log").open("w+", encoding="utf-8") as log:
            with subprocess.Popen(
                [*argv, "ballast.kube.kube_proxy_migrate"], cwd=ROOT, env=env, stdout=log, stderr=log, text=True
            ) as started:
                while started.poll() is None:
                    memory = max(memory, _memory_mib(started.pid))
                    time.sleep(_SAMPLE_SECONDS)
            log.seek(0)
            text = log.read()
        after = os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return text, cpu, memory

    def _read(self, rehearsal: Rehearsal, forks: int, seconds: float, cpu: float, memory: float) -> Run:
        nodes = [
            load((self.nodes / name_of(number)).read_text(encoding="utf-8")) for number in range(1, self.count + 1)
        ]
        for node in nodes:
            node.tick(time.time() + 3600)
        confirmed = [
            node for node in nodes if node.mode == NEW and not node.is_armed and node.confirmed_after is not None
        ]
        back = [node for node in nodes if node.mode == OLD and not node.is_armed]
        failing = {name for name, fault in rehearsal.faults.items() if fault in FAILING}
        waits = [
            node.confirmed_after
            for node in nodes
            if node.confirmed_after is not None and "gone" not in rehearsal.faults.get(node.name, "")
        ]
        return Run(
            rehearsal=rehearsal.name,
            forks=forks,
            nodes=len(nodes),
            planted=len(rehearsal.faults),
            confirmed=len(confirmed),
            back=len(back),
            lost=tuple(node.name for node in nodes if node not in confirmed and node not in back),
            failed=sum(node.calls > 0 for node in nodes if node.name in failing),
            batch=max(5, math.ceil(len(nodes) / 10)),
            seconds=round(seconds, 1),
            cpu_seconds=round(cpu, 1),
            memory_mib=round(memory, 1),
            longest_wait=round(max(waits, default=0.0), 1),
        )


def problems_of(run: Run, rehearsal: Rehearsal) -> list[str]:
    """What a rollout must hold, and did not."""
    failing = sum(fault in FAILING for fault in rehearsal.faults.values())
    problems = []
    if run.lost:
        problems.append(f"neither confirmed nor back: {', '.join(run.lost)}")
    if run.failed > MAX_FAIL + run.batch:
        problems.append(f"{run.failed} nodes failed, more than {MAX_FAIL} beyond a batch of {run.batch}")
    if failing <= MAX_FAIL and run.confirmed != run.nodes - failing:
        problems.append(f"{run.confirmed} of {run.nodes - failing} nodes were confirmed")
    if run.longest_wait > CONFIRM_WITHIN:
        problems.append(f"a change waited {run.longest_wait} seconds for its confirmation")
    return problems


def _memory_mib(pid: int) -> float:
    """Of a process and those that it has started; what they share is counted once."""
    total, todo = 0, [pid]
    while todo:
        process = Path(f"/proc/{todo.pop()}")
        try:
            fields = dict(line.split(":", 1) for line in (process / "smaps_rollup").read_text().splitlines()[1:])
            total += int(fields["Pss"].split()[0])
            for task in (process / "task").iterdir():
                todo += map(int, (task / "children").read_text().split())
        except (OSError, KeyError):  # it has ended
            continue
    return total / 1024


def measure(place: Path, count: int, forks: Sequence[int], names: Sequence[str]) -> list[Run]:
    bench, runs = Bench(place, count), []
    for rehearsal in (REHEARSALS[name](count) for name in names):
        for number in forks:
            run, text = bench.run(rehearsal, number)
            problems = problems_of(run, rehearsal)
            if problems:
                sys.exit(f"{rehearsal.name}, forks {number}: {'; '.join(problems)}\n{text[-8000:]}")
            print(
                f"{rehearsal.name}, forks {number}: {run.confirmed} confirmed, {run.back} back, {run.seconds} s, {run.memory_mib} MiB",
                flush=True,
            )
            runs.append(run)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=NODES, help=f"by default {NODES}; nothing is written of others")
    parser.add_argument("--forks", type=int, nargs="+", default=list(FORKS))
    parser.add_argument("--rehearsals", nargs="+", choices=list(REHEARSALS), default=list(REHEARSALS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ballast-rollout-") as place:
        runs = measure(Path(place), arguments.nodes, arguments.forks, arguments.rehearsals)
    found = {
        "machine": machine(),
        "ansible": metadata.version("ansible-core"),
        "max_fail": MAX_FAIL,
        "confirm_within": CONFIRM_WITHIN,
        "change_seconds": list(CHANGE_SECONDS),
        "read_seconds": READ_SECONDS,
        "runs": [asdict(run) for run in runs],
    }
    earlier = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"runs": []}
    is_whole = arguments.nodes == NODES and set(arguments.forks) <= set(FORKS)
    write_report(beside(earlier, found) if is_whole else found, RESULTS if is_whole else None)


def beside(earlier: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """`found`, with those runs of `earlier` that it has not measured itself, where all else is the same."""
    runs = {(run["rehearsal"], run["forks"]): run for run in found["runs"]}
    if _circumstances(earlier) == _circumstances(found):
        runs = {**{(run["rehearsal"], run["forks"]): run for run in earlier["runs"]}, **runs}
    return {**found, "runs": [runs[key] for key in sorted(runs)]}


def _circumstances(found: Mapping[str, Any]) -> dict[str, Any]:
    """Without the load before, which is another one each time."""
    here = {key: value for key, value in found.get("machine", {}).items() if key != "load_before"}
    return {**found, "machine": here, "runs": []}


if __name__ == "__main__":
    main()
