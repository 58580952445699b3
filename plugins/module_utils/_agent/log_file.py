# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file to which a supervisor appends a program's output. The program itself limits its size.

So it needs no timer or other program, and works the same under systemd and runit. LOG is the newest file, LOG.1 the previous
one.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from .._core.host.file_replacement import set_aside
from .._core.text.errors import HostError

BYTES = 16 * 1024 * 1024  # of each of the two
_OUTPUTS = (1, 2)
_MODE = 0o640


def bound_output() -> None:
    """Call before each line is written."""
    with suppress(OSError):
        status = os.fstat(2)
        if not stat.S_ISREG(status.st_mode) or status.st_size < BYTES:
            return
        try:
            made = set_aside(os.readlink("/proc/self/fd/2"), status, mode=_MODE)
        except (
            OSError,
            HostError,
        ):  # a full disk, or a directory that is not writable: lines are lost, but the disk does not fill up
            os.ftruncate(2, 0)
            return
        for number in _OUTPUTS:
            if os.path.samestat(os.fstat(number), status):
                os.dup2(made, number)
        os.close(made)
