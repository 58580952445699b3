"""scripts/mutants.py: its table, how it reads what mutmut prints, and what counts."""

from __future__ import annotations

import pytest

from scripts import mutants
from scripts.mutants import Engine, Equivalent, MeasureError, changed_lines, choose, judge, parse_results, read_table

DIFF = """\
# plugins.queue.x_pop__mutmut_2: survived
--- queue.py
+++ queue.py
@@ -1,4 +1,3 @@
 def pop(
-    first, second
-):
+    first):
     return first
"""
ROW = Equivalent("first, second ):", "first):", "the second is not read")


def test_every_file_and_test_of_the_table_is_there():
    engines = read_table(mutants.TABLE.read_text(encoding="utf-8"))
    assert len(engines) == 9
    plugins, tests = mutants.ROOT / "plugins/module_utils", mutants.ROOT / "tests/unit"
    assert [engine.path for engine in engines if not (plugins / engine.path).is_file()] == []
    assert [
        test for engine in engines for test in engine.tests if not (tests / test.partition("::")[0]).is_file()
    ] == []
    assert [engine.path for engine in engines if not engine.tests] == []
    assert all(row.why for engine in engines for row in engine.equivalent)


def test_a_row_of_an_equivalent_mutant_names_a_file_of_the_table():
    text = '[[file]]\npath = "a.py"\ntests = ["test_a.py"]\n[[equivalent]]\nfile = "b.py"\nbefore = ""\nafter = ""\nwhy = ""\n'
    with pytest.raises(MeasureError, match=r"b\.py"):
        read_table(text)
    [engine] = read_table(text.replace("b.py", "a.py"))
    assert engine == Engine("a.py", ("test_a.py",), (Equivalent("", "", ""),))


def test_files_are_chosen_by_a_part_of_their_path():
    engines = [Engine("rules/plan.py", (), ()), Engine("core/plan.py", (), ()), Engine("core/queue.py", (), ())]
    assert choose(engines, []) == engines
    assert choose(engines, ["rules", "queue"]) == [engines[0], engines[2]]
    with pytest.raises(MeasureError, match="typo"):
        choose(engines, ["queue", "typo"])


def test_the_state_of_each_mutant_is_read():
    text = "    plugins.queue.xǁQueueǁpop__mutmut_1: killed\n    plugins.queue.x_of__mutmut_12: no tests\nsomething else: so\n"
    assert parse_results(text) == {
        "plugins.queue.xǁQueueǁpop__mutmut_1": "killed",
        "plugins.queue.x_of__mutmut_12": "no tests",
    }


def test_a_diff_is_known_by_the_lines_that_it_changes():
    assert changed_lines(DIFF) == (ROW.before, ROW.after)


def test_an_equivalent_mutant_does_not_count_and_every_other_survivor_does():
    other = DIFF.replace("first", "last")
    tried = judge(10, [DIFF, other], [ROW])
    assert (tried.mutants, tried.survivors) == (9, (other,))
    assert tried.rate == pytest.approx(100 * 8 / 9)
    assert judge(10, [DIFF, other], []).rate == 80.0


def test_a_row_that_no_survivor_fits_is_an_error():
    with pytest.raises(MeasureError, match="no survivor fits"):
        judge(10, [], [ROW])


@pytest.mark.parametrize(("rate_of_missed", "status"), [(10, 0), (11, 1)])
def test_less_than_nine_in_ten_fail(rate_of_missed, status, monkeypatch, capsys):
    survivors = tuple(f"diff {number}" for number in range(rate_of_missed))
    monkeypatch.setattr(mutants, "copy_checkout", lambda: None)
    monkeypatch.setattr(mutants, "try_tests", lambda engine: mutants.Tried(100, survivors))
    assert mutants.main(["topology"]) == status
    printed = capsys.readouterr().out
    assert "diff 9" in printed
    assert f"100 mutants    {100 - rate_of_missed} killed   {rate_of_missed} survived" in printed
    assert ("less than 90 %: _rules/topology.py" in printed) == (status == 1)


def test_decorators_that_change_no_result_are_removed_from_the_copy_and_no_others():
    text = "@pause_collection()\ndef a(): ...\n@lru_cache(maxsize=4096)\ndef b(): ...\n@dataclass\nclass C: ...\n"
    assert mutants.DECORATORS.sub("", text) == "def a(): ...\ndef b(): ...\n@dataclass\nclass C: ...\n"
