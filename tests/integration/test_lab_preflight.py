# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a lab tries before anything is made, with real filesystems in namespaces that end with the test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._lab.place import find_cache_problems, find_place_problems

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make namespaces")

_TRY = """
import sys
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._lab.place import find_cache_problems, find_place_problems
print(*(problem.id for find in (find_place_problems, find_cache_problems) for problem in find(LocalHost(), sys.argv[1])))
"""
_MOUNTS = {
    "disk": "mount --bind upper mounted",
    "noexec": "mount -t tmpfs -o noexec none mounted",
    "full": "mount -t tmpfs -o size=8k none mounted",
    "read-only": "mount -t tmpfs -o ro none mounted",
    "overlay": "mount -t overlay none -o lowerdir=lower,upperdir=upper,workdir=work mounted",
}


@pytest.mark.parametrize(
    ("mount", "ids"),
    [
        ("disk", ""),
        ("noexec", "lab-dir-noexec lab-cache-noexec"),
        ("overlay", "lab-dir-overlay"),
        ("full", "lab-dir-write"),
        ("read-only", "lab-dir-write"),
    ],
)
def test_a_filesystem_that_holds_no_containers_is_refused_and_nothing_stays(
    tmp_path: Path, mount: str, ids: str
) -> None:
    script = (
        f'cd "$1"; mkdir lower upper work mounted; {_MOUNTS[mount]}; "$2" -c "$3" "$1/mounted/lab, one"; ls -A mounted'
    )
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh", str(tmp_path), sys.executable]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([*argv, _TRY], capture_output=True, text=True, timeout=60, env=env, check=False)
    assert (done.stdout.split(), done.stderr) == (ids.split(), "")


_NAMESPACES = """
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._lab.place import find_namespace_problems
print(*(problem.id for problem in find_namespace_problems(LocalHost())))
"""


@pytest.mark.parametrize(
    ("propagation", "ids"), [("private", ["lab-mount-namespace"]), ("slave", ["lab-mount-namespace"])]
)
def test_a_mount_namespace_from_which_nothing_comes_back_is_refused(propagation: str, ids: list[str]) -> None:
    """A slave's mounts are those of a service with PrivateTmp. The outer namespace stands for PID 1's, in a PID namespace of its own."""
    inner = ["unshare", "--mount", "--propagation", propagation, sys.executable, "-c", _NAMESPACES]
    outer = as_first_process("shared")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for argv, printed in (([*outer, *inner], ids), ([*outer, *inner[4:]], [])):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=env, check=False)
        assert (done.stdout.split(), done.stderr) == (printed, "")


def as_first_process(propagation: str) -> list[str]:
    """What begins a command in a mount namespace that stands for PID 1's, in a PID namespace of its own."""
    options = ["--mount", "--propagation", propagation, "--pid", "--fork", "--mount-proc"]
    return ["unshare", *options, "sh", "-c", '"$@"; exit', "sh"]


def test_a_copy_of_a_mount_namespace_without_shared_mounts_is_refused() -> None:
    """As in a container, where all mounts are private."""
    outer = as_first_process("private")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for inner, printed in ((["unshare", "--mount"], ["lab-mount-namespace"]), ([], [])):
        argv = [*outer, *inner, sys.executable, "-c", _NAMESPACES]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=env, check=False)
        assert (done.stdout.split(), done.stderr) == (printed, "")


def test_a_directory_with_a_blank_and_a_comma_is_no_problem(tmp_path: Path) -> None:
    place = tmp_path / "a, b"
    place.mkdir()
    assert find_place_problems(LocalHost(), str(place)) == []
    assert find_cache_problems(LocalHost(), str(place)) == []
    assert list(place.iterdir()) == []
