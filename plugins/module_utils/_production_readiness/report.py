# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a run as JSON data: complete, so that a page or another program needs nothing else. Pure.

    {format, at, verdict, fails, status, summary, problems: [...], hosts: [...], features: [...], exercises: [...]}

Sections and questions of a feature are in the order of the KEP template. Times are RFC 3339 in UTC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from .._core.engine.readiness import FAILURES, Reading
from .differences import find_differences, find_versions
from .exercises import FORMAT, Exercise, exercise_as_json
from .fleet import HostReport
from .judge import AMBER, AWAY, FAILED, GREEN, LIGHTS, Exercised, Judged, JudgedFeature, Place, worst
from .plots import find_plots
from .problems import Problem
from .questionnaire import QUESTIONS, Question
from .summary import FAIL, status

Json = dict[str, Any]


def make_report(
    judged: Sequence[JudgedFeature],
    hosts: Sequence[HostReport],
    problems: Sequence[Problem],
    exercises: Sequence[Exercise],
    at: str,
) -> Json:
    """`at` is the time of the run, RFC 3339 in UTC. `verdict` is the worst light, `status` what it means for the run."""
    verdict = worst([*(feature.light for feature in judged), *(problem.light for problem in problems), GREEN])
    fails = any(problem.fails for problem in problems)
    return {
        "format": FORMAT,
        "at": at,
        "verdict": verdict,
        "fails": fails,
        "status": status(verdict, fails=fails),
        "summary": _summary(judged, hosts),
        "problems": [asdict(problem) for problem in problems],
        "hosts": [_host(host, judged, problems) for host in hosts],
        "features": [_feature(feature) for feature in judged],
        "exercises": [exercise_as_json(exercise) for exercise in exercises],
    }


def _summary(judged: Sequence[JudgedFeature], hosts: Sequence[HostReport]) -> Json:
    """Numbers of hosts, features and answers, by light."""
    answers = Counter(
        answer.light for feature in judged for place in feature.places for answer in place.answers.values()
    ) + Counter(AMBER for feature in judged for place in feature.places if not place.answers)
    features = Counter(feature.light for feature in judged)
    return {
        "hosts": {"all": len(hosts), "reached": sum(host.reached for host in hosts)},
        "features": {"all": len(judged), "on": sum(feature.is_on for feature in judged), **_by_light(features)},
        "answers": {"all": sum(answers.values()), **_by_light(answers)},
    }


def _by_light(counts: Counter[str]) -> Json:
    return {light: counts[light] for light in LIGHTS}


def _host(host: HostReport, judged: Sequence[JudgedFeature], problems: Sequence[Problem]) -> Json:
    places = {feature.feature.name: place for feature in judged for place in feature.places if place.host == host.name}
    own = [problem for problem in problems if problem.host == host.name]
    light = worst([*(problem.light for problem in own), *(place.light for place in places.values())])
    return {
        "name": host.name,
        "reached": host.reached,
        "reason": host.reason,
        "light": light,
        "status": status(light, fails=any(problem.fails for problem in own)),
        "features": {
            name: {"state": place.state, "light": place.light, "status": _status_of(place)}
            for name, place in places.items()
        },
    }


def _status_of(place: Place) -> str:
    fails = place.state in (AWAY, FAILED) or any(answer.fails for answer in place.answers.values())
    return status(place.light, fails=fails)


def _feature(judged: JudgedFeature) -> Json:
    feature = judged.feature
    exercised = status(worst(row.light for row in judged.exercised), fails=any(row.fails for row in judged.exercised))
    sections: dict[str, list[Json]] = {}
    for question in QUESTIONS:
        sections.setdefault(question.section, []).append(_question(question, judged))
    return {
        "name": feature.name,
        "title": feature.title,
        "page": feature.page,
        "module": feature.module,
        "light": judged.light,
        "status": status(judged.light, fails=FAIL in [exercised, *map(_status_of, judged.places)]),
        "exercised": exercised,
        "states": dict(Counter(place.state for place in judged.places)),
        "hosts": [_place(place) for place in judged.places],
        "sections": [{"title": title, "questions": questions} for title, questions in sections.items()],
        "failures": [
            {**asdict(mode), "hosts": [place.host for place in judged.places if mode.id in place.present]}
            for mode in feature.failures
        ],
        "versions": [
            {"versions": dict(versions), "hosts": list(names)} for versions, names in find_versions(judged.places)
        ],
        "differences": [
            {
                "question": row.question,
                "groups": [
                    {
                        "verdict": group.verdict,
                        "unread": list(group.unread),
                        "hosts": [{"name": name, "versions": dict(versions)} for name, versions in group.hosts],
                    }
                    for group in row.groups
                ],
            }
            for row in find_differences(judged.places)
        ],
        "plots": [asdict(plot) for plot in find_plots(judged.places)],
    }


def _question(question: Question, judged: JudgedFeature) -> Json:
    """`light` is empty for a question that is only answered in words."""
    static = judged.feature.statics[question.id]
    exercised = [_exercises_as_json(row) for row in judged.exercised if row.kind == question.exercise]
    measured = [_summarize_answers(name, judged.places) for name in question.measured]
    lights = [row["light"] for row in (*measured, *exercised)]
    return {
        "id": question.id,
        "text": question.text,
        "answer": static.text,
        "tests": list(static.tests),
        "light": worst(lights) if lights else "",
        "measured": measured,
        "exercises": exercised,
        "failure_modes": FAILURES in question.measured,
    }


def _summarize_answers(name: str, places: Sequence[Place]) -> Json:
    """How many hosts gave each answer; hosts without an answer count as unknown."""
    on = [place.answers[name] for place in places if name in place.answers]
    silent = sum(not place.answers for place in places)
    lights = Counter(answer.light for answer in on) + Counter({AMBER: silent})
    light = worst(light for light, count in lights.items() if count)
    return {
        "name": name,
        "light": light,
        "status": status(light, fails=silent > 0 or any(answer.fails for answer in on)),
        "lights": _by_light(lights),
        "verdicts": dict(Counter(answer.answer.verdict for answer in on)),
        "silent": silent,
    }


def _exercises_as_json(row: Exercised) -> Json:
    return {
        "kind": row.kind,
        "light": row.light,
        "status": status(row.light, fails=row.fails),
        "text": row.text,
        "remedy": row.remedy,
        "records": [exercise_as_json(record) for record in row.records],
    }


def _place(place: Place) -> Json:
    return {
        "host": place.host,
        "state": place.state,
        "light": place.light,
        "status": _status_of(place),
        "text": place.text,
        "versions": dict(place.versions),
        "present": list(place.present),
        "answers": [_answer(answer) for answer in place.answers.values()],
    }


def _answer(judged: Judged) -> Json:
    # As in a reading, the histogram's last bound, infinity, is null in JSON. Text and remedy already describe the failure modes.
    row = Reading("", {judged.name: judged.answer}).as_json()["answers"][judged.name]
    del row["failure_modes"]
    return {"name": judged.name, "light": judged.light, "fails": judged.fails, **row}
