# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Control planes that are hurt: killed under load, with a full disk, damaged data, taken ports, lost programs, wrong clocks.

The tests of a profile share one control plane. Each leaves it running and well.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane import ready
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.pki import CertificateKind
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from tests.integration import journal, plane_lab
from tests.integration.adhoc import module
from tests.integration.plane_client import eventually
from tests.integration.plane_lab import VERSION, Plane
from tests.integration.plane_load import Load, clean, load, lost

MIB = 2**20
DISK_MIB = 512  # the log of etcd takes 64 MiB at a time, and prepares the next
LARGE = 400_000  # bytes of an object's text
_FULL_SECONDS = 15  # a run waits for a control plane whose disk is full, which does not become ready

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a control plane")]
# What is checked before anything starts is the same for every deployment mode.
of_separate = pytest.mark.parametrize("plane", ["generic"], indirect=True)


@pytest.fixture(scope="module", params=["generic", "hyper-mini"])
def plane(request: pytest.FixtureRequest) -> Iterator[Plane]:
    """On a small disk of its own, with a directory of programs of its own."""
    place = tempfile.mkdtemp(prefix="ballast-it-")
    disk, programs = f"{place}/disk", Path(place, "bin")
    mounted = ("mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=0700", "ballast-faults", disk)
    options = {"state_dir": f"{disk}/plane", "bin_dir": str(programs)}
    with ExitStack() as stack:
        stack.enter_context(journal.directory(place))
        os.mkdir(disk)
        programs.mkdir()
        for path in Path(plane_lab.binaries(VERSION, all_in_one=request.param == "hyper-mini")).iterdir():
            (programs / path.name).symlink_to(path.resolve())
        stack.enter_context(journal.mount(disk, *mounted))
        found = stack.enter_context(plane_lab.place(request.param, **options))
        found.run()
        yield found


def ids(error: BallastError) -> list[str]:
    return [problem.id for problem in (error.problems if isinstance(error, Problems) else [error])]


def fault_of(plane: Plane, **changes: object) -> BallastError:
    with pytest.raises(BallastError) as caught:
        plane.run(**changes)
    return caught.value


def test_nothing_acknowledged_is_lost_when_processes_are_killed(plane: Plane) -> None:
    with load(plane, "killed") as writes:
        for name, pid in plane.pids().items():
            writes.wait(20, what=f"before {name} is killed")
            assert pid is not None, name
            os.kill(pid, signal.SIGKILL)
            eventually(lambda name=name, pid=pid: plane.pids()[name] not in (pid, None), what=f"{name} is back")
            writes.wait(20, what=f"after {name} was killed")
    assert plane.run() == []
    assert lost(plane, writes) == []
    print(f"{len(writes.acknowledged)} writes acknowledged, {writes.refused} refused")
    clean(plane)


def test_nothing_acknowledged_is_lost_when_the_disk_is_full(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    filler = Path(plane.state_dir).parent / "filler"
    writes = Load()
    try:
        fill(filler)
        with plane.client(timeout=5) as client:
            number = 0
            while writes.write_one(client, f"full-{number}", LARGE):
                number += 1
                assert number * LARGE < DISK_MIB * MIB, "the disk was not full"
        # What a run meets first is chance: its own journal, etcd that ends again and again, or an etcd that can still read.
        with contextlib.suppress(BallastError), monkeypatch.context() as patch:
            patch.setattr(ready, "READY_SECONDS", _FULL_SECONDS)
            plane.run()
    finally:
        filler.unlink()
    plane.run()
    assert plane.run() == []
    assert lost(plane, writes) == []
    clean(plane)


def fill(path: Path) -> None:
    """All that is left of the disk but a little, since the services write logs meanwhile."""
    free = os.statvfs(path.parent)
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - MIB)


def test_damaged_data_is_named_with_the_way_back(plane: Plane, tmp_path: Path) -> None:
    writes, archive = Load(), str(tmp_path / "backup.tar")
    with plane.client() as client:
        assert writes.write_one(client, "backed-up", 10)
    taken = module("control_plane_backup", state_dir=plane.state_dir, path=archive)
    assert taken["changed"], taken
    plane.run(state="stopped")
    try:
        damage(Path(plane.state_dir, "etcd/member/snap/db"))
        error = fault_of(plane)
        print(error)
        assert ids(error) == ["plane-etcd-corrupt"]
        assert "ballast.kube.control_plane_restore" in str(error)
    finally:
        plane.run(state="stopped")
        restored = module("control_plane_restore", state_dir=plane.state_dir, archive=archive, replace=True)
        assert restored["changed"], restored
        plane.run()
    assert lost(plane, writes) == []
    assert plane.run() == []


def damage(path: Path) -> None:
    """Every page of the database but the first, which names its size."""
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\x5a" * (path.stat().st_size - 4096))


@of_separate
def test_a_taken_port_and_a_lost_program_are_named(plane: Plane) -> None:
    name = plane.record.members[-1].component
    program = Path(plane.bin(name))
    target = program.readlink()
    plane.run(state="stopped")
    try:
        with socket.create_server((plane.address, 6443)):
            error = fault_of(plane)
        assert ids(error) == ["plane-port-taken"]
        assert f"process {os.getpid()} (" in str(error)
        program.unlink()
        error = fault_of(plane)
        assert ids(error) == ["plane-binary-missing"]
        assert name in str(error)
        assert all(pid is None for pid in plane.pids().values())
    finally:
        if not program.is_symlink():
            program.symlink_to(target)
        plane.run()
    assert plane.run() == []


class Shifted(LocalHost):
    """A machine whose clock is off by so many days: what it certifies has ended, or has not begun."""

    def __init__(self, days: int) -> None:
        self._seconds = days * 86400

    def now(self) -> float:
        return time.time() + self._seconds


@of_separate
@pytest.mark.parametrize("days", [-400, 400])
def test_certificates_of_another_time_are_made_anew(plane: Plane, days: int) -> None:
    """As after the clock has jumped: forwards, or back after they were made while it was ahead."""
    names = [path for path in plane.record.certificates if not path.endswith("ca.crt")]
    for path in names:
        issuer = plane.pki(next(f"{ca}.crt" for ca in ("etcd-ca", "front-proxy-ca", "ca") if signed(plane, path, ca)))
        target = f"{path} signed by {issuer}"
        CertificateKind().write(
            Context(None, Shifted(days)), target, CertificateKind().read(Context(None, LocalHost()), target), None
        )
    before = plane.pids()
    steps = plane.run()
    assert {step.target.split(" ")[0] for step in steps if step.kind == "certificate"} == set(names)
    assert all(plane.pids()[name] != pid for name, pid in before.items())
    assert plane.ask("/api/v1/namespaces/default").status == 200
    assert plane.run() == []


def signed(plane: Plane, path: str, authority: str) -> bool:
    target = f"{path} signed by {plane.pki(authority)}.crt"
    found = CertificateKind().read(Context(None, LocalHost()), target)
    assert isinstance(found, dict)
    return "not signed by" not in str(found["fault"])
