# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the filesystem of a lab's directory can hold what nodes keep there: root filesystems of containers, and programs.

containerd mounts an overlay for each container, which no overlay can be the upper layer of, as in a container without a volume;
and a filesystem that is mounted noexec starts no program. Both are tried, in a mount namespace that ends with the trial.
"""

from __future__ import annotations

import os

from .._core.host.host import Host
from .._core.text.errors import BallastError
from .messages import MESSAGES

_SECONDS = 30
# Its argument is a directory, which is empty again when it ends. Paths are relative: a comma would end an option of a mount.
_BEGIN = """
set -e
cd "$(mktemp -d "$1/.ballast-preflight-XXXXXX")"
trap 'umount merged 2>/dev/null || :; rm -rf "$PWD"' EXIT
mkdir lower upper work merged
"""


_OVERLAY = "mount -t overlay ballast -o lowerdir=lower,upperdir=upper,workdir=work merged"
_PROGRAM = "cp /bin/true program && ./program"


def find_place_problems(host: Host, directory: str) -> list[BallastError]:
    """`directory` need not exist yet: its nearest parent is on the same filesystem then."""
    while directory != "/" and host.stat(directory) is None:
        directory = os.path.dirname(directory)
    problems = []
    overlay, program = (_try(host, directory, script) for script in (_OVERLAY, _PROGRAM))
    if overlay:
        problems.append(MESSAGES.error("lab-dir-overlay", directory=directory, found=overlay))
    if program:
        problems.append(MESSAGES.error("lab-dir-noexec", directory=directory, found=program))
    return problems


def _try(host: Host, directory: str, script: str) -> str:
    """What the shell says where the script fails, else empty."""
    argv = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", _BEGIN + script, "sh", directory]
    done = host.run(argv, timeout=_SECONDS, check=False)
    return "" if done.status == 0 else (done.stderr.strip().splitlines() or [f"status {done.status}"])[0]
