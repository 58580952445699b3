# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is done to the pull proxy of this machine and to what it needs, so that it fails in one of its known ways while the block
lasts."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._pulls.deployment.installation import RUNNING
from tests.integration.cri import images, pull_request
from tests.integration.kube_proxy import eventually

LONG = 0.2  # seconds of a wait, in the place of ten minutes
_CONNECTIONS = 300  # so many that the few others, which come and go, do not matter
_SECONDS = 60


@contextmanager
def nearly_out_of_files(pid: int, path: str) -> Iterator[None]:
    """By connections to it, with as many files as it may still open as who asks it takes."""
    files, limits = Path(f"/proc/{pid}/fd"), resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with ExitStack() as connections:
        for _number in range(_CONNECTIONS):
            one = connections.enter_context(socket.socket(socket.AF_UNIX))
            one.connect(path)
        assert eventually(lambda: len(list(files.iterdir())) > _CONNECTIONS, seconds=_SECONDS)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(list(files.iterdir())) + 4, limits[1]))
        try:
            yield
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


@contextmanager
def a_pull_that_waits(path: str) -> Iterator[None]:
    """At the proxy, behind as many as it lets through."""
    with images(path) as client:
        pulls = [client.pulling(pull_request(f"127.0.0.1:9/{name}:1")) for name in "abcd"]
        assert eventually(lambda: _longest_wait() > LONG, seconds=_SECONDS)
        yield
        for pull in pulls:
            pull.cancel()


@contextmanager
def without_packages(inside: Sequence[str], place: Path) -> Iterator[None]:
    """Of Debian's Python, for what `inside` runs in a mount namespace of its own, with which this goes too."""
    packages, empty = "/usr/lib/python3/dist-packages", place / "packages"
    empty.mkdir()
    subprocess.run([*inside, "mount", "--bind", str(empty), packages], check=True, timeout=60)
    try:
        yield
    finally:
        subprocess.run([*inside, "umount", packages], check=True, timeout=60)


@contextmanager
def standing_still(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _longest_wait() -> float:
    return max((row["seconds"] for row in (RUNNING.status(LocalHost()) or {}).get("queued", [])), default=0.0)
