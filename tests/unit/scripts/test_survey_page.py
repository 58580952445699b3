"""The surveys of docs/awx.md against what they are made of."""

from __future__ import annotations

import json
import re

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.request import PLAYBOOKS
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.variables import known_names
from scripts import survey_page
from scripts.survey_page import PAGE, QUESTIONS, shown, survey


def test_the_page_has_the_surveys_of_the_playbooks():
    assert survey_page.main(["--check"]) == 0


def test_each_playbook_of_a_fleet_has_a_survey_in_the_page():
    assert set(QUESTIONS) == {name for name, playbook in PLAYBOOKS.items() if playbook.is_fleet or name == "fleet_run"}
    blocks = re.findall(r"#### `(\w+)`\n\n```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert {name: json.loads(text) for name, text in blocks} == {name: survey(name) for name in QUESTIONS}


@pytest.mark.parametrize("playbook", QUESTIONS)
def test_every_question_is_of_a_variable_that_the_playbook_knows(playbook):
    divided = ("kube_proxy",) if playbook == "fleet_run" else ()
    known = known_names(LocalHost(), (*PLAYBOOKS[playbook].all_prefixes, *divided))
    rows = survey(playbook)["spec"]
    assert {row["variable"] for row in rows} <= set(known)
    assert f"{PLAYBOOKS[playbook].prefix}_confirm" not in {row["variable"] for row in rows}, "of the template alone"
    for row in rows:
        assert row["type"] in ("text", "multiplechoice", "integer", "float")
        assert row["question_description"]
        assert row["default"] == "" or not row["choices"] or row["default"] in row["choices"]


def test_a_fleet_run_asks_for_the_playbook_and_for_its_request():
    rows = {row["variable"]: row for row in survey("fleet_run")["spec"]}
    assert rows["fleet_playbook"]["required"]
    assert {"fleet_slices", "kube_proxy_hosts", "kube_proxy_mode", "kube_proxy_max_fail"} <= set(rows)
    assert [name for name, row in rows.items() if row["required"]] == ["fleet_playbook"], "a rollback names no mode"


def test_descriptions_have_no_marks_of_ansible():
    assert shown("Before O(ballast.kube.kube_proxy#module:drain_seconds), V(true) and C(ssh).") == (
        "Before drain_seconds, true and ssh."
    )
    assert shown(["First.", "Second."]) == "First."
