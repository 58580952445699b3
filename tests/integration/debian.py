# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs of Debian's packages, unpacked and not installed.

To install docker-registry or containerd would start a service of it on this machine, and put a containerd beside the one of
the project.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / ".build/debian"
_SECONDS = 300


def unpacked(package: str) -> Path:
    """The tree of the newest version that apt knows, kept by version."""
    place = CACHE / f"{package}_{_candidate(package)}"
    if not place.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as made:
            _run("apt-get", "--quiet", "download", package, cwd=made)
            (archive,) = Path(made).glob("*.deb")
            _run("dpkg-deb", "--extract", str(archive), f"{made}/tree", cwd=made)
            try:
                os.rename(f"{made}/tree", place)
            except OSError:  # another run was faster
                shutil.rmtree(f"{made}/tree")
    return place


def _candidate(package: str) -> str:
    found = _policy(package)
    if not found:
        _run("apt-get", "--quiet", "update")
        found = _policy(package)
    assert found, f"apt knows no package {package}"
    return found.replace(":", "%3a")


def _policy(package: str) -> str:
    for line in _run("apt-cache", "policy", package).splitlines():
        name, _colon, version = line.strip().partition(": ")
        if name == "Candidate" and version != "(none)":
            return version
    return ""


def _run(*argv: str, cwd: str | None = None) -> str:
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
    return done.stdout
