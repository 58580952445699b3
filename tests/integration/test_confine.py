# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program that is confined: what it sees, what it may, how it ends. And QEMU as a machine's command starts it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._vm.confine import Confinement, confine, own_uid
from ansible_collections.ballast.kube.plugins.module_utils._vm.confinement import confinement_of
from ansible_collections.ballast.kube.plugins.module_utils._vm.engines import (
    ENGINES,
    Kernel,
    Machine,
    command,
    files_of,
)
from tests.integration import hostile, journal

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

BUSYBOX = "/bin/busybox"  # static, so it needs no other file
UID = own_uid("test")


def run(*words: str, **other: Any) -> subprocess.CompletedProcess[str]:
    confinement = Confinement(**{"program": BUSYBOX, "uid": UID, "reads": (BUSYBOX,), **other})
    argv = confine(["busybox", *words], confinement, wait=True)
    return subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False)


def test_it_sees_its_own_files_and_no_other(tmp_path: Path) -> None:
    given, kept, neighbour = tmp_path / "given", tmp_path / "kept", tmp_path / "neighbour"
    for path in (given, kept, neighbour):
        path.write_text("text\n")
    os.chown(kept, UID, UID)
    seen = run("find", "/", "-type", "f", reads=(BUSYBOX, str(given)), writes=(str(kept),)).stdout.splitlines()
    assert sorted(seen) == sorted([BUSYBOX, str(given), str(kept)])
    script = f"{BUSYBOX} cat {given}; echo more >>{kept}; echo more >>{given}; echo more >/x; {BUSYBOX} cat {neighbour} /proc/self/status"
    done = run("sh", "-c", script, reads=(BUSYBOX, str(given)), writes=(str(kept),))
    assert done.stdout == "text\n"
    assert (given.read_text(), kept.read_text()) == ("text\n", "text\nmore\n")


def test_it_is_its_user_with_no_privilege_and_no_link() -> None:
    done = run("id")
    assert done.stdout.split() == [f"uid={UID}", f"gid={UID}"]
    status = run("cat", "/proc/self/status", reads=(BUSYBOX, "/proc")).stdout
    rows = dict(row.split(":", 1) for row in status.splitlines())
    assert {int(rows[f"Cap{name}"], 16) for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
    assert rows["NoNewPrivs"].strip() == "1"
    assert rows["Groups"].split() == []
    assert run("ip", "route").stdout == ""
    links = run("ip", "link").stdout
    assert ("lo:" in links, ",UP" in links) == (True, False)
    assert run("env").stdout.splitlines() == ["LC_ALL=C"]


def test_it_has_no_descriptor_of_the_one_who_started_it(tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        seen = run("ls", "-l", "/proc/self/fd", reads=(BUSYBOX, "/proc")).stdout
    assert "secret" not in seen


def test_a_device_is_a_node_of_its_own() -> None:
    done = run("sh", "-c", f"echo lost >/dev/null && {BUSYBOX} ls -ln /dev", devices=("/dev/null",))
    assert [row.split()[0] for row in done.stdout.splitlines()] == ["total", "crw-------"]
    assert done.stdout.split()[4] == str(UID)


def link_to(path: Path, place: Path) -> None:
    place.symlink_to(path)


def second_name(path: Path, place: Path) -> None:
    os.chown(path, UID, UID)
    place.hardlink_to(path)


def of_another(path: Path, place: Path) -> None:
    place.write_text("of root")


def fifo(path: Path, place: Path) -> None:
    os.mkfifo(place)
    os.chown(place, UID, UID)


@pytest.mark.parametrize("make", [link_to, second_name, of_another, fifo])
def test_what_it_may_write_is_its_own_file(tmp_path: Path, make: Callable[[Path, Path], None]) -> None:
    secret, place = tmp_path / "secret", tmp_path / "disk"
    secret.write_text("kept")
    make(secret, place)
    done = run("sh", "-c", f"echo changed >{place}", writes=(str(place),))
    assert done.returncode == 1
    assert "is no file of user" in done.stderr
    assert secret.read_text() == "kept"


def test_it_ends_with_its_status_and_all_that_it_began() -> None:
    assert run("sh", "-c", "exit 7").returncode == 7
    assert run("sh", "-c", "kill -9 $$").returncode == 128 + signal.SIGKILL
    begun = time.monotonic()
    done = run("sh", "-c", f"{BUSYBOX} sleep 4711 & exec {BUSYBOX} sleep 0.2")
    assert done.returncode == 0
    assert time.monotonic() - begun < 30
    assert "sleep 4711" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


def test_what_cannot_be_confined_is_not_started(tmp_path: Path) -> None:
    done = run("true", reads=(BUSYBOX, str(tmp_path / "missing")))
    assert done.returncode == 1
    assert "cannot confine" in done.stderr
    done = run("true", program="/bin/missing")
    assert (done.returncode, "No such file" in done.stderr) == (1, True)
    done = run("true", tap="ballast-none")
    assert "no tap device ballast-none" in done.stderr
    assert not Path("/sys/class/net/ballast-none").exists()


@pytest.fixture
def tap() -> Iterator[str]:
    """As an earlier release made it: without an owner."""
    name = "ballast-tapt"
    with journal.tap(name):
        yield name


def test_qemu_is_confined_and_only_root_speaks_to_it(tmp_path: Path, tap: str) -> None:
    host, engine = LocalHost(), ENGINES["tcg"]
    if host.which(engine.program) is None:
        pytest.skip(f"{engine.program} is not on this machine")
    image, modules = tmp_path / "root.img", tmp_path / "modules.img"
    for path in (image, modules, tmp_path / "seed"):
        path.write_bytes(bytes(2**20))
    machine = Machine("vm1", str(tmp_path), tap, "10.97.249.2/24", "", 128, 1, str(image))
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(image), machine.disk], check=True, timeout=30
    )
    os.chmod(machine.disk, 0o600)
    os.chown(machine.disk, machine.uid, machine.uid)
    words = command(engine, machine, Kernel(modules=str(modules)))
    at = words.index("-kernel")
    assert words[at + 2] == "-initrd"
    assert words[at + 4] == "-append"
    argv = [*words[:at], *words[at + 6 :], "-S"]  # it needs no kernel, since it does not run
    wanted = {
        "uid": machine.uid,
        "tap": tap,
        "files": list(files_of(machine, Kernel(modules=str(modules)))),
        "memory_mib": 128,
    }
    started = confine(argv, confinement_of(host, engine, str(tmp_path), wanted, program=argv[0]))
    log = tmp_path / "console.log"
    with log.open("wb") as console:
        done = subprocess.run(
            started, stdin=subprocess.DEVNULL, stdout=console, stderr=console, timeout=60, check=False
        )
    assert done.returncode == 0, log.read_text()
    pid = next(
        int(place.name)
        for place in Path("/proc").iterdir()
        if place.name.isdigit() and str(machine.disk).encode() in cmdline(place) and b"-S\0" in cmdline(place)
    )
    try:
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(30)
            monitor.connect(f"{tmp_path}/qmp.sock")
            assert "QMP" in json.loads(monitor.recv(4096))
        rows = dict(row.split(":", 1) for row in Path(f"/proc/{pid}/status").read_text().splitlines())
        assert rows["Uid"].split() == [str(machine.uid)] * 4
        assert rows["Seccomp"].strip() == "2"
        assert int(rows["CapBnd"], 16) == 0
        assert os.getsid(pid) == pid
        tmp_path.chmod(0o755)  # the socket is closed to others even where its directory is open
        for parent in tmp_path.parents[:2]:
            parent.chmod(0o755)
        with hostile.attacker() as mallory:
            speak = f"import socket; socket.socket(socket.AF_UNIX).connect('{tmp_path}/qmp.sock')"
            assert "Permission denied" in mallory.run(["/usr/bin/python3", "-c", speak]).stderr
            assert mallory.run(["cat", machine.disk]).returncode != 0
    finally:
        os.kill(pid, signal.SIGKILL)
    assert Path(f"/sys/class/net/{tap}/owner").read_text().strip() == "0"


def cmdline(place: Path) -> bytes:
    try:
        return (place / "cmdline").read_bytes() + b"\0"
    except OSError:
        return b""
