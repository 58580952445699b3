# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Events in, lines out."""

from __future__ import annotations

from typing import Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Event
from ansible_collections.ballast.kube.plugins.plugin_utils.render import Renderer, line


def event(kind: str, subject: str, at: float, text: str = "", *, feature: str = "instance") -> Event:
    return Event(kind=kind, feature=feature, subject=subject, text=text, seconds=at, at=1000.0 + at)


def take(renderer: Renderer, *events: Event) -> list[str]:
    return [text for one in events for text in renderer.take(one)]


def test_a_subject_ends_with_its_own_time() -> None:
    lines = take(
        Renderer(), event("started", "control plane", 1.0), event("done", "control plane", 3.9, "readyz after 2.6 s")
    )
    assert lines == [" ✓ control plane                    2.9 s   readyz after 2.6 s"]


def test_numbers_stand_below_each_other() -> None:
    short, long = line("✓", "node n2", 5.14, "x"), line("✓", "control plane", 123.4, "x")
    assert short.index(" s   x") == long.index(" s   x")


def test_failure_is_marked() -> None:
    lines = take(Renderer(), event("started", "node n1", 0), event("failed", "node n1", 1, "no route"))
    assert lines == [" ✗ node n1                          1.0 s   no route"]


def test_done_without_start_takes_the_time_of_the_engine() -> None:
    assert take(Renderer(), event("done", "node n1", 2.5)) == [" ✓ node n1                          2.5 s"]


def test_undone_is_told_and_stays_open() -> None:
    renderer = Renderer()
    lines = take(renderer, event("started", "node n1", 0), event("undone", "node n1", 1, "veth ballast-lab-n1"))
    assert lines == [" • node n1                          1.0 s   undone: veth ballast-lab-n1"]
    assert renderer.finish(ok=False, now=1002)[0].startswith(" ✗ node n1")


def test_every_subject_that_is_open_ends_with_its_task() -> None:
    renderer = Renderer()
    take(renderer, event("started", "node n1", 0), event("waiting", "node n2", 1, "not ready"))
    assert renderer.finish(ok=True, now=1004) == [
        " ✓ node n1                          4.0 s",
        " ✓ node n2                          3.0 s",
    ]
    assert renderer.finish(ok=True, now=1005) == []
    assert renderer.closed == 2


def test_what_a_failed_task_was_at_is_told() -> None:
    renderer = Renderer()
    take(renderer, event("waiting", "node n2", 0, "not ready"))
    assert renderer.finish(ok=False, now=1003) == [
        " ✗ node n2                          3.0 s   not finished: waiting: not ready"
    ]


def test_equal_subjects_of_two_engines_are_two() -> None:
    renderer = Renderer()
    take(renderer, event("started", "files", 0), event("started", "files", 0, feature="plane"))
    assert len(renderer.finish(ok=True, now=1001)) == 2


def test_a_clock_that_was_set_back_gives_no_negative_time() -> None:
    assert " 0.0 s" in take(Renderer(), event("started", "a", 5), event("done", "a", 1))[0]


def test_plain_lines_come_with_news_and_not_with_every_event() -> None:
    renderer = Renderer()
    take(renderer, event("started", "node n1", 0, "make veth"))
    assert renderer.plain(now=1001.0) == []
    assert renderer.plain(now=1002.0) == [" • node n1                          2.0 s   make veth"]
    take(renderer, event("waiting", "node n1", 3, "not ready"))
    assert renderer.plain(now=1003.0) == []
    assert renderer.plain(now=1005.0) == [" • node n1                          5.0 s   waiting: not ready"]
    take(renderer, event("waiting", "node n1", 6, "not ready"))
    assert renderer.plain(now=1010.0) == []


def test_the_step_at_work_is_no_news_in_a_log_but_shown_on_a_terminal_and_when_a_line_is_due() -> None:
    renderer = Renderer()
    take(renderer, event("started", "node n1", 0, "make veth"))
    renderer.plain(now=1002.0)
    take(renderer, event("started", "node n1", 3, "make netns"))
    assert renderer.plain(now=1006.0) == []
    assert "make netns" in renderer.live(now=1006.0, width=100)
    assert renderer.plain(now=1032.0) == [" • node n1                         32.0 s   make netns"]


def test_a_long_silence_is_broken() -> None:
    renderer = Renderer()
    take(renderer, event("waiting", "node n1", 0, "not ready"))
    renderer.plain(now=1002.0)
    assert renderer.plain(now=1031.9) == []
    assert len(renderer.plain(now=1032.0)) == 1


def test_a_reason_that_is_given_again_and_again_is_a_line_every_half_minute() -> None:
    renderer = Renderer()
    shown = []
    for second in range(125):
        if second % 5 == 0:
            take(renderer, event("waiting", "kubelet", second, "compiling"))
        shown += renderer.plain(now=1000.0 + second)
    assert len(shown) == 5  # at 2, 32, 62, 92 and 122 seconds


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        ([], ""),
        ([("started", "a", 0, "make it")], " • a                                9.0 s   make it"),
        (
            [("started", "a", 0, "x"), ("waiting", "b", 1, "waiting for y")],
            " • b                                8.0 s   waiting for y   (1 more)",
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
    assert text.endswith("(1 more)" if width > 57 else "...")


@pytest.mark.parametrize("place", ["subject", "text"])
def test_a_terminal_is_never_commanded(place: str) -> None:
    hostile = "a\x1b[2J\rb\nc"
    found: Optional[str] = None
    if place == "subject":
        found = take(Renderer(), event("done", hostile, 1))[0]
    else:
        found = take(Renderer(), event("done", "x", 1, hostile))[0]
    assert found.isprintable()
