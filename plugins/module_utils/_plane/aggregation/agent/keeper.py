# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps the condition Available of every APIService that is served elsewhere: looks, asks, writes what has changed.

It looks when an APIService changes, when the proxy could not reach a service, and from time to time. Nothing is kept that the
next look would not find. While the API server is away it waits.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Optional, TypeVar

from ...._core.agent.log import Log
from ...._core.errors import BallastError, PeerError
from ...._core.kubeapi import Api
from .condition import PASSED, PATH, Condition, Registered, failed, question, registered, with_condition
from .counts import Counts
from .probe import Identity, Question, Unwell, probe
from .proxy import Addresses

T = TypeVar("T")

_UNWELL_SECONDS = 1.0  # between two looks while one is not available
_PACE_SECONDS = 0.2  # what comes at once is gathered
_FIRST_SECONDS, _LONGEST_SECONDS = 0.25, 8.0
_LONGEST_SHOWN = 20  # problems


@dataclass(frozen=True)
class Access:
    """What a look needs; another one after a reload."""

    api: Api
    addresses: Addresses
    identity: Identity
    interval: float


@dataclass(frozen=True)
class Seen:
    """An APIService as the last look left it."""

    name: str
    service: str  # "wardle.default.svc:443"
    condition: Condition


class Keeper:
    """In the agent's loop; requests to the API server are made in threads."""

    def __init__(self, access: Access, counts: Counts, log: Log) -> None:
        self._access = access
        self._counts = counts
        self._log = log
        self._stirred = asyncio.Event()
        self._seen: Mapping[str, Seen] = {}
        self._problems: tuple[str, ...] = ()
        self._failures = 0  # in a row

    @property
    def seen(self) -> list[Seen]:
        return [self._seen[name] for name in sorted(self._seen)]

    @property
    def problems(self) -> tuple[str, ...]:
        return self._problems

    def stir(self) -> None:
        """Look at once."""
        self._stirred.set()

    def take(self, access: Access) -> None:
        self._access = access
        self.stir()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            self._stirred.clear()
            access = self._access
            try:
                await self._look(access)
                self._failures = 0
            except BallastError as error:
                self._failures += 1
                self._counts.errors[error.id] += 1
                self._tell([error.in_one_line])
            await asyncio.sleep(_PACE_SECONDS)
            try:
                await asyncio.wait_for(self._stirred.wait(), self._idle(access))
            except asyncio.TimeoutError:
                continue

    def _idle(self, access: Access) -> float:
        if self._failures:
            return backoff(self._failures)
        well = all(seen.condition == PASSED for seen in self._seen.values())
        return access.interval if well else min(access.interval, _UNWELL_SECONDS)

    async def _look(self, access: Access) -> None:
        found: list[Registered] = []
        problems: list[str] = []
        for item in (await self._asked(lambda: access.api.list(PATH))).items:
            try:
                one = registered(item)
            except ValueError as error:
                problems.append(f"{_name(item)}: {error}")
            else:
                found += [] if one is None else [one]
        settled = await asyncio.gather(*(self._settle(access, one) for one in found), return_exceptions=True)
        for result in settled:
            if isinstance(result, BaseException) and not isinstance(result, BallastError):
                raise result
        self._seen = {one.name: one for one in settled if isinstance(one, Seen)}
        failures = [one for one in settled if isinstance(one, BallastError)]
        for failure in failures:
            self._counts.errors[failure.id] += 1
        self._tell([*problems, *(failure.in_one_line for failure in failures)])
        if not failures:
            self._counts.last_success = time.time()

    async def _settle(self, access: Access, found: Registered) -> Seen:
        condition = await self._condition(access, found)
        if condition != found.condition:
            await self._write(access, found, condition)
        return Seen(found.name, f"{found.service}.{found.namespace}.svc:{found.port}", condition)

    async def _condition(self, access: Access, found: Registered) -> Condition:
        asked = question(found, access.addresses)
        if not isinstance(asked, Question):
            return asked
        try:
            await probe(asked, access.identity)
        except Unwell as error:
            self._counts.probes[False] += 1
            return failed(str(error))
        self._counts.probes[True] += 1
        return PASSED

    async def _write(self, access: Access, found: Registered, condition: Condition) -> None:
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        wanted = with_condition(found, condition, now)
        try:
            await self._asked(lambda: access.api.replace(f"{PATH}/{found.name}/status", wanted))
        except PeerError as error:
            if error.id not in ("core-api-conflict", "core-api-absent"):
                raise
            self.stir()  # it has changed meanwhile, or is gone
            return
        self._log.event("condition", api_service=found.name, available=condition.status, reason=condition.reason)
        if condition != PASSED:
            self._log.event("unavailable", api_service=found.name, text=condition.message)

    async def _asked(self, ask: Callable[[], T]) -> T:
        self._counts.api_calls += 1
        return await asyncio.get_running_loop().run_in_executor(None, ask)

    def _tell(self, problems: Collection[str]) -> None:
        """To the log what is new."""
        for text in problems:
            if text not in self._problems:
                self._log.event("problem", text=text)
        self._problems = tuple(problems)[:_LONGEST_SHOWN]


class Watch:
    """Calls `changed`, from a thread of its own, when what an APIService asks for has changed. What it misses, the next
    look from time to time finds."""

    def __init__(self, api: Api, changed: Callable[[], None]) -> None:
        self._api = api
        self._changed = changed
        self._ended = threading.Event()
        self._specs: dict[str, str] = {}

    def start(self) -> None:
        # A daemon: one that waits for the server does not hold up the end of the program.
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def end(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        failures = 0
        while not self._ended.is_set():
            try:
                for event in self._api.watch(PATH):
                    if self._ended.is_set():
                        return
                    failures = 0
                    self._hear(event)
            except BallastError:
                pass  # the look that fails meanwhile says so
            failures += 1
            self._ended.wait(backoff(failures))

    def _hear(self, event: Mapping[str, Any]) -> None:
        item = event["object"]
        if event["type"] == "BOOKMARK":
            return
        name = _name(item)
        gone = event["type"] == "DELETED"
        spec = "" if gone else json.dumps(item.get("spec"), sort_keys=True)
        if self._specs.get(name, "") != spec:
            self._changed()
        if gone:
            self._specs.pop(name, None)
        else:
            self._specs[name] = spec


def backoff(failures: int) -> float:
    """Seconds after so many failures in a row."""
    return min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(failures, 16))


def _name(item: Mapping[str, Any]) -> str:
    metadata: Optional[Any] = item.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""
