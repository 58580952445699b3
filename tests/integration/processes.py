# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Servers that a test starts: they end with the block, and with the test's process where that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import NOTHING

ROOT = Path(__file__).resolve().parents[2]
IMPORTS = {
    "PYTHONPATH": os.pathsep.join([str(ROOT / ".build/collections"), str(ROOT)])
}  # of a module of tests, run by itself
_END_SECONDS = 60
_DIES_WITH_ITS_PARENT = ("setpriv", "--pdeathsig", "KILL")


def started(argv: Sequence[str], log: Path, *, env: Mapping[str, str] = NOTHING) -> subprocess.Popen[bytes]:
    """Its output is added to `log`; `env` to the environment."""
    argv, env = [*_DIES_WITH_ITS_PARENT, *argv], {**os.environ, **env}
    with log.open("ab") as output:
        return subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)


def ended(process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> int:
    """Its exit status. It is killed where the signal does not end it in a minute."""
    process.send_signal(number)
    try:
        return process.wait(timeout=_END_SECONDS)
    finally:
        process.kill()
        process.wait()


@contextmanager
def running(argv: Sequence[str], log: Path, *, env: Mapping[str, str] = NOTHING) -> Iterator[subprocess.Popen[bytes]]:
    process = started(argv, log, env=env)
    try:
        yield process
    finally:
        ended(process)
