# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds questions that hosts answer differently for a feature, and the versions of the programs involved. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .._core.engine.readiness import MEASURED
from .judge import ON, Judged, Place

Versions = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Group:
    """Hosts with the same answer. `unread` are figures that other hosts could read and these could not."""

    verdict: str
    unread: tuple[str, ...]
    hosts: tuple[tuple[str, Versions], ...]


@dataclass(frozen=True)
class Difference:
    question: str  # one of MEASURED
    groups: tuple[Group, ...]


def find_versions(places: Sequence[Place]) -> tuple[tuple[Versions, tuple[str, ...]], ...]:
    """Each set of versions with its hosts; hosts that reported none are left out."""
    hosts_by_versions: dict[Versions, list[str]] = {}
    for place in places:
        if _versions(place):
            hosts_by_versions.setdefault(_versions(place), []).append(place.host)
    return tuple((versions, tuple(hosts)) for versions, hosts in sorted(hosts_by_versions.items()))


def find_differences(places: Sequence[Place]) -> tuple[Difference, ...]:
    """The differences among hosts on which the feature is on. Empty when all answer alike."""
    on = [place for place in places if place.state == ON]
    rows = (Difference(name, _groups(name, on)) for name in MEASURED)
    return tuple(row for row in rows if len(row.groups) > 1)


def _groups(name: str, places: Sequence[Place]) -> tuple[Group, ...]:
    answers = {place.host: place.answers[name] for place in places}
    every = {figure for judged in answers.values() for figure in _read(judged)}
    places_by_answer: dict[tuple[str, tuple[str, ...]], list[Place]] = {}
    for place in places:
        judged = answers[place.host]
        unread = {figure.name for figure in judged.answer.figures if figure.value is None}
        key = (judged.answer.verdict, tuple(sorted(every & unread)))
        places_by_answer.setdefault(key, []).append(place)
    return tuple(
        Group(verdict, unread, tuple((place.host, _versions(place)) for place in group))
        for (verdict, unread), group in sorted(places_by_answer.items())
    )


def _read(judged: Judged) -> set[str]:
    return {figure.name for figure in judged.answer.figures if figure.value is not None}


def _versions(place: Place) -> Versions:
    return tuple(sorted((name, version) for name, version in place.versions.items() if version))
