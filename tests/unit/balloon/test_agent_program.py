# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program as a machine runs it: one file, by the system's Python with Debian's packages, and by this one's."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._agent.program import ZipappKind, program
from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.installation import INSTALLATION
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from tests.model_cluster.model import NAMESPACE, ModelCluster
from tests.unit.balloon.reconciling import LEASE, LEASES, OVERHEAD, annotate, delete_balloon, size, target

PYTHONS = [path for path in dict.fromkeys(("/usr/bin/python3", sys.executable)) if os.path.exists(path)]
_SECONDS = 30


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("program") / "ballast-balloons")
    made = program(path, packages=INSTALLATION.packages, main=INSTALLATION.main, group="reconciler")
    ZipappKind().write(Context(None, LocalHost()), path, made.value, ABSENT)
    return path


@dataclass
class Machine:
    directory: Path
    archive: str
    model: ModelCluster
    python: str = PYTHONS[0]
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def config(self) -> Path:
        return self.directory / "config.json"

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(encoding="utf-8")

    def write(self, **settings: object) -> None:
        retry = {"first": "1s", "most": "2s"}
        given = {"kubeconfig": str(self.directory / "kubeconfig"), "retry": retry, **settings}
        self.config.write_text(json.dumps(given), encoding="utf-8")

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        argv = [self.python, "-I", self.archive, *command, "--config", str(self.config)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS, check=False, env=self.environment)

    def start(self) -> subprocess.Popen[str]:
        argv = [self.python, "-I", self.archive, "--config", str(self.config)]
        with open(self.directory / "log", "a", encoding="utf-8") as log:
            process = subprocess.Popen(argv, stderr=log, text=True, env=self.environment)
        self.processes.append(process)
        self.model.settle(lambda: " started pid=" in self.log or process.poll() is not None, seconds=_SECONDS)
        assert process.poll() is None, self.log
        return process

    def status(self) -> dict[str, Any]:
        done = self.run("status", "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait(_SECONDS)

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "RUNTIME_DIRECTORY": str(self.directory / "run")}


@pytest.fixture
def machine(tmp_path: Path, archive: str) -> Iterator[Machine]:
    with ModelCluster(tls=tmp_path, daemonset=True) as model:
        for name in ("n1", "n2"):
            model.add_node(name, target=target(1500, 3072), overhead=OVERHEAD, unsized=True)
        model.sums.watch()
        model.kubeconfig(tmp_path / "kubeconfig").chmod(0o600)
        made = Machine(tmp_path, archive, model)
        made.write()
        yield made
        made.end()
        assert model.sums.broken == []


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.mark.parametrize("python", PYTHONS)
def test_it_works_tells_reloads_and_ends(machine: Machine, python: str) -> None:
    libraries = [python, "-c", "import prometheus_client, yaml"]
    if subprocess.run(libraries, check=False, capture_output=True).returncode != 0:
        pytest.skip(f"{python} has not the packages of the reconciler")
    machine.python, model, port = python, machine.model, _free_port()
    machine.write(metrics=f"127.0.0.1:{port}")
    process = machine.start()
    model.settle(lambda: size(model, "n1") == size(model, "n2") == (2400, 4864))
    model.settle(lambda: machine.status()["seconds_since_success"] is not None)
    assert os.stat(machine.directory / "run" / "control").st_mode & 0o777 == 0o600

    told = machine.status()
    assert [(row["name"], row["at_target"], row["free"]["cpu"]) for row in told["nodes"]] == [
        ("n1", True, "1500m"),
        ("n2", True, "1500m"),
    ]
    assert [(row["name"], row["holds"]) for row in told["hosts"]] == [("boot-1", True)]
    table = machine.run("status").stdout.splitlines()
    assert table[0].startswith("2 of 2 nodes at target, waiting, all nodes at target ")
    assert table[2].split() == ["NODE", "HOST", "TARGET", "BALLOON", "FREE", "STATE", "NOTE"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=_SECONDS) as answer:
        metrics = answer.read().decode()
    assert 'ballast_balloon_at_target{node="n1"} 1.0' in metrics
    assert 'ballast_balloon_resizes_total{outcome="done"} 2.0' in metrics
    assert 'ballast_balloon_host_holds{host="boot-1"} 1.0' in metrics

    machine.write(metrics=f"127.0.0.1:{port}", interval="never")
    process.send_signal(signal.SIGHUP)
    model.settle(lambda: "reload-refused" in machine.log)
    machine.write(metrics=f"127.0.0.1:{port}", nodes=[{"name": "n2"}])
    process.send_signal(signal.SIGHUP)
    model.settle(lambda: [row["name"] for row in machine.status()["nodes"]] == ["n2"])
    assert machine.status()["settings"]["nodes"] == [{"name": "n2", "slice": "", "qmp": ""}]

    process.send_signal(signal.SIGTERM)
    assert process.wait(_SECONDS) == 0
    assert os.listdir(machine.directory / "run") == ["lock"]
    for word in ("of-the-model", "Traceback"):
        assert word not in machine.log


def test_killed_in_the_middle_of_a_move_it_leaves_nothing_that_the_next_one_cannot_end(machine: Machine) -> None:
    model = machine.model
    process = machine.start()
    model.settle(lambda: size(model, "n1") == size(model, "n2") == (2400, 4864))
    model.settle(lambda: model.store.get(LEASES, LEASE, NAMESPACE) is None)
    model.kubelets.habit("n1").actuate_seconds = 1.0
    annotate(model, "n2", target(2500, 5120))
    annotate(model, "n1", target(500, 1024))
    model.settle(lambda: size(model, "n1") == (3400, 6912))
    process.kill()
    process.wait(_SECONDS)
    assert size(model, "n2") == (2400, 4864), "n1 has not given its room yet"
    lease = model.store.get(LEASES, LEASE, NAMESPACE)
    assert lease is not None
    # A minute is over.
    model.store.put(LEASES, {**lease, "spec": {**lease["spec"], "leaseDurationSeconds": 1}})
    machine.start()
    model.settle(lambda: size(model, "n2") == (1400, 2816))
    assert size(model, "n1") == (3400, 6912)


def test_it_begins_without_an_api_server_and_ends_without_one(machine: Machine) -> None:
    model = machine.model
    model.server.go_away()
    process = machine.start()
    model.settle(lambda: bool(machine.status()["problems"]))
    assert "problem: " in machine.run("status").stdout
    model.server.mend()
    model.settle(lambda: size(model, "n1") == size(model, "n2") == (2400, 4864))
    model.server.go_away()
    delete_balloon(model, "n1")
    model.settle(lambda: bool(machine.status()["problems"]))
    process.send_signal(signal.SIGTERM)
    assert process.wait(_SECONDS) == 0
    assert "Traceback" not in machine.log


def test_check_says_what_a_start_says_and_makes_nothing(machine: Machine) -> None:
    there = sorted(os.listdir(machine.directory))
    fine = machine.run("check")
    assert (fine.returncode, fine.stderr) == (0, "")
    assert "valid: nodes all with a target, namespace that of the balloons" in fine.stdout
    machine.write(interval="never", slices=True)
    told = [machine.run("check"), machine.run()]
    assert [(one.returncode, one.stdout) for one in told] == [(2, ""), (2, "")]
    assert told[0].stderr == told[1].stderr
    assert "balloon-agent-duration" in told[0].stderr
    assert "balloon-agent-limits-of-all" in told[0].stderr
    machine.write()
    (machine.directory / "kubeconfig").chmod(0o640)
    open_to_others = machine.run("check")
    assert open_to_others.returncode == 3
    assert "balloon-agent-kubeconfig-open" in open_to_others.stderr
    assert sorted(os.listdir(machine.directory)) == there


def test_a_machine_has_one(machine: Machine) -> None:
    process = machine.start()
    second = machine.run()
    assert second.returncode == 3
    assert "balloon-agent-running" in second.stderr
    assert str(process.pid) in second.stderr


def test_status_without_one_says_so(machine: Machine) -> None:
    done = machine.run("status")
    assert (done.returncode, done.stdout) == (3, "")
    assert "balloon-agent-not-running" in done.stderr
