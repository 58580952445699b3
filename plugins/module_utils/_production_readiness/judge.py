# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judges the readings of a fleet: a light for each answer, host and feature. Pure.

    green  as required                red    a required answer is no, or a drill failed
    amber  unknown, or not shown      grey   the feature is off there, is not used, or has no such drill

When a feature is on, every answer in `REQUIRED` must be yes. `fails` says whether a light fails the run: every red one does, and every
amber one except two: that workloads' use of a feature is unknown, and that a drill was never done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .._core.engine.readiness import (
    ENABLE_DISABLE_ENABLE,
    ENABLED,
    FAILURES,
    IN_USE,
    MEASURED,
    NO,
    REQUIRED,
    UNKNOWN,
    UP_DOWN_UP,
    YES,
    Answer,
    Reading,
)
from .amounts import show_amount
from .exercises import KINDS, Exercise
from .features import Feature
from .fleet import HostReport, NoReading

GREEN, AMBER, RED, GREY = "green", "amber", "red", "grey"
LIGHTS = (RED, AMBER, GREEN, GREY)  # worst first
ON, OFF, UNCLEAR, FAILED, AWAY = "on", "off", "unknown", "failed", "not reached"

_EXERCISED = {
    ENABLE_DISABLE_ENABLE: "enable -> disable -> enable",
    UP_DOWN_UP: "the setting up -> down -> up",
}


@dataclass(frozen=True)
class Judged:
    """One answer of one host. `answer` is what was read or, where that does not hold, what replaces it."""

    name: str
    light: str
    fails: bool
    answer: Answer


@dataclass(frozen=True)
class Place:
    """A feature on a host. Unless it is on, `answers` is empty, or has only the answer that says that it is off."""

    host: str
    state: str
    light: str
    text: str = ""  # why there is no reading
    answers: Mapping[str, Judged] = field(default_factory=dict)
    present: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Exercised:
    """One kind of drill of one feature, with all remembered records."""

    kind: str
    light: str
    fails: bool
    text: str
    remedy: str
    records: tuple[Exercise, ...]


@dataclass(frozen=True)
class JudgedFeature:
    """A feature on all hosts. `light` is its worst one."""

    feature: Feature
    light: str
    places: tuple[Place, ...]
    exercised: tuple[Exercised, ...]

    @property
    def is_on(self) -> bool:
        """Whether it is on on at least one host."""
        return any(place.state == ON for place in self.places)


def worst(lights: Iterable[str]) -> str:
    """The worst light; grey when there is none."""
    return min(lights, key=LIGHTS.index, default=GREY)


def judge(
    features: Sequence[Feature], hosts: Sequence[HostReport], exercises: Sequence[Exercise]
) -> tuple[JudgedFeature, ...]:
    """In the order of `features`."""
    return tuple(_judge_feature(feature, hosts, exercises) for feature in features)


def _judge_feature(feature: Feature, hosts: Sequence[HostReport], exercises: Sequence[Exercise]) -> JudgedFeature:
    requested = any(feature.name in host.features for host in hosts)
    places = tuple(
        _place(feature, host)
        for host in hosts
        # Nobody knows what is on on an unreachable host, so it counts for each feature that other hosts were asked about.
        if feature.name in host.features or (requested and not host.reached and not host.features)
    )
    on = any(place.state == ON for place in places)
    names = {host.name for host in hosts}
    mine = [exercise for exercise in exercises if exercise.feature == feature.name]
    exercised = tuple(
        _judge_exercises(kind, [exercise for exercise in mine if exercise.kind == kind], names, on)
        if kind in feature.exercises
        else Exercised(kind, GREY, False, "no drill covers it", "", ())
        for kind in KINDS
    )
    light = worst([*(place.light for place in places), *(result.light for result in exercised)])
    return JudgedFeature(feature, light, places, exercised)


def _place(feature: Feature, host: HostReport) -> Place:
    reading = host.features.get(feature.name)
    if not host.reached:
        return Place(host.name, AWAY, AMBER, host.reason or "the host was unreachable")
    if not isinstance(reading, Reading):
        return Place(host.name, FAILED, AMBER, reading.text if isinstance(reading, NoReading) else "")
    enabled = reading.answers[ENABLED]
    if enabled.verdict != YES:
        light, state = (GREY, OFF) if enabled.verdict == NO else (AMBER, UNCLEAR)
        answer = Judged(ENABLED, light, state == UNCLEAR, enabled)
        return Place(host.name, state, light, answers={ENABLED: answer}, versions=reading.versions)
    judged = {name: _judge_answer(name, reading, feature) for name in MEASURED}
    light = worst(answer.light for answer in judged.values())
    return Place(host.name, ON, light, answers=judged, present=reading.present, versions=reading.versions)


def _judge_answer(name: str, reading: Reading, feature: Feature) -> Judged:
    """Judge an answer about a feature that is on."""
    answer = reading.answers.get(name)
    if answer is None:
        text = f"{feature.module} did not report this"
        missing = Answer(
            UNKNOWN, text, feature.module, "use one version of ballast.kube on all hosts, and run it again"
        )
        return Judged(name, AMBER, name != IN_USE, missing)
    if name == IN_USE:
        return Judged(name, {YES: GREEN, NO: GREY, UNKNOWN: AMBER}[answer.verdict], False, answer)
    if name == FAILURES:
        answer = _with_failures(answer, reading.present)
    if name in REQUIRED:
        answer = _within_limits(answer)
    if answer.verdict == YES:
        return Judged(name, GREEN, False, answer)
    see = f"see {feature.page}"
    with_remedy = answer if answer.remedy else replace(answer, remedy=see)
    return Judged(name, RED if answer.verdict == NO else AMBER, True, with_remedy)


def _with_failures(answer: Answer, present: Sequence[str]) -> Answer:
    """With a failure mode present, the answer cannot be yes."""
    if not present or answer.verdict == NO:
        return answer
    return replace(answer, verdict=NO, text=_append(answer.text, f"found: {', '.join(present)}"))


def _within_limits(answer: Answer) -> Answer:
    """With a figure above its limit, the answer cannot be yes."""
    above = [figure for figure in answer.figures if figure.is_above]
    if not above or answer.verdict != YES:
        return answer
    figures = ", ".join(
        f"{figure.name} is {show_amount(figure.value, figure.unit)}, its limit {show_amount(figure.limit, figure.unit)}"
        for figure in above
    )
    return replace(answer, verdict=NO, text=_append(answer.text, f"above the limit: {figures}"))


def _append(text: str, more: str) -> str:
    return f"{text.rstrip('. ')}; {more}"


def _judge_exercises(kind: str, mine: Sequence[Exercise], hosts: set[str], on: bool) -> Exercised:
    """Judge the last drill of each host. A failed one counts as long as its host exists; one that passed on a removed host still shows
    that the feature can do it."""
    what, records = _EXERCISED[kind], tuple(mine)
    if not on:
        return Exercised(kind, GREY, False, "the feature is enabled on no host", "", records)
    last = list({exercise.host: exercise for exercise in sorted(mine, key=lambda exercise: exercise.at)}.values())
    failed = [exercise for exercise in last if not exercise.passed and exercise.host in hosts]
    if failed:
        failures = "; ".join(_failure(exercise) for exercise in failed)
        return Exercised(
            kind, RED, True, failures, "fix the problem that the step reports, then run the drill again", records
        )
    passed = sorted((exercise for exercise in last if exercise.passed), key=lambda exercise: exercise.at)
    if not passed:
        remedy = "run the drill once on a canary, with readiness_exercise=true"
        return Exercised(kind, AMBER, False, f"{what} was never drilled", remedy, records)
    newest = passed[-1]
    seconds = sum(step.seconds for step in newest.steps)
    text = f"{what} was done on {newest.host} at {newest.at}, in {seconds:.1f} s"
    return Exercised(kind, GREEN, False, f"{text}, {newest.version}" if newest.version else text, "", records)


def _failure(exercise: Exercise) -> str:
    step = next(step for step in exercise.steps if not step.ok)
    return f"{_EXERCISED[exercise.kind]} failed on {exercise.host} at {exercise.at}, in: {step.title}: {step.text}"
