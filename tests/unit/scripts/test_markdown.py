# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How our pages are taken apart."""

from __future__ import annotations

from scripts.markdown import CELL, HEADING, PARAGRAPH, anchors, blocks, lines, links

PAGE = """# A page

One paragraph
of two lines.
- an item
  that goes on
- `code` in [another](else.md#there)

| head | second |
|---|---|
| cell | a \\| b |

```console
$ told
```

    indented: told

> quoted
<!-- bench:x begin -->
generated
<!-- bench:x end -->
by hand
"""


def test_each_block_has_its_kind_and_line() -> None:
    assert [(block.kind, block.line, block.text) for block in blocks(PAGE)] == [
        (HEADING, 1, "A page"),
        (PARAGRAPH, 3, "One paragraph\nof two lines."),
        (PARAGRAPH, 5, "an item\n  that goes on"),
        (PARAGRAPH, 7, "XXXXXX in [another]               "),
        (CELL, 9, "head"),
        (CELL, 9, "second"),
        (CELL, 11, "cell"),
        (CELL, 11, "a \\| b"),
        (PARAGRAPH, 19, "quoted"),
        (PARAGRAPH, 21, "generated"),
        (PARAGRAPH, 23, "by hand"),
    ]


def test_what_a_program_writes_is_marked() -> None:
    assert [line.text for line in lines(PAGE) if line.generated and line.text] == ["generated"]


def test_an_indented_line_of_a_list_is_no_code() -> None:
    assert [block.text for block in blocks("- item\n\n    more of it\n\nend\n\n    code\n")] == [
        "item",
        "    more of it",
        "end",
    ]


def test_links_of_text_are_found_and_those_of_code_are_not() -> None:
    page = "[a](x.md#y)\n`[b](no.md)` ![c](p.svg) https://example.org/a.\n```\n[d](no.md)\n```\n"
    assert list(links(page)) == [(1, "x.md#y"), (2, "p.svg"), (2, "https://example.org/a")]


def test_anchors_are_those_of_github() -> None:
    page = '# What `make` does\n## Two\n## Two\n<a id="here"></a>\n```\n# no heading\n```\n## [Linked](x.md) one\n'
    assert anchors(page) == {"what-make-does", "two", "two-1", "here", "linked-one"}
