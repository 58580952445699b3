# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core import program as module
from ansible_collections.ballast.kube.plugins.module_utils._core.host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.plan import ABSENT
from tests.unit.fakes import FakeHost

PATH = "/var/lib/ballast/guard.pyz"


def test_a_file_that_is_no_program_is_written_anew_and_never_put_back() -> None:
    host, kind = FakeHost(), module.ZipappKind()
    host.given(PATH, "half a zip")
    found = kind.read(host, PATH)
    assert found == {"packages": [], "main": "", "digest": ""}
    kind.write(host, PATH, found, ABSENT)
    assert kind.read(host, PATH) == ABSENT


def test_what_is_below_a_package_is_in_the_program(tmp_path: Path) -> None:
    host, kind, path = LocalHost(), module.ZipappKind(), str(tmp_path / "guard.pyz")
    wanted = module.program(path, packages=["_core", "_proxy"], main="_core.names.joined", group="").value
    kind.write(host, path, wanted, ABSENT)
    assert kind.read(host, path) == wanted
    with zipfile.ZipFile(path) as archive:
        assert {"ballast/_core/host.py", "ballast/_proxy/nftables/compile.py"} <= set(archive.namelist())
    subprocess.run([sys.executable, "-I", path], timeout=60, check=True, cwd="/")


def test_a_part_of_a_package_is_a_program_without_the_rest_of_it(tmp_path: Path) -> None:
    host, path = LocalHost(), str(tmp_path / "part.pyz")
    packages = ["_core", "_plane/aggregation"]
    wanted = module.program(
        path, packages=packages, main="_plane.aggregation.api_services.service_host", group=""
    ).value
    module.ZipappKind().write(host, path, wanted, ABSENT)
    assert module.ZipappKind().read(host, path) == wanted
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.startswith("ballast/_plane/")]
        assert archive.read("ballast/_plane/__init__.py") == b""
        assert "ballast/_plane/engine.py" not in names
    for python in sorted({sys.executable, shutil.which("python3", path="/usr/bin") or sys.executable}):
        done = subprocess.run([python, "-I", path], timeout=60, check=False, cwd="/", capture_output=True, text=True)
        assert "missing 2 required positional arguments" in done.stderr


@pytest.mark.parametrize("packages", [["_core", "_proxy"], ["_core", "_plane/aggregation"]])
def test_the_sources_are_the_same_from_a_directory_and_from_an_archive(tmp_path: Path, packages: list[str]) -> None:
    """Ansible brings the package to a node as a zip archive."""
    inside = "ansible_collections/ballast/kube/plugins/module_utils"
    top = Path(module.__file__).parent.parent
    archive = tmp_path / "payload.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for path in sorted(top.glob("**/*.py")):
            opened.write(path, f"{inside}/{path.relative_to(top)}")
        for depth in range(1, inside.count("/") + 2):
            opened.writestr(f"{'/'.join(inside.split('/')[:depth])}/__init__.py", "")
    text = (
        f"import sys; sys.path.insert(0, {str(archive)!r}); "
        f"from {inside.replace('/', '.')}._core import program as p; print(p.__file__, p.sources_digest({packages}))"
    )
    argv = [sys.executable, "-I", "-c", text]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    where, found = done.stdout.split()
    assert where.startswith(str(archive))
    assert found == module.sources_digest(packages)
