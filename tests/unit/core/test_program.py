# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._agent import program as module
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from tests.unit.fakes import FakeHost

PATH = "/var/lib/ballast/guard.pyz"
INSIDE = "ansible_collections/ballast/kube/plugins/module_utils"
TOP = Path(module.__file__).parents[1]
# Main function and packages of some that there are.
PROGRAMS = [
    ("_pulls.proxy.main.main", ["_agent", "_core", "_pulls"]),
    ("_kube_proxy.watchdog.main", ["_agent", "_core", "_rules", "_audit", "_kube_proxy"]),
    ("_control_plane.aggregation.agent.main.main", ["_agent", "_core", "_control_plane/aggregation"]),
]


def test_a_file_that_is_no_program_is_written_anew_and_never_put_back() -> None:
    host, kind = FakeHost(), module.ZipappKind()
    host.given(PATH, "half a zip")
    found = kind.read(Context(None, host), PATH)
    assert found == {"packages": [], "main": "", "digest": ""}
    kind.write(Context(None, host), PATH, found, ABSENT)
    assert kind.read(Context(None, host), PATH) == ABSENT


def _changed(name: str, content: bytes) -> Callable[[dict[str, bytes]], None]:
    return lambda files: files.update({name: content})


TAMPERED: dict[str, Callable[[dict[str, bytes]], None]] = {
    "a source": _changed("ballast/_core/engine/kinds.py", b"evil = 1\n"),
    "the start": _changed("__main__.py", b"evil = 1\n"),
    "a package": _changed("ballast/_core/__init__.py", b"evil = 1\n"),
    "a module that shadows": _changed("json.py", b"evil = 1\n"),
    "a package more": _changed("ballast/more/__init__.py", b""),
    "compiled code": _changed("ballast/_core/engine/kinds.pyc", b"evil"),
    "a source that is missing": lambda files: files.pop("ballast/_core/engine/kinds.py") and None,
    "a source more": _changed("ballast/_core/more.py", b"evil = 1\n"),
}


@pytest.mark.parametrize("tamper", TAMPERED.values(), ids=TAMPERED)
def test_a_program_is_known_by_its_content_and_not_by_what_it_says_of_itself(
    tmp_path: Path, tamper: Callable[[dict[str, bytes]], None]
) -> None:
    host, kind, path = LocalHost(), module.ZipappKind(), str(tmp_path / "guard.pyz")
    wanted = module.program(
        path,
        packages=["_agent", "_core", "_rules", "_audit", "_kube_proxy"],
        main="_core.engine.kinds.directory",
        group="",
    ).value
    kind.write(Context(None, host), path, wanted, ABSENT)
    with zipfile.ZipFile(path) as found:
        said, files = found.comment, {name: found.read(name) for name in found.namelist()}
    tamper(files)
    with zipfile.ZipFile(path, "w") as made:
        for name, content in files.items():
            made.writestr(name, content)
        made.comment = said
    assert kind.read(Context(None, host), path) != wanted
    kind.write(Context(None, host), path, wanted, ABSENT)
    assert kind.read(Context(None, host), path) == wanted


def test_a_name_that_is_twice_in_an_archive_is_no_program(tmp_path: Path) -> None:
    host, kind, path = LocalHost(), module.ZipappKind(), str(tmp_path / "guard.pyz")
    wanted = module.program(path, packages=["_agent", "_core"], main="_core.engine.kinds.directory", group="").value
    kind.write(Context(None, host), path, wanted, ABSENT)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as made:
        made.writestr("__main__.py", made.read("__main__.py"))
    assert kind.read(Context(None, host), path) == {"packages": [], "main": "", "digest": ""}


@pytest.mark.parametrize("mode", [0o666, 0o664])
def test_a_program_that_others_may_write_is_made_again(tmp_path: Path, mode: int) -> None:
    host, kind, path = LocalHost(), module.ZipappKind(), str(tmp_path / "guard.pyz")
    wanted = module.program(path, packages=["_agent", "_core"], main="_core.engine.kinds.directory", group="").value
    kind.write(Context(None, host), path, wanted, ABSENT)
    os.chmod(path, mode)
    assert kind.read(Context(None, host), path) != wanted
    kind.write(Context(None, host), path, wanted, ABSENT)
    assert kind.read(Context(None, host), path) == wanted
    os.rename(path, tmp_path / "elsewhere")
    os.symlink("elsewhere", path)
    assert kind.read(Context(None, host), path) != wanted


def test_a_program_holds_what_its_main_function_needs_and_no_more(tmp_path: Path) -> None:
    host, kind, path = LocalHost(), module.ZipappKind(), str(tmp_path / "guard.pyz")
    wanted = module.program(
        path,
        packages=["_agent", "_core", "_rules", "_audit", "_kube_proxy"],
        main="_core.engine.kinds.directory",
        group="",
    ).value
    kind.write(Context(None, host), path, wanted, ABSENT)
    assert kind.read(Context(None, host), path) == wanted
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
    assert {"ballast/_core/__init__.py", "ballast/_core/engine/kinds.py", "ballast/_core/host/host.py"} <= names
    assert {"ballast/_core/engine/journal.py", "ballast/_kube_proxy/__init__.py"} & names == set()
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


def with_imports(paths: Iterable[Path]) -> set[Path]:
    """The modules and all that they import of ours, as Ansible packs them."""
    packed: set[Path] = set()
    left = list(paths)
    while left:
        path = left.pop()
        if path not in packed:
            packed.add(path)
            left += [source for place in places(path) if (source := TOP / f"{place}.py").is_file()]
    return packed


def test_imports_are_found_as_python_finds_them() -> None:
    paths = [path for path in sorted(TOP.rglob("*.py")) if path.stat().st_size]
    assert len(paths) > 100
    for path in paths:
        place = str(path.relative_to(TOP).with_suffix(""))
        assert set(module._find_imports(place, path.read_text(encoding="utf-8"))) == places(path), place


def test_a_part_of_a_package_is_a_program_without_the_rest_of_it(tmp_path: Path) -> None:
    host, path = LocalHost(), str(tmp_path / "part.pyz")
    packages = ["_agent", "_core", "_control_plane/aggregation"]
    wanted = module.program(
        path, packages=packages, main="_control_plane.aggregation.api_services.service_host", group=""
    ).value
    module.ZipappKind().write(Context(None, host), path, wanted, ABSENT)
    assert module.ZipappKind().read(Context(None, host), path) == wanted
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.startswith("ballast/_control_plane/")]
        assert archive.read("ballast/_control_plane/__init__.py") == b""
        assert "ballast/_control_plane/engine.py" not in names
    for python in sorted({sys.executable, shutil.which("python3", path="/usr/bin") or sys.executable}):
        done = subprocess.run([python, "-I", path], timeout=60, check=False, cwd="/", capture_output=True, text=True)
        assert "missing 2 required positional arguments" in done.stderr


@pytest.mark.parametrize(("main", "packages"), PROGRAMS)
@pytest.mark.parametrize("others", [True, False], ids=["all", "few"])
def test_a_program_is_the_same_whatever_lies_beside_its_sources(
    tmp_path: Path, main: str, packages: list[str], others: bool
) -> None:
    """Ansible brings our packages to a node as a zip archive, with those modules that the one at work imports."""
    needed = with_imports([TOP / "_agent/program.py", *(TOP / name for name in module._sources(main, tuple(packages)))])
    archive = tmp_path / "payload.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for path in sorted(TOP.rglob("*.py")):
            if others or path in needed or path.name == "__init__.py":
                opened.write(path, f"{INSIDE}/{path.relative_to(TOP)}")
        for depth in range(1, INSIDE.count("/") + 2):
            opened.writestr(f"{'/'.join(INSIDE.split('/')[:depth])}/__init__.py", "")
    text = (
        f"import sys; sys.path.insert(0, {str(archive)!r}); from {INSIDE.replace('/', '.')}._agent import program as p; "
        f"print(p.__file__, p.sources_digest({main!r}, {packages}))"
    )
    argv = [sys.executable, "-I", "-c", text]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    where, found = done.stdout.split()
    assert where.startswith(str(archive))
    assert found == module.sources_digest(main, packages)
