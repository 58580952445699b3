# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Many pulls: no slot is lost, and little memory is taken."""

from __future__ import annotations

import asyncio
import itertools
import random
import tracemalloc

from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.pulls import Pulls
from tests.unit.pulls.core.given import Host, Recorder, request, settings
from tests.unit.pulls.core.virtual import run, settle

PULLS = 30_000
LIMIT = 5
CALLERS = 40  # at a time


def test_no_slot_is_lost_in_30_000_pulls_with_random_leavings_and_failures():
    run(_many())


async def _many() -> None:
    dice = random.Random(9)
    loop = asyncio.get_running_loop()
    seen = Recorder()
    seen.events = _Nothing()
    pulls = Pulls(settings(LIMIT), seen)
    running = most = 0

    async def at_runtime() -> bytes:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            fate = dice.random()
            if fate < 0.5:
                await asyncio.sleep(dice.random())
            if fate < 0.1 or fate > 0.9:
                raise ValueError
            return b"answer"
        finally:
            running -= 1

    async def caller(numbers) -> None:
        for number in numbers:
            pending = loop.create_task(pulls.pull(request(f"i{number % 400}"), at_runtime))
            if dice.random() < 0.3:
                loop.call_later(dice.random() * 2, pending.cancel)
            try:
                await pending
            except (ValueError, asyncio.CancelledError):
                pass

    numbers = itertools.takewhile(lambda _number: len(seen.began) < PULLS, itertools.count())
    await asyncio.gather(*(caller(numbers) for _turn in range(CALLERS)))
    await settle()
    assert len(seen.began) >= PULLS
    assert min(seen.outcomes[outcome] for outcome in ("succeeded", "failed", "cancelled")) > PULLS / 20
    assert most == LIMIT
    assert (running, seen.in_flight) == (0, 0)
    state = vars(pulls)
    assert not any(len(state[name]) for name in ("_queue", "_trying", "_in_flight", "_joinable"))


class _Nothing(list):
    def append(self, item) -> None:
        pass


def test_a_thousand_who_wait_take_little_memory():
    run(_a_thousand())


async def _a_thousand() -> None:
    host = Host(settings(1))
    host.ask("first")
    await settle()
    tracemalloc.start()
    try:
        for number in range(1000):
            host.ask(f"registry.example.com/some/image:{number}")
        await settle()
        taken, _most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(host.waiting) == 1000
    assert taken < 10 * 2**20
