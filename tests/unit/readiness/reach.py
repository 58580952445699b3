"""What a test names: the texts in it and in all of its own file that it uses, fixtures too. A constant of the collection
counts as its value."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

COLLECTION = "ansible_collections.ballast.kube."
OF_FEATURES = "answers"  # the end of the names of modules that have the ids of failure modes

Imported = dict[str, tuple[str, str]]  # by the name in the file: the module, and the name in it


def named_by(path: Path, test: str) -> set[str]:
    """`test` is the name of a function of the file; nothing where it is not there."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parts, imported = dict(_parts(tree)), dict(_imported(tree))
    found: set[str] = set()
    seen, left = set(), [test]
    while left:
        name = left.pop()
        if name in seen or name not in parts:
            continue
        seen.add(name)
        for node in ast.walk(parts[name]):
            left += [word for word in (_word(node),) if word]
            found |= _texts(node, imported)
    return found


def _parts(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Functions, classes and constants."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, node
        elif isinstance(node, ast.Assign):
            yield from ((target.id, node) for target in node.targets if isinstance(target, ast.Name))


def _imported(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(COLLECTION):
            yield from ((alias.asname or alias.name, (str(node.module), alias.name)) for alias in node.names)


def _word(node: ast.AST) -> str:
    """A name that is used. That of an argument may be a fixture's."""
    return node.id if isinstance(node, ast.Name) else node.arg if isinstance(node, ast.arg) else ""


def _texts(node: ast.AST, imported: Imported) -> set[str]:
    value: object = None
    if isinstance(node, ast.Constant):
        value = node.value
    elif isinstance(node, ast.Name) and node.id in imported:
        value = _value(*imported[node.id])
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
        value = _value(".".join(imported[node.value.id]), node.attr)
    return {value} if isinstance(value, str) else set()


def _value(module: str, name: str) -> object:
    return getattr(importlib.import_module(module), name, None) if module.endswith(OF_FEATURES) else None
