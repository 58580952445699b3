"""The figure of docs/architecture.md: what it takes from the code, and that it says when it is stale."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts import architecture
from scripts.architecture import draw, read

ROOT = Path(__file__).resolve().parents[3]
UTILS = "plugins/module_utils"
FILES = {
    f"{UTILS}/_core/__init__.py": "",
    f"{UTILS}/_core/host/host.py": "import os\n",
    f"{UTILS}/_ansible/__init__.py": "",
    f"{UTILS}/_ansible/run.py": "from .._core.host import Host\n",
    f"{UTILS}/_pulls/__init__.py": "",
    f"{UTILS}/_pulls/node/__init__.py": "",
    f"{UTILS}/_pulls/node/engine.py": "from ..._core import host\nfrom .model import X\n",
    f"{UTILS}/_lab/__init__.py": "",
    f"{UTILS}/_lab/engine.py": "from .. import _pulls\nfrom .._core.host import Host\n",
    "plugins/modules/pulls.py": "from ansible_collections.a.b.plugins.module_utils._ansible.run import run\n"
    "from ansible_collections.a.b.plugins.module_utils._pulls.node.engine import ENGINE\n",
    "plugins/modules/lab_info.py": "from ansible_collections.a.b.plugins.module_utils._lab.engine import ENGINE\n",
    "roles/pull_proxy/tasks/main.yml": "- name: Pull\n  ballast.kube.pulls:\n    limit: 3\n",
    "roles/empty/files/one.yml": "",
    "playbooks/lab_up.yml": "# ballast.kube.nothing:\n- name: Lab\n  tasks:\n    - ballast.kube.lab_info:\n"
    "    - ansible.builtin.import_tasks: tasks/more.yml\n",
    "playbooks/tasks/more.yml": "- ansible.builtin.include_role:\n    name: ballast.kube.pull_proxy\n",
}


@pytest.fixture
def code(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_rows_come_from_imports_and_from_what_plays_run(code):
    rows = {row.engine: row for row in read(code)}
    assert list(rows) == ["_lab", "_pulls", "_ansible", "_core"]
    lab = rows["_lab"]
    assert (lab.playbooks, lab.roles, lab.modules) == (["lab_up"], [], ["lab_info"])
    assert (lab.imports, lab.uses) == ({"_core", "_pulls"}, {"_pulls"})
    assert (rows["_pulls"].roles, rows["_pulls"].imports, rows["_pulls"].uses) == (["pull_proxy"], {"_core"}, set())
    assert rows["_ansible"].modules == ["all 2 modules"]


def test_what_only_plays_use_has_a_ring(code):
    (code / f"{UTILS}/_lab/engine.py").write_text("", encoding="utf-8")
    lab = next(row for row in read(code) if row.engine == "_lab")
    assert (lab.imports, lab.uses) == (set(), {"_pulls"})
    assert "plays of _lab run modules of _pulls" in draw([*read(code)])
    assert "_lab imports _pulls" not in draw([*read(code)])


def test_a_module_of_two_engines_is_refused(code):
    with (code / "plugins/modules/pulls.py").open("a", encoding="utf-8") as file:
        file.write("from ansible_collections.a.b.plugins.module_utils._lab import engine\n")
    with pytest.raises(SystemExit, match=r"pulls.py imports _lab and _pulls; a module is of one engine"):
        read(code)


def test_a_stale_figure_is_told_and_drawn_anew(code, monkeypatch, capsys):
    (code / "docs").mkdir()
    monkeypatch.setattr(architecture, "ROOT", code)
    monkeypatch.setattr(architecture, "FIGURE", code / "docs/architecture.svg")
    assert architecture.main(["--check"]) == 1
    assert "-m scripts.architecture" in capsys.readouterr().out
    assert [architecture.main([]), architecture.main(["--check"])] == [0, 0]
    (code / f"{UTILS}/_pulls/node/engine.py").write_text("", encoding="utf-8")
    assert architecture.main(["--check"]) == 1


def test_the_figure_is_well_formed_and_names_everything():
    rows = read(ROOT)
    texts = [element.text for element in ElementTree.fromstring(draw(rows)).iter("{http://www.w3.org/2000/svg}text")]
    modules = {path.stem for path in (ROOT / "plugins/modules").glob("*.py")}
    assert modules | {path.stem for path in (ROOT / "playbooks").glob("*.yml")} <= set(texts)
    assert {row.engine for row in rows} <= set(texts)


def test_the_page_says_what_each_package_is():
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    table = page.partition("## What the packages are")[2].partition("\n## ")[0]
    assert {
        name for cell in re.findall(r"^\| (`_.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(_\w+)`", cell)
    } == {row.engine for row in read(ROOT)}


def test_every_question_of_the_page_is_answered_by_a_file_that_is_there():
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    table = page.partition("## Where is it decided?")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+\?) \| (.*) \|$", table, re.MULTILINE)
    assert len(rows) == 14
    for question, answer in rows:
        files = re.findall(r"`(_[\w/]+\.py)`", answer)
        assert files, question
        assert [name for name in files if not (ROOT / "plugins/module_utils" / name).is_file()] == [], question


def module_imports(top: Path) -> dict[str, set[str]]:
    """By module below module_utils, those that it imports, within functions and for types too."""
    edges: dict[str, set[str]] = {}
    for path in top.rglob("*.py"):
        here = path.relative_to(top).with_suffix("").parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = (
                    [*here[: -node.level], *(node.module or "").split(".")] if node.module else [*here[: -node.level]]
                )
                is_package = (top / "/".join(base)).is_dir()
                names = [[*base, alias.name] for alias in node.names] if is_package else [base]
                edges.setdefault("/".join(here), set()).update("/".join(name) for name in names)
    return edges


def circles(edges: dict[str, set[str]]) -> list[str]:
    """Modules that import themselves by way of others."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        left = list(edges.get(start, ()))
        while left:
            name = left.pop()
            if name not in seen:
                seen.add(name)
                left += edges.get(name, ())
        return seen

    return sorted(name for name in edges if name in reached(name))


def test_no_module_imports_itself_by_way_of_others():
    """A circle is a room with two doors to itself: protocol and values lie below, implementations above."""
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]
    assert circles(module_imports(ROOT / "plugins/module_utils")) == []


def test_no_package_is_larger_than_a_stranger_reads():
    utils = ROOT / "plugins/module_utils"
    sizes = {
        package.name: sum(len(path.read_text(encoding="utf-8").splitlines()) for path in package.rglob("*.py"))
        for package in utils.iterdir()
        if package.is_dir()
    }
    assert {name: size for name, size in sizes.items() if size > 11_000} == {}
