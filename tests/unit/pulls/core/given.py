# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests, a runtime in memory, and a record of what the observer was told."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.pulls import Pulls
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.request import PullRequest
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.settings import Listener, Retry, Settings

LISTENERS = (Listener("/run/a.sock", "/run/containerd.sock", "a"),)


def request(image: str = "i", **changes: Any) -> PullRequest:
    values: dict[str, Any] = {
        "listener": "a",
        "runtime": "/run/containerd.sock",
        "image": image,
        "handler": "",
        "annotations": (),
        "credentials": b"",
        "namespace": "default",
        "pod": "p",
        "pod_annotations": {},
    }
    return PullRequest(**{**values, **changes})


def ranked(name: str, rank: str) -> PullRequest:
    """For settings whose priority is the annotation `rank`."""
    return request(name, pod_annotations={"rank": rank})


def settings(max_in_flight: int = 1, **changes: Any) -> Settings:
    return Settings(listeners=LISTENERS, max_in_flight=max_in_flight, **changes)


def retrying(limit: int = 1, attempts: int = 3, interval: float = 10.0, **changes: Any) -> Settings:
    return settings(limit, on_full="retry", retry=Retry(attempts, interval), **changes)


class Recorder:
    """An Observer. `began` are the images of pulls in the order of their start."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []  # what and image
        self.began: list[str] = []
        self.in_flight = 0
        self.outcomes: Counter[str] = Counter()
        self.waited: list[float] = []
        self.errors: list[BaseException | None] = []

    def on_queued(self, request: PullRequest) -> None:
        self.events.append(("queued", request.image))

    def on_joined(self, request: PullRequest) -> None:
        self.events.append(("joined", request.image))

    def on_started(self, request: PullRequest, waited: float) -> None:
        self.in_flight += 1
        self.began.append(request.image)
        self.events.append(("started", request.image))
        self.waited.append(waited)

    def on_ended(self, request: PullRequest, seconds: float, error: BaseException | None) -> None:
        self.in_flight -= 1
        self.errors.append(error)
        self.events.append(("ended", request.image))

    def on_answered(self, request: PullRequest, outcome: str, waited: float) -> None:
        self.outcomes[outcome] += 1
        self.events.append((outcome, request.image))


@dataclass(eq=False)
class Call:
    """A PullImage at the runtime, which ends when the test says so; a cancelled one takes `lingers` seconds to end."""

    of: PullRequest
    lingers: float
    end: asyncio.Future[bytes]
    cancelled: bool = False


@dataclass
class Runtime:
    calls: list[Call] = field(default_factory=list)  # those in flight, oldest first
    ever: int = 0
    most: int = 0

    def run(self, of: PullRequest, *, lingers: float = 0.0) -> Callable[[], Awaitable[bytes]]:
        async def run() -> bytes:
            call = Call(of, lingers, asyncio.get_running_loop().create_future())
            self.calls.append(call)
            self.ever += 1
            self.most = max(self.most, len(self.calls))
            try:
                return await call.end
            except asyncio.CancelledError:
                call.cancelled = True
                await asyncio.sleep(call.lingers)
                raise
            finally:
                self.calls.remove(call)

        return run

    def call(self, image: str) -> Call:
        (match,) = [call for call in self.calls if call.of.image == image]
        return match

    def finish(self, image: str) -> None:
        self.call(image).end.set_result(image.encode())

    def fail(self, image: str, error: BaseException) -> None:
        self.call(image).end.set_exception(error)


class Host:
    """Pulls with a runtime and a recorder."""

    def __init__(self, of: Settings) -> None:
        self.runtime = Runtime()
        self.seen = Recorder()
        self.pulls = Pulls(of, self.seen)

    def ask(self, of: PullRequest | str, *, lingers: float = 0.0) -> asyncio.Task[bytes]:
        of = request(of) if isinstance(of, str) else of
        return asyncio.get_running_loop().create_task(self.pulls.pull(of, self.runtime.run(of, lingers=lingers)))

    @property
    def at_runtime(self) -> list[str]:
        return [call.of.image for call in self.runtime.calls]

    @property
    def waiting(self) -> list[str]:
        return [row.request.image for row in self.pulls.snapshot().queued]

    def is_empty(self) -> bool:
        """Nothing is remembered."""
        state = vars(self.pulls)
        return not any(len(state[name]) for name in ("_queue", "_trying", "_in_flight", "_joinable"))
