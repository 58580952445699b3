# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of the engines say what they hold, and functions what they do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.redaction import redact
from scripts.error_pages import tables

ROOT = Path(__file__).resolve().parents[3]
UTILS = ROOT / "plugins/module_utils"
FILES = sorted(UTILS.rglob("*.py"))
VAGUE = {"one", "found", "told", "asked", "wanted"}
# Terms of the contract: the resources that should be, and what was found instead, of an error and in results.
OF_CONTRACT = {
    "_agent/identity.py": {"found"},
    "_core/engine/engine.py": {"wanted"},
    "_core/engine/plan.py": {"wanted"},
    "_core/host/local_files.py": {"found"},
    "_core/text/errors.py": {"found"},
    "_audit/findings.py": {"found"},
    "_audit/messages.py": {"found"},
    "_control_plane/info/drift.py": {"found", "wanted"},
    "_kube_proxy/preflight/rule.py": {"found"},
}
PARTICIPLE = re.compile(
    r"_*([a-z]{2,}ed|told|left|held|kept|made|sent|found|said|known|seen|given|taken|written|shown|hidden|chosen|broken)"
)
# Other words, the kinds of events, the method of the contract, and a quantity.
NO_PARTICIPLES = {"embed", "feed", "need", "seed", "shed", "speed", "started", "failed", "wanted", "unreserved"}


def bound(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Names that are assigned, of parameters, fields and functions, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name.lower(), node.lineno


def functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Functions and methods that are called as such: a property is a value."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not any(
            "property" in ast.unparse(decorator) for decorator in node.decorator_list
        ):
            yield node.name, node.lineno


def vague(tree: ast.AST, allowed: set[str]) -> list[str]:
    return [f"{line}: {name}" for name, line in bound(tree) if name.lstrip("_") in VAGUE - allowed]


def participles(tree: ast.AST) -> list[str]:
    return [
        f"{line}: {name}" for name, line in functions(tree) if PARTICIPLE.fullmatch(name) and name not in NO_PARTICIPLES
    ]


@pytest.fixture(scope="module")
def trees() -> dict[str, tuple[str, ast.AST]]:
    """Text and syntax of each file of the engines."""
    texts = {str(path.relative_to(UTILS)): path.read_text(encoding="utf-8") for path in FILES}
    return {name: (text, ast.parse(text)) for name, text in texts.items()}


def test_a_name_says_what_it_holds(trees: dict[str, tuple[str, ast.AST]]) -> None:
    refused = {}
    for name, (text, tree) in trees.items():
        of_engines = {"wanted"} if "def wanted(self, ctx" in text else set()
        refused[name] = vague(tree, OF_CONTRACT.get(name, set()) | of_engines)
    assert {name: lines for name, lines in refused.items() if lines} == {}


def test_a_function_says_what_it_does(trees: dict[str, tuple[str, ast.AST]]) -> None:
    refused = {name: participles(tree) for name, (_text, tree) in trees.items()}
    assert {name: lines for name, lines in refused.items() if lines} == {}


def test_what_the_checks_refuse() -> None:
    assert vague(ast.parse("for one in rows:\n    found = one"), set()) == ["1: one", "2: found"]
    assert vague(ast.parse("def f(asked): return [told for told in asked]"), set()) == ["1: asked", "1: told"]
    assert vague(ast.parse("wanted = 1"), {"wanted"}) == []
    functions = "def listed(): ...\ndef _told(): ...\ndef is_listed(): ...\ndef feed(): ..."
    assert participles(ast.parse(functions)) == ["1: listed", "2: _told"]


def test_no_message_reads_as_a_secret() -> None:
    """What a module prints passes the redactor, which takes the word behind `key:` for one."""
    rows = [row for table in tables() for row in table.rows.values()]
    assert rows
    assert [text for row in rows for text in (row.text, row.remedy) if redact(text) != text] == []
