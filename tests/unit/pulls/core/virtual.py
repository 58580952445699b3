# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An asyncio loop whose clock jumps to the next thing that is due: an hour of waiting takes no time."""

from __future__ import annotations

import asyncio
import functools
import inspect
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

_TURNS = 12  # more turns of the loop than the longest chain of callbacks between two waits for time takes


class _Clock(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise AssertionError("the loop waits for nothing: somebody is never woken")
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.clock = _Clock()
        super().__init__(self.clock)

    def time(self) -> float:
        return self.clock.now


async def settle() -> None:
    """Lets everything happen that happens without waiting for time."""
    for _turn in range(_TURNS):
        await asyncio.sleep(0)


def run(main: Coroutine[Any, Any, None]) -> None:
    loop = VirtualLoop()
    complaints: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: complaints.append(context))
    try:
        loop.run_until_complete(main)
    finally:
        loop.run_until_complete(end_the_rest())
        loop.close()
    assert complaints == []  # an exception that nobody asked for, a callback that failed


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A coroutine as a test that runs on a loop with virtual time."""

    @functools.wraps(test)
    def wrapped(**given: Any) -> None:
        run(test(**given))

    wrapped.__signature__ = inspect.signature(test)
    return wrapped


async def end_the_rest() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
