# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ast
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
INSIDE = "ansible_collections/ballast/kube/plugins/module_utils"
TOP = Path(module.__file__).parent.parent
# Main function and packages of some that there are.
PROGRAMS = [
    ("_pulls.proxy.main.main", ["_core", "_pulls"]),
    ("_proxy.migration.guard.main", ["_core", "_proxy"]),
    ("_plane.aggregation.agent.main.main", ["_core", "_plane/aggregation"]),
]


def test_a_file_that_is_no_program_is_written_anew_and_never_put_back() -> None:
    host, kind = FakeHost(), module.ZipappKind()
    host.given(PATH, "half a zip")
    found = kind.read(host, PATH)
    assert found == {"packages": [], "main": "", "digest": ""}
    kind.write(host, PATH, found, ABSENT)
    assert kind.read(host, PATH) == ABSENT


def test_a_program_holds_what_its_main_function_needs_and_no_more(tmp_path: Path) -> None:
    host, kind, path = LocalHost(), module.ZipappKind(), str(tmp_path / "guard.pyz")
    wanted = module.program(path, packages=["_core", "_proxy"], main="_core.kinds.directory", group="").value
    kind.write(host, path, wanted, ABSENT)
    assert kind.read(host, path) == wanted
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
    assert {"ballast/_core/__init__.py", "ballast/_core/kinds.py", "ballast/_core/host.py"} <= names
    assert {"ballast/_core/ledger.py", "ballast/_proxy/__init__.py"} & names == set()
    done = subprocess.run(
        [sys.executable, "-I", path], timeout=60, check=False, cwd="/", capture_output=True, text=True
    )
    assert "missing 1 required positional argument" in done.stderr


def places(path: Path) -> set[str]:
    """As Python's own parser finds what a module imports of ours."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            above = [*path.relative_to(TOP).parts[: -node.level], *(node.module or "").split(".")]
            found |= {"/".join(filter(None, [*above, name])) for name in ["", *(alias.name for alias in node.names)]}
    return found


def test_imports_are_found_as_python_finds_them() -> None:
    paths = [path for path in sorted(TOP.rglob("*.py")) if path.stat().st_size]
    assert len(paths) > 100
    for path in paths:
        place = str(path.relative_to(TOP).with_suffix(""))
        assert set(module._imported(place, path.read_text(encoding="utf-8"))) == places(path), place


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


@pytest.mark.parametrize(("main", "packages"), PROGRAMS)
@pytest.mark.parametrize("others", [True, False], ids=["all", "few"])
def test_a_program_is_the_same_whatever_lies_beside_its_sources(
    tmp_path: Path, main: str, packages: list[str], others: bool
) -> None:
    """Ansible brings our packages to a node as a zip archive, with those modules that the one at work imports."""
    needed = {TOP / name for name in module._sources(main, tuple(packages))} | {TOP / "_core/program.py"}
    needed |= {TOP / f"_core/{name}.py" for name in ("errors", "host", "kinds", "local", "plan", "sockets", "web")}
    archive = tmp_path / "payload.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for path in sorted(TOP.rglob("*.py")):
            if others or path in needed or path.name == "__init__.py":
                opened.write(path, f"{INSIDE}/{path.relative_to(TOP)}")
        for depth in range(1, INSIDE.count("/") + 2):
            opened.writestr(f"{'/'.join(INSIDE.split('/')[:depth])}/__init__.py", "")
    text = (
        f"import sys; sys.path.insert(0, {str(archive)!r}); from {INSIDE.replace('/', '.')}._core import program as p; "
        f"print(p.__file__, p.sources_digest({main!r}, {packages}))"
    )
    argv = [sys.executable, "-I", "-c", text]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    where, found = done.stdout.split()
    assert where.startswith(str(archive))
    assert found == module.sources_digest(main, packages)
