"""Each feature answers each question. What is written down beside the code is held to what is there."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness.features import (
    FailureMode,
    Feature,
    parse_features,
)
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness.questionnaire import QUESTIONS
from ansible_collections.ballast.kube.plugins.plugin_utils.readiness import DIRECTORY
from tests.unit.readiness.reach import named_by
from tests.unit.readings import FEATURES, a_document, a_feature

ROOT = Path(__file__).resolve().parents[3]


def named_tests(feature: Feature) -> list[str]:
    named = [test for static in feature.statics.values() for test in static.tests]
    return [*named, *(mode.test for mode in feature.failures)]


def gone(feature: Feature) -> list[str]:
    """Tests that it names and that are not there."""
    return [test for test in sorted(set(named_tests(feature))) if not is_there(test)]


def refused(*documents: object) -> list[str]:
    """Each fault of these documents."""
    try:
        parse_features(documents)
    except BallastError as error:
        faults = getattr(error, "problems", (error,))
        assert {fault.id for fault in faults} == {"readiness-feature"}
        return [fault.text.partition("is not valid: ")[2] for fault in faults]
    return []


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
def test_the_tests_that_a_feature_names_are_there(feature):
    assert gone(feature) == []


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_each_failure_mode_is_caused_on_real_parts_and_found_there(feature):
    assert unproven(feature) == []


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_what_a_feature_names_is_there(feature):
    assert (ROOT / feature.page).is_file()
    module = (ROOT / f"plugins/modules/{feature.module}.py").read_text(encoding="utf-8")
    assert "ballast.kube._readiness" in module


def test_a_document_is_the_feature_that_it_says():
    assert parse_features([a_document(feature) for feature in FEATURES]) == FEATURES


def test_a_feature_that_lacks_an_answer_is_found():
    whole = a_document(a_feature("x"))
    assert refused(whole) == []
    answers = {id: {"text": static["text"]} for id, static in whole["answers"].items()}
    del answers["slos"]
    with_tests = {**answers, **{id: whole["answers"][id] for id in ("reenabled", "upgrade-tested")}}
    assert refused({**whole, "answers": with_tests}) == ["x.answers: slos is missing"]
    assert refused({**whole, "answers": {**with_tests, "slos": {"text": " "}}}) == [
        "x.answers.slos.text: ' ' is not text that is not empty"
    ]
    [unknown] = refused({**whole, "answers": {**whole["answers"], "bogus": {"text": "x"}}})
    assert unknown.startswith("x.answers: unknown key 'bogus'; allowed: enable-disable, default-behavior, ")
    assert refused({**whole, "answers": {**answers, "slos": {"text": "x"}}}) == [
        "x.answers.reenabled: tests is missing",
        "x.answers.upgrade-tested: tests is missing",
    ]
    assert refused({**whole, "failures": []}) == ["x.failures: a failure mode is missing"]
    assert gone(replace(a_feature("x"), failures=(FailureMode("x-y", "a", "b", "c", "d", "tests/gone.py::gone"),))) == [
        "tests/gone.py::gone"
    ]


def test_without_a_document_nothing_is_judged():
    assert refused() == ["documents: a document is missing"]


def test_all_faults_of_all_documents_are_said_at_once():
    whole, other = a_document(a_feature("x")), a_document(a_feature("y"))
    mode = {"id": "X_y", "text": "a", "detection": "b", "mitigation": "c", "diagnosis": "", "test": "d"}
    wrong = {**whole, "exercises": ["other"], "page": 1, "failures": [mode, {"id": "y-first"}]}
    assert refused(wrong, None, other) == [
        "x.page: 1 is not text",
        "x.failures[0].diagnosis: '' is not text that is not empty",
        "x.failures[0].id: 'X_y' is not in kebab-case",
        *(f"x.failures[1]: {key} is missing" for key in ("text", "detection", "mitigation", "diagnosis", "test")),
        "x.exercises[0]: 'other' is not one of enable, setting",
        "feature: None is not an object",
        "failures: 'y-first' is not the id of a single failure mode",
    ]


REAL = """
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import readiness_answers as proxy
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.readiness_answers import SYNC_SLOW

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


def test_every_document_is_of_a_feature():
    assert {path.name for path in DIRECTORY.iterdir()} == {f"{one.name}.yml" for one in FEATURES}


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
