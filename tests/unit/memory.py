# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How much memory something takes at its peak: in a process of its own, above what it has before it begins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MIB = 2**20
_ROOT = Path(__file__).resolve().parents[2]
_MEASURED = """
import resource, sys
{prepare}
def peak():
    with open("/proc/self/status") as rows:
        return next(int(row.split()[1]) for row in rows if row.startswith("VmHWM:")) * 1024
before = peak()
try:
    {act}
    said = "done"
except Exception as error:
    said = getattr(error, "id", None) or type(error).__name__
print(said, peak() - before)
"""


def measured(prepare: str, act: str, *arguments: str, seconds: float = 60) -> tuple[str, int]:
    """The id of the error that `act`, one line, ends with, or "done"; and bytes. `arguments` are in `sys.argv`."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED.format(prepare=prepare, act=act), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT / ".build/collections"), *sys.path])},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=True,
    )
    said, size = done.stdout.split()
    return said, int(size)
