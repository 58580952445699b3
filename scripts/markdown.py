# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Markdown pages of the project; blocks, links and anchors of a page, as far as our own pages use Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.written import ROOT

PARAGRAPH, HEADING, CELL = "paragraph", "heading", "cell"
_FENCE = re.compile(r"\s*(```+|~~~+)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")
_QUOTE = re.compile(r"\s*>\s?")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_TAG = re.compile(r"</?[a-z][^<>]*>")
_TARGET = re.compile(r"(?<=\])\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)")
_LINK = re.compile(r"\]\(([^()\s]+(?:\([^()\s]*\)[^()\s]*)*)\)")
_ADDRESS = re.compile(r"https?://[^\s)>\]|]+")
_GENERATED = re.compile(r"<!-- (?P<name>.+?):? (?P<mark>begin|end) -->")


@dataclass(frozen=True)
class Block:
    """`text` as a person reads it, with code and link targets hidden; its newlines are those of the page. `line` counts from 1."""

    kind: str
    line: int
    text: str


@dataclass(frozen=True)
class Line:
    number: int
    text: str
    in_code: bool
    generated: bool  # between the marks of a program that writes that part of the page


def pages(root: Path = ROOT) -> list[Path]:
    """All pages for people, including CHANGELOG.md."""
    return [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md")), *sorted((root / "roles").rglob("*.md"))]


def lines(page: str) -> Iterator[Line]:
    fence, generated, indented, after_blank, in_list = "", False, False, True, False
    without_comments = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), page).split("\n")
    for number, (written, text) in enumerate(zip(page.split("\n"), without_comments), start=1):
        mark, opening, blank = _GENERATED.search(written), _FENCE.match(text), not text.strip()
        if fence:
            yield Line(number, text, in_code=True, generated=generated)
            if text.strip().startswith(fence) and not text.strip(" `~"):
                fence = ""
            continue
        if mark:
            generated = mark["mark"] == "begin"
        if not blank and not text.startswith(" ") and after_blank:
            in_list = False
        in_list = in_list or bool(_ITEM.match(text))
        indented = text.startswith("    ") and not in_list and (after_blank or indented)
        fence = opening[1] if opening else ""
        yield Line(number, text, in_code=bool(opening) or indented, generated=generated)
        after_blank = blank


def blocks(page: str) -> Iterator[Block]:
    """Headings, table cells, and paragraphs; each item of a list is a paragraph."""
    paragraph: list[str] = []
    first = 0
    for line in lines(page):
        text = _QUOTE.sub("", line.text, count=1)
        item = _ITEM.match(text)
        alone = line.in_code or not text.strip() or text.startswith("#") or text.lstrip().startswith("|")
        if paragraph and (alone or item):
            yield Block(PARAGRAPH, first, shown("\n".join(paragraph)))
            paragraph = []
        if line.in_code:
            continue
        if text.startswith("#"):
            yield Block(HEADING, line.number, shown(text.lstrip("# ")))
        elif text.lstrip().startswith("|"):
            yield from (Block(CELL, line.number, shown(cell)) for cell in cells(text))
        elif text.strip():
            first = first if paragraph else line.number
            paragraph.append(text[item.end() :] if item else text)
    if paragraph:
        yield Block(PARAGRAPH, first, shown("\n".join(paragraph)))


def cells(row: str) -> list[str]:
    parts = [part.strip() for part in re.split(r"(?<!\\)\|", row.strip().strip("|"))]
    return [part for part in parts if part.strip(":- ")]


def shown(text: str) -> str:
    """Code becomes one word of the same length, link targets become blanks, so that offsets in the text are those of the page."""
    text = CODE.sub(lambda match: _hidden(match[0], "X"), text)
    text = _TARGET.sub(lambda match: _hidden(match[0], " "), text)
    text = _ADDRESS.sub(lambda match: _hidden(match[0], "X"), text)
    return _TAG.sub(lambda match: _hidden(match[0], " "), text)


def _hidden(text: str, letter: str) -> str:
    return re.sub(r"[^\n]", letter, text) if letter == " " else re.sub(r"\S| ", letter, text)


def links(page: str) -> Iterator[tuple[int, str]]:
    """Line and target of each link and picture, and of each address in the text; without those in code."""
    kept = [("" if line.in_code else line.text) for line in lines(page)]
    text = CODE.sub(lambda match: _hidden(match[0], "X"), "\n".join(kept))
    for match in _LINK.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[1]
    bare = _TARGET.sub(lambda match: _hidden(match[0], " "), text)
    for match in _ADDRESS.finditer(bare):
        yield bare.count("\n", 0, match.start()) + 1, match[0].rstrip(".,;:")


def anchors(page: str) -> set[str]:
    """Anchors as GitHub makes them: headings, numbered if repeated, and explicit anchors in the text."""
    made: set[str] = set()
    counts: dict[str, int] = {}
    for line in lines(page):
        if line.in_code:
            continue
        made |= set(re.findall(r'<a (?:id|name)="([^"]+)">', line.text))
        if line.text.startswith("#"):
            heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.text.lstrip("# "))
            name = re.sub(r"[^a-z0-9 _-]", "", heading.strip().lower()).replace(" ", "-")
            made.add(f"{name}-{counts[name]}" if name in counts else name)
            counts[name] = counts.get(name, 0) + 1
    return made
