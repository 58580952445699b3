# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a reading of production readiness, and the report of a run, have to say where a known failure mode is there: its id,
which answers are no, and what stops the harm."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness import FAILURES, HEALTHY, NO
from tests.unit.readings import FEATURES, completed

_MODES = {mode.id: mode for feature in FEATURES for mode in feature.failures}
_FEATURE_OF = {mode.id: feature.name for feature in FEATURES for mode in feature.failures}


def assert_told(reading: Mapping[str, Any], *ids: str, no: Collection[str] = (HEALTHY,)) -> None:
    """By the reading of one feature. `no`: the answers that have to be no beside that to the failure modes."""
    answers = completed(reading)["answers"]
    assert set(ids) <= set(reading["present"]), reading
    for name in (FAILURES, *no):
        assert answers[name]["verdict"] == NO, (name, reading)
        assert answers[name]["remedy"], (name, answers[name])
    for id in ids:
        assert _MODES[id].mitigation in answers[FAILURES]["remedy"], answers[FAILURES]


def assert_reported(report: Mapping[str, Any], wanted: Mapping[str, Collection[str]]) -> None:
    """By the report of a run. `wanted`: by failure mode, the hosts that it was caused on, which are those that it is found on."""
    rows = [mode for feature in report["features"] for mode in feature["failures"]]
    found = {mode["id"]: mode["hosts"] for mode in rows if mode["hosts"]}
    assert {id: found.get(id) for id in wanted} == {id: list(hosts) for id, hosts in wanted.items()}, found
    remedies = {
        (one["host"], one["feature"]): one["remedy"]
        for one in report["problems"]
        if one["question"] == FAILURES and one["fails"]
    }
    for id, hosts in wanted.items():
        for host in hosts:
            assert _MODES[id].mitigation in remedies[host, _FEATURE_OF[id]], (id, host, remedies)
