# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A benchmark in a virtual machine, for what the kernel of this one does not have: User Mode Linux, built with all that a
node needs, on this machine's files."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.integration import uml

_MEMORY_MIB = 6144
_SECONDS = 3 * 3600
_COLLECTIONS = uml.ROOT / ".build/collections"
# /dev is the machine's own, and has no more than its devices.
_PREPARE = """\
mkdir -p /dev/shm /run/out
mount -t tmpfs shm /dev/shm
ln -s /proc/self/fd /dev/fd
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t hostfs -o {out} out /run/out
export PYTHONPATH={path} ANSIBLE_HOME=/run/ansible
ip link set lo up
"""


def run_in_machine(program: str, words: Sequence[str], place: Path) -> dict[str, Any]:
    """What `python -m PROGRAM WORDS --raw FILE` writes there, when it runs in a machine of its own. Its output is shown."""
    here, out = place / "machine", place / "machine/out"
    out.mkdir(parents=True)
    uml.run(
        [sys.executable, "-m", program, *words, "--raw", "/run/out/found.json"],
        prepare=_PREPARE.format(out=shlex.quote(str(out)), path=shlex.quote(f"{_COLLECTIONS}:{uml.ROOT}")),
        place=here,
        seconds=_SECONDS,
        console=sys.stdout,
        memory_mib=_MEMORY_MIB,
    )
    found = out / "found.json"
    if not found.exists():
        raise RuntimeError(f"{program} failed in the virtual machine")
    result: dict[str, Any] = json.loads(found.read_text(encoding="utf-8"))
    return result
