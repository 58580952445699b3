# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wrap the prose of pages at 120 columns.

    python -m scripts.wrap            # write
    python -m scripts.wrap --check    # status 1 if a page would change

Only paragraphs and list items with a longer line are filled again. Code, tables, headings, pictures and what programs write
keep their lines. Code within a sentence is never broken, as readers search for it.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from scripts import markdown
from scripts.written import ROOT, run

COLUMNS = 120
_ITEM = re.compile(r"(?P<indent> *)(?P<mark>(?:[-*+]|\d+[.)]) +)?")
_OF_ITS_OWN = re.compile(r"\s*(?:[#|<>]|!\[)")
# At the beginning of a line these words would start a list, a heading, a quotation or a table.
_STRUCTURE = re.compile(r" (?=(?:[-*+|>]|#+|\d+[.)])(?: |$))")
_GLUE = "\0"


def wrapped(page: str) -> str:
    written = page.split("\n")
    made: list[str] = []
    paragraph: list[str] = []
    for line in markdown.lines(page):
        text = written[line.number - 1]
        alone = line.in_code or line.generated or not text.strip() or bool(_OF_ITS_OWN.match(text))
        match = _ITEM.match(text)
        if alone or (match and match["mark"]):
            made += _filled(paragraph)
            paragraph = []
        if alone:
            made.append(text)
        else:
            paragraph.append(text)
    return "\n".join([*made, *_filled(paragraph)])


def _filled(paragraph: list[str]) -> list[str]:
    if all(len(line) <= COLUMNS for line in paragraph):
        return paragraph
    match = _ITEM.match(paragraph[0])
    assert match is not None  # it matches every line
    indent, mark = match["indent"], match["mark"] or ""
    text = " ".join(line.strip() for line in paragraph)[len(mark) :]
    text = markdown.CODE.sub(lambda code: code[0].replace(" ", _GLUE), text)
    lines = textwrap.wrap(
        _STRUCTURE.sub(_GLUE, text),
        COLUMNS,
        initial_indent=indent + mark,
        subsequent_indent=indent + " " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_GLUE, " ") for line in lines]


def files() -> Iterator[tuple[Path, str]]:
    for path in pages():
        yield path, wrapped(path.read_text(encoding="utf-8"))


def pages() -> list[Path]:
    """Pages that are written by hand, at least in part."""
    generated = {ROOT / "CHANGELOG.md", *(ROOT / "docs/reference").glob("errors-*.md")}
    return [page for page in markdown.pages() if page not in generated]


def main(arguments: list[str]) -> int:
    return run("wrap", __doc__, arguments, files())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
