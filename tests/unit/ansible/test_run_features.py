# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The run loop over several features, each in a directory of its own."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._ansible import run as loop
from ansible_collections.ballast.kube.plugins.module_utils._ansible.engine_cache import store as engines
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import from_options
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Plan
from tests.unit.ansible.toy import Ran, Toy, feature, paths

NAMES = ("one", "two", "three")


class Machine:
    """Runs features of these names. `state_dir` and files of each are below its name."""

    def __init__(self, started: Callable[..., Ran], top: Path) -> None:
        self.top = top
        self.engines = {name: Toy() for name in NAMES}
        self._started = started

    def __call__(self, *, check: bool = False, diff: bool = False, **asked: dict[str, Any]) -> Ran:
        features = {name: feature(engine.mood, engine) for name, engine in self.engines.items()}
        params = {name: self._params(name, values) for name, values in asked.items()}
        how = {"_ansible_check_mode": check, "_ansible_diff": diff}
        return self._started(lambda: loop.run_features(features), **how, **params)

    def alone(self, name: str, *, check: bool = False, **values: Any) -> dict[str, Any]:
        """What the module of one feature returns."""
        one = feature(self.engines[name].mood, self.engines[name])
        how = {"_ansible_check_mode": check}
        return self._started(lambda: loop.run(one), **how, **self._params(name, values)).result

    def _params(self, name: str, values: dict[str, Any]) -> dict[str, Any]:
        return {"state_dir": str(self.top / name / "state"), **values}


@pytest.fixture
def machine(started: Callable[..., Ran], tmp_path: Path) -> Machine:
    return Machine(started, tmp_path)


def untimed(result: dict[str, Any]) -> dict[str, Any]:
    """Without what differs from run to run, and what Ansible adds: warnings too of what this process did before."""
    assert {"parse", "observe", "plan"} <= set(result["seconds"])
    return {key: value for key, value in result.items() if key not in ("seconds", "invocation", "warnings")}


@pytest.mark.parametrize("check", [True, False], ids=["check", "do"])
def test_each_feature_returns_what_its_module_returns(machine: Machine, check: bool) -> None:
    asked = {"one": {"content": "1"}, "two": {"content": "2"}}
    alone = {name: untimed(machine.alone(name, check=check, **values)) for name, values in asked.items()}
    for name in asked:
        machine.alone(name, state="absent")
    found = machine(check=check, **asked).result
    assert {name: untimed(found[name]) for name in asked} == alone
    assert (found["changed"], "three" in found) == (True, False)


def test_the_second_run_changes_nothing(machine: Machine, tmp_path: Path) -> None:
    assert machine(one={}, two={}).result["changed"] is True
    before = {path: os.stat(tmp_path / path).st_mtime_ns for path in paths(tmp_path)}
    again = machine(one={}, two={}).result
    assert [again["changed"], again["one"]["steps"], again["two"]["steps"]] == [False, [], []]
    assert {path: os.stat(tmp_path / path).st_mtime_ns for path in paths(tmp_path)} == before


def test_one_that_changes_is_a_change_of_all(machine: Machine) -> None:
    machine(one={}, two={})
    found = machine(one={}, two={"content": "another"}).result
    assert [found["changed"], found["one"]["changed"], found["two"]["changed"]] == [True, False, True]


def test_check_mode_has_no_effect(machine: Machine, tmp_path: Path) -> None:
    found = machine(check=True, one={}, two={}).result
    assert [found["changed"], len(found["one"]["steps"]), len(found["two"]["steps"])] == [True, 3, 3]
    assert paths(tmp_path) == []


def test_differences_are_in_one_list_with_the_feature_named(machine: Machine) -> None:
    machine(one={}, two={})
    found = machine(diff=True, one={"content": "uno"}, two={"content": "due"}).result
    shown = [(row["before_header"].split(" ")[0], row["after_header"], row["after"]) for row in found["diff"]]
    told = [(name, step["title"]) for name in ("one", "two") for step in found[name]["steps"]]
    assert [header for _name, header, _after in shown] == [f"{name}: {title}" for name, title in told]
    assert {(name, after) for name, _header, after in shown} >= {("one:", "mode 0644\nuno"), ("two:", "mode 0644\ndue")}
    assert "diff" not in found["one"]
    assert "diff" not in machine(one={}, two={}).result


def test_at_least_one_is_asked_for(machine: Machine) -> None:
    found = machine()
    assert (found.status, "one of the following is required: one, two, three" in found.message) == (1, True)


def test_an_unknown_option_of_a_feature_is_refused_by_name(machine: Machine, tmp_path: Path) -> None:
    found = machine(one={}, two={"contents": "x"})
    assert found.status == 1
    assert "two.contents" in found.message
    assert paths(tmp_path) == []


def test_what_is_required_of_a_feature_is_required_of_its_option(started: Callable[..., Ran], tmp_path: Path) -> None:
    spec = {"state": {"type": "str", "default": "present"}, "content": {"type": "str"}}
    strict = loop.Feature(
        "toy", spec, desired=from_options(dict), engine=Toy(), required_if=[("state", "present", ("content",))]
    )
    found = started(lambda: loop.run_features({"one": strict}), one={})
    assert (found.status, "content found in one" in found.message) == (1, True)


def test_all_input_is_looked_at_before_anything_is_done(machine: Machine, tmp_path: Path) -> None:
    found = machine(one={}, two={"mood": "wrong"}, three={"mood": "wrong"})
    assert found.status == 1
    assert found.message == (
        "two: content: bad\n  do:    good\n  id:    toy-one\ntwo: key: bad\n  id:    toy-two\n"
        "three: content: bad\n  do:    good\n  id:    toy-one\nthree: key: bad\n  id:    toy-two"
    )
    assert paths(tmp_path) == []


def test_one_that_fails_keeps_what_those_before_it_did(machine: Machine, tmp_path: Path) -> None:
    machine.engines["two"].mood = "lacking"
    found = machine(diff=True, one={}, two={}, three={})
    assert (found.status, found.result["id"], found.result["changed"]) == (1, "toy-lacks", True)
    assert found.message == (
        "two: no such tool\n  found: nothing\n  do:    install it\n  id:    toy-lacks\nnot touched: three"
    )
    assert (len(found.result["one"]["steps"]), len(found.result["diff"])) == (3, 3)
    assert {"two", "three"} & set(found.result) == set()
    assert (tmp_path / "one/made/a").exists()
    assert not (tmp_path / "two/made").exists()
    assert not (tmp_path / "three").exists()


def test_one_that_is_not_well_afterwards_tells_what_it_did_too(machine: Machine, tmp_path: Path) -> None:
    machine.engines["two"].mood = "blocking"
    found = machine(one={}, two={})
    assert (found.status, found.result["id"]) == (1, "toy-found")
    assert found.message == "two: node n1: not well\n  do:    look\n  id:    toy-found"
    two = found.result["two"]
    assert (len(two["steps"]), [row["id"] for row in two["findings"]], two["there"]) == (3, ["toy-found"], True)
    assert found.result["one"]["there"] is True


def test_a_finding_that_does_not_block_is_a_warning_and_the_next_is_begun(machine: Machine) -> None:
    machine.engines["one"].mood = "warning"
    found = machine(one={}, two={})
    assert (found.status, found.result["two"]["there"]) == (0, True)
    assert "node n1: not well" in str(found.result["warnings"])


def test_a_fault_of_ours_does_not_hide_what_was_done(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: Any) -> Any:
        raise ValueError("ours")

    monkeypatch.setattr(machine.engines["two"], "verify", broken)
    found = machine(one={}, two={}, three={})
    assert (found.status, found.result["one"]["changed"]) == (1, True)
    assert found.message.startswith(
        "two: an internal error of ballast.kube stopped the run\n  found: ValueError('ours')"
    )
    assert found.result["id"] == "core-bug"


def test_an_interrupt_is_told_of_the_feature_at_work(machine: Machine) -> None:
    machine.engines["two"].during = lambda: os.kill(os.getpid(), signal.SIGTERM)
    found = machine(one={}, two={}, three={})
    assert (found.status, found.result["id"], found.result["one"]["changed"]) == (1, "core-interrupted", True)
    assert found.message.startswith("two: interrupted")
    assert found.message.endswith("not touched: three")


@pytest.mark.parametrize(
    ("absent", "order"),
    [
        ((), ["one", "two", "three"]),
        (("one",), ["two", "three", "one"]),
        (("two",), ["one", "three", "two"]),
        (("one", "two"), ["three", "two", "one"]),
    ],
    ids=str,
)
def test_what_is_taken_away_comes_last_and_in_reverse(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, absent: tuple[str, ...], order: list[str]
) -> None:
    begun: list[str] = []

    def as_result(name: str, engine: Toy) -> Callable[[Plan], dict[str, object]]:
        plain = engine.as_result

        def noting(plan: Plan) -> dict[str, object]:
            begun.append(name)
            return plain(plan)

        return noting

    for name, engine in machine.engines.items():
        monkeypatch.setattr(engine, "as_result", as_result(name, engine))
    machine(**{name: {"state": "absent"} if name in absent else {} for name in NAMES})
    assert begun == order


def test_progress_is_told_where_each_feature_has_its_own(machine: Machine, tmp_path: Path) -> None:
    machine(one={}, two={"progress_log": str(tmp_path / "elsewhere/events.jsonl")})
    for path in (tmp_path / "one/state/events.jsonl", tmp_path / "elsewhere/events.jsonl"):
        assert [json.loads(line)["kind"] for line in path.read_text().splitlines()] == ["started"] * 3 + ["done"]
    assert not (tmp_path / "two/state/events.jsonl").exists()
    machine(one={"state": "absent"}, two={})
    assert not (tmp_path / "one/state").exists()
    assert (tmp_path / "elsewhere/events.jsonl").exists()


@pytest.mark.parametrize("states", [("absent", "present"), ("absent", "absent")])
def test_kept_engines_go_with_the_last_thing_of_ours(
    machine: Machine, engines_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, states: tuple[str, str]
) -> None:
    monkeypatch.setattr(engines, "STATE_DIRECTORY", str(tmp_path / "two/state"))
    machine(one={}, two={})
    engines_directory.mkdir()
    (engines_directory / "one.zip").touch()
    machine(one={"state": states[0]}, two={"state": states[1]})
    assert engines_directory.exists() is ("present" in states)
