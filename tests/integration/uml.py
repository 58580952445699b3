# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another kernel for a test: User Mode Linux on the host's own files, which it sees and cannot write, with memory for all that
changes: no image, no disk, no network of the host."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from tests.integration import adhoc

ROOT = Path(__file__).resolve().parents[2]
_BUILD_SECONDS = 3600

_INIT = """\
#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run PYTHONDONTWRITEBYTECODE=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
{prepare}
cd {root}
timeout {seconds} {order}
echo "ended with $?"
echo o > /proc/sysrq-trigger
sleep 60
"""


def kernel() -> list[str]:
    """The command of the kernel that the lab's machines have, built where it is not there yet. Debian's boots on fewer
    processors (docs/virtual-machines.md), and has no nftables for IP."""
    image = adhoc.module("lab_image", seconds=_BUILD_SECONDS, recipe="kernel-uml-built")
    return [str(Path(image["path"]).with_name("linux.uml")), "seccomp=auto"]  # it lies beside its modules


def run_tests(*tests: str, prepare: str, place: Path, seconds: int) -> None:
    """These files of tests, by the same interpreter. `prepare` is shell, run first."""
    order = [sys.executable, "-m", "pytest", "-q", "--color=no", "--tb=short", "-p", "no:cacheprovider", *tests]
    log = place / "console"
    with log.open("w", encoding="utf-8") as console:
        run(order, prepare=prepare, place=place, seconds=seconds, console=console)
    told = log.read_text(encoding="utf-8", errors="replace")
    assert "ended with 0" in told, told[-20000:]
    assert re.search(r"\d+ passed", told)


def run(
    order: Sequence[str],
    *,
    prepare: str,
    place: Path,
    seconds: int,
    console: IO[str],
    memory_mib: int = 768,
) -> None:
    """A command in a machine that ends with it, all of whose output goes to `console`."""
    init = place / "init"
    words = {"prepare": prepare, "root": shlex.quote(str(ROOT)), "seconds": seconds - 60, "order": shlex.join(order)}
    init.write_text(_INIT.format(**words))
    init.chmod(0o755)
    # On one processor: see _bound in _vm/kinds.py.
    argv = ["taskset", "--cpu-list", str(max(os.sched_getaffinity(0))), *kernel()]
    argv += [
        "dummy.numdummies=0",
        "root=/dev/root",
        "rootfstype=hostfs",
        "ro",
        f"mem={memory_mib}M",
        "quiet",
        f"init={init}",
    ]
    argv += [f"umid=ballast-test-{os.getpid()}", f"uml_dir={place}", "con=null", "con0=null,fd:1", "ssl=null"]
    vm = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        vm.wait(timeout=seconds)
    finally:
        if vm.poll() is None:  # its processes are several
            os.killpg(vm.pid, signal.SIGKILL)
            vm.wait()
