"""What a fleet's readings amount to: each light, each reason, and that half an answer is never a whole one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness import (
    ENABLED,
    FAILURES,
    HEALTHY,
    IN_USE,
    MEASURED,
    NO,
    REQUIRED,
    SCALE,
    UNKNOWN,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import UserError
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness import info
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness.questionnaire import QUESTIONS
from tests.unit.readiness.judged import DONE, FEATURES, both, judged, problems
from tests.unit.readings import a_feature, answer, away, exercise, figure, histogram, host, reading, reading_off


@pytest.fixture(autouse=True)
def _features(monkeypatch):
    monkeypatch.setattr(info, "parse_features", lambda documents: FEATURES)


def test_a_fleet_that_is_in_order_is_green():
    report = judged(host("n1", *both()), host("n2", *both()))
    assert (report["verdict"], report["fails"], report["problems"], report["failure"]) == ("green", False, [], "")
    assert report["summary"] == {
        "hosts": {"all": 2, "reached": 2},
        "features": {"all": 2, "on": 2, "red": 0, "amber": 0, "green": 2, "grey": 0},
        "answers": {"all": 32, "red": 0, "amber": 0, "green": 32, "grey": 0},
    }


@pytest.mark.parametrize("name", REQUIRED)
@pytest.mark.parametrize(("verdict", "light"), [(NO, "red"), (UNKNOWN, "amber")])
def test_a_required_answer_that_is_not_yes_fails_the_run(name, verdict, light):
    wrong = answer(verdict, "It is not.", remedy="mend it")
    report = judged(host("n1", *both()), host("n2", *both(**{name: wrong})))
    assert (report["verdict"], report["fails"]) == (light, True)
    assert problems(report) == [(light, "n2", "kube_proxy", name)]
    assert "n2 / kube_proxy / " + name in report["failure"]
    assert "mend it" in report["failure"]


@pytest.mark.parametrize("name", [name for name in MEASURED if name != ENABLED])
def test_a_feature_that_does_not_answer_a_question_is_not_green(name):
    told = reading("kube_proxy")
    del told["answers"][name]
    report = judged(host("n1", told, reading("balloons")))
    assert problems(report) == [("amber", "n1", "kube_proxy", name)]
    assert (report["verdict"], report["fails"]) == ("amber", name != IN_USE)


def test_a_feature_may_be_unused_or_off():
    report = judged(host("n1", *both(in_use=answer(NO))), host("n2", reading_off("kube_proxy"), reading("balloons")))
    assert (report["verdict"], report["fails"], report["problems"]) == ("green", False, [])
    assert report["features"][0]["states"] == {"on": 1, "off": 1}


def test_whether_it_is_on_has_to_be_known():
    report = judged(host("n1", *both(enabled=answer(UNKNOWN))), host("n2", *both()))
    assert problems(report) == [("amber", "n1", "kube_proxy", ENABLED)]
    assert report["fails"]


def test_a_fleet_without_a_feature_that_is_on_shows_nothing():
    report = judged(host("n1", reading_off("kube_proxy"), reading_off("balloons")))
    assert problems(report) == [("amber", "", "", "")]
    assert report["fails"]


def test_no_hosts_at_all_is_not_green():
    assert judged()["verdict"] == "amber"
    assert judged()["fails"]


def test_half_a_fleet_is_not_green_and_each_absent_host_is_named():
    report = judged(host("n1", *both()), away("n2"), required=["n1", "n2", "n3"])
    assert problems(report) == [("amber", "n2", "", ""), ("amber", "n3", "", "")]
    assert report["fails"]
    assert [row["light"] for row in report["features"]] == ["amber", "amber"]
    assert report["summary"]["hosts"] == {"all": 3, "reached": 1}


def test_a_host_that_is_away_counts_for_the_features_meant_for_it():
    gone = {**away("n2"), "features": {"balloons": {"failed": "unreachable"}}}
    report = judged(host("n1", *both()), gone)
    assert [row["light"] for row in report["features"]] == ["green", "amber"]
    assert problems(report) == [("amber", "n2", "", "")]


def test_an_info_module_that_failed_is_said_with_its_message():
    failed = {**host("n2"), "features": {"kube_proxy": {"failed": "no \x1b[31mnft"}, "balloons": reading("balloons")}}
    report = judged(host("n1", *both()), failed)
    assert problems(report) == [("amber", "n2", "kube_proxy", "")]
    assert report["problems"][0]["text"] == "no  [31mnft"
    assert report["fails"]


def test_a_host_of_which_nothing_was_asked_is_not_green():
    report = judged(host("n1", *both()), host("n2"))
    assert problems(report) == [("amber", "n2", "", "")]
    assert report["fails"]


def test_a_feature_that_is_not_known_is_said():
    report = judged({**host("n1", *both()), "features": {"bogus": {}, "balloons": reading("balloons")}})
    assert problems(report) == [("amber", "n1", "", "")]
    assert "bogus" in report["problems"][0]["text"]


def test_a_failure_mode_that_is_there_cannot_stand_beside_a_yes():
    report = judged(host("n1", reading("kube_proxy", present=("kube_proxy-second",)), reading("balloons")))
    assert problems(report) == [("red", "n1", "kube_proxy", FAILURES)]
    assert report["problems"][0]["text"].endswith("found: kube_proxy-second")
    assert report["problems"][0]["remedy"] == "stop the second"
    assert [mode["hosts"] for mode in report["features"][0]["failures"]] == [[], ["n1"]]


def test_a_figure_above_its_limit_cannot_stand_beside_a_yes():
    above = answer(figures=[figure("in_flight", 6, limit=5)])
    report = judged(host("n1", *both(scale=above)))
    assert problems(report) == [("red", "n1", "kube_proxy", SCALE)]
    assert "in_flight is 6, its limit 5" in report["problems"][0]["text"]
    assert judged(host("n1", *both(scale=answer(figures=[figure("in_flight", 5, limit=5)]))))["verdict"] == "green"


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ((5, 5), []),
        ((6, 5), ["in_flight"]),
        ((5, 6), ["queued"]),
        ((6, 6), ["in_flight", "queued"]),
        ((None, 6), ["queued"]),
    ],
)
def test_each_of_several_figures_has_to_be_within_its_limit(values, named):
    figures = [figure("in_flight", values[0], limit=5), figure("free", 99), figure("queued", values[1], limit=5)]
    report = judged(host("n1", *both(scale=answer(figures=figures))))
    assert report["verdict"] == ("red" if named else "green")
    text = report["problems"][0]["text"] if named else ""
    assert [name for name in ("in_flight", "queued", "free") if f"{name} is " in text] == named


def test_an_answer_without_a_remedy_leads_to_the_page():
    report = judged(host("n1", *both(healthy=answer(NO))))
    assert report["problems"][0]["remedy"] == "see docs/kube_proxy.md"


def test_problems_stand_the_worst_first():
    told = reading("kube_proxy", healthy=answer(UNKNOWN), in_use=answer(UNKNOWN), scale=answer(NO))
    report = judged(host("n1", told, reading("balloons")))
    assert [row["question"] for row in report["problems"]] == [SCALE, HEALTHY, IN_USE]
    assert report["failure"].startswith("1 required checks failed, 1 are unknown\n")


def test_the_text_of_a_failure_is_bounded():
    report = judged(*(host(f"n{number}", *both(healthy=answer(NO, "x" * 900))) for number in range(40)))
    assert report["failure"].endswith("and 20 more, listed in the report")
    assert len(report["failure"]) < 12_000


def test_questions_stand_in_the_order_of_the_template():
    sections = judged(host("n1", *both()))["features"][0]["sections"]
    assert [row["id"] for section in sections for row in section["questions"]] == [row.id for row in QUESTIONS]
    assert all(row["answer"] for section in sections for row in section["questions"])


def question(report: dict[str, Any], id: str) -> dict[str, Any]:
    sections = report["features"][0]["sections"]
    return next(row for section in sections for row in section["questions"] if row["id"] == id)


def test_a_question_has_the_worst_light_of_what_bears_on_it():
    report = judged(host("n1", *both()), host("n2", *both(healthy=answer(NO))))
    assert (question(report, "slis")["light"], question(report, "exhaustion")["light"]) == ("red", "green")
    assert question(report, "slis")["measured"][0]["verdicts"] == {"yes": 1, "no": 1}
    assert question(report, "api-types")["light"] == ""
    assert question(judged(host("n1", *both()), away("n2")), "slis")["light"] == "amber"


class TestExercises:
    def test_never_done_is_amber_and_fails_nothing(self):
        report = judged(host("n1", *both()), exercises=[])
        assert [row[3] for row in problems(report)] == ["enable", "setting", "enable", "setting"]
        assert (report["verdict"], report["fails"], report["failure"]) == ("amber", False, "")

    def test_of_a_feature_that_has_none_none_is_asked(self, monkeypatch):
        features = [a_feature("kube_proxy"), replace(a_feature("balloons"), exercises=())]
        monkeypatch.setattr(info, "parse_features", lambda documents: features)
        report = judged(host("n1", *both()), exercises=DONE[:2])
        assert (report["verdict"], report["problems"]) == ("green", [])
        told = [
            row for part in report["features"][1]["sections"] for one in part["questions"] for row in one["exercises"]
        ]
        assert {(row["kind"], row["light"]) for row in told} == {("enable", "grey"), ("setting", "grey")}

    def test_of_a_feature_that_is_off_none_is_asked(self):
        report = judged(host("n1", reading("kube_proxy"), reading_off("balloons")), exercises=DONE[:2])
        assert report["verdict"] == "green"

    def test_one_that_failed_is_red_with_the_step(self):
        report = judged(host("n1", *both()), exercises=[*DONE[1:], exercise("kube_proxy", "n1", "enable", ok=False)])
        assert problems(report) == [("red", "", "kube_proxy", "enable")]
        assert "in: enable: it did not come" in report["problems"][0]["text"]
        assert report["fails"]

    def test_the_last_one_of_a_host_counts(self):
        earlier = exercise("kube_proxy", "n1", "enable", at="2026-11-22T14:00:00Z", ok=False)
        assert judged(host("n1", *both()), exercises=[*DONE, earlier])["verdict"] == "green"

    def test_a_failure_of_a_host_that_is_gone_is_past(self):
        gone = exercise("kube_proxy", "n9", "enable", at="2026-11-22T16:00:00Z", ok=False)
        assert judged(host("n1", *both()), exercises=[*DONE, gone])["verdict"] == "green"

    def test_those_of_an_earlier_report_are_carried_on(self):
        first = judged(host("n1", *both()))
        second = judged(host("n1", *both()), exercises=[], previous=json.dumps(first))
        assert (second["verdict"], second["exercises"]) == ("green", first["exercises"])

    def test_done_twice_they_are_there_once(self):
        first = judged(host("n1", *both()))
        assert judged(host("n1", *both()), previous=json.dumps(first))["exercises"] == first["exercises"]

    def test_a_report_does_not_grow_without_end(self):
        many = [exercise("kube_proxy", "n1", "enable", at=f"2026-11-22T15:{minute:02}:00Z") for minute in range(30)]
        kept = judged(host("n1", *both()), exercises=many)["exercises"]
        assert [row["at"] for row in kept] == [f"2026-11-22T15:{minute:02}:00Z" for minute in range(29, 24, -1)]

    @pytest.mark.parametrize(
        ("previous", "reason"),
        [
            ("", "it is not JSON"),
            ("[" * 100_000, "it is not JSON"),
            ("[]", "it is not a report of format 1"),
            ('{"format": true}', "it is not a report of format 1"),
            ('{"format": 2, "exercises": []}', "it is not a report of format 1"),
            ('{"format": 1, "exercises": {}}', "its drills are not a list"),
            ('{"format": 1, "exercises": [{"feature": 1e999}]}', "exercises[0].feature: inf is not text"),
        ],
    )
    def test_an_earlier_report_that_cannot_be_used_is_said(self, previous, reason):
        report = judged(host("n1", *both()), previous=previous)
        assert (report["verdict"], report["fails"]) == ("amber", False)
        assert reason in report["problems"][0]["text"]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"steps": []},
            {"steps": [{}]},
            {"kind": "other"},
            {"at": "2026-02-30T00:00:00Z"},
            {"at": "2026-11-22T15:00:00.5Z"},
            {"at": "2026-11-22 15:00:00"},
            {"feature": " "},
            {"more": 1},
        ],
    )
    def test_one_of_this_run_that_is_wrong_is_refused(self, wrong):
        with pytest.raises(UserError):
            judged(host("n1", *both()), exercises=[{**DONE[0], **wrong}])


class TestDifferences:
    def test_hosts_that_answer_alike_have_none(self):
        report = judged(host("n1", *both()), host("n2", *both()))
        assert [row["differences"] for row in report["features"]] == [[], []]
        assert report["features"][0]["versions"] == [{"versions": {"kube_proxy": "v1.37.1"}, "hosts": ["n1", "n2"]}]

    def test_another_answer_is_shown_with_the_version(self):
        old = reading("kube_proxy", version="v1.35.8", healthy=answer(NO))
        found = judged(host("n1", *both()), host("n2", old, reading("balloons")))["features"][0]
        assert found["differences"] == [
            {
                "question": "healthy",
                "groups": [
                    {"verdict": "no", "unread": [], "hosts": [{"name": "n2", "versions": {"kube_proxy": "v1.35.8"}}]},
                    {"verdict": "yes", "unread": [], "hosts": [{"name": "n1", "versions": {"kube_proxy": "v1.37.1"}}]},
                ],
            }
        ]
        assert [row["hosts"] for row in found["versions"]] == [["n2"], ["n1"]]

    def test_a_figure_that_one_version_does_not_have_is_a_difference(self):
        old = reading("kube_proxy", version="v1.35.8", scale=answer(figures=[figure("in_flight", None, limit=5)]))
        [found] = judged(host("n1", *both()), host("n2", old))["features"][0]["differences"]
        assert [(group["verdict"], group["unread"]) for group in found["groups"]] == [
            ("yes", []),
            ("yes", ["in_flight"]),
        ]

    def test_a_host_that_is_off_or_away_has_no_say(self):
        report = judged(host("n1", *both()), host("n2", reading_off("kube_proxy"), reading("balloons")), away("n3"))
        assert [row["differences"] for row in report["features"]] == [[], []]


class TestBrokenReadings:
    """What is not exactly a reading counts as not known, with every fault, and never ends the run."""

    @pytest.mark.parametrize(
        ("path", "value", "reason"),
        [
            (("feature",), "balloons", "readiness.feature: 'balloons' is not one of kube_proxy"),
            (("answers",), [], "readiness.answers: a value of type list is not an object"),
            (("answers",), {}, "readiness.answers: enabled is missing"),
            (("answers", "healthy"), "yes", "readiness.answers.healthy: 'yes' is not an object"),
            (("answers", "bogus"), {}, "readiness.answers.bogus: 'bogus' is not one of enabled, "),
            (("answers", "healthy", "verdict"), True, "readiness.answers.healthy.verdict: True is not one of yes, no"),
            (("answers", "healthy", "text"), "", "readiness.answers.healthy.text: '' is not text that is not empty"),
            (("answers", "healthy", "more"), 1, "readiness.answers.healthy: unknown key 'more'"),
            (("answers", "healthy", "lines"), "step", "readiness.answers.healthy.lines: 'step' is not a list"),
            (("answers", "healthy", "lines"), [1], "readiness.answers.healthy.lines[0]: 1 is not text"),
            (
                ("answers", "healthy", "figures", 0, "value"),
                float("nan"),
                "figures[0].value: nan is not a finite number",
            ),
            (("answers", "healthy", "figures", 0, "value"), 10**400, "is not a finite number"),
            (("answers", "healthy", "figures", 0, "value"), True, "figures[0].value: True is not a finite number"),
            (("answers", "healthy", "figures", 0, "buckets"), [{"le": 1, "count": 1}], "is not a histogram"),
            (("answers", "healthy", "figures", 0, "buckets", 0, "count"), 99, "is not a histogram"),
            (("answers", "healthy", "figures", 0, "buckets", 0, "count"), -1, "-1 is not a whole number"),
            (("answers", "healthy", "figures", 0, "buckets", 0, "le"), 7, "is not a histogram"),
            (("present",), ["bogus"], "readiness.present[0]: 'bogus' is not a failure mode of kube_proxy"),
            (("versions",), {"kubelet": None}, "readiness.versions.kubelet: None is not text"),
            (("versions",), None, "readiness.versions: None is not an object"),
        ],
    )
    def test_each_fault_is_named(self, path, value, reason):
        told = reading("kube_proxy")
        place: Any = told
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        features = {"kube_proxy": told, "balloons": reading("balloons")}
        report = judged({**host("n1"), "features": features}, host("n2", *both()))
        assert problems(report) == [("amber", "n1", "kube_proxy", "")]
        assert reason in report["problems"][0]["text"]
        assert report["fails"]

    def test_all_faults_are_named_at_once(self):
        told = reading("kube_proxy", healthy=answer("maybe"), scale=answer("perhaps"))
        text = judged(host("n1", told))["problems"][0]["text"]
        assert ("maybe" in text, "perhaps" in text) == (True, True)

    def test_a_part_that_is_missing_is_named(self):
        told = reading("kube_proxy")
        del told["answers"]["healthy"]["how"]
        assert "readiness.answers.healthy: how is missing" in judged(host("n1", told))["problems"][0]["text"]

    JSON = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=8), parts, max_size=3),
        max_leaves=8,
    )

    @given(told=JSON)
    def test_anything_in_the_place_of_a_reading_is_not_green(self, told):
        hosts = [{**host("n1"), "features": {"kube_proxy": told}}, host("n2", *both())]
        report = judged(*hosts)
        assert report["fails"]
        assert report["features"][0]["light"] == "amber"

    @given(data=st.data(), value=JSON)
    def test_a_reading_with_anything_in_one_place_is_judged(self, data, value):
        """It may still be a reading; it is never an end of the run, and never worth more than before."""
        told = reading("kube_proxy", healthy=answer(figures=[histogram("sync", {1: 2, 5: 3}), figure("in_flight", 1)]))
        place: Any = told
        while True:
            key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
            if not isinstance(place[key], (dict, list)) or not place[key] or data.draw(st.booleans()):
                place[key] = value
                break
            place = place[key]
        judged({**host("n1"), "features": {"kube_proxy": told, "balloons": reading("balloons")}})

    @given(report=JSON | st.fixed_dictionaries({"format": st.just(1), "exercises": JSON}))
    def test_any_earlier_report_is_either_used_or_said(self, report):
        judged(host("n1", *both()), previous=json.dumps(report))


def test_a_host_that_is_there_twice_is_refused():
    with pytest.raises(UserError) as caught:
        judged(host("n1", *both()), host("n1"))
    assert caught.value.id == "readiness-host-twice"
