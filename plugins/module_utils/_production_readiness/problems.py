# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Problems of a fleet, as a list, and as the text with which a run fails. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Optional

from .._core.text.errors import shorten
from .fleet import HostReport
from .judge import AMBER, AWAY, FAILED, LIGHTS, RED, JudgedFeature, Place

_NAMED = 20  # problems named in the failure text; the report has all of them
_RUN_AGAIN = "run that module alone on the host, then run readiness again"
_REACH = "check that the host is up and reachable by Ansible, then run readiness again"
_ASK = "set the features of this host and their state directories; or omit the host"
_ONE_VERSION = "use the controller's version of ballast.kube for the whole run"
_NOTHING_ON = "list the hosts that run the features, and each feature's state directory"
_FORMER = "nothing, if you repeat the drills; otherwise restore the report with their results, and run readiness again"


@dataclass(frozen=True)
class Problem:
    """`host` is empty for the whole fleet, `feature` for a host as such, `question` for a feature as a whole; else `question` is the name
    of an answer or a kind of drill."""

    light: str
    fails: bool
    host: str
    feature: str
    question: str
    text: str
    remedy: str


def find_problems(
    judged: Sequence[JudgedFeature], hosts: Sequence[HostReport], previous: Optional[str]
) -> tuple[Problem, ...]:
    """Worst first; then those of hosts, of features and their hosts, of the fleet. `previous` says why an earlier report was unusable."""
    problems = [problem for host in hosts for problem in _of_host(host)]
    for feature in judged:
        problems += [problem for place in feature.places for problem in _of_place(feature.feature.name, place)]
        problems += [
            Problem(row.light, row.fails, "", feature.feature.name, row.kind, row.text, row.remedy)
            for row in feature.exercised
            if row.light in (RED, AMBER)
        ]
    problems += _of_fleet(judged, previous)
    return tuple(sorted(problems, key=lambda problem: (not problem.fails, LIGHTS.index(problem.light))))


def failure_text(problems: Iterable[Problem]) -> str:
    """The text with which a run fails; empty when nothing fails it."""
    failing = [problem for problem in problems if problem.fails]
    if not failing:
        return ""
    red = sum(problem.light == RED for problem in failing)
    head = f"{red} required checks failed, {len(failing) - red} are unknown"
    texts = [
        f"{_place(problem)}: {shorten(problem.text)}\n  do:    {shorten(problem.remedy)}"
        for problem in failing[:_NAMED]
    ]
    more = len(failing) - len(texts)
    return "\n".join([head, *texts, *([f"and {more} more, listed in the report"] if more else [])])


def _place(problem: Problem) -> str:
    return " / ".join(part for part in (problem.host or "fleet", problem.feature, problem.question) if part)


def _of_host(host: HostReport) -> Iterable[Problem]:
    if not host.reached:
        yield Problem(AMBER, True, host.name, "", "", host.reason or "the host was unreachable", _REACH)
    elif not host.features:
        yield Problem(AMBER, True, host.name, "", "", "no feature was checked on this host", _ASK)
    for name in host.unknown:
        text = f"it reported {name}, which is not a feature of this version of ballast.kube"
        yield Problem(AMBER, True, host.name, "", "", text, _ONE_VERSION)


def _of_fleet(judged: Sequence[JudgedFeature], previous: Optional[str]) -> Iterable[Problem]:
    if not any(feature.is_on for feature in judged):
        text = "no enabled feature was found on any host, so nothing was checked"
        yield Problem(AMBER, True, "", "", "", text, _NOTHING_ON)
    if previous is not None:
        text = f"drills of earlier runs are unknown: {previous}"
        yield Problem(AMBER, False, "", "", "", text, _FORMER)


def _of_place(feature: str, place: Place) -> Iterable[Problem]:
    if place.state == AWAY:
        return  # reported once, for the host
    if place.state == FAILED:
        yield Problem(AMBER, True, place.host, feature, "", place.text, _RUN_AGAIN)
    for judged in place.answers.values():
        if judged.light in (RED, AMBER):
            answer = judged.answer
            yield Problem(judged.light, judged.fails, place.host, feature, judged.name, answer.text, answer.remedy)
