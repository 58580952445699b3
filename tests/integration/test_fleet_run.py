# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet run by real Jobs on a lab, over the lab's own nodes: the command is killed, and then a worker, in the middle of its change."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.integration.fleet_lab import Fleet, fleet
from tests.integration.lab import lab_named
from tests.integration.test_execution_environment import CACHE, make

pytestmark = [
    pytest.mark.long,
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a lab"),
]
NAMESPACE = "ballast-fleet"
OLD, NEW = "nftables", "iptables"


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


def begun(nodes: Fleet, name: str) -> list[str]:
    """Hosts of the batch at work in a slice, as it has recorded them."""
    try:
        text = nodes.lab.kubectl("-n", NAMESPACE, "get", "configmap", "ballast-fleet-run", "-o", "json")
    except subprocess.CalledProcessError:
        return []
    row: list[str] = json.loads(json.loads(text)["data"].get(name, "{}")).get("begun", [])
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


def test_a_run_gets_over_a_killed_command_and_a_killed_worker(nodes: Fleet, tmp_path: Path) -> None:
    assert set(modes(nodes).values()) == {OLD}
    log = tmp_path / "log"
    variables = {"kube_proxy_mode": NEW, "fleet_slices": 2, "kube_proxy_confirm_within": 60}

    first = nodes.start(log, **variables)
    try:
        wait_for("the canary", lambda: begun(nodes, "canary-0"), first, log)
    finally:
        kill(first)

    second = nodes.start(log, **variables)
    try:
        wait_for("a batch of a slice", lambda: begun(nodes, "slice-0"), second, log)
        processes = workers("slice", 0)
        assert processes
        for process in processes:
            with suppress(ProcessLookupError):  # the first of the container takes the others along
                os.kill(process, signal.SIGKILL)
        assert second.wait(timeout=480) == 0, log.read_text(encoding="utf-8")
    finally:
        kill(second)

    report = nodes.report
    assert report["nodes"] == dict.fromkeys(modes(nodes), "confirmed"), report
    assert set(modes(nodes).values()) == {NEW}
    logs = {path.name.rpartition("-ballast")[0] for path in (nodes.place / "reports").glob("*.log")}
    assert logs == {"canary-0", "slice-0", "slice-1"}
    assert len(list((nodes.place / "reports").glob("slice-0-*.log"))) == 2, "the killed worker and the one after it"
    assert "ballast-fleet" not in nodes.lab.kubectl("get", "namespaces", "-o", "name")
    said = log.read_text(encoding="utf-8")
    assert "slice-1" in said
    assert (nodes.place / "key").read_text(encoding="ascii").splitlines()[1] not in said


def test_a_run_is_ended_and_leaves_nothing(nodes: Fleet, tmp_path: Path) -> None:
    """A preview, which changes no node, cut off when its Job is there."""
    log = tmp_path / "log"
    before = modes(nodes)
    started = nodes.start(log, kube_proxy_mode=OLD, kube_proxy_confirm=False)
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
