# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import asyncio
import itertools
from functools import partial

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.pulls import Interrupted
from tests.unit.pulls.core.given import Host, request, settings
from tests.unit.pulls.core.virtual import settle, virtual


class Refusal(Exception):
    """Of the runtime."""


# The limit and the queue


@virtual
async def test_no_more_than_the_limit_are_in_flight_and_the_first_to_come_is_the_next_to_go():
    host = Host(settings(2))
    callers = [host.ask(name) for name in "abcd"]
    await settle()
    assert (host.at_runtime, host.waiting) == (["a", "b"], ["c", "d"])
    host.runtime.finish("b")
    await settle()
    assert host.at_runtime == ["a", "c"]
    for name in "acd":
        host.runtime.finish(name)
        await settle()
    assert await asyncio.gather(*callers) == [b"a", b"b", b"c", b"d"]
    assert host.is_empty()
    assert host.runtime.most == 2


@virtual
async def test_the_queue_is_one_for_all_listeners_and_runtimes():
    host = Host(settings(1))
    for number, name in enumerate("abcd"):
        host.ask(request(name, listener=f"n{number % 2}", runtime=f"/run/{number % 2}.sock"))
    await settle()
    for name in "abcd":
        host.runtime.finish(name)
        await settle()
    assert host.seen.began == list("abcd")


@virtual
async def test_zero_is_no_limit():
    host = Host(settings(0))
    for number in range(50):
        host.ask(str(number))
    await settle()
    assert len(host.runtime.calls) == 50


@virtual
async def test_a_caller_who_leaves_the_queue_leaves_it_at_once():
    host = Host(settings(1))
    _first, second, third = (host.ask(name) for name in "abc")
    await settle()
    second.cancel()
    await settle()
    assert host.waiting == ["c"]
    host.runtime.finish("a")
    await settle()
    assert host.at_runtime == ["c"]
    third.cancel()
    await settle()
    assert host.is_empty()


@virtual
async def test_a_slot_granted_to_one_who_leaves_in_the_same_moment_is_handed_on():
    """Every number of turns between the end of one pull and the leaving of the caller who is next, in both orders."""
    seen = set()
    for turns, leaves_first in itertools.product(range(8), [True, False]):
        host = Host(settings(1))
        _first, second, third = (host.ask(name) for name in "abc")
        await settle()
        acts = [second.cancel, partial(host.runtime.finish, "a")]
        for act in acts if leaves_first else reversed(acts):
            act()
            for _turn in range(turns):
                await asyncio.sleep(0)
        await settle()
        assert (host.at_runtime, host.runtime.most) == (["c"], 1)
        seen.add(("".join(host.seen.began), host.runtime.ever))
        third.cancel()
    # He left while he waited; when his pull was started and had not taken its first step; and when it was at the runtime.
    assert seen == {("ac", 2), ("abc", 2), ("abc", 3)}


@virtual
async def test_a_cancelled_pull_holds_its_slot_until_it_has_ended_at_the_runtime():
    host = Host(settings(1))
    first = host.ask("a", lingers=5.0)
    host.ask("b")
    await settle()
    first.cancel()
    await settle()
    assert first.cancelled()
    assert (host.at_runtime, host.waiting) == (["a"], ["b"])
    assert host.pulls.snapshot().in_flight[0].callers == ()
    await asyncio.sleep(5.5)
    assert host.at_runtime == ["b"]
    assert host.runtime.most == 1
    assert isinstance(host.seen.errors[0], asyncio.CancelledError)


@virtual
async def test_a_run_that_fails_where_it_is_called_is_a_failed_pull():
    host = Host(settings(1))

    def fails():
        raise Refusal

    with pytest.raises(Refusal):
        await host.pulls.pull(request("a"), fails)
    assert host.is_empty()
    assert host.seen.in_flight == 0


# Joining


@virtual
async def test_who_asks_for_an_image_in_flight_joins_and_needs_no_slot():
    host = Host(settings(1))
    callers = [host.ask(request("a", pod=f"p{number}")) for number in range(40)]
    await settle()
    assert host.runtime.ever == 1
    host.runtime.finish("a")
    assert await asyncio.gather(*callers) == [b"a"] * 40
    assert host.is_empty()
    assert host.seen.outcomes == {"succeeded": 40}


@pytest.mark.parametrize(
    "other",
    [
        {"image": "b"},
        {"credentials": b"x"},
        {"handler": "kata"},
        {"annotations": (("k", "v"),)},
        {"runtime": "/run/other.sock"},
    ],
)
@virtual
async def test_another_image_credentials_handler_annotations_or_runtime_is_another_pull(other):
    host = Host(settings(0))
    host.ask("a")
    host.ask(request(**{"image": "a", **other}))
    await settle()
    assert host.runtime.ever == 2


@virtual
async def test_another_pod_or_listener_is_the_same_pull():
    host = Host(settings(0))
    host.ask("a")
    host.ask(request("a", pod="q", namespace="other", pod_annotations={"k": "v"}, listener="b"))
    await settle()
    assert host.runtime.ever == 1
    (row,) = host.pulls.snapshot().in_flight
    assert [caller.pod for caller in row.callers] == ["p", "q"]


@virtual
async def test_a_pull_outlives_who_began_it_and_ends_with_the_last_caller():
    host = Host(settings(1))
    first, second = host.ask("a"), host.ask("a")
    await settle()
    first.cancel()
    await settle()
    assert host.at_runtime == ["a"]
    second.cancel()
    await settle()
    assert host.at_runtime == []
    assert host.is_empty()
    assert host.seen.outcomes == {"cancelled": 2}


@virtual
async def test_a_queued_pull_keeps_the_place_of_who_began_it():
    host = Host(settings(1))
    _a, began, _c = host.ask("a"), host.ask(request("b", pod="first")), host.ask("c")
    await settle()
    host.ask(request("b", pod="second"))
    await settle()
    began.cancel()
    await settle()
    queued = host.pulls.snapshot().queued
    assert [(row.request.image, row.request.pod, row.place) for row in queued] == [("b", "second", 1), ("c", "p", 2)]
    host.runtime.finish("a")
    await settle()
    assert host.at_runtime == ["b"]


@virtual
async def test_failure_is_told_to_all_and_nothing_is_remembered():
    host = Host(settings(1))
    callers = [host.ask("a") for _turn in range(3)]
    await settle()
    host.runtime.fail("a", Refusal("not found"))
    results = await asyncio.gather(*callers, return_exceptions=True)
    assert [type(result) for result in results] == [Refusal] * 3
    assert host.is_empty()
    host.ask("a")
    await settle()
    assert host.runtime.ever == 2


@virtual
async def test_the_error_told_to_many_does_not_gather_the_frames_of_all():
    host = Host(settings(1))
    callers = [host.ask("a") for _turn in range(100)]
    await settle()
    error = Refusal()
    host.runtime.fail("a", error)
    await asyncio.gather(*callers, return_exceptions=True)
    frames, trace = 0, error.__traceback__
    while trace is not None:
        frames, trace = frames + 1, trace.tb_next
    assert frames < 12


@virtual
async def test_nobody_joins_a_pull_that_is_being_cancelled():
    host = Host(settings(0))
    first = host.ask("a", lingers=5.0)
    await settle()
    first.cancel()
    await settle()
    second = host.ask("a")
    await settle()
    assert [call.cancelled for call in host.runtime.calls] == [True, False]
    await asyncio.sleep(6)
    host.runtime.finish("a")
    assert await second == b"a"


@virtual
async def test_without_join_each_caller_has_a_pull_of_his_own():
    host = Host(settings(2, join=False))
    for _turn in range(3):
        host.ask("a")
    await settle()
    assert (host.at_runtime, host.waiting) == (["a", "a"], ["a"])


@virtual
async def test_a_pull_cancelled_by_its_own_connection_is_an_error_and_not_a_callers_leaving():
    host = Host(settings(1))
    caller = host.ask("a")
    await settle()
    host.runtime.fail("a", asyncio.CancelledError())
    with pytest.raises(Interrupted):
        await caller
    assert host.seen.outcomes == {"failed": 1}
    assert isinstance(host.seen.errors[0], Interrupted)
