# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""API objects, listed once and then watched, in one thread per resource.

A watch that the server closes resumes from the last version. After an error everything is listed again: at once if the
version was too old, else after a pause that grows. Meanwhile the last known objects are kept. A resource that is not served,
or not to us, is requested again every minute.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Optional, TypeVar

from ..text.errors import BallastError, PeerError
from ..text.json_text import mapping_in
from ..text.kube_messages import MESSAGES

if TYPE_CHECKING:
    from .client import Api

_FIRST_SECONDS, _LONGEST_SECONDS = 0.25, 8.0
_UNSERVED_SECONDS = 60.0


@dataclass(frozen=True)
class Resource:
    """A collection of the API that is listed and watched. `name` is unique among those of an informer."""

    name: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)  # query parameters of its list and watch requests


R = TypeVar("R", bound=Resource)


def backoff(attempt: int) -> float:
    """Seconds to wait after this attempt, counted from 0: doubled each time, with jitter."""
    longest = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(attempt, 16))
    return random.uniform(longest / 2, longest)


class Informer(Generic[R]):
    """Base class. A subclass stores the objects, under `_lock`; its methods `_list`, `_take` and `_ring` are called in the
    watch threads."""

    def __init__(
        self, connect: Callable[[], Api], resources: Sequence[R], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`connect` is called for each list and each watch, because credentials may expire."""
        self._connect = connect
        self._resources = resources
        self._clock = clock
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self.calls: Counter[str] = Counter()
        self._versions: dict[str, str] = {}  # by resource, to resume its watch; "": list it again
        self._lost: dict[str, tuple[float, BallastError]] = {}  # by resource: when its watch was lost, and why

    def load(self) -> None:
        """List everything; afterwards the objects are at least as new as this call. PeerError if that fails."""
        for resource in self._resources:
            self._load(self._connect(), resource)

    def start(self) -> None:
        """Start the threads, which watch from what was loaded."""
        for resource in self._resources:
            threading.Thread(target=self._follow, args=(resource,), name=f"watch {resource.name}", daemon=True).start()

    def end(self) -> None:
        """Stop the threads; each ends at its next event at the latest."""
        self._ended.set()

    def count(self, call: str) -> None:
        """Count a request in `calls`, under its verb and resource: "PATCH nodes"."""
        with self._lock:
            self.calls[call] += 1

    @property
    def lost(self) -> Optional[tuple[float, BallastError]]:
        """How many seconds ago the first of the lost watches was lost, and why; None if none is lost."""
        with self._lock:
            if not self._lost:
                return None
            since, error = min(self._lost.values(), key=lambda row: row[0])
        return self._clock() - since, error

    def _list(self, api: Api, resource: R) -> str:
        """List all objects of the resource. Returns the version to watch from, "" if the resource cannot be watched."""
        raise NotImplementedError

    def _take(self, resource: R, kind: str, item: Mapping[str, Any]) -> None:
        """Apply an event of kind ADDED, MODIFIED or DELETED. Called with the lock held."""
        raise NotImplementedError

    def _ring(self) -> None:
        """Called when a resource is lost, or followed again."""

    def _load(self, api: Api, resource: R) -> None:
        version = self._list(api, resource)
        with self._lock:
            self._versions[resource.name] = version
            self._lost.pop(resource.name, None)
        self._ring()

    def _follow(self, resource: R) -> None:
        failed = 0
        while not self._ended.is_set():
            try:
                api = self._connect()
                if resource.name not in self._versions:
                    self._load(api, resource)
                    failed = 0
                if not self._versions[resource.name]:  # permissions may be granted, and servers upgraded
                    del self._versions[resource.name]
                    self._ended.wait(_UNSERVED_SECONDS)
                    continue
                self._watch(api, resource)
                self._ended.wait(backoff(0))  # a server may close each watch at once
            # Also a bug: if this thread ended, nothing would follow the resource any more, and no status would say so.
            except Exception as error:
                self._lose(resource, error, failed)
                failed += 1

    def _lose(self, resource: R, error: Exception, failed: int) -> None:
        """Record why the resource is lost, and wait until it may be listed again. `failed`: attempts since the last list."""
        reason = error if isinstance(error, BallastError) else _watch_error(resource, error)
        with self._lock:
            self._versions.pop(resource.name, None)
            since, _before = self._lost.get(resource.name, (self._clock(), reason))
            self._lost[resource.name] = (since, reason)
        self._ring()
        if reason.id != "core-api-gone" or failed:  # if only the version was too old, a new list helps at once
            self._ended.wait(backoff(failed))

    def _watch(self, api: Api, resource: R) -> None:
        """Process events until the server closes the watch, which it does every few minutes."""
        self.count(f"WATCH {resource.name}")
        params = {**resource.params, "resourceVersion": self._versions[resource.name]}
        for event in api.watch(resource.path, params):
            if self._ended.is_set():
                return
            item: Mapping[str, Any] = event["object"]
            if event["type"] != "BOOKMARK":
                with self._lock:
                    self._take(resource, event["type"], item)
            version = mapping_in(item, "metadata").get("resourceVersion")
            if isinstance(version, str) and version:
                self._versions[resource.name] = version


def _watch_error(resource: Resource, error: Exception) -> BallastError:
    return PeerError(**MESSAGES.texts("core-api-watch", found=repr(error), path=resource.path))
