# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import asyncio

from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.pulls import Draining, Full
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.settings import Priority
from tests.unit.pulls.core.given import Host, ranked, retrying, settings
from tests.unit.pulls.core.virtual import settle, virtual

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
    assert [type(caller.exception()) for caller in (comes, joins)] == [Draining, Draining]
    drained = asyncio.ensure_future(host.pulls.wait_until_drained())
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
    await host.pulls.wait_until_drained()
    caller = host.ask("a", lingers=5.0)
    await settle()
    caller.cancel()
    await settle()
    host.pulls.refuse()
    await host.pulls.wait_until_drained()
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
