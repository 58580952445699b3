"""Wrapping of pages: prose ends before column 121, and the page means the same."""

from __future__ import annotations

import pytest

from scripts import markdown
from scripts.wrap import COLUMNS, pages, wrapped

LONG = "word " * 40


def longest(page: str) -> int:
    return max(len(line) for line in page.split("\n"))


@pytest.mark.parametrize(
    "begin", ["", "- ", "1. ", "  - ", "  "], ids=["text", "item", "number", "nested", "continued"]
)
def test_a_long_paragraph_is_filled_and_an_item_keeps_its_indent(begin):
    page = f"{begin}{LONG.strip()}\n"
    lines = wrapped(page).split("\n")
    assert longest(wrapped(page)) <= COLUMNS
    assert {line[: len(begin)] for line in lines[1:-1]} == {" " * len(begin)}
    assert " ".join(wrapped(page).split()) == " ".join(page.split())
    assert wrapped(wrapped(page)) == wrapped(page)


@pytest.mark.parametrize(
    "page",
    [
        "short\nlines\n",
        f"| {LONG} |\n",
        f"# {LONG}\n",
        f"![picture]({LONG.replace(' ', '')})\n",
        f"```console\n{LONG}\n```\n",
        f"<!-- bench:x begin -->\n{LONG}\n<!-- bench:x end -->\n",
    ],
    ids=["short", "table", "heading", "picture", "fence", "generated"],
)
def test_what_has_lines_of_its_own_keeps_them(page):
    assert wrapped(page) == page


def test_code_within_a_sentence_is_not_broken():
    code = "`ansible-playbook ballast.kube.lab_up -e lab_nodes=3`"
    for words in range(10, 25):
        assert code in wrapped("word " * words + code + " and more\n")


@pytest.mark.parametrize("word", ["-", "+", "16.", "#", ">", "|"])
def test_no_line_begins_as_a_list_or_a_heading_would(word):
    for words in range(15, 30):
        page = "word " * words + f"{word} 2 " + LONG.strip() + "\n"
        assert [len(list(markdown.blocks(one))) for one in (wrapped(page), page)] == [1, 1]


def test_pages_by_hand_are_wrapped_and_generated_ones_are_not():
    names = {path.name for path in pages()}
    assert {"README.md", "balloons.md"} <= names
    assert {"errors-balloons.md", "errors-core.md"} & names == set()
