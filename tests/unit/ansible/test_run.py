# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The run loop, with a small engine on a directory of this machine, as ansible starts a module."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._ansible import run as loop
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.engine import ResourceEngine
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import from_options
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.kinds import BASE_KINDS
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import State
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Host
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError, UserError
from tests.unit.ansible.toy import SPEC, Ran, Toy, Wanted, desired, feature, paths


@pytest.fixture
def ran(started: Callable[..., Ran], tmp_path: Path) -> Callable[..., Ran]:
    return lambda start, **params: started(start, **{"state_dir": str(tmp_path / "state"), **params})


def test_a_run_makes_what_is_wanted_and_the_second_does_nothing(ran: Callable[..., Ran], tmp_path: Path) -> None:
    first = ran(lambda: loop.run(feature()))
    assert first.status == 0
    assert first.result["changed"] is True
    assert [f"{step['verb']} {step['kind']}" for step in first.result["steps"]] == [
        "make directory",
        "make file",
        "make file",
    ]
    assert set(first.result["steps"][0]) == {"kind", "verb", "title", "target"}
    assert set(first.result["seconds"]) == {"parse", "observe", "plan", "require", "apply", "verify"}
    assert (first.result["findings"], first.result["there"]) == ([], True)
    assert (tmp_path / "made/a").read_text() == "one"
    before = {path: os.stat(tmp_path / path).st_mtime_ns for path in paths(tmp_path)}
    second = ran(lambda: loop.run(feature()))
    assert (second.result["changed"], second.result["steps"]) == (False, [])
    assert {path: os.stat(tmp_path / path).st_mtime_ns for path in paths(tmp_path)} == before


def test_a_path_has_one_spelling_also_in_options_of_options() -> None:
    """`/srv/lab/` of a caller, and what playbooks append to it, is what `/srv/lab` is: to journals, marks and processes."""
    spec = {
        "dir": {"type": "path"},
        "url": {"type": "str"},
        "one": {"type": "dict", "options": {"dir": {"type": "path"}}},
        "many": {"type": "list", "elements": "dict", "options": {"dir": {"type": "path"}}},
    }
    params: dict[str, Any] = {"dir": "/srv/lab//nodes/./.n1/..x//", "url": "unix:///run/x", "one": None, "many": None}
    loop._collapse_slashes(spec, params)
    assert params == {"dir": "/srv/lab/nodes/.n1/..x/", "url": "unix:///run/x", "one": None, "many": None}
    params = {"dir": None, "one": {"dir": "//a"}, "many": [{"dir": "/a//b"}, {}]}
    loop._collapse_slashes(spec, params)
    assert params == {"dir": None, "one": {"dir": "/a"}, "many": [{"dir": "/a/b"}, {}]}


def test_the_engine_gets_the_path_in_its_one_spelling(ran: Callable[..., Ran], tmp_path: Path) -> None:
    ran(lambda: loop.run(feature()), state_dir=f"{tmp_path}//state")
    assert ran(lambda: loop.run(feature()), state_dir=f"{tmp_path}/./state").result["changed"] is False
    assert f"{tmp_path}/made/a" in (tmp_path / "state/ledger.jsonl").read_text()


def test_check_mode_has_no_effect_and_tells_the_same_steps(ran: Callable[..., Ran], tmp_path: Path) -> None:
    planned = ran(lambda: loop.run(feature("lacking")), _ansible_check_mode=True)
    assert paths(tmp_path) == []
    assert (planned.status, planned.result["changed"], planned.result["place"]) == (0, True, str(tmp_path / "made"))
    done = ran(lambda: loop.run(feature()))
    assert planned.result["steps"] == done.result["steps"]
    assert ran(lambda: loop.run(feature()), _ansible_check_mode=True).result["changed"] is False


def test_a_run_reports_what_it_did_where_another_run_came_in_between(
    ran: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The plan that is carried out is made under the lock: with the work done by then, nothing is changed and nothing is said to be."""

    def other_run(self: Toy, ctx: Context[Wanted], _state: State) -> None:
        self.apply(self.plan(ctx.desired, self.observe(ctx)), ctx)

    monkeypatch.setattr(Toy, "require", other_run)
    found = ran(lambda: loop.run(feature()), _ansible_diff=True)
    assert (tmp_path / "made/a").read_text() == "one"
    assert (found.result["changed"], found.result["steps"], found.result["diff"]) == (False, [], [])


def test_a_run_reports_the_part_that_another_run_left_to_it(
    ran: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(lambda: loop.run(feature()))

    def other_run(self: Toy, ctx: Context[Wanted], _state: State) -> None:
        absent = Context(replace(ctx.desired, present=False), ctx.host)
        self.apply(self.plan(absent.desired, self.observe(absent)), absent)

    monkeypatch.setattr(Toy, "require", other_run)
    found = ran(lambda: loop.run(feature()), content="two")
    assert [f"{step['verb']} {step['kind']}" for step in found.result["steps"]] == [
        "make directory",
        "make file",
        "make file",
    ]


class Observed(Toy):
    """Verified by its plan; it counts how often the machine is observed."""

    is_verified_by_plan = True
    times = 0

    def observe(self, ctx: Context[Wanted]) -> State:
        self.times += 1
        return super().observe(ctx)

    verify = ResourceEngine.verify


@pytest.mark.parametrize("is_verified_by_plan", [True, False])
def test_an_engine_that_is_verified_by_its_plan_observes_once_where_nothing_changes(
    ran: Callable[..., Ran], is_verified_by_plan: bool
) -> None:
    engine = Observed()
    engine.is_verified_by_plan = is_verified_by_plan
    ran(lambda: loop.run(feature(engine=engine)))
    assert engine.times == 2
    engine.times = 0
    assert ran(lambda: loop.run(feature(engine=engine))).result["findings"] == []
    assert engine.times == (1 if is_verified_by_plan else 2)


def test_only_the_verification_that_plans_again_is_left_out() -> None:
    class Plain(ResourceEngine[Wanted]):
        pass

    assert (Plain().is_verified_by_plan, Toy().is_verified_by_plan) == (True, False)


def test_a_difference_shows_contents_but_not_those_of_private_files(ran: Callable[..., Ran]) -> None:
    ran(lambda: loop.run(feature()))
    found = ran(lambda: loop.run(feature()), _ansible_diff=True, content="two", key="renewed")
    assert [(row["before"], row["after"]) for row in found.result["diff"]] == [
        ("mode 0644\none", "mode 0644\ntwo"),
        ("mode 0600\n(content hidden: only its owner may read it)\n",) * 2,
    ]
    assert "renewed" not in json.dumps(found.result["diff"])
    made = ran(lambda: loop.run(feature()), _ansible_diff=True, state="absent").result["diff"]
    assert [row["after"] for row in made] == ["", "", ""]
    assert made[-1]["before"] == "mode 0755\n"
    assert "diff" not in ran(lambda: loop.run(feature())).result


def test_every_input_error_is_told_and_nothing_is_done(ran: Callable[..., Ran], tmp_path: Path) -> None:
    found = ran(lambda: loop.run(feature()), mood="wrong")
    assert found.status == 1
    assert found.message == "content: bad\n  do:    good\n  id:    toy-one\nkey: bad\n  id:    toy-two"
    assert found.result["failed"] is True
    assert paths(tmp_path) == []


def test_what_is_lacking_stops_the_run_before_any_effect(ran: Callable[..., Ran], tmp_path: Path) -> None:
    found = ran(lambda: loop.run(feature("lacking")))
    assert (found.status, found.result["id"]) == (1, "toy-lacks")
    assert found.message == "no such tool\n  found: nothing\n  do:    install it\n  id:    toy-lacks"
    assert paths(tmp_path) == []


def test_a_blocking_finding_fails_the_run_and_keeps_what_was_done(ran: Callable[..., Ran], tmp_path: Path) -> None:
    found = ran(lambda: loop.run(feature("blocking")))
    assert (found.status, found.result["id"]) == (1, "toy-found")
    assert found.message == "node n1: not well\n  do:    look\n  id:    toy-found"
    assert [row["id"] for row in found.result["findings"]] == ["toy-found"]
    assert found.result["there"] is True, "what there is tells why"
    assert found.result["changed"] is True
    assert len(found.result["steps"]) == 3
    assert (tmp_path / "made/a").exists()


def test_a_report_that_cannot_be_read_does_not_hide_what_was_found(
    ran: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(self: Toy, ctx: Context[Wanted]) -> dict[str, object]:
        raise HostError("not to be read", id="toy-unread")

    monkeypatch.setattr(Toy, "report", unreadable)
    found = ran(lambda: loop.run(feature("blocking")))
    assert [row["id"] for row in found.result["findings"]] == ["toy-found"]
    assert "not well" in found.message


def test_another_finding_is_a_warning(ran: Callable[..., Ran]) -> None:
    found = ran(lambda: loop.run(feature("warning")))
    assert found.status == 0
    assert "node n1: not well" in str(found.result["warnings"])


def test_a_step_that_fails_says_which_and_that_the_rest_stays(ran: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "made/a").mkdir(parents=True)
    found = ran(lambda: loop.run(feature()))
    assert (found.status, found.result["id"]) == (1, "core-not-a-file")
    (tmp_path / "made/a").rmdir()

    class Failing(type(BASE_KINDS["file"])):  # type: ignore[misc]
        def write(self, ctx: Context[Any], target: str, after: object, before: object) -> None:
            raise HostError("no space", id="toy-full")

    engine = Toy()
    engine.kinds = {**BASE_KINDS, "file": Failing()}
    found = ran(lambda: loop.run(feature(engine=engine)))
    assert found.message.startswith("no space\n  step:  in step 1 of 2, make file ")
    assert "finished steps are kept; run the same command again to resume" in found.message
    assert ran(lambda: loop.run(feature())).status == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_interrupt_in_a_step_is_told_as_a_state(ran: Callable[..., Ran], number: signal.Signals) -> None:
    class Interrupted(type(BASE_KINDS["file"])):  # type: ignore[misc]
        def write(self, ctx: Context[Any], target: str, after: object, before: object) -> None:
            os.kill(os.getpid(), number)

    engine = Toy()
    engine.kinds = {**BASE_KINDS, "file": Interrupted()}
    found = ran(lambda: loop.run(feature(engine=engine)))
    assert (found.status, found.result["id"]) == (1, "core-interrupted")
    assert "interrupted in step 2 of 3, make file" in found.message
    again = ran(lambda: loop.run(feature()))
    assert [step["kind"] for step in again.result["steps"]] == ["file", "file"], "the next run continues"


def test_an_interrupt_while_waiting_is_told_too(ran: Callable[..., Ran]) -> None:
    engine = Toy()
    engine.during = lambda: os.kill(os.getpid(), signal.SIGTERM)
    found = ran(lambda: loop.run(feature(engine=engine)))
    assert (found.status, found.result["id"]) == (1, "core-interrupted")
    assert "run it again to go on" in found.message


def test_progress_is_told_in_the_state_directory_or_where_it_is_asked_for(
    ran: Callable[..., Ran], tmp_path: Path
) -> None:
    made = ran(lambda: loop.run(feature())).result["steps"]
    rows = [json.loads(line) for line in (tmp_path / "state/events.jsonl").read_text().splitlines()]
    assert {(row["kind"], row["feature"], row["subject"]) for row in rows} == {
        ("started", "toy", "node n1"),
        ("done", "toy", "node n1"),
    }
    assert len(rows) == len(made) + 1
    changed = ran(lambda: loop.run(feature()), content="two", progress_log=str(tmp_path / "other/events.jsonl")).result
    assert (tmp_path / "other/events.jsonl").read_text().count("\n") == len(changed["steps"]) + 1 > 1
    assert (tmp_path / "state/events.jsonl").read_text().count("\n") == len(made) + 1


def test_the_former_name_of_the_progress_log_is_read_with_a_warning(ran: Callable[..., Ran], tmp_path: Path) -> None:
    found = ran(lambda: loop.run(feature()), events=str(tmp_path / "other//events.jsonl")).result
    assert (tmp_path / "other/events.jsonl").read_text().count("\n") == len(found["steps"]) + 1
    assert not (tmp_path / "state/events.jsonl").exists()
    warnings = json.dumps(found["deprecations"])  # its form is Ansible's own
    assert "Alias 'events' is deprecated" in warnings
    assert '"2.0.0"' in warnings


def test_a_removal_leaves_nothing_not_even_its_events(ran: Callable[..., Ran], tmp_path: Path) -> None:
    ran(lambda: loop.run(feature()))
    found = ran(lambda: loop.run(feature()), state="absent")
    assert [step["verb"] for step in found.result["steps"]] == ["remove", "remove", "remove"]
    assert paths(tmp_path) == []
    assert ran(lambda: loop.run(feature()), state="absent").result["changed"] is False
    assert paths(tmp_path) == []


@pytest.mark.parametrize(
    ("how", "others", "stay"),
    [
        ({"state": "absent"}, False, False),
        ({"state": "absent"}, True, True),
        ({"state": "absent", "_ansible_check_mode": True}, False, True),
        ({}, False, True),
    ],
    ids=["the last of ours", "not the last", "check mode", "nothing is removed"],
)
def test_kept_engines_go_with_the_last_thing_of_ours(
    ran: Callable[..., Ran], engines_directory: Path, how: dict[str, Any], others: bool, stay: bool
) -> None:
    engines_directory.mkdir()
    (engines_directory / "one.zip").touch()
    if others:
        (engines_directory.parent / "state").mkdir()
    ran(lambda: loop.run(feature()), **how)
    assert engines_directory.exists() is stay


def test_the_reading_twin_changes_nothing(ran: Callable[..., Ran], tmp_path: Path) -> None:
    read = loop.report_of(Toy(), from_options(desired))
    found = ran(lambda: loop.run_info(SPEC, read))
    assert (found.result["changed"], found.result["there"], set(found.result["seconds"])) == (False, False, {"report"})
    assert paths(tmp_path) == []
    assert ran(lambda: loop.run_info(SPEC, read), mood="wrong").status == 1


def read(host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
    if params["mood"] == "lacking":
        raise UserError("nothing there", id="toy-none")
    host.make_directory(os.path.join(params["state_dir"], "acted"))
    return {"mood": params["mood"]}


def test_a_module_without_an_engine_reads_or_acts(ran: Callable[..., Ran], tmp_path: Path) -> None:
    found = ran(lambda: loop.run_info(SPEC, read), mood="fine")
    assert (found.result["changed"], found.result["mood"]) == (False, "fine")
    (tmp_path / "state/acted").rmdir()
    planned = ran(lambda: loop.run_task(SPEC, read), _ansible_check_mode=True)
    assert (planned.result["changed"], "mood" in planned.result) == (True, False)
    assert not (tmp_path / "state/acted").exists()
    assert ran(lambda: loop.run_task(SPEC, read), mood="fine").result["mood"] == "fine"
    assert (tmp_path / "state/acted").exists()
    for start in (loop.run_info, loop.run_task):
        failed = ran(lambda start=start: start(SPEC, read), mood="lacking")
        assert (failed.status, failed.result["id"]) == (1, "toy-none")


CANARY = "c4n4ry-Xy7"


def test_a_secret_in_a_file_that_others_may_read_is_in_no_difference(ran: Callable[..., Ran]) -> None:
    config = f'server = "https://u:{CANARY}@r.test"\n[auth]\n  password = "{CANARY}"\n  mode = "a"\n'
    ran(lambda: loop.run(feature()), content=config)
    found = ran(lambda: loop.run(feature()), _ansible_diff=True, content=config.replace('"a"', '"b"'))
    assert CANARY not in json.dumps(found.result["diff"])
    assert 'mode = "b"' in found.result["diff"][0]["after"]


def test_a_secret_in_what_failed_is_in_no_answer_and_no_event(ran: Callable[..., Ran], tmp_path: Path) -> None:
    engine = Toy()

    def refuse() -> None:
        raise HostError(f"curl http://u:{CANARY}@proxy/", id="toy-refused", found=f"Authorization: Bearer {CANARY}")

    engine.during = refuse
    found = ran(lambda: loop.run(feature(engine=engine)))
    assert found.status == 1
    assert CANARY not in json.dumps(found.result)
    assert "curl http://(redacted)@proxy/" in found.message
    assert CANARY not in (tmp_path / "state/events.jsonl").read_text()


def test_what_a_module_reads_is_redacted_unless_it_is_what_was_asked_for(started: Callable[..., Ran]) -> None:
    def read(host: Host, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"rows": [{"url": f"http://u:{CANARY}@h/", "token": CANARY}]}

    assert CANARY not in json.dumps(started(lambda: loop.run_info({}, read)).result)
    assert CANARY not in json.dumps(started(lambda: loop.run_task({}, read)).result)
    assert CANARY in json.dumps(started(lambda: loop.run_info({}, read, secret=True)).result)


@pytest.mark.parametrize("start", ["run", "run_info", "run_task"])
def test_a_mistake_of_ours_has_a_stable_id_and_keeps_its_traceback_in_the_log(
    ran: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    logged: list[str] = []

    def broken(*_arguments: object) -> Any:
        raise ValueError(f"token={CANARY}")

    monkeypatch.setattr(loop.AnsibleModule, "log", lambda _module, text, **_options: logged.append(text))
    monkeypatch.setattr(Toy, "observe", broken)
    starts = {
        "run": lambda: loop.run(feature()),
        "run_info": lambda: loop.run_info(SPEC, broken),
        "run_task": lambda: loop.run_task(SPEC, broken),
    }
    failed = ran(starts[start])
    assert (failed.status, failed.result["id"]) == (1, "core-bug")
    assert "report it with its traceback" in failed.message
    assert any("in broken" in text and "ValueError" in text for text in logged)
    assert CANARY not in json.dumps([logged, failed.result])
