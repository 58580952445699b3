# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Saved dumps of nodes, each with its right answer: cases/SOURCES.md has their form and says where each answer is from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._audit.info import SPEC, trace_and_audit
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.unit.fakes import FakeHost

CASES = Path(__file__).with_name("cases")
SHARED = CASES / "dumps" / "shared"
NAMES = sorted(path.parent.name for path in CASES.glob("dumps/*/expected.json"))


def run(place: Path) -> Mapping[str, Any]:
    """The module's return values, or the error."""
    paths = [path for of in (SHARED, place) if of.is_dir() for path in of.iterdir()]
    host = FakeHost(files={f"/case/{path.name}": path.read_bytes() for path in paths})
    params: dict[str, Any] = {name: option.get("default") for name, option in SPEC.items()}
    params.update(json.loads((place / "params.json").read_text()))
    for name in ("snapshot_path", "ruleset_path"):
        if params[name]:
            params[name] = f"/case/{params[name]}"
    params["packets"] = [{"inbound_interface": "", "node_local": False, **row} for row in params["packets"]]
    try:
        answered = trace_and_audit(host, params)
    except BallastError as error:
        return {"error": {"id": error.id, "text": error.text}}
    assert (host.commands, host.effects) == ([], []), "a dump is read instead of the node"
    return answered


def matches(there: Any, expected: Any) -> bool:
    """A text is part of what is there, as people read it; of an object the members that are named; lists have equal
    length, and those of findings any order."""
    if isinstance(expected, str) and isinstance(there, list):
        return any(matches(item, expected) for item in there)
    if isinstance(expected, str) and isinstance(there, str):
        return expected in there
    if isinstance(expected, dict):
        return isinstance(there, dict) and all(matches(there.get(name), value) for name, value in expected.items())
    if isinstance(expected, list):
        return isinstance(there, list) and len(there) == len(expected) and all(map(matches, there, expected))
    return bool(there == expected)


def left_over(there: list[Any], expected: list[Any]) -> tuple[list[Any], list[Any]]:
    """What is there and not expected, and the reverse."""
    there, absent = list(there), []
    for wanted in expected:
        of_it = [row for row in there if matches(row, wanted)]
        if of_it:
            there.remove(of_it[0])
        else:
            absent.append(wanted)
    return there, absent


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_dump_is_answered_rightly(name: str) -> None:
    expected = json.loads((CASES / "dumps" / name / "expected.json").read_text())
    answered = run(CASES / "dumps" / name)
    for key in ("findings", "missing"):
        if key in expected:
            assert left_over(answered.get(key, []), expected.pop(key)) == ([], [])
    assert matches(answered, expected), json.dumps(answered, indent=1)


def test_each_case_says_where_its_answer_is_from() -> None:
    listed = (CASES / "SOURCES.md").read_text()
    assert [name for name in NAMES if f"`dumps/{name}`" not in listed] == []


def test_a_wrong_answer_is_noticed() -> None:
    finding = {"id": "a", "found": "of a text"}
    assert left_over([finding, finding], [{"id": "a", "found": "text"}]) == ([finding], [])
    assert left_over([finding], [{"id": "b"}]) == ([finding], [{"id": "b"}])
    assert not matches({"verdict": "dnat"}, {"verdict": "reject"})
    assert not matches({"packets": []}, {"packets": [{}]})
    assert matches({"why": ["one", "two"]}, {"why": "wo"})
