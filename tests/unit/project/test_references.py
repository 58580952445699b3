# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What tests of real parts, benchmarks and scenarios name of the engines is there: they run too seldom to find that out."""

from __future__ import annotations

import ast
import importlib
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
COLLECTION = "ansible_collections.ballast.kube."
MISSING = object()
IN_A_GUEST = "module_utils."  # of an archive that is brought into a virtual machine
FILES = sorted(
    path
    for place in ("tests/integration", "tests/bench", "molecule", "scripts")
    for path in (ROOT / place).rglob("*.py")
)


def imports(tree: ast.AST) -> Iterator[tuple[str, ast.alias]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = f"{COLLECTION}plugins.{node.module}" if node.module.startswith(IN_A_GUEST) else node.module
            if module.startswith(COLLECTION):
                yield from ((module, alias) for alias in node.names)


def find(module: str, name: str) -> object:
    """The object of that name in a module, or the module of that name in a package; MISSING where there is neither."""
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError:
        return MISSING
    except AttributeError:
        try:
            return importlib.import_module(f"{module}.{name}")
        except ImportError:
            return MISSING


def missing(text: str) -> list[str]:
    tree = ast.parse(text)
    known = {alias.asname or alias.name: find(module, alias.name) for module, alias in imports(tree)}
    lost = [f"{module}.{alias.name}" for module, alias in imports(tree) if find(module, alias.name) is MISSING]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = known.get(node.value.id)
            if isinstance(owner, types.ModuleType) and not hasattr(owner, node.attr):
                lost.append(f"{node.lineno}: {node.value.id}.{node.attr}")
    return lost


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_it_names_of_the_engines_is_there(path: Path) -> None:
    assert missing(path.read_text(encoding="utf-8")) == []


def test_what_is_not_there_is_found() -> None:
    text = f"from {COLLECTION}plugins.module_utils._core.host import names, nothing\nnames.MARK\nnames.nothing"
    assert missing(text) == [f"{COLLECTION}plugins.module_utils._core.host.nothing", "3: names.nothing"]
    assert missing("from module_utils._core.host.nowhere import x") == [
        f"{COLLECTION}plugins.module_utils._core.host.nowhere.x"
    ]
