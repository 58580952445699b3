# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the check of prose finds, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.prose import Finding, check, find_links, main, read_words, sentences

WORDS = read_words()
OWN = "https://example.org/ours"
LONG = " ".join(["w"] * 36)
MODULE = '''DOCUMENTATION = r"""
short_description: Mend a thing
options:
  one:
    description:
      - Is fine.
      - >-
        Folded, and
        told here. The C(code that is told) is not searched.
"""
EXAMPLES = r"""
# It shall be read.
- name: Do it anew
  x:
    state: told
"""
TABLE = [Message(text="{name} is told {other}", remedy="mend")]


def do(name):
    """A docstring may say told."""
    raise Error(f"what {name} shall be")
'''


def findings(path: Path, text: str) -> list[tuple[int, str, str]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return [(row.line, row.kind, row.text.partition(": ")[0]) for row in sorted(check(path, WORDS, OWN))]


def test_words_are_found_in_a_page_with_their_lines(tmp_path: Path) -> None:
    page = "# Anew\n\nIt is\ndone by\nitself, `told`.\n\n| told | fine |\n```\nshall\n```\n"
    assert findings(tmp_path / "page.md", page) == [
        (1, "word", '"Anew"'),
        (4, "word", '"by itself"'),
        (7, "word", '"told"'),
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("one node at a time", 0),
        ("as many nodes at a time", 0),
        ("all who want it at a time", 1),
        ("It has not changed", 0),
        ("It has not the rules", 1),
        ("was seen to break", 0),
        ("See to that", 1),
        ("retold, foretold and told-off", 0),
    ],
)
def test_a_phrase_that_is_right_is_left_alone(tmp_path: Path, text: str, count: int) -> None:
    assert len(findings(tmp_path / "page.md", text)) == count


def test_words_are_found_in_a_module(tmp_path: Path) -> None:
    assert findings(tmp_path / "plugins/modules/x.py", MODULE) == [
        (2, "word", '"Mend"'),
        (9, "word", '"told"'),
        (12, "word", '"shall"'),
        (13, "word", '"anew"'),
        (17, "word", '"told"'),
        (22, "word", '"shall"'),
    ]


def test_words_are_found_in_tasks_and_comments_of_yaml(tmp_path: Path) -> None:
    text = "# What shall be done\n- name: Mend it\n  set_fact:\n    told: 'told'\n"
    assert findings(tmp_path / "playbooks/x.yml", text) == [(1, "word", '"shall"'), (2, "word", '"Mend"')]


def test_words_are_found_in_the_help_of_make_and_in_templates(tmp_path: Path) -> None:
    assert findings(tmp_path / "mk/x.mk", "lab: env  ## mend it\n\t@told\n") == [(1, "word", '"mend"')]
    assert findings(tmp_path / "x.html.j2", "<p>{{ told }}\n{% if shall %}it is told</p>\n") == [(2, "word", '"told"')]


def test_a_sentence_of_35_words_may_be_and_one_of_36_not(tmp_path: Path) -> None:
    page = f"Short.\n{LONG[2:]}.\n{LONG.capitalize()}.\n\n- {LONG}\n"
    assert findings(tmp_path / "page.md", page) == [(3, "sentence", "36 words"), (5, "sentence", "36 words")]
    assert findings(tmp_path / "plugins/modules/x.py", f'RETURN = r"""\nx:\n  description: {LONG}\n"""\n') == [
        (3, "sentence", "36 words")
    ]


def test_a_line_that_could_be_shorter_is_found(tmp_path: Path) -> None:
    line = "word, " * 25 + "end"
    assert findings(tmp_path / "page.md", f"| {line} |\n\n{line}\n") == [(3, "line", "more than 120 characters")]


def test_notes_in_a_cell_are_divided_by_semicolons(tmp_path: Path) -> None:
    half = LONG[: len(LONG) // 2]
    assert findings(tmp_path / "page.md", f"| {half}; {half} |\n") == []
    assert findings(tmp_path / "page.md", f"{half}; {half}\n") == [(1, "sentence", "36 words")]


def test_an_abbreviation_ends_no_sentence() -> None:
    assert [text.strip() for _begin, text in sentences("One, e.g. Two. Three: Four? `five`")] == [
        "One, e.g. Two.",
        "Three:",
        "Four?",
        "`five`",
    ]


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/other.md").write_text("# There\n", encoding="utf-8")
    page = tmp_path / "docs/page.md"
    text = f"""# Here
[a](other.md#there) [b](#here) [c](https://example.net/x) <{OWN}/blob/main/docs/other.md#there>
[d](none.md) [e](other.md#nowhere) [f](#nowhere)
{OWN}/tree/main/none
"""
    page.write_text(text, encoding="utf-8")
    assert list(find_links(page, text, OWN, tmp_path)) == [
        Finding(page, 3, "link", "none.md: no such file"),
        Finding(page, 3, "link", "other.md#nowhere: no such heading"),
        Finding(page, 3, "link", "#nowhere: no such heading"),
        Finding(page, 4, "link", f"{OWN}/tree/main/none: no such file"),
    ]


def test_a_path_that_is_not_there_is_refused() -> None:
    with pytest.raises(SystemExit, match="no such file"):
        main(["nowhere.md"])
