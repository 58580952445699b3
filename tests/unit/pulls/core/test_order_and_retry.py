# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import asyncio

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.pulls import Full
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.settings import Priority
from tests.unit.pulls.core.given import Host, ranked, request, retrying, settings
from tests.unit.pulls.core.virtual import settle, virtual

# Order


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


@virtual
async def test_full_means_three_more_attempts_and_then_an_error_with_the_name_of_the_draft():
    host = Host(retrying())
    host.ask("a")
    caller = host.ask("b")
    await asyncio.sleep(29.5)
    assert not caller.done()
    await asyncio.sleep(1)
    with pytest.raises(Full, match=r"^TooManyPullingInParallelErr: 1 image pulls .* tried 4 times in 30\.0 s"):
        await caller
    assert host.seen.outcomes == {"refused": 1}
    assert host.at_runtime == ["a"]


@virtual
async def test_without_further_attempts_full_is_an_error_at_once():
    host = Host(retrying(attempts=0))
    host.ask("a")
    caller = host.ask("b")
    await settle()
    with pytest.raises(Full, match="tried once in 0.0 s"):
        await caller


@virtual
async def test_a_slot_that_is_free_at_an_attempt_is_taken_then():
    host = Host(retrying())
    host.ask("a")
    caller = host.ask("b")
    await asyncio.sleep(12)
    host.runtime.finish("a")
    await asyncio.sleep(7.5)
    assert host.at_runtime == []
    await asyncio.sleep(1)
    assert host.at_runtime == ["b"]
    host.runtime.finish("b")
    assert await caller == b"b"
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
    caller = host.ask("b")
    await asyncio.sleep(5)
    caller.cancel()
    await settle()
    host.runtime.finish("a")
    await asyncio.sleep(60)
    assert host.seen.began == ["a"]
    assert host.is_empty()
