"""Each feature answers each question. What is written down beside the code is held to what is there."""

from __future__ import annotations

import ast
import importlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._core.readiness import FailureMode, Feature, Static
from ansible_collections.ballast.kube.plugins.module_utils._readiness.features import FEATURES
from ansible_collections.ballast.kube.plugins.module_utils._readiness.questionnaire import QUESTIONS
from tests.unit.readiness.reach import named_by
from tests.unit.readings import a_feature

ROOT = Path(__file__).resolve().parents[3]
UTILS = ROOT / "plugins/module_utils"
KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def named_tests(feature: Feature) -> list[str]:
    named = [test for static in feature.statics.values() for test in static.tests]
    return [*named, *(mode.test for mode in feature.failures)]


def lacks(feature: Feature) -> list[str]:
    """What is missing in the answers of one feature."""
    ids = {question.id for question in QUESTIONS}
    found = [f"{id}: no answer" for id in sorted(ids - set(feature.statics))]
    found += [f"{id}: no question" for id in sorted(set(feature.statics) - ids)]
    found += [f"{id}: empty" for id, static in feature.statics.items() if not static.text.strip()]
    found += [f"{question.id}: names no test" for question in QUESTIONS if question.exercise and question.id in ids
              and not feature.statics.get(question.id, Static("")).tests]  # fmt: skip
    found += ["no failure modes"] if not feature.failures else []
    for mode in feature.failures:
        found += [f"{mode.id}: not kebab-case"] if not KEBAB.fullmatch(mode.id) else []
        said = (mode.text, mode.detection, mode.mitigation, mode.diagnosis, mode.test)
        found += [f"{mode.id}: something of it is not said"] if not all(part.strip() for part in said) else []
    found += [f"{test}: not there" for test in sorted(set(named_tests(feature))) if not is_there(test)]
    return found


def unproven(feature: Feature, root: Path = ROOT) -> list[str]:
    """Failure modes that no integration test is known to cause and to find in the reading: one that does names them."""
    found = []
    for mode in feature.failures:
        path, _colons, name = mode.test.partition("::")
        if not path.startswith("tests/integration/"):
            found.append(f"{mode.id}: {mode.test} is no integration test")
        elif mode.id not in (named_by(root / path, name) if (root / path).is_file() else set()):
            found.append(f"{mode.id}: {mode.test} does not name it")
    return found


def is_there(test: str) -> bool:
    """Whether "tests/FILE.py::NAME" is a function of that file; a parametrized one is named without parameters."""
    path, _colons, name = test.partition("::")
    if not (ROOT / path).is_file():
        return False
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    return name.rpartition("::")[2] in functions


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_a_feature_answers_everything(feature):
    assert lacks(feature) == []


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_each_failure_mode_is_caused_on_real_parts_and_found_there(feature):
    assert unproven(feature) == []


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_what_a_feature_names_is_there(feature):
    assert (ROOT / feature.page).is_file()
    module = (ROOT / f"plugins/modules/{feature.module}.py").read_text(encoding="utf-8")
    assert "ballast.kube._readiness" in module


def test_a_feature_that_lacks_an_answer_is_found():
    whole = a_feature("x")
    assert lacks(whole) == []
    statics = {id: static for id, static in whole.statics.items() if id != "slos"}
    assert lacks(replace(whole, statics=statics)) == ["slos: no answer"]
    assert lacks(replace(whole, statics={**whole.statics, "slos": Static(" ")})) == ["slos: empty"]
    assert lacks(replace(whole, statics={**whole.statics, "bogus": Static("x")})) == ["bogus: no question"]
    assert lacks(replace(whole, statics={**whole.statics, "reenabled": Static("x")})) == ["reenabled: names no test"]
    gone = FailureMode("x-y", "a", "b", "c", "", "tests/unit/readings.py::gone")
    assert lacks(replace(whole, failures=(gone,))) == [
        "x-y: something of it is not said",
        "tests/unit/readings.py::gone: not there",
    ]
    assert lacks(replace(whole, failures=())) == ["no failure modes"]


REAL = """
from ansible_collections.ballast.kube.plugins.module_utils._proxy import readiness as proxy
from ansible_collections.ballast.kube.plugins.module_utils._proxy.readiness import SYNC_SLOW

CAUSED = {"x-first": ["n1"]}


def test_by_a_constant_of_the_file(lab): check(CAUSED)
def check(wanted): assert wanted
def test_by_an_attribute(): assert proxy.DOWN
def test_by_a_fixture(asked): pass
def asked(): return SYNC_SLOW
def test_by_nothing(): pass
def test_by_what_is_imported(): assert_told(1)
"""


@pytest.mark.parametrize(
    ("name", "id", "why"),
    [
        ("test_by_a_constant_of_the_file", "x-first", ""),
        ("test_by_an_attribute", "kube-proxy-down", ""),
        ("test_by_a_fixture", "kube-proxy-sync-slow", ""),
        ("test_by_a_fixture", "kube-proxy-down", "does not name it"),
        ("test_by_nothing", "x-first", "does not name it"),
        ("test_by_what_is_imported", "x-first", "does not name it"),
        ("test_that_is_gone", "x-first", "does not name it"),
    ],
)
def test_a_failure_mode_whose_test_does_not_name_it_is_found(tmp_path, name, id, why):
    (tmp_path / "tests/integration").mkdir(parents=True)
    (tmp_path / "tests/integration/test_x.py").write_text(REAL, encoding="utf-8")
    mode = FailureMode(id, "a", "b", "c", "d", f"tests/integration/test_x.py::{name}")
    found = unproven(replace(a_feature("x"), failures=(mode,)), tmp_path)
    assert found == ([f"{id}: {mode.test} {why}"] if why else [])


def test_a_failure_mode_that_unit_tests_alone_cause_is_found():
    first, second = a_feature("x").failures
    gone = replace(second, test="tests/integration/test_that_is_gone.py::test_x")
    assert unproven(replace(a_feature("x"), failures=(first, gone))) == [
        f"{first.id}: {first.test} is no integration test",
        f"{gone.id}: {gone.test} does not name it",
    ]


def test_every_feature_is_in_the_registry():
    found = []
    for path in sorted(UTILS.glob("_*/**/readiness.py")):
        name = ".".join(path.relative_to(UTILS).with_suffix("").parts)
        module = importlib.import_module(f"ansible_collections.ballast.kube.plugins.module_utils.{name}")
        found += [module.FEATURE] if hasattr(module, "FEATURE") else []
    assert {one.name for one in found} == {one.name for one in FEATURES}


def test_what_can_be_exercised_is_what_the_role_exercises():
    role = ROOT / "roles/readiness"
    names = yaml.safe_load((role / "vars/main.yml").read_text(encoding="utf-8"))["__readiness_exercises"]
    assert sorted(names) == sorted(one.name for one in FEATURES if one.exercises)
    for feature in FEATURES:
        path = role / f"vars/exercises/of_{feature.name}.yml"
        kinds = re.findall(r"- kind: (\S+)", path.read_text(encoding="utf-8")) if path.exists() else []
        assert set(kinds) == set(feature.exercises), feature.name


def test_names_and_failure_modes_are_each_of_one_feature():
    names = [one.name for one in FEATURES]
    modes = [mode.id for one in FEATURES for mode in one.failures]
    assert sorted(set(names)) == sorted(names)
    assert sorted(set(modes)) == sorted(modes)


def test_questions_are_those_of_the_template():
    assert len({question.id for question in QUESTIONS}) == len(QUESTIONS) == 25
    sections = list(dict.fromkeys(question.section for question in QUESTIONS))
    assert [question.section for question in QUESTIONS] == sorted(
        (question.section for question in QUESTIONS), key=sections.index
    )
