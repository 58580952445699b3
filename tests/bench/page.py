# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a benchmark writes what it found: its results file, and a page between the marks of its name."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.written import between_marks

COLUMNS = 120


def write_results(path: Path, found: Mapping[str, Any]) -> None:
    """Lists of figures on one line each: there are thousands in some."""
    text = re.sub(r"\[[\d\s,.e-]+\]", lambda one: re.sub(r"\s+", "", one[0]), json.dumps(found, indent=1))
    path.parent.mkdir(exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


def write_between_marks(page: Path, name: str, text: str, results: Path) -> None:
    """`<!-- bench:NAME begin -->` and `end`, each on a line of its own. The page names the file of its raw results."""
    old = page.read_text(encoding="utf-8") if page.is_file() else ""
    page.write_text(with_block(old, page, name, text, results), encoding="utf-8")


def with_block(old: str, page: Path, name: str, text: str, results: Path) -> str:
    first, last = (f"<!-- bench:{name} {which} -->" for which in ("begin", "end"))
    source = f"Raw results: `tests/bench/results/{results.name}`."
    return between_marks(old, page, first, last, wrapped(f"{text}\n\n{source}"))


def wrapped(text: str) -> str:
    """Lines of prose end before column 121. Rows of tables and pictures are single lines in Markdown."""
    lines = text.splitlines()
    return "\n".join(line if line.startswith(("|", "![")) else _filled(line) for line in lines)


def _filled(line: str) -> str:
    return textwrap.fill(line, COLUMNS, break_long_words=False, break_on_hyphens=False)
