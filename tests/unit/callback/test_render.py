# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Events in, lines out."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Event
from ansible_collections.ballast.kube.plugins.plugin_utils.render import Line, Renderer, TaskLines, message_text


def event(kind: str, subject: str, at: float, text: str = "", *, feature: str = "instance") -> Event:
    return Event(kind=kind, feature=feature, subject=subject, text=text, seconds=at, at=1000.0 + at)


def take(renderer: Renderer, *events: Event) -> list[str]:
    return [str(line) for one in events for line in renderer.take(one)]


def finish(renderer: Renderer, *, ok: bool, at: float) -> list[str]:
    return [str(line) for line in renderer.finish(ok=ok, now=1000 + at)]


def shown(mark: str, name: str, seconds: str, text: str = "") -> str:
    return f" {mark} {name:<36} {seconds:>7} s   {text}".rstrip()


def test_a_subject_ends_with_its_own_time() -> None:
    lines = take(
        Renderer(), event("started", "control plane", 1.0), event("done", "control plane", 3.9, "readyz after 2.6 s")
    )
    assert lines == [shown("✓", "control plane", "2.9", "readyz after 2.6 s")]


def test_numbers_stand_below_each_other() -> None:
    short, long = str(Line("✓", "node n2", 5.14, "x")), str(Line("✓", "control plane", 123.4, "x", is_added=True))
    assert short.index(" s   x") == long.index(" s   x")


def test_failure_is_marked() -> None:
    lines = take(Renderer(), event("started", "node n1", 0), event("failed", "node n1", 1, "no route"))
    assert lines == [shown("✗", "node n1", "1.0", "no route")]


def test_done_without_start_takes_the_time_of_the_engine() -> None:
    assert take(Renderer(), event("done", "node n1", 2.5)) == [shown("✓", "node n1", "2.5")]


def test_undone_is_told_and_stays_open() -> None:
    renderer = Renderer()
    lines = take(renderer, event("started", "node n1", 0), event("undone", "node n1", 1, "veth ballast-lab-n1"))
    assert lines == [shown("•", "node n1", "1.0", "undone: veth ballast-lab-n1")]
    assert finish(renderer, ok=False, at=2)[0].startswith(" ✗ node n1")


def test_every_subject_that_is_open_ends_with_its_task() -> None:
    renderer = Renderer()
    take(renderer, event("started", "node n1", 0), event("waiting", "node n2", 1, "not ready"))
    assert finish(renderer, ok=True, at=4) == [shown("✓", "node n1", "4.0"), shown("✓", "node n2", "+0.0")]
    assert finish(renderer, ok=True, at=5) == []


def test_what_a_failed_task_was_at_is_told() -> None:
    renderer = Renderer()
    take(renderer, event("waiting", "node n2", 0, "not ready"))
    assert finish(renderer, ok=False, at=3) == [shown("✗", "node n2", "3.0", "not finished: waiting: not ready")]


def test_equal_subjects_of_two_engines_are_two() -> None:
    renderer = Renderer()
    take(renderer, event("started", "files", 0), event("started", "files", 0, feature="plane"))
    assert len(finish(renderer, ok=True, at=1)) == 2


def test_a_clock_that_was_set_back_gives_no_negative_time() -> None:
    assert " 0.0 s" in take(Renderer(), event("started", "a", 5), event("done", "a", 1))[0]


def test_what_went_on_beside_others_says_what_it_took_beyond_them() -> None:
    """As nodes that are made one after the other, and waited for together."""
    lines = take(
        Renderer(),
        event("started", "node n1", 0.0),
        event("started", "node n2", 1.0),
        event("started", "images", 2.0),
        event("done", "images", 2.5),
        event("done", "node n1", 4.5, "Ready"),
        event("done", "node n2", 5.2, "Ready"),
    )
    assert lines == [
        shown("✓", "images", "0.5"),
        shown("✓", "node n1", "+4.0", "Ready"),
        shown("✓", "node n2", "+0.7", "Ready"),
    ]


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 50)), min_size=1, max_size=12))
def test_the_times_of_all_subjects_add_up_to_the_time_in_which_any_was_at_work(
    spans: list[tuple[float, float]],
) -> None:
    spans = sorted(((min(span), max(span)) for span in spans), key=lambda span: span[1])
    renderer, seconds = Renderer(), 0.0
    rows = [(start, "started", number) for number, (start, _end) in enumerate(spans)]
    rows += [(end, "done", number) for number, (_start, end) in enumerate(spans)]
    for at, kind, number in sorted(rows, key=lambda row: (row[0], row[1] == "done", row[2])):
        seconds += sum(line.seconds for line in renderer.take(event(kind, f"part {number}", at)))
    union, reached = 0.0, 0.0
    for start, end in sorted(spans):
        union += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    assert seconds == pytest.approx(union, abs=1e-6)


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        ([], ""),
        ([("started", "a", 0, "make it")], shown("•", "a", "9.0", "make it")),
        (
            [("started", "a", 0, "x"), ("waiting", "b", 1, "waiting for y")],
            shown("•", "b", "8.0", "waiting for y   (1 more)"),
        ),
        ([("started", "a", 0, "x"), ("done", "a", 1, "")], ""),
    ],
)
def test_the_live_line_shows_who_was_heard_of_last(events: list[tuple[str, str, float, str]], wanted: str) -> None:
    renderer = Renderer()
    take(renderer, *(event(*one) for one in events))
    assert renderer.live(now=1009.0, width=100) == wanted


@pytest.mark.parametrize("width", [10, 40, 60, 80])
def test_the_live_line_fits_the_terminal(width: int) -> None:
    renderer = Renderer()
    take(renderer, event("started", "a", 0), event("waiting", "node n1", 0.5, "reason " * 30))
    text = renderer.live(now=1001.0, width=width)
    assert len(text) == width - 1
    assert text.endswith("(1 more)" if width > 73 else "...")


@pytest.mark.parametrize("place", ["subject", "text"])
def test_a_terminal_is_never_commanded(place: str) -> None:
    hostile = "a\x1b[2J\rb\nc"
    found: Optional[str] = None
    if place == "subject":
        found = take(Renderer(), event("done", hostile, 1))[0]
    else:
        found = take(Renderer(), event("done", "x", 1, hostile))[0]
    assert found.isprintable()


def lines_of(*events: Event, name: str = "Run it", ok: bool = True, end: float = 9.0) -> list[str]:
    task = TaskLines(name, started=1000.0)
    lines = [line for one in events for line in task.take(one)] + task.finish(ok=ok, now=1000 + end)
    return [*lines, task.end(now=1000 + end, text="unchanged")] if ok else lines


def test_several_subjects_are_indented_below_their_task_whose_time_has_theirs() -> None:
    assert lines_of(
        event("started", "certificates", 1),
        event("done", "certificates", 2),
        event("started", "API", 2),
        event("done", "API", 8, "ready"),
    ) == [
        " • Run it",
        "    " + shown("✓", "certificates", "1.0"),
        "    " + shown("✓", "API", "6.0", "ready"),
        shown("✓", "Run it", "9.0", "unchanged"),
    ]


def test_one_subject_and_none_is_the_line_of_the_task() -> None:
    assert lines_of(event("started", "check", 1), event("done", "check", 8, "9 of 9 connections")) == [
        shown("✓", "Run it", "9.0", "9 of 9 connections")
    ]
    assert lines_of(event("started", "check", 1)) == [shown("✓", "Run it", "9.0", "unchanged")]
    assert lines_of() == [shown("✓", "Run it", "9.0", "unchanged")]


def test_a_failure_names_the_only_subject_too() -> None:
    assert lines_of(event("waiting", "node n1", 1, "not ready"), ok=False) == [
        " • Run it",
        "    " + shown("✗", "node n1", "8.0", "not finished: waiting: not ready"),
    ]


def test_the_line_that_is_due_stands_where_those_that_come_would() -> None:
    task = TaskLines("Build", started=1000.0)
    assert task.due(now=1030.0) == [shown("•", "Build", "30.0")]
    task.take(event("waiting", "kubelet", 5, "compiling"))
    assert task.due(now=1060.0) == [shown("•", "Build", "60.0", "waiting: compiling")]
    assert task.take(event("waiting", "etcd", 65, "compiling")) == [" • Build"]
    assert task.due(now=1090.0) == ["    " + shown("•", "etcd", "25.0", "waiting: compiling   (1 more)")]


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("a table\nof two", "a table\nof two"),
        (["what there is", "", "and where"], "what there is\n\nand where"),
        ({"a": 1}, '{\n  "a": 1\n}'),
        ("\x1b[2Jpassword", " [2Jpassword"),
    ],
)
def test_the_text_of_a_message(message: Any, wanted: str) -> None:
    assert message_text(message) == wanted
