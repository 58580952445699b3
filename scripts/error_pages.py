# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the section "Errors by id" of each feature's page from the feature's table of messages.

    python -m scripts.error_pages            # write
    python -m scripts.error_pages --check    # say which pages would change; status 1 if any

The section reaches from its heading to the end of the page. What stands above it is written by hand.
"""

from __future__ import annotations

import importlib
import re
import string
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.written import ROOT, run

sys.path.insert(0, str(ROOT / ".build" / "collections"))  # `make env` lays it out

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import (
    BallastError,
    Bug,
    HostError,
    Message,
    Messages,
    PeerError,
    UserError,
)

PLUGINS = ROOT / "plugins"
HEADING = "## Errors by id"
_EARLIER_HEADING = re.compile(r"^## Errors( by id)?$", re.MULTILINE)
_WHO: dict[type[BallastError], str] = {
    UserError: "the input",
    HostError: "this machine",
    PeerError: "another program or machine",
    Bug: "a bug in ballast.kube",
}
_INTRODUCTION = f"""{HEADING}

Words in capitals stand for what a message names. Each id says what has to change: the input, this machine, or another program
or machine.
"""


def tables() -> list[Messages]:
    """One table for each page, of all the features that it describes, in the order of their packages."""
    package = "ansible_collections.ballast.kube.plugins"
    paths = [*PLUGINS.glob("module_utils/_*/**/*messages.py"), *PLUGINS.glob("plugin_utils/*/messages.py")]
    paths.sort(key=lambda path: (path.parent.relative_to(PLUGINS).parts, path.stem))
    names = (".".join(path.relative_to(PLUGINS).with_suffix("").parts) for path in paths)
    tables = [importlib.import_module(f"{package}.{name}").MESSAGES for name in names]
    pages = dict.fromkeys(table.page for table in tables)
    return [
        Messages(page, [row for table in tables if table.page == page for row in table.rows.values()]) for page in pages
    ]


def shown(template: str) -> str:
    """A template as a reader sees it: `{path}: {value!r}` is "PATH: 'VALUE'"."""
    parts = []
    for text, field, _form, conversion in string.Formatter().parse(template):
        word = (field or "").replace("_", "-").upper()
        parts.append(text + (f"'{word}'" if conversion == "r" else word))
    return "".join(parts)


def _entry(row: Message) -> str:
    remedy = shown(row.remedy)
    advice = "" if remedy.isupper() else f"\nDo: {remedy}.\n"  # a remedy that is all placeholder says nothing here
    return f"### {row.id}\n\n`{shown(row.text)}` ({_WHO[row.error]})\n{advice}"


def section(table: Messages) -> str:
    return "\n".join([_INTRODUCTION, *(_entry(row) for row in table.rows.values())])


def rewritten(page: str, table: Messages) -> str:
    """The page with its section as the table has it; at its end where it has none yet."""
    heading = _EARLIER_HEADING.search(page)
    above = page[: heading.start()] if heading else f"{page.rstrip()}\n\n".lstrip()
    return above + section(table)


def files() -> Iterator[tuple[Path, str]]:
    for table in tables():
        path = ROOT / table.page
        yield path, rewritten(path.read_text(encoding="utf-8") if path.is_file() else "", table)


def main(arguments: list[str]) -> int:
    return run("error_pages", __doc__, arguments, files())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
