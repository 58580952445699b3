"""Every page of a feature answers the same questions in the same order, and quotes errors as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.error_pages import FEATURES, shown, tables

ROOT = Path(__file__).resolve().parents[3]
ORDER = (
    "## What it is",
    "## When to use it",
    "## How to use it",
    "## How to see that it works",
    "## How to undo it",
    "## Limits",
    "## Troubleshooting",
)
# How-tos, for looking something up, or about the project: not of one feature.
OTHERS = {
    "README",
    "CONTRIBUTING",
    "architecture",
    "ci",
    "conformance",
    "errors",
    "fleet",
    "how-to-application",
    "how-to-control-plane",
    "metrics",
    "migrate-a-kubeadm-cluster",
    "newcomer",
    "permissions",
    "quick-start",
    "security",
    "upgrade",
}
PAGES = [path for path in sorted((ROOT / "docs").glob("*.md")) if path.stem not in OTHERS]
PAGES_WITH_ERRORS = [path for path in PAGES if f"docs/{path.name}" in {page for _title, page in FEATURES.values()}]
TEXTS = {row.id: shown(row.text) for table in tables() for row in table.rows.values()}
# `its Node is not Ready within ... seconds` ([instance-not-ready](#instance-not-ready))
QUOTED = re.compile(r"`([^`]+)` \(\[([a-z-]+)\]\([^)]*\)\)")


def lines(path: Path) -> list[str]:
    """Without what stands in fences."""
    page = path.read_text(encoding="utf-8")
    return re.sub(r"^ *```.*?^ *```", "", page, flags=re.MULTILINE | re.DOTALL).splitlines()


def headings(path: Path) -> list[str]:
    return [line for line in lines(path) if re.match(r"#+ ", line)]


def section(path: Path, heading: str) -> str:
    page = path.read_text(encoding="utf-8")
    return page.partition(f"\n{heading}\n")[2].partition("\n## ")[0]


def page_of(path: Path) -> str:
    return path.stem


def has(text: str, quoted: str) -> bool:
    """Whether the parts of the quotation, between its `...`, are in the text in that order."""
    return re.search(".*".join(re.escape(part.strip()) for part in quoted.split("...")), text) is not None


@pytest.mark.parametrize("path", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=page_of)
def test_a_quoted_error_is_as_the_table_has_it(path):
    quoted = [(text, id) for text, id in QUOTED.findall(path.read_text(encoding="utf-8")) if id in TEXTS]
    assert [(text, id, TEXTS[id]) for text, id in quoted if not has(TEXTS[id], text)] == []


def test_there_are_pages():
    assert len(PAGES) > 10


@pytest.mark.parametrize("path", PAGES, ids=page_of)
def test_a_page_of_a_feature_has_the_order_of_all(path):
    assert [heading for heading in headings(path) if heading.startswith("## ")] == [*ORDER]


@pytest.mark.parametrize("path", PAGES, ids=page_of)
def test_no_section_is_empty(path):
    empty = [
        heading for heading in ORDER if not re.sub(r"^#.*$", "", section(path, heading), flags=re.MULTILINE).strip()
    ]
    assert empty == []


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=str)
def test_headings_go_down_one_level_at_a_time(path):
    depths = [len(heading.partition(" ")[0]) for heading in headings(path)]
    assert depths[0] == 1
    assert depths.count(1) == 1
    assert [(one, next_one) for one, next_one in zip(depths, depths[1:]) if next_one > one + 1] == []


@pytest.mark.parametrize("path", PAGES_WITH_ERRORS, ids=page_of)
def test_troubleshooting_quotes_errors_as_they_are(path):
    quoted = [(text, id) for text, id in QUOTED.findall(section(path, "## Troubleshooting")) if id in TEXTS]
    assert len(quoted) >= 2
    assert [(text, id, TEXTS[id]) for text, id in quoted if not has(TEXTS[id], text)] == []
