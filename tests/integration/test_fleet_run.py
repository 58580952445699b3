# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet run by real Jobs on a lab, over the lab's own nodes. In the middle of a batch the command is killed, a worker is killed or evicted,
its node is drained, the API is away for a minute, or the management cluster's control plane starts again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.integration.fleet_lab import Fleet, fleet
from tests.integration.lab import lab_named, stopped
from tests.integration.test_execution_environment import CACHE, make

pytestmark = [
    pytest.mark.long,
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a lab"),
]
NAMESPACE = "ballast-fleet"
VARIABLES: dict[str, Any] = {"fleet_slices": 2, "kube_proxy_confirm_within": 60}
AWAY_SECONDS = 60


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three: a canary, and one for each of two slices."""
    place = tmp_path_factory.mktemp("fleet")
    archive = make(place / "image/ee.tar", CACHE)
    with lab_named("fr") as lab:
        run = lab.up(lab_nodes=3, lab_archive=str(archive))
        assert run.status == 0, run.output
        with fleet(lab, place) as made:
            yield made


def wait_for(what: str, condition: Callable[[], Any], started: subprocess.Popen[str], log: Path) -> Any:
    deadline = time.monotonic() + 300
    while True:
        value = condition()
        if value:
            return value
        assert started.poll() is None, f"{what}: the command has ended\n{log.read_text(encoding='utf-8')}"
        assert time.monotonic() < deadline, f"{what}: not within 300 s\n{log.read_text(encoding='utf-8')}"
        time.sleep(0.2)


def kill(started: subprocess.Popen[str]) -> None:
    """A command with all that it has started: Ansible's workers have sessions of their own, and would follow the run on."""
    processes, number = [started.pid], 0
    while number < len(processes):
        for task in Path(f"/proc/{processes[number]}/task").glob("*/children"):
            with suppress(OSError):
                processes += map(int, task.read_text(encoding="ascii").split())
        number += 1
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    started.wait(timeout=30)


def record(nodes: Fleet, name: str) -> dict[str, Any]:
    """Of a slice, as its worker keeps it: `holder` is the pod at work, `begun` its batch. Empty before it is there."""
    try:
        text = nodes.lab.kubectl("-n", NAMESPACE, "get", "configmap", "ballast-fleet-run", "-o", "json")
    except subprocess.CalledProcessError:
        return {}
    row: dict[str, Any] = json.loads(json.loads(text)["data"].get(name, "{}"))
    return row


def begun(nodes: Fleet, name: str) -> list[str]:
    """Hosts of the batch at work in a slice."""
    row: list[str] = record(nodes, name).get("begun", [])
    return row


def workers(job: str, index: int) -> list[int]:
    """Processes of the worker of a slice, on this machine: the container's first one, and Python."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            environment = (process / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        is_worker = words[-2:-1] == [job.encode()] and any(word.endswith(b"_fleet_run.worker") for word in words)
        if is_worker and f"JOB_COMPLETION_INDEX={index}".encode() in environment:
            found.append(int(process.name))
    return found


def modes(nodes: Fleet) -> dict[str, str]:
    """What each node's kube-proxy says of itself."""
    hosts = json.loads((nodes.place / "hosts.json").read_text(encoding="utf-8"))["all"]["hosts"]
    return {
        name: subprocess.run(
            ["nsenter", f"--net={row['ballast_instance_netns']}", "curl", "-s", "http://127.0.0.1:10249/proxyMode"],
            check=True,
            capture_output=True,
            text=True,
            timeout=30,
        ).stdout
        for name, row in hosts.items()
    }


def kill_worker(_nodes: Fleet) -> None:
    processes = workers("slice", 0)
    assert processes
    for process in processes:
        with suppress(ProcessLookupError):  # the first of the container takes the others along
            os.kill(process, signal.SIGKILL)


def worker_pod(nodes: Fleet) -> Any:
    """The pod at work in slice 0."""
    holder = record(nodes, "slice-0")["holder"]
    pods = json.loads(nodes.lab.kubectl("-n", NAMESPACE, "get", "pods", "-o", "json"))["items"]
    (pod,) = (pod for pod in pods if pod["metadata"]["uid"] == holder)
    return pod


def evict_worker(nodes: Fleet) -> None:
    name = worker_pod(nodes)["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NAMESPACE}}
    body = nodes.place / "eviction.json"
    body.write_text(json.dumps(eviction), encoding="utf-8")
    nodes.lab.kubectl("create", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction", "-f", str(body))


def drain_node(nodes: Fleet) -> None:
    """That of the worker, which is a node of the fleet too."""
    node = worker_pod(nodes)["spec"]["nodeName"]
    nodes.lab.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=300s")
    nodes.lab.kubectl("uncordon", node)


def control_plane(nodes: Fleet, *programs: str) -> ExitStack:
    """Programs of it, stopped until the block ends."""
    with ExitStack() as undo:
        for program in programs:
            (service,) = Path(nodes.lab.directory, "plane/sv").glob(f"*-{program}")
            undo.enter_context(stopped(str(service)))
        return undo.pop_all()


def take_the_api_away(nodes: Fleet) -> None:
    with control_plane(nodes, "kube-apiserver"):
        time.sleep(AWAY_SECONDS)


def restart_the_control_plane(nodes: Fleet) -> None:
    with control_plane(nodes, "kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"):
        pass


# What a worker's pod gets over, and what the fleet has too, as this lab is both: without its API server a change cannot be proven.
OF_A_POD = (kill_worker, evict_worker, drain_node)
OF_THE_CLUSTER = (take_the_api_away, restart_the_control_plane)


def test_a_run_that_was_cut_off_is_found_and_followed(nodes: Fleet, tmp_path: Path) -> None:
    log = tmp_path / "log"
    variables = {**VARIABLES, "kube_proxy_mode": other_mode(nodes), "fleet_dir": str(tmp_path)}
    first = nodes.start(log, **variables)
    try:
        wait_for("the canary", lambda: begun(nodes, "canary-0"), first, log)
    finally:
        kill(first)
    second = nodes.start(log, **variables)
    try:
        assert second.wait(timeout=480) == 0, log.read_text(encoding="utf-8")
    finally:
        kill(second)
    confirmed(nodes, variables["kube_proxy_mode"], tmp_path)
    said = log.read_text(encoding="utf-8")
    assert "slice-1" in said
    assert (nodes.place / "key").read_text(encoding="ascii").splitlines()[1] not in said


@pytest.mark.parametrize("fault", OF_A_POD, ids=lambda fault: fault.__name__)
def test_a_run_gets_over_the_end_of_a_worker(nodes: Fleet, fault: Callable[[Fleet], None], tmp_path: Path) -> None:
    mode = other_mode(nodes)
    assert status_with(fault, nodes, mode, tmp_path) == 0, (tmp_path / "log").read_text(encoding="utf-8")
    confirmed(nodes, mode, tmp_path)
    logs = [path.name.rpartition("-ballast")[0] for path in tmp_path.glob("*.log")]
    assert set(logs) == {"canary-0", "slice-0", "slice-1"}
    assert logs.count("slice-0") == 2 or fault is not kill_worker
    # One that was evicted has finished its batch: no other one has found it half done.
    assert fault is not evict_worker or "earlier pod" not in (tmp_path / "report.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("fault", OF_THE_CLUSTER, ids=lambda fault: fault.__name__)
def test_every_node_is_confirmed_or_back_after_a_fault_of_the_cluster(
    nodes: Fleet, fault: Callable[[Fleet], None], tmp_path: Path
) -> None:
    mode = other_mode(nodes)
    status = status_with(fault, nodes, mode, tmp_path)
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["nodes"]
    print(report)
    is_changed = {name: found == mode for name, found in modes(nodes).items()}
    assert {name: word == "confirmed" for name, word in report.items()} == is_changed
    assert (status == 0) == all(is_changed.values())
    again = nodes.run(**VARIABLES, kube_proxy_mode=mode, fleet_dir=str(tmp_path))
    assert again.status == 0, again.output
    assert set(modes(nodes).values()) == {mode}


def status_with(fault: Callable[[Fleet], None], nodes: Fleet, mode: str, place: Path) -> int:
    """Of a run with a fault in the middle of the batch of slice 0; its output is in `log` of the place."""
    log = place / "log"
    run = nodes.start(log, **VARIABLES, kube_proxy_mode=mode, fleet_dir=str(place))
    try:
        wait_for("a batch of a slice", lambda: begun(nodes, "slice-0"), run, log)
        fault(nodes)
        return run.wait(timeout=600)
    finally:
        kill(run)


def other_mode(nodes: Fleet) -> str:
    """All nodes are in one mode; this is another."""
    (mode,) = set(modes(nodes).values())
    return {"nftables": "iptables", "iptables": "nftables"}[mode]


def confirmed(nodes: Fleet, mode: str, fleet_dir: Path) -> None:
    """Every node is changed and confirmed, and nothing of the run is left on the management cluster."""
    found = modes(nodes)
    report = json.loads((fleet_dir / "report.json").read_text(encoding="utf-8"))
    assert report["nodes"] == dict.fromkeys(found, "confirmed"), report
    assert set(found.values()) == {mode}
    assert "ballast-fleet" not in nodes.lab.kubectl("get", "namespaces", "-o", "name")


def test_a_run_is_ended_and_leaves_nothing(nodes: Fleet, tmp_path: Path) -> None:
    """A preview, which changes no node, cut off when its Job is there."""
    log = tmp_path / "log"
    before = modes(nodes)
    started = nodes.start(log, kube_proxy_mode=other_mode(nodes), kube_proxy_confirm=False)
    try:
        wait_for(
            "the Job", lambda: "ballast-fleet" in nodes.lab.kubectl("get", "jobs", "-A", "-o", "name"), started, log
        )
    finally:
        kill(started)
    run = nodes.run(fleet_state="absent")
    assert run.status == 0, run.output
    assert "ballast-fleet" not in nodes.lab.kubectl("get", "namespaces", "-o", "name")
    assert modes(nodes) == before
