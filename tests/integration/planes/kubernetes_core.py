# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The collection kubernetes.core, which nobody here wrote, taken from the package that carries it on PyPI."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from tests.integration.plane_lab import ROOT

# The release of this package for the ansible-core that the tests run with. 54 MB, of which 1 MB is kept.
_PACKAGE = "ansible==12.3.0 --hash=sha256:cd156f82fa87f7a899212b0efa9f7ca3a24d609212de9f78428a572eb01e5414"
_PART = "ansible_collections/kubernetes/core/"
_PLACE = ROOT / ".build/kubernetes.core-12.3.0"


def collections() -> Path:
    """A directory for ANSIBLE_COLLECTIONS_PATH."""
    if not (_PLACE / _PART / "MANIFEST.json").exists():
        with tempfile.TemporaryDirectory() as place:
            _unpack(_download(Path(place)))
    return _PLACE


def _download(place: Path) -> Path:
    wanted = place / "requirements.txt"
    wanted.write_text(f"{_PACKAGE}\n", encoding="utf-8")
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run(
        [*argv, "--require-hashes", "-r", str(wanted), "-d", str(place)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"the package that carries kubernetes.core cannot be had: {done.stderr[-300:]}")
    (wheel,) = place.glob("*.whl")
    return wheel


def _unpack(wheel: Path) -> None:
    """The manifest last: where it is, everything is."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(_PART)]
        for name in sorted(names, key=lambda name: name.endswith("/MANIFEST.json")):
            archive.extract(name, _PLACE)
