# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A standalone program: it starts a daemon with fixed process attributes, prints `PID STAT-LINE`, and exits.

A daemon outlives the shell that started the run, and all its children inherit its attributes. If it inherited those of the
shell, a small `ulimit -n`, a `nice`, a `taskset` or an `oom_score_adj` would apply to a whole cluster. The values are those
that systemd gives a service, see systemd.exec(5). If the kernel refuses a value, as in a container without CAP_SYS_RESOURCE,
the nearest allowed one is used.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

_UNLIMITED = resource.RLIM_INFINITY
_CPUS = 8192  # the kernel reduces this to the CPUs that the cgroup allows
_FREE = (
    *(resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC),
    resource.RLIMIT_SIGPENDING,
)
_LIMITS = {  # (soft, hard)
    **dict.fromkeys(_FREE, (_UNLIMITED, _UNLIMITED)),
    resource.RLIMIT_CORE: (0, _UNLIMITED),
    resource.RLIMIT_MEMLOCK: (8 * 2**20, 8 * 2**20),
    resource.RLIMIT_MSGQUEUE: (819200, 819200),
    resource.RLIMIT_NOFILE: (1024, 2**20),
    resource.RLIMIT_STACK: (8 * 2**20, _UNLIMITED),
}


def set_attributes() -> None:
    os.umask(0o022)
    for number in signal.valid_signals():  # children inherit ignored signals (nohup) and blocked ones
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for limit, (soft, hard) in _LIMITS.items():
        _limit(limit, soft, hard)
    ctypes.CDLL(None).personality(0)  # undo setarch(8), with which programs would report another architecture
    with suppress(OSError):  # the policy first: niceness applies to SCHED_OTHER only
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    with suppress(OSError):
        os.sched_setaffinity(0, range(_CPUS))
    with suppress(OSError):
        os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"0")
    ionice = shutil.which("ionice")
    if ionice is not None:  # libc has no wrapper for ioprio_set(2)
        subprocess.run([ionice, "--ignore", "--class", "0", "--pid", str(os.getpid())], check=False)


def _limit(number: int, soft: int, hard: int) -> None:
    try:
        resource.setrlimit(number, (soft, hard))
    except (OSError, ValueError):  # only root of the initial user namespace may raise a hard limit
        allowed = resource.getrlimit(number)[1]
        with suppress(OSError, ValueError):
            resource.setrlimit(number, (allowed if soft == _UNLIMITED else min(soft, allowed), allowed))


if __name__ == "__main__":
    set_attributes()
    nothing, output = subprocess.DEVNULL, sys.stderr.fileno()
    daemon = subprocess.Popen(sys.argv[1:], stdin=nothing, stdout=output, stderr=output, start_new_session=True)
    with open(f"/proc/{daemon.pid}/stat", "rb") as file:
        sys.stdout.buffer.write(b"%d %s" % (daemon.pid, file.read()))
