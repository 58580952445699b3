# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Extracts what people read in the project's files: pages, documentation and messages of plugins, names of tasks, help of make."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from scripts import markdown

# YAML keys whose text people read, in documentation, argument specs, tasks, alerts and redirects.
_READ = {
    "description", "short_description", "notes", "requirements", "details", "warning_text", "why", "summary", "remedy",
    "name", "msg", "fail_msg", "success_msg", "prompt", "title",
}  # fmt: skip
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DOCUMENTATION = {"DOCUMENTATION", "EXAMPLES", "RETURN"}
_SENTENCES = {"description", "short_description", "notes", "requirements", "details"}
_TRUSTED_CODE = re.compile(r"\b(?:C|E|M|O|P|RV|U|V)\(((?:[^()\\]|\\.|\([^()]*\))*)\)")
_MARKUP = re.compile(r"\b(?:B|I)\(((?:[^()\\]|\\.)*)\)")
_LINK = re.compile(r"\bL\(([^,()]*),[^()]*\)")
_JINJA = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_HELP = re.compile(r"^[\w-]+:.*?  ## (.+)$|^# (.+)$")


@dataclass(frozen=True)
class Passage:
    """`line` is where `text` begins, counted from 1; each newline in the text is one in the file."""

    path: Path
    line: int
    text: str
    sentences: bool  # whether it consists of sentences that are read one after the other

    def line_at(self, offset: int) -> int:
        return self.line + self.text.count("\n", 0, offset)


def passages(path: Path) -> Iterator[Passage]:
    """The passages of one file; empty for a file that only programs read."""
    reader = _READERS.get("Makefile" if path.name == "Makefile" else path.suffix)
    if reader:
        yield from reader(path, path.read_text(encoding="utf-8"))


def _of_page(path: Path, text: str) -> Iterator[Passage]:
    for block in markdown.blocks(text):
        # Semicolons separate notes in a cell.
        shown = block.text.replace(";", ".") if block.kind == markdown.CELL else block.text
        yield Passage(path, block.line, shown, sentences=True)


def _of_makefile(path: Path, text: str) -> Iterator[Passage]:
    for number, line in enumerate(text.splitlines(), start=1):
        match = _HELP.match(line)
        if match:
            yield Passage(path, number, match[1] or match[2], sentences=False)


def _of_template(path: Path, text: str) -> Iterator[Passage]:
    shown = _JINJA.sub(lambda match: re.sub(r"[^\n]", "X", match[0]), text)
    shown = re.sub(
        r"<(style|script)\b.*?</\1>|<[^<>]*>", lambda match: re.sub(r"[^\n]", " ", match[0]), shown, flags=re.DOTALL
    )
    yield Passage(path, 1, shown, sentences=False)


def _of_yaml(path: Path, text: str) -> Iterator[Passage]:
    every = path.parent.name == "fragments"
    yield from _read_yaml(path, text, 1, every=every)
    yield from _comments(path, text, 1)


def _read_yaml(path: Path, text: str, line: int, *, every: bool = False) -> Iterator[Passage]:
    """`line` is where the text begins in the file."""
    for document in yaml.compose_all(text, Loader=_Loader):
        for key, node in _scalars(document, ""):
            if every or key in _READ:
                yield Passage(path, line + node.start_mark.line, _shown(_as_written(text, node)), key in _SENTENCES)


def _as_written(text: str, node: yaml.ScalarNode) -> str:
    """The text with the file's newlines, which the value of a folded scalar has lost."""
    return text[node.start_mark.index : node.end_mark.index].rstrip()


def _scalars(node: yaml.Node | None, key: str) -> Iterator[tuple[str, yaml.ScalarNode]]:
    """Each scalar, with the key whose value it is, or whose list it is in."""
    if isinstance(node, yaml.ScalarNode):
        yield key, node
    elif isinstance(node, yaml.SequenceNode):
        for child in node.value:
            yield from _scalars(child, key)
    elif isinstance(node, yaml.MappingNode):
        for name, child in node.value:
            yield from _scalars(child, str(name.value))


def _shown(text: str) -> str:
    """Ansible's markup and Jinja expressions as a reader counts them: a value is one word."""
    text = _JINJA.sub(lambda match: re.sub(r"\S| ", "X", match[0]), text)
    text = _TRUSTED_CODE.sub(lambda match: re.sub(r"[^\n]", "X", match[0]), text)
    text = _LINK.sub(r"\1", text)
    return _MARKUP.sub(r"\1", text)


def _comments(path: Path, text: str, line: int) -> Iterator[Passage]:
    """Adjacent comment lines form one passage."""
    block: list[str] = []
    for number, row in enumerate([*text.splitlines(), ""], start=line):
        match = re.match(r"\s*#(.*)", row)
        if match:
            block.append(match[1])
        elif block:
            yield Passage(path, number - len(block), "\n".join(block), sentences=False)
            block = []


def _of_python(path: Path, text: str) -> Iterator[Passage]:
    if "plugins" not in path.parts:
        return
    tree = ast.parse(text)
    documentation = _documentation(tree, every="doc_fragments" in path.parts)
    for name, constant in documentation.items():
        # The first line of the text follows the quotes and their newline.
        written = str(constant.value)
        yield from _read_yaml(path, written, constant.lineno)
        if name == "EXAMPLES":
            yield from _comments(path, written, constant.lineno)
    silent = {id(constant) for constant in documentation.values()} | set(_docstrings(tree)) | set(_in_templates(tree))
    for node in ast.walk(tree):
        if isinstance(node, (ast.JoinedStr, ast.Constant)) and id(node) not in silent:
            shown = _literal(node)
            if shown.count("\n") > (node.end_lineno or node.lineno) - node.lineno:
                shown = shown.replace("\n", " ")  # written as an escape, so it is no new line in the file
            if " " in shown:
                yield Passage(path, node.lineno, shown, sentences=False)


def _documentation(tree: ast.Module, *, every: bool) -> Mapping[str, ast.Constant]:
    return {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name) and (every or target.id in _DOCUMENTATION)
    }


def _docstrings(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield id(node.value)


def _in_templates(tree: ast.AST) -> Iterator[int]:
    """IDs of the parts of f-strings, which are read as a whole."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield from (id(part) for part in node.values)


def _literal(node: ast.JoinedStr | ast.Constant) -> str:
    """A string as its reader sees it, with values as X; empty for anything but a string."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
    return re.sub(r"\{\w+(![rs])?(:[^{}]*)?\}", "X", node.value) if isinstance(node.value, str) else ""


_READERS = {
    ".md": _of_page,
    ".mk": _of_makefile,
    "Makefile": _of_makefile,
    ".yml": _of_yaml,
    ".yaml": _of_yaml,
    ".py": _of_python,
    ".j2": _of_template,
}
