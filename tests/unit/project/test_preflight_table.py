"""The table of checks in docs/kube-proxy-backends.md against the rules that it is made of."""

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._proxy.migration.preflight.rules import RULES
from scripts import preflight_table
from scripts.preflight_table import BEGIN, END, PAGE, as_markdown, rewritten


def test_each_rule_has_its_row():
    rows = [line for line in as_markdown().splitlines() if line.startswith("| [")]
    assert sorted(row.split("](#")[0].removeprefix("| [") for row in rows) == sorted(rule.id for rule in RULES)
    assert {row.replace("\\|", "").count("|") for row in rows} == {7}
    assert [row for row in rows if "| hard |" in row] == rows[: sum(rule.severity == "hard" for rule in RULES)]


def test_only_what_is_between_the_marks_is_written():
    page = f"# Title\n\nabove\n{BEGIN}\nold\n{END}\nbelow\n"
    found = rewritten(page)
    assert found == f"# Title\n\nabove\n{BEGIN}\n\n{as_markdown()}\n{END}\nbelow\n"
    assert rewritten(found) == found


@pytest.mark.parametrize("page", ["", BEGIN, f"{END}\n{BEGIN}\n", f"{BEGIN}\n{END}\n{BEGIN}\n"])
def test_a_page_without_its_marks_is_left_alone(page, monkeypatch, tmp_path):
    path = tmp_path / "page.md"
    path.write_text(page, encoding="utf-8")
    monkeypatch.setattr(preflight_table, "PAGE", path)
    with pytest.raises(SystemExit, match="needs these two lines"):
        preflight_table.main([])
    assert path.read_text(encoding="utf-8") == page


def test_a_page_is_written_and_checked(monkeypatch, tmp_path):
    path = tmp_path / "page.md"
    path.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")
    monkeypatch.setattr(preflight_table, "PAGE", path)
    assert [preflight_table.main(one) for one in (["--check"], [], ["--check"])] == [1, 0, 0]


@pytest.mark.skipif(not PAGE.is_file(), reason="the page is not written yet")
def test_the_page_has_the_table_of_the_rules():
    page = PAGE.read_text(encoding="utf-8")
    assert rewritten(page) == page, "run scripts/preflight_table.py"
