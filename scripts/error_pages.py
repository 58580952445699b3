# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write docs/reference/errors-FEATURE.md from the features' tables of messages, and the list of these pages in docs/errors.md.

    python -m scripts.error_pages            # write
    python -m scripts.error_pages --check    # say which pages would change; status 1 if any

What a page adds to the message and remedy of an id is in scripts/error_explanations.md.
"""

from __future__ import annotations

import importlib
import os
import re
import string
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from scripts import wrap
from scripts.written import ROOT, between, run

sys.path.insert(0, str(ROOT / ".build" / "collections"))  # made by `make env`

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
INDEX = ROOT / "docs/errors.md"
BEGIN, END = "<!-- errors begin -->", "<!-- errors end -->"
EXPLANATIONS = ROOT / "scripts/error_explanations.md"
# For each page: the feature, and the page that documents it.
FEATURES: Mapping[str, tuple[str, str]] = {
    "docs/reference/errors-balloon-reconciler.md": ("the reconciler of balloons", "docs/balloon-reconciler.md"),
    "docs/reference/errors-balloons.md": ("balloons", "docs/balloons.md"),
    "docs/reference/errors-binaries.md": ("binaries", "docs/binaries.md"),
    "docs/reference/errors-control-plane.md": ("control planes", "docs/control-plane.md"),
    "docs/reference/errors-core.md": ("all features", "docs/errors.md"),
    "docs/reference/errors-fleet-run.md": ("fleet runs", "docs/fleet-run.md"),
    "docs/reference/errors-fleet.md": ("playbooks of a fleet", "docs/fleet.md"),
    "docs/reference/errors-image-pulls.md": ("image pulls of a node", "docs/image-pulls.md"),
    "docs/reference/errors-images.md": ("images", "docs/images.md"),
    "docs/reference/errors-kube-proxy.md": ("kube-proxy backends", "docs/kube-proxy-backends.md"),
    "docs/reference/errors-lab.md": ("labs", "docs/lab.md"),
    "docs/reference/errors-node-instances.md": ("node instances", "docs/node-instances.md"),
    "docs/reference/errors-pull-proxy.md": ("the pull proxy", "docs/pull-proxy.md"),
    "docs/reference/errors-readiness.md": ("production readiness", "docs/readiness.md"),
    "docs/reference/errors-service-proxy.md": ("the service proxy", "docs/service-proxy.md"),
    "docs/reference/errors-service-rules.md": ("service rules and their audit", "docs/service-rules.md"),
    "docs/reference/errors-virtual-machines.md": ("virtual machines", "docs/virtual-machines.md"),
}
_WHAT_CHANGES: Mapping[type[BallastError], str] = {
    UserError: "Change the input",
    HostError: "Change this machine",
    PeerError: "Change another program or machine",
    Bug: "Report a bug of ballast.kube",
}


def tables() -> list[Messages]:
    """One table for each page, with the messages of all its features, in the order of their packages."""
    package = "ansible_collections.ballast.kube.plugins"
    paths = [*PLUGINS.glob("module_utils/_*/**/*messages.py"), *PLUGINS.glob("plugin_utils/*/messages.py")]
    paths.sort(key=lambda path: (path.parent.relative_to(PLUGINS).parts, path.stem))
    names = (".".join(path.relative_to(PLUGINS).with_suffix("").parts) for path in paths)
    tables = [importlib.import_module(f"{package}.{name}").MESSAGES for name in names]
    pages = dict.fromkeys(table.page for table in tables)
    return [
        Messages(page, [row for table in tables if table.page == page for row in table.rows.values()]) for page in pages
    ]


def explanations() -> dict[str, str]:
    """Explanations by message id."""
    sections = re.split(r"^## (.*)$", EXPLANATIONS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {id: text.strip() for id, text in zip(sections[::2], sections[1::2])}


def shown(template: str) -> str:
    """A template as a reader sees it: `{path}: {value!r}` is "PATH: 'VALUE'"."""
    parts = []
    for text, field, _form, conversion in string.Formatter().parse(template):
        word = (field or "").replace("_", "-").upper()
        parts.append(text + (f"'{word}'" if conversion == "r" else word))
    return "".join(parts)


def page(table: Messages) -> str:
    """IDs grouped by what must change, which the message does not say, with message and remedy, for readers who only have the id."""
    feature, described = FEATURES[table.page]
    explained = explanations()
    home = os.path.relpath(described, Path(table.page).parent)
    ways = [] if ROOT / described == INDEX else [f"[{feature.capitalize()}]({home})"]
    ways.append("[form of a message, other ids](../errors.md)")
    parts = [f"# Errors of {feature}\n\n{' · '.join(ways)}\n"]
    for error, title in _WHAT_CHANGES.items():
        rows = [row for row in table.rows.values() if row.error is error]
        parts += [f"## {title}\n"] * bool(rows) + [_entry(row, explained.get(row.id, "")) for row in rows]
    return "\n".join(parts)


def _entry(row: Message, explanation: str) -> str:
    text, remedy = shown(row.text), shown(row.remedy)
    # A text of only placeholders says nothing.
    message = [] if text.isupper() else [f"`{text}`", ""]
    advice = [] if not remedy or remedy.isupper() else [wrap.wrapped(f"{remedy[:1].upper()}{remedy[1:]}."), ""]
    more = [wrap.wrapped(explanation), ""] if explanation else []
    return "\n".join([f"### {row.id}", "", *message, *advice, *more])


def index() -> str:
    rows = ["", "| ids | feature |", "|---|---|"]
    rows += [f"| {_families(table)} | {_link(FEATURES[table.page][0], table.page)} |" for table in tables()]
    return "\n".join([*rows, ""])


def _families(table: Messages) -> str:
    return ", ".join(f"`{name}-`" for name in dict.fromkeys(id.partition("-")[0] for id in table.rows))


def _link(text: str, target: str) -> str:
    return f"[{text}]({os.path.relpath(ROOT / target, INDEX.parent)})"


def files() -> Iterator[tuple[Path, str]]:
    yield INDEX, between(INDEX, BEGIN, END, index())
    for table in tables():
        yield ROOT / table.page, page(table)


def main(arguments: list[str]) -> int:
    return run("error_pages", __doc__, arguments, files())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
