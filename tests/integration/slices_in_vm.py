# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A slice of systemd whose limits are moved while a process is in it. test_vm.py runs this in a virtual machine, which has no
pytest, with the engines as the package `module_utils`."""

from __future__ import annotations

import os
import time

from module_utils._balloon.resize.slices import SliceLimits
from module_utils._balloon.sizing.resources import MIB, Resources
from module_utils._core.engine.context import Context
from module_utils._core.host.cgroup_paths import cgroup_directories
from module_utils._core.host.local_host import LocalHost
from module_utils._core.service.cgroup import CgroupKind
from module_utils._core.text.errors import HostError

NAME, UNIT = "ballast-slicetest-n1", "ballast-slicetest"
HELD = 64 * MIB
HOST, KIND = LocalHost(), CgroupKind()
LIMITS = SliceLimits(HOST, {"n1": NAME})


def kept(file: str) -> str:
    (directory,) = cgroup_directories(HOST, NAME)
    return (HOST.read(f"{directory}/{file}") or b"").decode().strip()


def main() -> None:
    assert HOST.is_systemd()
    KIND.write(Context(None, HOST), NAME, {"cpu_millis": None, "memory_bytes": None, "pids": 300}, None)
    holds = f"held = b'x' * {HELD}; import time; time.sleep(3600)"
    HOST.run(["systemd-run", f"--slice={NAME}.slice", f"--unit={UNIT}", "python3", "-c", holds], timeout=60)
    while int(kept("memory.current")) < HELD:
        time.sleep(0.1)
    assert LIMITS.read("n1") == LIMITS.most("n1")
    for limit in (Resources(1500, 256 * MIB), Resources(10, 128 * MIB), Resources(1234, 200 * MIB)):
        LIMITS.write("n1", limit)
        assert LIMITS.read("n1") == limit
        assert [kept(file) for file in ("memory.max", "memory.high", "pids.max")] == [str(limit.memory), "max", "300"]
        assert KIND.read(Context(None, HOST), NAME) == {
            "cpu_millis": limit.cpu,
            "memory_bytes": limit.memory,
            "pids": 300,
        }
    told = ""
    try:
        LIMITS.write("n1", Resources(500, HELD // 2))
    except HostError as error:
        told = error.id
    assert told == "balloon-slice-in-use", told
    assert LIMITS.read("n1") == Resources(1234, 200 * MIB)
    HOST.run(["systemctl", "is-active", UNIT], timeout=60)
    HOST.run(["systemctl", "stop", UNIT], timeout=60)
    KIND.remove(Context(None, HOST), NAME, {})
    left = [
        path
        for path in ("/etc/systemd/system", "/run/systemd/system.control")
        if any(NAME in one for one in os.listdir(path))
    ]
    assert not left, left
    print("all held")


main()
