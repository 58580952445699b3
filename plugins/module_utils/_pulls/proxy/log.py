# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Log events of pulls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Optional

from ..._agent.log import Log
from .http2 import Failed
from .request import PullKey, PullRequest


class PullLog:
    """An Observer that logs each pull at a runtime, and each caller that got no pull."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._waited: dict[int, float] = {}
        self._joined: Counter[PullKey] = Counter()  # callers besides the first that are still waiting

    def on_queued(self, request: PullRequest) -> None:
        pass

    def on_joined(self, request: PullRequest) -> None:
        self._joined[request.key] += 1

    def on_started(self, request: PullRequest, waited: float) -> None:
        self._waited[id(request)] = waited

    def on_ended(self, request: PullRequest, seconds: float, error: Optional[BaseException]) -> None:
        name, outcome = _outcome(error)
        self._log.event(
            name,
            **_describe(request),
            waited=f"{self._waited.pop(id(request), 0.0):.3f}s",
            took=f"{seconds:.3f}s",
            joined=self._joined.get(request.key),
            **outcome,
        )

    def on_answered(self, request: PullRequest, outcome: str, waited: float) -> None:
        self._joined[request.key] -= 1
        if self._joined[request.key] <= 0:
            del self._joined[request.key]
        if outcome == "refused":
            self._log.event("pull-refused", **_describe(request), waited=f"{waited:.3f}s")
        elif outcome == "cancelled":
            self._log.event("caller-left", **_describe(request), waited=f"{waited:.3f}s")


def _describe(request: PullRequest) -> Mapping[str, object]:
    pod = f"{request.namespace}/{request.pod}" if request.pod else ""
    return {"listener": request.listener, "image": request.image, "pod": pod, "handler": request.handler}


def _outcome(error: Optional[BaseException]) -> tuple[str, Mapping[str, object]]:
    if error is None:
        return "pulled", {}
    if isinstance(error, asyncio.CancelledError):
        return "pull-cancelled", {}
    if isinstance(error, Failed):
        return "pull-failed", {"code": error.answer.code, "error": error.shown}
    return "pull-failed", {"error": str(error) or type(error).__name__}
