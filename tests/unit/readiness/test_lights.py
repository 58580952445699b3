# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The light of each answer, host, exercise and feature, with its text and its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness import (
    DEPENDENCIES,
    ENABLE_DISABLE_ENABLE,
    ENABLED,
    FAILURES,
    HEALTHY,
    IN_USE,
    MEASURED,
    NO,
    REQUIRED,
    SCALE,
    UNKNOWN,
    UP_DOWN_UP,
    YES,
    Answer,
    Figure,
    Reading,
)
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness.exercises import Exercise, Step
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness.fleet import HostReport, NoReading
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness.judge import (
    AMBER,
    AWAY,
    FAILED,
    GREEN,
    GREY,
    OFF,
    ON,
    RED,
    UNCLEAR,
    Exercised,
    Judged,
    JudgedFeature,
    Place,
    judge,
    worst,
)
from tests.unit.readings import a_feature

PROXY = a_feature("kube_proxy")
VERSIONS = {"kube-proxy": "v1.37.1"}


def answer(verdict: str = YES, text: str = "It works.", **fields: Any) -> Answer:
    return Answer(verdict, text, "a look", **fields)


def reading(*, present: tuple[str, ...] = (), without: str = "", **answers: Answer) -> Reading:
    """Of a feature that is on: each answer is yes but for those given."""
    every = {name: answer() for name in MEASURED if name != without}
    return Reading("kube_proxy", {**every, **answers}, present, VERSIONS)


def host(name: str, of: object = None, *, reached: bool = True, reason: str = "") -> HostReport:
    features: Mapping[str, Any] = {} if of is None else {"kube_proxy": of}
    return HostReport(name, reached, reason, features)


def step(title: str, seconds: float = 1.0, *, ok: bool = True, text: str = "") -> Step:
    return Step(title, seconds, ok, text)


def exercise(name: str, *steps: Step, kind: str = ENABLE_DISABLE_ENABLE, hour: int = 12, **fields: Any) -> Exercise:
    of = {"feature": "kube_proxy", "host": name, "version": "v1.37.1", **fields}
    return Exercise(kind=kind, at=f"2026-11-22T{hour}:00:00Z", steps=steps or (step("enable"),), **of)


def judged(*hosts: HostReport, exercises: tuple[Exercise, ...] = ()) -> JudgedFeature:
    [of_feature] = judge([PROXY], hosts, exercises)
    return of_feature


def place_of(*hosts: HostReport) -> Place:
    [place] = judged(*hosts).places
    return place


def answer_of(name: str, of: Reading) -> Judged:
    return place_of(host("n1", of)).answers[name]


def exercised(*exercises: Exercise, kind: str = ENABLE_DISABLE_ENABLE, on: bool = True) -> Exercised:
    """On a fleet of n1 and n2."""
    of = reading() if on else Reading("kube_proxy", {ENABLED: answer(NO)})
    results = judged(host("n1", of), host("n2", of), exercises=exercises).exercised
    return next(result for result in results if result.kind == kind)


def test_the_worst_light_counts_and_grey_is_the_best():
    assert worst([GREEN, AMBER, RED, GREY]) == RED
    assert worst([GREY, GREEN, AMBER]) == AMBER
    assert worst([GREY, GREEN]) == GREEN
    assert worst([]) == GREY


class TestHosts:
    def test_a_feature_that_is_on_has_every_answer(self):
        place = place_of(host("n1", reading(present=("kube_proxy-first",), scale=answer(UNKNOWN))))
        assert (place.host, place.state, place.light, place.text) == ("n1", ON, RED, "")
        assert (place.present, place.versions) == (("kube_proxy-first",), VERSIONS)
        assert tuple(place.answers) == MEASURED
        assert [row.name for row in place.answers.values()] == list(MEASURED)

    def test_without_a_fault_it_is_green(self):
        of_feature = judged(host("n1", reading()), exercises=(exercise("n1"), exercise("n1", kind=UP_DOWN_UP)))
        assert (of_feature.feature, of_feature.light, of_feature.is_on) == (PROXY, GREEN, True)
        assert of_feature.places[0].light == GREEN

    @pytest.mark.parametrize(("verdict", "light", "state"), [(NO, GREY, OFF), (UNKNOWN, AMBER, UNCLEAR)])
    def test_a_feature_that_is_not_on_has_that_answer_alone(self, verdict, light, state):
        enabled = answer(verdict)
        of_feature = judged(host("n1", reading(enabled=enabled)))
        [place] = of_feature.places
        rows = {ENABLED: Judged(ENABLED, light, verdict == UNKNOWN, enabled)}
        assert place == Place("n1", state, light, answers=rows, versions=VERSIONS)
        assert not of_feature.is_on

    def test_a_module_that_failed_leaves_its_text(self):
        assert place_of(host("n1", NoReading("no nft"))) == Place("n1", FAILED, AMBER, "no nft")

    def test_a_host_that_is_away_is_amber_with_the_reason(self):
        away = host("n1", NoReading("unreachable"), reached=False, reason="ssh: timeout")
        assert place_of(away) == Place("n1", AWAY, AMBER, "ssh: timeout")
        assert place_of(replace(away, reason="")).text == "the host was unreachable"

    def test_of_an_absent_host_a_feature_is_missed_that_others_were_asked_for(self):
        absent = host("n2", reached=False, reason="ssh: timeout")
        assert [place.state for place in judged(host("n1", reading()), absent).places] == [ON, AWAY]
        assert judged(host("n1"), absent).places == ()
        assert judged(absent, host("n3", reached=False)).places == ()

    def test_a_host_of_which_the_feature_was_not_asked_has_no_place(self):
        other = HostReport("n2", False, "", {"balloons": NoReading("unreachable")})
        assert [place.host for place in judged(host("n1", reading()), host("n3"), other).places] == ["n1"]

    def test_the_light_of_a_feature_is_the_worst_of_hosts_and_exercises(self):
        done = (exercise("n1"), exercise("n1", kind=UP_DOWN_UP))
        assert judged(host("n1", reading()), host("n2", NoReading("")), exercises=done).light == AMBER
        assert judged(host("n1", reading()), exercises=done[:1]).light == AMBER
        bad = (exercise("n1", step("enable", ok=False)), done[1])
        assert judged(host("n1", reading()), exercises=bad).light == RED


class TestAnswers:
    @pytest.mark.parametrize("name", [name for name in MEASURED if name != ENABLED])
    def test_one_that_is_missing_is_not_known(self, name):
        remedy = "use one version of ballast.kube on all hosts, and run it again"
        missing = Answer(UNKNOWN, "kube_proxy_info did not report this", "kube_proxy_info", remedy)
        assert answer_of(name, reading(without=name)) == Judged(name, AMBER, name != IN_USE, missing)

    @pytest.mark.parametrize(("verdict", "light"), [(YES, GREEN), (NO, GREY), (UNKNOWN, AMBER)])
    def test_use_never_fails_the_run(self, verdict, light):
        use = answer(verdict, figures=(Figure("pods", 9, "", "a look", limit=1),))
        assert answer_of(IN_USE, reading(in_use=use)) == Judged(IN_USE, light, False, use)

    @pytest.mark.parametrize("name", MEASURED)
    def test_yes_is_green(self, name):
        assert answer_of(name, reading()) == Judged(name, GREEN, False, answer())

    @pytest.mark.parametrize("name", REQUIRED)
    @pytest.mark.parametrize(("verdict", "light"), [(NO, RED), (UNKNOWN, AMBER)])
    def test_a_required_one_that_is_not_yes_fails_the_run_and_has_a_remedy(self, name, verdict, light):
        bare, with_remedy = answer(verdict), answer(verdict, remedy="start it")
        to_page = replace(bare, remedy="see docs/kube_proxy.md")
        assert answer_of(name, reading(**{name: bare})) == Judged(name, light, True, to_page)
        assert answer_of(name, reading(**{name: with_remedy})) == Judged(name, light, True, with_remedy)

    @pytest.mark.parametrize("verdict", [YES, UNKNOWN])
    def test_failure_modes_that_are_there_are_a_no(self, verdict):
        present = ("kube_proxy-first", "kube_proxy-second")
        row = answer_of(FAILURES, reading(present=present, failures=answer(verdict, "It looked. ", remedy="stop it")))
        assert (row.light, row.fails, row.answer.verdict, row.answer.remedy) == (RED, True, NO, "stop it")
        assert row.answer.text == "It looked; found: kube_proxy-first, kube_proxy-second"

    def test_a_no_says_by_itself_which_failure_modes_there_are(self):
        said = answer(NO, "The second one fails.", remedy="stop it")
        assert answer_of(FAILURES, reading(present=("kube_proxy-second",), failures=said)).answer == said
        assert answer_of(HEALTHY, reading(present=("kube_proxy-second",))).light == GREEN

    @pytest.mark.parametrize("name", [HEALTHY, DEPENDENCIES, SCALE])
    def test_every_figure_above_its_limit_is_named(self, name):
        figures = (
            Figure("queue", 6, "", "a look", limit=5),
            Figure("held", 5, "", "a look", limit=5),
            Figure("memory", 2048, "B", "a look", limit=1024),
            Figure("threads", 9, "", "a look"),
        )
        row = answer_of(name, reading(**{name: answer(figures=figures)}))
        assert (row.light, row.fails, row.answer.verdict) == (RED, True, NO)
        assert row.answer.text == (
            "It works; above the limit: queue is 6, its limit 5, memory is 2 KiB, its limit 1 KiB"
        )

    @pytest.mark.parametrize(("verdict", "light"), [(NO, RED), (UNKNOWN, AMBER)])
    def test_one_that_is_not_yes_keeps_its_text_whatever_its_figures(self, verdict, light):
        said = answer(verdict, remedy="wait", figures=(Figure("queue", 6, "", "a look", limit=5),))
        assert answer_of(SCALE, reading(scale=said)) == Judged(SCALE, light, True, said)

    def test_whether_a_feature_is_on_has_no_limit(self):
        enabled = answer(figures=(Figure("queue", 6, "", "a look", limit=5),))
        assert answer_of(ENABLED, reading(enabled=enabled)) == Judged(ENABLED, GREEN, False, enabled)


class TestExercises:
    def test_one_that_passed_is_shown_with_its_length_and_version(self):
        done = exercise("n2", step("disable", 1.25), step("enable", 2.5))
        text = "enable -> disable -> enable was done on n2 at 2026-11-22T12:00:00Z, in 3.8 s"
        expected = Exercised(ENABLE_DISABLE_ENABLE, GREEN, False, f"{text}, v1.37.1", "", (done,))
        assert exercised(done) == expected
        assert exercised(replace(done, version="")).text == text

    def test_the_newest_that_passed_is_shown(self):
        rows = [exercise("n1", hour=12), exercise("n2", hour=14), exercise("n9", hour=13)]
        for order in (rows, rows[::-1], [rows[1], rows[2], rows[0]]):
            result = exercised(*order)
            assert "was done on n2 at 2026-11-22T14" in result.text
            assert result.records == tuple(order)

    def test_one_that_passed_on_a_host_that_is_gone_still_counts(self):
        assert "was done on n9" in exercised(exercise("n9")).text

    def test_one_that_failed_on_each_of_two_hosts_is_named_with_its_first_step_that_failed(self):
        def failed(name: str, hour: int) -> Exercise:
            steps = step("enable"), step("disable", ok=False, text="it hung"), step("enable", ok=False, text="later")
            return exercise(name, *steps, hour=hour)

        rows = (failed("n1", 12), exercise("n3", hour=15), failed("n2", 13))
        result = exercised(*rows)
        assert result == Exercised(
            ENABLE_DISABLE_ENABLE,
            RED,
            True,
            "enable -> disable -> enable failed on n1 at 2026-11-22T12:00:00Z, in: disable: it hung; "
            "enable -> disable -> enable failed on n2 at 2026-11-22T13:00:00Z, in: disable: it hung",
            "fix the problem that the step reports, then run the drill again",
            rows,
        )

    @pytest.mark.parametrize("order", [1, -1])
    def test_the_last_of_a_host_counts(self, order):
        bad = step("enable", ok=False)
        later_passed = [exercise("n1", bad, hour=12), exercise("n1", hour=13)]
        later_failed = [exercise("n1", hour=12), exercise("n1", bad, hour=13)]
        assert exercised(*later_passed[::order]).light == GREEN
        assert exercised(*later_failed[::order]).light == RED

    def test_a_failure_on_a_host_that_is_gone_is_as_if_never_done(self):
        gone = exercise("n9", step("enable", ok=False))
        result = exercised(gone)
        assert (result.light, result.fails, result.records) == (AMBER, False, (gone,))

    @pytest.mark.parametrize(
        ("kind", "what"),
        [(ENABLE_DISABLE_ENABLE, "enable -> disable -> enable"), (UP_DOWN_UP, "the setting up -> down -> up")],
    )
    def test_one_that_was_never_done_says_how_to_do_it(self, kind, what):
        others = [exercise("n1", kind=other) for other in (ENABLE_DISABLE_ENABLE, UP_DOWN_UP) if other != kind]
        remedy = "run the drill once on a canary, with readiness_exercise=true"
        assert exercised(*others, kind=kind) == Exercised(kind, AMBER, False, f"{what} was never drilled", remedy, ())

    def test_of_a_feature_that_is_on_nowhere_none_is_asked(self):
        done = exercise("n1", step("enable", ok=False))
        expected = Exercised(ENABLE_DISABLE_ENABLE, GREY, False, "the feature is enabled on no host", "", (done,))
        assert exercised(done, on=False) == expected

    def test_those_of_other_features_do_not_count(self):
        assert exercised(exercise("n1", feature="balloons")).light == AMBER

    def test_a_kind_that_the_feature_does_not_have_is_grey(self):
        feature = replace(PROXY, exercises=(UP_DOWN_UP,))
        [of_feature] = judge([feature], [host("n1", reading())], [exercise("n1")])
        text = "no drill covers it"
        assert of_feature.exercised[0] == Exercised(ENABLE_DISABLE_ENABLE, GREY, False, text, "", ())
        assert of_feature.exercised[1].light == AMBER


def test_features_are_judged_in_their_order():
    features = [a_feature("balloons"), PROXY]
    assert [row.feature for row in judge(features, [host("n1", reading())], [])] == features
