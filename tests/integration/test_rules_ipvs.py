# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ipvs rules meet a real kernel: that of a virtual machine, as few hosts have ip_vs, and nobody may load it for a test.

User Mode Linux boots on the host's own files, which it sees and cannot write, with memory for all that changes: no image,
no disk, no network of the host. It runs ipvs_in_vm.py and residue_in_vm.py by the same interpreter and ends.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KERNEL = "linux.uml"  # Debian's package user-mode-linux, which the virtual machines of the lab are made of as well
MODULES = Path("/usr/lib/uml/modules")
SECONDS = 900
NEEDED = (
    "ip_vs",
    "ip_vs_rr",
    "ip_vs_sh",
    "ip_vs_wlc",
    "ip_set",
    "xt_set",
    "xt_ipvs",
    "dummy",
    "veth",
    "bridge",
    "br_netfilter",
    "sctp",
)

INIT = """\
#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run PYTHONDONTWRITEBYTECODE=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
mkdir -p /run/modules/lib/modules
ln -s {modules}/$(uname -r) /run/modules/lib/modules/
printf '#!/bin/sh\\nexec /sbin/modprobe -d /run/modules "$@"\\n' > /run/modprobe
chmod +x /run/modprobe
echo /run/modprobe > /proc/sys/kernel/modprobe
/run/modprobe -a {needed}
ip link set lo up
cd {root}
timeout {seconds} {python} -m pytest -q --color=no --tb=short -p no:cacheprovider tests/integration/ipvs_in_vm.py tests/integration/residue_in_vm.py
echo "pytest ended with $?"
echo o > /proc/sysrq-trigger
sleep 60
"""

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(
        shutil.which(KERNEL) is None or not MODULES.is_dir(), reason="the kernel of User Mode Linux is not installed"
    ),
]


def test_ipvs_in_a_virtual_machine(tmp_path: Path) -> None:
    init = tmp_path / "init"
    words = {"modules": MODULES, "needed": " ".join(NEEDED), "root": shlex.quote(str(ROOT)), "seconds": SECONDS - 60}
    init.write_text(INIT.format(**words, python=shlex.quote(sys.executable)))
    init.chmod(0o755)
    argv = [KERNEL, "root=/dev/root", "rootfstype=hostfs", "ro", "mem=768M", "quiet", f"init={init}"]
    argv += [f"umid=ballast-test-{os.getpid()}", f"uml_dir={tmp_path}", "con=null", "con0=null,fd:1", "ssl=null"]
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
        console, _errors = vm.communicate(timeout=SECONDS)
    finally:
        if vm.poll() is None:  # its processes are several
            os.killpg(vm.pid, signal.SIGKILL)
            vm.communicate()
    assert "pytest ended with 0" in console, console[-20000:]
    assert re.search(r"\d+ passed", console)
