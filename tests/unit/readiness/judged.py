# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet of two features, judged as the module does it."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._production_readiness import info
from tests.unit.fakes import FakeHost
from tests.unit.readings import a_feature, exercise, reading

FEATURES = (a_feature("kube_proxy"), a_feature("balloons"))
DONE = [exercise(name, "n1", kind) for name in ("kube_proxy", "balloons") for kind in ("enable", "setting")]
PREVIOUS = "/r/readiness.json"


def judged(*hosts: Any, exercises: Any = DONE, previous: str | None = None, required: Any = ()) -> dict[str, Any]:
    machine = FakeHost(files={} if previous is None else {PREVIOUS: previous})
    params = {
        "hosts": list(hosts),
        "required_hosts": list(required),
        "previous": PREVIOUS,
        "exercises": exercises,
        "documents": [],
    }
    done = info.read_readiness(machine, params)
    assert machine.effects == []
    report: dict[str, Any] = json.loads(json.dumps(done["report"], allow_nan=False))  # as the module returns it
    return {**report, "failure": done["failure"]}


def problems(report: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    return [(row["light"], row["host"], row["feature"], row["question"]) for row in report["problems"]]


def both(**answers: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return reading("kube_proxy", **answers), reading("balloons")
