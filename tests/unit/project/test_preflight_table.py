"""The table of checks in docs/reference/kube-proxy-backends.md against the rules that it is made of."""

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight.rules import RULES
from scripts import preflight_table
from scripts.preflight_table import BEGIN, END, as_markdown


def test_each_rule_has_its_row():
    rows = [line for line in as_markdown().splitlines() if line.startswith("| [")]
    assert sorted(row.split("](")[0].removeprefix("| [") for row in rows) == sorted(rule.id for rule in RULES)
    assert {row.replace("\\|", "").count("|") for row in rows} == {7}
    assert [row for row in rows if "| hard |" in row] == rows[: sum(rule.severity == "hard" for rule in RULES)]


def test_only_what_is_between_the_marks_is_written(monkeypatch, tmp_path):
    path = tmp_path / "page.md"
    path.write_text(f"# Title\n\nabove\n{BEGIN}\nold\n{END}\nbelow\n", encoding="utf-8")
    monkeypatch.setattr(preflight_table, "PAGE", path)
    assert [preflight_table.main(one) for one in (["--check"], [], ["--check"])] == [1, 0, 0]
    assert path.read_text(encoding="utf-8") == f"# Title\n\nabove\n{BEGIN}\n\n{as_markdown()}\n{END}\nbelow\n"


@pytest.mark.parametrize("page", ["", BEGIN, f"{END}\n{BEGIN}\n", f"{BEGIN}\n{END}\n{BEGIN}\n"])
def test_a_page_without_its_marks_is_left_alone(page, monkeypatch, tmp_path):
    path = tmp_path / "page.md"
    path.write_text(page, encoding="utf-8")
    monkeypatch.setattr(preflight_table, "PAGE", path)
    with pytest.raises(SystemExit, match="needs these two lines"):
        preflight_table.main([])
    assert path.read_text(encoding="utf-8") == page


def test_a_check_of_one_mode_names_it_where_the_mode_does_not_change():
    """It does not run for another mode that does not change."""
    changes = {row.split("](")[0].removeprefix("| ["): row.split(" | ")[2] for row in as_markdown().splitlines()[2:]}
    assert changes["preflight-nftables-absent"] == "any to nftables, and where the mode stays nftables"
    assert changes["preflight-tool-missing"] == "any, and where the mode stays as it is"
    assert changes["preflight-flush-ruleset"] == "any to nftables"
    assert changes["preflight-node-port-localhost"] == "iptables to any, and where the mode stays iptables"


def test_the_page_has_the_table_of_the_rules():
    assert preflight_table.main(["--check"]) == 0
