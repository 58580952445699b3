# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the project that a program writes from other files, as a whole or between two marks."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(program: str, usage: str | None, arguments: Sequence[str], files: Iterable[tuple[Path, str]]) -> int:
    """Write the files that differ from their text; with `--check` only name them, with exit status 1.

    `files` are paths with their texts; for wrong arguments no text is computed.
    """
    if list(arguments) not in ([], ["--check"]):
        sys.exit(usage)
    stale = [(path, text) for path, text in files if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path, text in stale:
        if arguments:
            print(f" ✗ {path.name} is not what it is made of\n   do: .venv/bin/python -m scripts.{program}")
        else:
            path.write_text(text, encoding="utf-8")
            print(f" ✓ {path.name}")
    return int(bool(arguments and stale))


def between(page: Path, first: str, last: str, text: str) -> str:
    """The page with the text, on lines of its own, between two marks. Ends the program if a mark is missing."""
    return between_marks(page.read_text(encoding="utf-8") if page.is_file() else "", page, first, last, text)


def between_marks(old: str, page: Path, first: str, last: str, text: str) -> str:
    """The same for a text that was already read; `page` is named if a mark is missing, repeated or out of order."""
    if old.count(first) != 1 or old.count(last) != 1 or old.index(first) > old.index(last):
        sys.exit(f"{page} needs these two lines, once each: {first} and {last}")
    above, _first, rest = old.partition(first)
    return f"{above}{first}\n{text}\n{last}{rest.partition(last)[2]}"
