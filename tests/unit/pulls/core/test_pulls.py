# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
from functools import partial

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.pulls import Draining, Full, Interrupted
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.settings import Priority, Retry
from tests.unit.pulls.core.given import Host, request, settings
from tests.unit.pulls.core.virtual import run, settle


def virtual(test):
    """A coroutine as a test that runs on a loop with virtual time."""

    @functools.wraps(test)
    def wrapped(**given):
        run(test(**given))

    wrapped.__signature__ = inspect.signature(test)
    return wrapped


class Refusal(Exception):
    """Of the runtime."""


# The limit and the queue


@virtual
async def test_no_more_than_the_limit_are_in_flight_and_the_first_to_come_is_the_next_to_go():
    host = Host(settings(2))
    asked = [host.ask(name) for name in "abcd"]
    await settle()
    assert (host.at_runtime, host.waiting) == (["a", "b"], ["c", "d"])
    host.runtime.finish("b")
    await settle()
    assert host.at_runtime == ["a", "c"]
    for name in "acd":
        host.runtime.finish(name)
        await settle()
    assert await asyncio.gather(*asked) == [b"a", b"b", b"c", b"d"]
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
    asked = [host.ask(request("a", pod=f"p{number}")) for number in range(40)]
    await settle()
    assert host.runtime.ever == 1
    host.runtime.finish("a")
    assert await asyncio.gather(*asked) == [b"a"] * 40
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
    asked = [host.ask("a") for _turn in range(3)]
    await settle()
    host.runtime.fail("a", Refusal("not found"))
    told = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(one) for one in told] == [Refusal] * 3
    assert host.is_empty()
    host.ask("a")
    await settle()
    assert host.runtime.ever == 2


@virtual
async def test_the_error_told_to_many_does_not_gather_the_frames_of_all():
    host = Host(settings(1))
    asked = [host.ask("a") for _turn in range(100)]
    await settle()
    error = Refusal()
    host.runtime.fail("a", error)
    await asyncio.gather(*asked, return_exceptions=True)
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
    asked = host.ask("a")
    await settle()
    host.runtime.fail("a", asyncio.CancelledError())
    with pytest.raises(Interrupted):
        await asked
    assert host.seen.outcomes == {"failed": 1}
    assert isinstance(host.seen.errors[0], Interrupted)


# Order


def ranked(name, rank):
    return request(name, pod_annotations={"rank": rank})


@virtual
async def test_the_highest_priority_goes_first_and_the_earlier_of_equals():
    host = Host(settings(1, order="priority", priority=Priority(annotation="rank")))
    host.ask("a")
    for name, rank in [("b", "1"), ("c", "5"), ("d", "1"), ("e", "5"), ("f", "no number")]:
        host.ask(ranked(name, rank))
    host.ask(request("g", namespace="kube-system"))
    await settle()
    assert host.waiting == list("gcebdf")
    for name in "agceb":
        host.runtime.finish(name)
        await settle()
    assert host.seen.began == list("agcebd")


@virtual
async def test_who_has_waited_long_goes_before_all_later_ones():
    host = Host(settings(1, order="priority", priority=Priority(annotation="rank", ageing=60.0)))
    host.ask("a")
    await settle()
    host.ask(ranked("low", "0"))
    await asyncio.sleep(30)
    host.ask(ranked("middle", "1"))
    await asyncio.sleep(29)
    host.ask(ranked("high", "9"))
    await settle()
    assert host.waiting == ["high", "middle", "low"]
    await asyncio.sleep(1)
    assert host.waiting == ["low", "high", "middle"]
    host.runtime.finish("a")
    await settle()
    assert host.at_runtime == ["low"]
    await asyncio.sleep(30)
    assert host.waiting == ["middle", "high"]


@virtual
async def test_a_caller_of_higher_priority_raises_the_queued_pull_that_he_joins_and_a_lower_one_does_not():
    host = Host(settings(1, order="priority", priority=Priority(annotation="rank")))
    host.ask("a")
    for name in "bcd":
        host.ask(ranked(name, "3"))
    await settle()
    host.ask(ranked("c", "1"))
    await settle()
    assert host.waiting == list("bcd")
    host.ask(ranked("d", "7"))
    await settle()
    assert host.waiting == list("dbc")


# Trying again


def retrying(limit=1, attempts=3, interval=10.0, **changes):
    return settings(limit, on_full="retry", retry=Retry(attempts, interval), **changes)


@virtual
async def test_full_means_three_more_attempts_and_then_an_error_with_the_name_of_the_draft():
    host = Host(retrying())
    host.ask("a")
    asked = host.ask("b")
    await asyncio.sleep(29.5)
    assert not asked.done()
    await asyncio.sleep(1)
    with pytest.raises(Full, match=r"^TooManyPullingInParallelErr: 1 image pulls .* tried 4 times in 30\.0 s"):
        await asked
    assert host.seen.outcomes == {"refused": 1}
    assert host.at_runtime == ["a"]


@virtual
async def test_without_further_attempts_full_is_an_error_at_once():
    host = Host(retrying(attempts=0))
    host.ask("a")
    asked = host.ask("b")
    await settle()
    with pytest.raises(Full, match="tried once in 0.0 s"):
        await asked


@virtual
async def test_a_slot_that_is_free_at_an_attempt_is_taken_then():
    host = Host(retrying())
    host.ask("a")
    asked = host.ask("b")
    await asyncio.sleep(12)
    host.runtime.finish("a")
    await asyncio.sleep(7.5)
    assert host.at_runtime == []
    await asyncio.sleep(1)
    assert host.at_runtime == ["b"]
    host.runtime.finish("b")
    assert await asked == b"b"
    assert host.seen.waited == [0.0, 20.0]


@virtual
async def test_joining_needs_no_slot_and_no_second_attempt():
    host = Host(retrying())
    host.ask("a")
    second = host.ask("a")
    await settle()
    host.runtime.finish("a")
    assert await second == b"a"
    assert host.seen.outcomes["succeeded"] == 2


@virtual
async def test_whoever_finds_a_slot_has_found_it_for_all_who_want_the_same():
    host = Host(retrying())
    host.ask("a")
    early = host.ask("b")
    await asyncio.sleep(5)
    late = host.ask("b")
    await asyncio.sleep(6)
    host.runtime.finish("a")
    await asyncio.sleep(5)  # 16 s: the later one's first further attempt was at 15 s
    assert host.at_runtime == ["b"]
    host.runtime.finish("b")
    assert await asyncio.gather(early, late) == [b"b", b"b"]
    assert host.runtime.ever == 2


@virtual
async def test_each_of_those_who_want_the_same_has_all_his_own_attempts():
    host = Host(retrying())
    host.ask("a")
    early = host.ask("b")
    await asyncio.sleep(25)
    late = host.ask("b")
    await asyncio.sleep(6)
    assert isinstance(early.exception(), Full)
    assert not late.done()
    await asyncio.sleep(23)
    assert not late.done()
    await asyncio.sleep(2)
    assert "in 30.0 s" in str(late.exception())
    assert len(host.pulls.snapshot().queued) == 0


@virtual
async def test_who_joins_while_a_slot_is_free_starts_the_pull_at_once():
    host = Host(retrying())
    host.ask("a")
    host.ask("b")
    await asyncio.sleep(2)
    host.runtime.finish("a")
    await asyncio.sleep(1)
    assert host.at_runtime == []
    host.ask("b")
    await settle()
    assert host.at_runtime == ["b"]


@virtual
async def test_who_leaves_between_two_attempts_tries_no_more():
    host = Host(retrying())
    host.ask("a")
    asked = host.ask("b")
    await asyncio.sleep(5)
    asked.cancel()
    await settle()
    host.runtime.finish("a")
    await asyncio.sleep(60)
    assert host.seen.began == ["a"]
    assert host.is_empty()


# Reload


@virtual
async def test_a_raised_limit_wakes_whom_it_lets_in_and_no_limit_wakes_all():
    host = Host(settings(1))
    for name in "abcdef":
        host.ask(name)
    await settle()
    host.pulls.reload(settings(3))
    await settle()
    assert (host.at_runtime, host.waiting) == (list("abc"), list("def"))
    host.pulls.reload(settings(0))
    await settle()
    assert host.at_runtime == list("abcdef")


@virtual
async def test_under_a_lowered_limit_pulls_go_on_and_none_begins_until_fewer_are_in_flight():
    host = Host(settings(3))
    for name in "abcde":
        host.ask(name)
    await settle()
    host.pulls.reload(settings(1))
    for name, left in [("a", ["b", "c"]), ("b", ["c"]), ("c", ["d"]), ("d", ["e"])]:
        host.runtime.finish(name)
        await settle()
        assert host.at_runtime == left


@virtual
async def test_a_reload_orders_those_who_wait_anew():
    host = Host(settings(1))
    host.ask("a")
    for name, rank in [("b", "1"), ("c", "5"), ("d", "9")]:
        host.ask(ranked(name, rank))
    await settle()
    host.pulls.reload(settings(1, order="priority", priority=Priority(annotation="rank")))
    assert host.waiting == list("dcb")
    host.pulls.reload(settings(1))
    assert host.waiting == list("bcd")


@virtual
async def test_who_tries_again_waits_in_the_queue_when_full_means_block():
    host = Host(retrying())
    for name in "abc":
        host.ask(name)
        await asyncio.sleep(1)
    host.pulls.reload(settings(1))
    host.ask("d")
    await asyncio.sleep(100)
    assert host.waiting == list("bcd")
    for name in "abc":
        host.runtime.finish(name)
        await settle()
    assert host.seen.began == list("abcd")


@virtual
async def test_who_waits_in_the_queue_stays_there_when_full_means_retry():
    host = Host(settings(1))
    host.ask("a")
    queued = host.ask("b")
    await settle()
    host.pulls.reload(retrying())
    tries = host.ask("c")
    await asyncio.sleep(31)
    assert isinstance(tries.exception(), Full)
    host.runtime.finish("a")
    await settle()
    host.runtime.finish("b")
    assert await queued == b"b"


@virtual
async def test_who_has_joined_stays_joined_when_join_ends_and_who_comes_joins_no_more():
    host = Host(settings(0))
    first, second = host.ask("a"), host.ask("a")
    await settle()
    host.pulls.reload(settings(0, join=False))
    host.ask("a")
    await settle()
    assert len(host.runtime.calls) == 2
    host.runtime.calls[0].end.set_result(b"one")
    assert await asyncio.gather(first, second) == [b"one", b"one"]


# The end


@virtual
async def test_refusing_ends_the_waiting_and_lets_pulls_in_flight_end():
    host = Host(settings(1))
    in_flight, joined, waits = host.ask("a"), host.ask("a"), host.ask("b")
    await settle()
    host.pulls.refuse()
    await settle()
    assert isinstance(waits.exception(), Draining)
    comes, joins = host.ask("c"), host.ask("a")
    await settle()
    assert [type(one.exception()) for one in (comes, joins)] == [Draining, Draining]
    drained = asyncio.ensure_future(host.pulls.drained())
    await settle()
    assert not drained.done()
    host.runtime.finish("a")
    await drained
    assert await asyncio.gather(in_flight, joined) == [b"a", b"a"]
    assert host.seen.outcomes == {"succeeded": 2, "refused": 3}
    assert host.is_empty()


@virtual
async def test_refusing_ends_trying_again_at_once():
    host = Host(retrying())
    host.ask("a")
    tries = host.ask("b")
    await settle()
    host.pulls.refuse()
    await settle()
    assert isinstance(tries.exception(), Draining)


@virtual
async def test_nothing_in_flight_is_drained_at_once_and_a_cancelled_pull_counts_until_it_ends():
    host = Host(settings(1))
    await host.pulls.drained()
    asked = host.ask("a", lingers=5.0)
    await settle()
    asked.cancel()
    await settle()
    host.pulls.refuse()
    await host.pulls.drained()
    assert asyncio.get_running_loop().time() == 5.0


# What is told


@virtual
async def test_the_observer_is_told_in_order():
    host = Host(settings(1))
    first = host.ask("a")
    host.ask("a")
    left = host.ask("b")
    await settle()
    left.cancel()
    await settle()
    host.runtime.finish("a")
    await first
    await settle()
    assert host.seen.events == [
        ("started", "a"),
        ("joined", "a"),
        ("queued", "b"),
        ("cancelled", "b"),
        ("ended", "a"),
        ("succeeded", "a"),
        ("succeeded", "a"),
    ]


@virtual
async def test_the_snapshot_tells_seconds_and_places():
    host = Host(settings(1))
    host.ask("a")
    await asyncio.sleep(2)
    host.ask("b")
    await asyncio.sleep(1)
    host.ask("c")
    await asyncio.sleep(4)
    state = host.pulls.snapshot()
    assert state.max_in_flight == 1
    assert [(row.request.image, row.seconds, row.place) for row in state.in_flight] == [("a", 7.0, 0)]
    assert [(row.request.image, row.seconds, row.place) for row in state.queued] == [("b", 5.0, 1), ("c", 4.0, 2)]
