# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another kernel for a test: User Mode Linux on the host's own files, which it sees and cannot write, with memory for all that
changes: no image, no disk, no network of the host."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_KERNEL = "linux.uml"  # Debian's package user-mode-linux, which the virtual machines of the lab are made of as well

_INIT = """\
#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run PYTHONDONTWRITEBYTECODE=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
{prepare}
cd {root}
timeout {seconds} {python} -m pytest -q --color=no --tb=short -p no:cacheprovider {tests}
echo "pytest ended with $?"
echo o > /proc/sysrq-trigger
sleep 60
"""


def is_there() -> bool:
    return shutil.which(_KERNEL) is not None


def run_tests(*tests: str, prepare: str, place: Path, seconds: int) -> None:
    """These files of tests, by the same interpreter, in a machine that ends with them. `prepare` is shell, run first."""
    init = place / "init"
    words = {"prepare": prepare, "root": shlex.quote(str(ROOT)), "seconds": seconds - 60, "tests": " ".join(tests)}
    init.write_text(_INIT.format(**words, python=shlex.quote(sys.executable)))
    init.chmod(0o755)
    # On one processor: see _bound in _vm/kinds.py.
    argv = ["taskset", "--cpu-list", str(max(os.sched_getaffinity(0))), _KERNEL]
    argv += ["root=/dev/root", "rootfstype=hostfs", "ro", "mem=768M", "quiet", f"init={init}"]
    argv += [f"umid=ballast-test-{os.getpid()}", f"uml_dir={place}", "con=null", "con0=null,fd:1", "ssl=null"]
    vm = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        console, _errors = vm.communicate(timeout=seconds)
    finally:
        if vm.poll() is None:  # its processes are several
            os.killpg(vm.pid, signal.SIGKILL)
            vm.communicate()
    assert "pytest ended with 0" in console, console[-20000:]
    assert re.search(r"\d+ passed", console)
