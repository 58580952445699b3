# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ipvs rules meet a real kernel: that of a virtual machine, as few hosts have ip_vs, and nobody may load it for a test.

It runs ipvs_in_vm.py and residue_in_vm.py and ends.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration import uml

MODULES = Path("/usr/lib/uml/modules")
TESTS = ("tests/integration/ipvs_in_vm.py", "tests/integration/residue_in_vm.py")
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

PREPARE = """\
mkdir -p /run/modules/lib/modules
ln -s {modules}/$(uname -r) /run/modules/lib/modules/
printf '#!/bin/sh\\nexec /sbin/modprobe -d /run/modules "$@"\\n' > /run/modprobe
chmod +x /run/modprobe
echo /run/modprobe > /proc/sys/kernel/modprobe
/run/modprobe -a {needed}
ip link set lo up
"""

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(
        not uml.is_there() or not MODULES.is_dir(), reason="the kernel of User Mode Linux is not installed"
    ),
]


def test_ipvs_in_a_virtual_machine(tmp_path: Path) -> None:
    prepare = PREPARE.format(modules=MODULES, needed=" ".join(NEEDED))
    uml.run_tests(*TESTS, prepare=prepare, place=tmp_path, seconds=SECONDS)
