# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A restart of a host with systemd: what is on the disk stays, what was in the kernel and in /run comes back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._agent.program import program
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._instance import hostnet
from ansible_collections.ballast.kube.plugins.module_utils._instance import restore as module
from ansible_collections.ballast.kube.plugins.module_utils._instance.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._instance.restore import FORGOTTEN, RESTORE_KINDS, restore
from tests.unit.cases import apply, plan_of
from tests.unit.instance import given as g
from tests.unit.instance.kernel import Kernel

WANTED = f"{g.STATE}/restore.json"
PROGRAM = f"{g.STATE}/restore.pyz"
UNITS = "/etc/systemd/system"


def restarted(host: Kernel) -> Kernel:
    """The machine after a restart: its disk, and nothing of /run, /proc, /sys, links and processes."""
    fresh = g.machine(systemd=True)
    for top in ("/var/lib", "/etc/systemd"):
        for path in host.paths(top):
            found = host.stat(path)
            assert found is not None
            if found.kind == "directory":
                fresh.given_directory(path, mode=host.mode(path))
            elif found.kind == "symlink":
                fresh.symlink(path, host.readlink(path))
            else:
                fresh.given(path, host.read(path) or b"", mode=host.mode(path))
    return fresh


def test_after_a_restart_everything_that_the_kernel_forgot_is_made_again_and_only_once() -> None:
    host = g.machine(systemd=True)
    apply(ENGINE, g.desired(2, at_boot=True), host)
    fresh = restarted(host)
    rows = json.loads(fresh.text(WANTED))
    made = restore(fresh, rows)
    there = {f"{row['kind']} {row['target']}" for row in rows} - set(made)
    assert there == {f"shared-directory {path} {g.STATE}" for path in ("/var/lib/kubelet", "/var/lib/cni")}
    assert len(made) > 15
    assert restore(fresh, rows) == []
    assert set(fresh.namespaces) == set(host.namespaces)
    assert fresh.namespaces[""].routes == host.namespaces[""].routes
    assert fresh.inner_mounts == host.inner_mounts
    left = plan_of(ENGINE, g.desired(2, at_boot=True), fresh)
    assert {step.kind for step in left.steps} <= {"cgroup", "service", "supervisor", "image"}, "systemd starts these"


def test_a_namespace_of_an_earlier_version_comes_back_as_those_of_this_one() -> None:
    host = g.machine(systemd=True)
    apply(ENGINE, g.desired(at_boot=True), host)
    complete = host.inner_mounts[entered := f"/run/ballast/{g.desired().lab}/n1.mnt"]
    host.given(f"{entered}.json", json.dumps({"mounts": [{"target": "/run/netns", "source": ""}]}))
    apply(ENGINE, g.desired(at_boot=True), host)
    fresh = restarted(host)
    restore(fresh, json.loads(fresh.text(WANTED)))
    assert fresh.inner_mounts[entered] == complete


def test_a_service_finds_no_mount_namespace_before_its_last_mount_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    host = g.machine(systemd=True)
    apply(ENGINE, g.desired(at_boot=True), host)
    fresh = restarted(host)
    entered = f"/run/ballast/{g.desired().lab}/n1.mnt"
    complete = len(host.inner_mounts[entered])
    seen: set[int] = set()
    run = fresh.run

    def watched(argv, **options):  # type: ignore[no-untyped-def]
        answer = run(argv, **options)
        if entered in fresh.inner_mounts:
            seen.add(len(fresh.inner_mounts[entered]))
        return answer

    monkeypatch.setattr(fresh, "run", watched)
    restore(fresh, json.loads(fresh.text(WANTED)))
    assert seen == {complete}


def test_a_host_without_systemd_has_nothing_to_start_it_with() -> None:
    kinds = {step.kind for step in plan_of(ENGINE, g.desired(), g.machine()).steps}
    assert "program" not in kinds


def test_the_unit_runs_the_program_at_boot_after_the_network() -> None:
    host = g.machine(systemd=True)
    before = host.snapshot()
    apply(ENGINE, g.desired(at_boot=True), host)
    name = "ballast-lab-nodes-restore.service"
    unit = host.text(f"{UNITS}/{name}")
    assert f"ExecStart=/usr/bin/python3 {PROGRAM} {WANTED}\n" in unit
    assert "After=ballast-lab-network-restore.service\n" in unit
    assert host.readlink(f"{UNITS}/multi-user.target.wants/{name}") == f"{UNITS}/{name}"
    apply(ENGINE, g.desired(at_boot=True, state="absent"), host)
    assert host.snapshot() == before


def test_every_kind_that_is_forgotten_can_be_made_by_the_program() -> None:
    assert set(FORGOTTEN) <= set(module._KINDS)
    assert set(FORGOTTEN) <= {*ENGINE.kinds, *hostnet.ENGINE.kinds}, "of nodes, or of their host"


def test_the_program_runs_by_itself(tmp_path: Path) -> None:
    host, kind, path = LocalHost(), RESTORE_KINDS["program"], str(tmp_path / "restore.pyz")
    assert kind.read(Context(None, host), path) == ABSENT
    wanted = program(path, packages=("_agent", "_core", "_instance"), main="_instance.restore.main", group="").value
    kind.write(Context(None, host), path, wanted, ABSENT)
    assert kind.read(Context(None, host), path) == wanted
    rows = tmp_path / "rows.json"
    directory = str(tmp_path / "srv")
    Path(directory).mkdir()
    rows.write_text(json.dumps([{"kind": "route", "target": "127.255.0.0/24", "value": None}]))
    argv = [sys.executable, "-I", path, str(rows)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, cwd="/")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), "a route that is not there, as wanted"
    kind.remove(Context(None, host), path, wanted)
    assert kind.read(Context(None, host), path) == ABSENT
