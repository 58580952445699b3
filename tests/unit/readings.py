"""Readings of a small fleet, as the info modules return them, for tests of the judge and of the page.

told = host("n1", reading("kube_proxy"))                          # everything in order
told = host("n2", reading("kube_proxy", healthy=answer(NO)))      # one answer is not
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness import (
    ENABLE_DISABLE_ENABLE,
    HEALTHY,
    MEASURED,
    SCALE,
    UP_DOWN_UP,
    YES,
    Reading,
    off_reading,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness.features import (
    FailureMode,
    Feature,
    Static,
    parse_features,
)
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness.questionnaire import QUESTIONS
from ansible_collections.ballast.kube.plugins.module_utils._production_readiness.reading import parse_reading
from ansible_collections.ballast.kube.plugins.plugin_utils.readiness import read_documents

Told = dict[str, Any]
FEATURES = parse_features(read_documents(LocalHost()))
BY_NAME = {feature.name: feature for feature in FEATURES}


def parsed(reading: Mapping[str, Any]) -> Reading:
    """What an info module returned, as the report takes it: with what the feature says of its failure modes."""
    return parse_reading(json.loads(json.dumps(reading)), BY_NAME[reading["feature"]])


def completed(reading: Mapping[str, Any]) -> Told:
    """The same as JSON."""
    return parsed(reading).as_json()


def a_document(feature: Feature) -> Told:
    """The document that the feature is read from."""
    told = asdict(feature)
    answers = told.pop("statics")
    return {**told, "answers": answers}


def a_feature(name: str) -> Feature:
    """One of which everything is said, with two failure modes."""
    test = "tests/unit/readings.py::a_feature"
    modes = tuple(
        FailureMode(f"{name}-{fault}", f"The {fault} fails.", "a metric", f"stop the {fault}", "its log", test)
        for fault in ("first", "second")
    )
    statics = {question.id: Static(f"What is so of `{question.id}`.", (test,)) for question in QUESTIONS}
    title, page, module = name.replace("_", " "), f"docs/{name}.md", f"{name}_info"
    return Feature(name, title, page, module, statics, modes, exercises=(ENABLE_DISABLE_ENABLE, UP_DOWN_UP))


def answer(verdict: str = YES, text: str = "It is as it should be.", **given: Any) -> Told:
    return {
        "verdict": verdict,
        "text": text,
        "how": "a look",
        "remedy": "",
        "figures": [],
        "lines": [],
        "failure_modes": [],
        **given,
    }


def figure(name: str, value: Optional[float], unit: str = "", **given: Any) -> Told:
    return {
        "name": name,
        "value": value,
        "unit": unit,
        "how": f"GET /metrics: {name}",
        "limit": None,
        "buckets": [],
        **given,
    }


def histogram(name: str, counts: Mapping[float, int], unit: str = "s") -> Told:
    """`counts` by bound, each with those below it; what is above the last bound is none."""
    rows = [{"le": le, "count": count} for le, count in counts.items()]
    return figure(name, max(counts), unit, buckets=[*rows, {"le": None, "count": max(counts.values())}])


def reading(name: str, *, present: tuple[str, ...] = (), version: str = "v1.37.1", **answers: Told) -> Told:
    """Of a feature that is on: each answer is yes but for those given."""
    in_order = {
        **{one: answer() for one in MEASURED},
        HEALTHY: answer(figures=[histogram("sync_seconds", {0.01: 5, 0.1: 40, 1: 42})]),
        SCALE: answer(figures=[figure("in_flight", 3, limit=5)]),
    }
    return {"feature": name, "answers": {**in_order, **answers}, "present": list(present), "versions": {name: version}}


def reading_off(name: str) -> Told:
    return off_reading(name, "It is not there.", "a look").as_json()


def host(name: str, *readings: Told) -> Told:
    return {"name": name, "reached": True, "reason": "", "features": {one["feature"]: one for one in readings}}


def away(name: str, reason: str = "ssh: no route to host") -> Told:
    return {"name": name, "reached": False, "reason": reason, "features": {}}


def exercise(feature: str, host: str, kind: str, *, at: str = "2026-11-22T15:00:00Z", ok: bool = True) -> Told:
    steps = [
        {"title": "disable", "seconds": 1.5, "ok": True, "text": "gone"},
        {"title": "enable", "seconds": 2.0, "ok": ok, "text": "" if ok else "it did not come"},
    ]
    return {"feature": feature, "host": host, "kind": kind, "at": at, "steps": steps, "version": "v1.37.1"}
