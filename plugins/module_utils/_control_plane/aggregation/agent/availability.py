# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps the condition Available of every APIService that another server serves: lists, probes, and writes changed conditions.

It does so when an APIService changes, when the proxy could not reach a service, and at an interval. It keeps no state that the
next pass would not find again. While the API server does not answer, it waits.
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

from ...._agent.log import Log
from ...._core.kube.client import Api
from ...._core.text.errors import BallastError, PeerError
from ...._core.text.json_text import mapping_in
from .condition import (
    PASSED,
    PATH,
    Condition,
    RegisteredService,
    discovery_request,
    failed_discovery,
    parse_api_service,
    unknown_host,
    with_condition,
)
from .counts import Counts
from .probe import DiscoveryRequest, Identity, ProbeFailed, UnknownHost, probe
from .proxy import Addresses

T = TypeVar("T")

_UNWELL_SECONDS = 1.0  # between two passes while an APIService is not available
_PACE_SECONDS = 0.2  # changes in this time are handled together
_FIRST_SECONDS, _LONGEST_SECONDS = 0.25, 8.0
_LONGEST_SHOWN = 20  # reported problems that are kept


@dataclass(frozen=True)
class Access:
    """What a pass needs; a reload replaces it."""

    api: Api
    addresses: Optional[Addresses]  # None: names are dialed
    identity: Identity
    interval: float


@dataclass(frozen=True)
class ServiceStatus:
    """An APIService after the last pass."""

    name: str
    service: str  # "wardle.default.svc:443"
    condition: Condition


class AvailabilityController:
    """Runs in the agent's event loop; requests to the API server run in threads."""

    def __init__(self, access: Access, counts: Counts, log: Log) -> None:
        self._access = access
        self._counts = counts
        self._log = log
        self._woken = asyncio.Event()
        self._seen: Mapping[str, ServiceStatus] = {}
        self._problems: tuple[str, ...] = ()
        self._failures = 0  # consecutive failed passes

    @property
    def seen(self) -> list[ServiceStatus]:
        """The APIServices whose condition the last pass settled, sorted by name."""
        return [self._seen[name] for name in sorted(self._seen)]

    @property
    def problems(self) -> tuple[str, ...]:
        """Messages of the last pass, one line each, the first 20 of them."""
        return self._problems

    def wake(self) -> None:
        """Start a pass at once."""
        self._woken.set()

    def replace_access(self, access: Access) -> None:
        """Start a pass with the new access at once; a pass under way ends with the former one."""
        self._access = access
        self.wake()

    async def run(self) -> None:
        """Make passes until the task is cancelled."""
        while True:
            self._woken.clear()
            access = self._access
            try:
                await self._look(access)
                self._failures = 0
            except BallastError as error:
                self._failures += 1
                self._counts.errors[error.id] += 1
                self._log_problems([error.in_one_line])
            await asyncio.sleep(_PACE_SECONDS)
            try:
                await asyncio.wait_for(self._woken.wait(), self._pause(access))
            except asyncio.TimeoutError:
                continue

    def _pause(self, access: Access) -> float:
        if self._failures:
            return backoff(self._failures)
        well = all(seen.condition == PASSED for seen in self._seen.values())
        return access.interval if well else min(access.interval, _UNWELL_SECONDS)

    async def _look(self, access: Access) -> None:
        services: list[RegisteredService] = []
        problems: list[str] = []
        for item in (await self._call(lambda: access.api.list(PATH))).items:
            try:
                service = parse_api_service(item)
            except ValueError as error:
                problems.append(f"{_name(item)}: {error}")
            else:
                services += [] if service is None else [service]
        settled = await asyncio.gather(*(self._settle(access, service) for service in services), return_exceptions=True)
        for result in settled:
            if isinstance(result, BaseException) and not isinstance(result, BallastError):
                raise result
        self._seen = {seen.name: seen for seen in settled if isinstance(seen, ServiceStatus)}
        failures = [result for result in settled if isinstance(result, BallastError)]
        for failure in failures:
            self._counts.errors[failure.id] += 1
        self._log_problems([*problems, *(failure.in_one_line for failure in failures)])
        if not failures:
            self._counts.last_success = time.time()

    async def _settle(self, access: Access, service: RegisteredService) -> ServiceStatus:
        condition = await self._condition(access, service)
        if condition != service.condition:
            await self._write(access, service, condition)
        return ServiceStatus(service.name, f"{service.service}.{service.namespace}.svc:{service.port}", condition)

    async def _condition(self, access: Access, service: RegisteredService) -> Condition:
        target = discovery_request(service, access.addresses)
        if not isinstance(target, DiscoveryRequest):
            return target
        try:
            await probe(target, access.identity)
        except UnknownHost:
            self._counts.probes[False] += 1
            return unknown_host(service)
        except ProbeFailed as error:
            self._counts.probes[False] += 1
            return failed_discovery(str(error))
        self._counts.probes[True] += 1
        return PASSED

    async def _write(self, access: Access, service: RegisteredService, condition: Condition) -> None:
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = with_condition(service, condition, now)
        try:
            await self._call(lambda: access.api.replace(f"{PATH}/{service.name}/status", body))
        except PeerError as error:
            if error.id not in ("core-api-conflict", "core-api-absent"):
                raise
            self.wake()  # the object was changed or removed meanwhile
            return
        self._log.event("condition", api_service=service.name, available=condition.status, reason=condition.reason)
        if condition != PASSED:
            self._log.event("unavailable", api_service=service.name, text=condition.message)

    async def _call(self, ask: Callable[[], T]) -> T:
        self._counts.api_calls += 1
        return await asyncio.get_running_loop().run_in_executor(None, ask)

    def _log_problems(self, problems: Collection[str]) -> None:
        """Log the problems that the previous pass did not have."""
        for text in problems:
            if text not in self._problems:
                self._log.event("problem", text=text)
        self._problems = tuple(problems)[:_LONGEST_SHOWN]


class Watch:
    """Calls `changed`, from its own thread, when the spec of an APIService has changed. The next periodic pass finds changes
    that the watch misses."""

    def __init__(self, api: Api, changed: Callable[[], None]) -> None:
        self._api = api
        self._changed = changed
        self._ended = threading.Event()
        self._specs: dict[str, str] = {}

    def start(self) -> None:
        # A daemon thread, so that waiting for the server does not delay the end of the program.
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
                    self._handle(event)
            except BallastError:
                pass  # the pass that fails meanwhile reports it
            failures += 1
            self._ended.wait(backoff(failures))

    def _handle(self, event: Mapping[str, Any]) -> None:
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
    """Seconds to wait after this number of consecutive failures: 0.5 after the first, at most 8."""
    return min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(failures, 16))


def _name(item: Mapping[str, Any]) -> str:
    return str(mapping_in(item, "metadata").get("name", ""))
