# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.engine import ResourceEngine
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.kinds import (
    BASE_KINDS,
    Kind,
    directory,
    file,
    sysctl_minimum,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Policy, Resource
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import Bug, HostError
from tests.unit.cases import apply, check_kills, plan_of
from tests.unit.fakes import FakeHost, Killed, ListSink

STATE = "/var/lib/ballast/lab"


@dataclass(frozen=True)
class Wanted:
    state_dir: str = STATE
    rows: tuple[Resource, ...] = ()


class Engine(ResourceEngine[Wanted]):
    name = "test"
    kinds: Mapping[str, Kind] = BASE_KINDS

    def __init__(self, policy: Policy = Policy.KEEP) -> None:
        self.policy = policy

    def wanted(self, ctx: Context[Wanted]) -> list[Resource]:
        return list(ctx.desired.rows)


ROWS = (
    sysctl_minimum("fs.inotify.max_user_instances", 8192, holder="lab"),
    directory("/srv/lab", mode=0o750, group="node n1"),
    file("/srv/lab/a", "one\n", group="node n1"),
    file("/etc/there", "ours\n", mode=0o600, group="node n2"),
    Resource(kind="symlink", target="/srv/lab/link", value={"to": "a"}, title="link", group="node n2"),
)


def machine() -> FakeHost:
    host = FakeHost(files={"/etc/there": "theirs\n"})
    host.given_directory("/var/lib/ballast")
    host.given_directory("/srv")
    host.given("/run/ballast/sysctl/lock", "1", mode=0o600)
    host.given("/run/ballast/sysctl/other.json", '{"original": 1, "raised_to": 2, "holders": {"else": 2}}')
    host.given_sysctl("fs.inotify.max_user_instances", 128)
    return host


def holds(host: FakeHost) -> bool:
    return (
        host.text("/proc/sys/fs/inotify/max_user_instances") == "8192\n"
        and host.mode("/srv/lab") == 0o750
        and host.text("/srv/lab/a") == "one\n"
        and host.text("/etc/there") == "ours\n"
        and host.mode("/etc/there") == 0o600
        and host.readlink("/srv/lab/link") == "a"
    )


@pytest.mark.parametrize("policy", list(Policy))
def test_killed_at_any_effect_the_next_run_makes_or_removes_all_of_it(policy: Policy) -> None:
    kills = check_kills(Engine(policy), machine, Wanted(rows=ROWS), Wanted(), holds)
    assert kills > 60


def test_a_second_run_has_no_effect_and_removal_puts_back_what_was_there() -> None:
    host = machine()
    given = host.snapshot()
    apply(Engine(), Wanted(rows=ROWS), host)
    assert holds(host)
    before = len(host.effects)
    apply(Engine(), Wanted(rows=ROWS), host)
    assert host.effects[before:] == []
    apply(Engine(), Wanted(), host)
    assert host.snapshot() == given


def test_what_was_there_is_put_back_after_several_changes() -> None:
    host = machine()
    for content in ("one", "two", "three"):
        apply(Engine(), Wanted(rows=(file("/etc/there", content),)), host)
    assert host.text("/etc/there") == "three"
    apply(Engine(), Wanted(), host)
    assert host.text("/etc/there") == "theirs\n"


def test_a_directory_that_was_there_before_is_never_removed() -> None:
    host = machine()
    host.given("/srv/theirs/data", "precious")
    given = host.snapshot()
    apply(Engine(), Wanted(rows=(directory("/srv/theirs", mode=0o700),)), host)
    assert host.mode("/srv/theirs") == 0o700
    apply(Engine(), Wanted(), host)
    assert host.snapshot() == given


def test_only_the_difference_is_done() -> None:
    host = machine()
    apply(Engine(), Wanted(rows=ROWS), host)
    plan = plan_of(Engine(), Wanted(rows=ROWS[:2] + (file("/srv/lab/a", "two\n"),)), host)
    assert [f"{step.verb} {step.title}" for step in plan.steps] == [
        "remove link",
        "change file /etc/there",
        "change file /srv/lab/a",
    ]
    assert [step.group for step in plan.steps] == ["node n2", "node n2", ""]


def test_the_mode_of_a_state_directory_of_somebody_else_is_kept() -> None:
    host = machine()
    host.given_directory(STATE, mode=0o700)
    apply(Engine(), Wanted(rows=ROWS), host)
    assert host.mode(STATE) == 0o700


@pytest.mark.parametrize("number", range(1, 12))
def test_with_undo_a_failure_at_any_effect_leaves_the_machine_as_it_was(number: int) -> None:
    host = machine()
    given = host.snapshot()
    host.fail_at(number, HostError("no", id="test-no"))
    with pytest.raises(HostError) as caught:
        apply(Engine(Policy.UNDO), Wanted(rows=ROWS[1:]), host)
    assert caught.value.id == "test-no"
    apply(Engine(Policy.UNDO), Wanted(), host)
    assert host.snapshot() == given


def test_with_undo_the_error_says_which_step_and_what_is_left() -> None:
    host = machine()
    given = host.snapshot()
    plan = plan_of(Engine(Policy.UNDO), Wanted(rows=ROWS[1:]), host)
    host.on_sleep.clear()
    sink = ListSink()
    host.fail_at(8, HostError("cannot write", id="test-no"))
    with pytest.raises(HostError) as caught:
        Engine(Policy.UNDO).apply(plan, Context(Wanted(rows=ROWS[1:]), host, Progress(sink, feature="test")))
    assert "in step 2 of 4, make file /srv/lab/a; undone: 2 of 2 steps; left: nothing" in str(caught.value)
    assert [event.kind for event in sink.events] == ["started", "started", "undone", "undone", "failed"]
    assert host.snapshot() == given


def test_a_group_ends_with_its_last_step_unless_verify_says_its_end() -> None:
    class Verifying(Engine):
        def groups_verified(self, desired: Wanted) -> tuple[str, ...]:
            return ("node n1",)

    host, sink = machine(), ListSink()
    engine = Verifying()
    ctx = Context(Wanted(rows=ROWS), host, Progress(sink, feature="test"))
    engine.apply(plan_of(engine, ctx.desired, host), ctx)
    told = [(event.kind, event.subject) for event in sink.events]
    assert told.count(("done", "node n2")) == 1
    assert told[-1] == ("done", "node n2")
    assert ("done", "node n1") not in told


def test_with_keep_a_failure_leaves_what_was_done_and_the_next_run_goes_on() -> None:
    host = machine()
    host.fail_at(8, HostError("cannot write", id="test-no"))
    with pytest.raises(HostError, match="finished steps are kept"):
        apply(Engine(), Wanted(rows=ROWS[1:]), host)
    assert host.stat("/srv/lab") is not None
    plan = apply(Engine(), Wanted(rows=ROWS[1:]), host)
    assert [step.target for step in plan.steps] == ["/srv/lab/a", "/etc/there", "/srv/lab/link"]


@pytest.mark.parametrize("policy", list(Policy))
def test_an_interruption_is_told_as_a_state(policy: Policy) -> None:
    host = machine()
    host.fail_at(8, KeyboardInterrupt())
    with pytest.raises(HostError) as caught:
        apply(Engine(policy), Wanted(rows=ROWS[1:]), host)
    assert caught.value.id == "core-interrupted"
    assert "in step 2 of 4" in str(caught.value)


@pytest.mark.parametrize("policy", list(Policy))
def test_a_full_disk_is_told_and_freed_space_is_enough_to_go_on(policy: Policy) -> None:
    for number in range(len(ROWS)):
        host = machine()
        given = host.snapshot()
        apply(Engine(policy), Wanted(rows=ROWS[:number]), host)
        host.fill_disk()
        with pytest.raises(HostError) as caught:
            apply(Engine(policy), Wanted(rows=ROWS), host)
        assert caught.value.id == "core-enospc"
        host.empty_disk()
        apply(Engine(policy), Wanted(rows=ROWS), host)
        assert holds(host)
        apply(Engine(policy), Wanted(), host)
        assert host.snapshot() == given


def test_a_disk_that_fills_up_in_the_middle_still_lets_a_node_be_put_back() -> None:
    class Filling(type(BASE_KINDS["file"])):  # type: ignore[misc]
        def write(self, ctx: Context[Any], target: str, after: object, before: object) -> None:
            if target == "/etc/there" and isinstance(ctx.host, FakeHost):
                ctx.host.fill_disk()
            super().write(ctx, target, after, before)

    engine = Engine(Policy.UNDO)
    engine.kinds = {**BASE_KINDS, "file": Filling()}
    host = machine()
    given = host.snapshot()
    with pytest.raises(HostError, match="left: nothing"):
        apply(engine, Wanted(rows=ROWS[1:]), host)
    host.empty_disk()
    apply(Engine(Policy.UNDO), Wanted(), host)
    assert host.snapshot() == given


def test_with_undo_a_fault_of_ours_is_undone_too() -> None:
    class Faulty(type(BASE_KINDS["symlink"])):  # type: ignore[misc]
        def write(self, ctx: Context[Any], target: str, after: object, before: object) -> None:
            raise ZeroDivisionError

    engine = Engine(Policy.UNDO)
    engine.kinds = {**BASE_KINDS, "symlink": Faulty()}
    host = machine()
    given = host.snapshot()
    with pytest.raises(ZeroDivisionError):
        apply(engine, Wanted(rows=ROWS[1:]), host)
    assert host.snapshot() == given


def test_what_cannot_be_undone_is_named_and_what_was_before_it_stays() -> None:
    class Stuck(type(BASE_KINDS["file"])):  # type: ignore[misc]
        def remove(self, ctx: Context[Any], target: str, before: object) -> None:
            raise HostError("it is stuck", id="test-stuck")

    engine = Engine(Policy.UNDO)
    engine.kinds = {**BASE_KINDS, "file": Stuck()}
    rows = (directory("/srv/one"), file("/srv/a", "x"), directory("/srv/two"), file("/absent/b", "y"))
    host = machine()
    with pytest.raises(HostError, match=r"undone: 2 of 4 steps; left: file /srv/a: it is stuck; directory /srv/one"):
        apply(engine, Wanted(rows=rows), host)
    assert host.stat("/srv/one") is not None, "the file lies beside it"
    assert host.stat("/srv/two") is None
    with pytest.raises(HostError) as caught:
        apply(engine, Wanted(rows=rows), host)
    assert caught.value.id == "core-undo"


def test_a_killed_run_with_undo_is_undone_before_the_next_one_plans() -> None:
    host = machine()
    host.fail_at(10)  # the first file is written, its "done" is not
    with pytest.raises(Killed):
        apply(Engine(Policy.UNDO), Wanted(rows=ROWS[1:]), host)
    host.calm()
    other = (file("/etc/other", "x"),)
    apply(Engine(Policy.UNDO), Wanted(rows=other), host)
    assert host.stat("/srv/lab") is None
    apply(Engine(Policy.UNDO), Wanted(rows=ROWS[1:]), host)
    assert host.text("/srv/lab/a") == "one\n"


def test_a_plan_made_before_another_run_is_made_anew() -> None:
    host = machine()
    stale = plan_of(Engine(), Wanted(rows=ROWS), host)
    apply(Engine(), Wanted(rows=ROWS), host)
    before = len(host.effects)
    done = Engine().apply(stale, Context(Wanted(rows=ROWS), host, Progress(ListSink(), feature="test"))).steps
    assert done == ()
    assert [effect.verb for effect in host.effects[before:]] == ["lock"]


def test_another_run_at_work_is_waited_for_and_then_the_machine_looked_at_again() -> None:
    host, events = machine(), ListSink()
    host.given_directory(STATE)
    host.given_ours(STATE, "test")
    host.hold_lock(f"{STATE}/lock")

    def the_other_ends() -> None:
        if host.monotonic() > 5 and f"{STATE}/lock" in host.paths(STATE):
            host.release_lock(f"{STATE}/lock")

    host.on_sleep.append(the_other_ends)
    plan = plan_of(Engine(), Wanted(rows=ROWS), host)
    done = Engine().apply(plan, Context(Wanted(rows=ROWS), host, Progress(events, feature="test"))).steps
    assert len(done) == len(ROWS)
    told = [event.text for event in events.events if event.kind == "waiting"]
    assert told[0] == "another run is active here, process 1"
    assert "the other run has ended" in [event.text for event in events.events]


@pytest.mark.parametrize(("policy", "waits"), [(Policy.KEEP, False), (Policy.UNDO, True)])
def test_a_run_with_nothing_to_do_waits_only_where_the_other_may_undo(policy: Policy, *, waits: bool) -> None:
    whole, host, events = machine(), machine(), ListSink()
    apply(Engine(policy), Wanted(rows=ROWS), whole)
    host.fail_at(len(whole.effects) - 1)  # all is made, and the journal does not say yet that the run has ended
    with pytest.raises(Killed):
        apply(Engine(policy), Wanted(rows=ROWS), host)
    host.calm()
    host.hold_lock(f"{STATE}/lock")  # as it is not dead, but about to say it
    host.on_sleep.append(lambda: host.release_lock(f"{STATE}/lock"))
    plan = plan_of(Engine(policy), Wanted(rows=ROWS), host)
    assert plan.steps == ()
    Engine(policy).apply(plan, Context(Wanted(rows=ROWS), host, Progress(events, feature="test")))
    assert any(event.kind == "waiting" for event in events.events) is waits


def test_an_unknown_kind_and_a_resource_named_twice_are_faults_of_ours() -> None:
    with pytest.raises(Bug) as caught:
        plan_of(Engine(), Wanted(rows=(Resource(kind="new", target="x", value={}, title="x"),)), machine())
    assert caught.value.id == "core-kind"
    with pytest.raises(Bug) as caught:
        plan_of(Engine(), Wanted(rows=(ROWS[1], ROWS[1])), machine())
    assert caught.value.id == "core-resource-twice"
    assert caught.value.found == "directory /srv/lab"


def test_a_ledger_with_an_unknown_kind_is_refused_whole() -> None:
    host = machine()
    apply(Engine(), Wanted(rows=ROWS), host)
    older = Engine()
    older.kinds = {name: kind for name, kind in BASE_KINDS.items() if name != "symlink"}
    before = len(host.effects)
    with pytest.raises(HostError) as caught:
        apply(older, Wanted(), host)
    assert caught.value.id == "core-ledger"
    assert "symlink" in caught.value.found
    assert host.effects[before:] == []


def test_progress_names_the_step_that_is_at_work_and_what_it_belongs_to() -> None:
    host, sink = machine(), ListSink()
    plan = plan_of(Engine(), Wanted(rows=ROWS), host)
    Engine().apply(plan, Context(Wanted(rows=ROWS), host, Progress(sink, feature="instance")))
    grouped = [(step.group, f"{step.verb} {step.title}") for step in plan.steps if step.group]
    assert len({group for group, _text in grouped}) < len(grouped)
    assert [(event.subject, event.text) for event in sink.events if event.kind == "started"] == grouped
