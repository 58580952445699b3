"""The users' pages against the code: errors as the tables have them, links that lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.agent import settings as reconciler
from ansible_collections.ballast.kube.plugins.module_utils._instance.spec import SPEC as INSTANCES
from ansible_collections.ballast.kube.plugins.module_utils._lab import topology
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy import settings as pull_proxy
from scripts import bench_pages
from scripts.error_pages import FEATURES, explanations, tables

ROOT = Path(__file__).resolve().parents[3]


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_the_errors_of_every_page_are_those_of_its_table():
    argv = [sys.executable, "-m", "scripts.error_pages", "--check"]
    done = subprocess.run(argv, cwd=ROOT, check=False, capture_output=True, text=True)
    assert (done.stdout + done.stderr, done.returncode) == ("", 0)


def test_what_explains_an_error_is_of_an_id_that_is_raised():
    ids = {id for table in tables() for id in table.rows}
    assert explanations().keys() - ids == set()


def test_every_page_that_a_message_names_is_there():
    sources = sorted((ROOT / "plugins").rglob("*.py"))
    named = {page for path in sources for page in re.findall(r'"(docs/[a-z/-]+\.md)"', read(path))}
    assert named
    assert {page for page in named if not (ROOT / page).is_file()} == set()


def test_the_page_of_a_feature_leads_to_its_errors():
    without = [
        page
        for errors, (_title, page) in FEATURES.items()
        if f"]({errors.removeprefix('docs/')}" not in read(ROOT / page)
    ]
    assert without == []


@pytest.mark.parametrize(
    ("page", "head", "names"),
    [
        ("docs/node-instances.md", "| option | default | meaning |", set(INSTANCES["instances"]["options"])),
        (
            "docs/reference/lab.md",
            "| key | of | default | meaning |",
            {*topology._KEYS, *topology._KUBEADM_KEYS, *topology._ROW_KEYS},
        ),
        ("docs/pull-proxy.md", "| key | default | |", {field.name for field in fields(pull_proxy.Settings)}),
        ("docs/balloon-reconciler.md", "| key | default | |", {field.name for field in fields(reconciler.Settings)}),
    ],
    ids=["node instances", "topology", "pull proxy", "reconciler"],
)
def test_a_table_by_hand_has_every_option(page, head, names):
    rows = read(ROOT / page).partition(f"\n{head}\n")[2].partition("\n\n")[0].splitlines()
    assert {name for row in rows[1:] for name in re.findall(r"`(\w+)[^`]*`", row.split(" | ")[0])} == names


def test_the_index_leads_to_every_page():
    linked = set(re.findall(r"\]\(((?:[\w-]+/)?[\w-]+\.md)\)", read(ROOT / "docs/README.md")))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages - linked if not page.startswith("reference/errors-")} == {"README.md"}


def test_tables_and_plots_of_benchmarks_are_what_the_raw_results_say(capsys):
    status = bench_pages.main(["--check"])
    assert (capsys.readouterr().out, status) == ("", 0)


def test_every_variable_of_the_make_targets_is_explained():
    variables = set(re.findall(r"\bLAB_[A-Z]+\b", read(ROOT / "mk/lab.mk"))) - {"LAB_OPTIONS"}
    page = read(ROOT / "docs/lab.md")
    assert {name for name in variables if f"`{name}`" not in page} == set()


def test_every_target_of_the_lab_is_explained():
    targets = set(re.findall(r"^([a-z-]+):.*  ## ", read(ROOT / "mk/lab.mk"), flags=re.MULTILINE))
    page = read(ROOT / "docs/lab.md")
    assert {name for name in targets if f"make {name}" not in page} == set()
