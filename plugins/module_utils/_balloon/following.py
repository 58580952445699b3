# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes and pods, listed once and watched from then on, with what our own writes were answered.

An object that comes by two ways, a watch and the answer to a write, is kept as in the newer of them. resourceVersions of
one resource are compared as numbers, which Kubernetes promises since 1.35 (KEP-5504) and has always kept.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

from .._core.errors import BallastError
from .._core.host import Host
from .._core.kubeapi import Api
from .facts import TAINT, Names
from .pod_requests import Object, mapping, rows, text
from .reading import Key, Machine, Objects, Reading, key_of

_FIRST_SECONDS, _LONGEST_SECONDS = 0.25, 8.0


class Resource(NamedTuple):
    name: str
    path: str
    params: Mapping[str, str]


NODES = Resource("nodes", "/api/v1/nodes", {})
# A pod that is over takes nothing; of those that jobs leave there may be many more than of the others.
PODS = Resource("pods", "/api/v1/pods", {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"})
RESOURCES = (NODES, PODS)


class Seen(NamedTuple):
    """What an object is as we know it. `taints` of a node that has ours."""

    uid: str
    version: str
    taints: tuple[Object, ...] = ()


def backoff(attempt: int) -> float:
    """Seconds to wait after the attempt of this number, counted from 0: doubled each time, and spread."""
    longest = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(attempt, 16))
    return random.uniform(longest / 2, longest)


class Following:
    """Threads may share it. `bell` is set at every change."""

    def __init__(self, api: Api, host: Host, *, namespace: str, names: Names, machine: Optional[Machine]) -> None:
        self._api = api
        self._host = host
        self._lock = threading.Lock()
        self._objects = Objects(namespace=namespace, names=names, machine=machine)
        self._seen: dict[str, dict[Key, Seen]] = {resource.name: {} for resource in RESOURCES}
        self._lost: dict[str, tuple[float, BallastError]] = {}  # by resource: since when it is not followed, and why
        self._versions: dict[str, str] = {}  # of each resource: from where its watch goes on
        self._listed: dict[str, str] = {}  # of each resource: the version of its last list
        self._ended = threading.Event()
        self.bell = threading.Event()
        self.calls: Counter[str] = Counter()

    # Asking.

    def load(self) -> None:
        """List all of it; what is known then is at least as new as the call. PeerError where that cannot be."""
        for resource in RESOURCES:
            self._list(resource)

    def start(self) -> None:
        """Watch from there on, in threads."""
        for resource in RESOURCES:
            threading.Thread(target=self._follow, args=(resource,), name=f"watch {resource.name}", daemon=True).start()

    def end(self) -> None:
        """The threads end by themselves, with what they hear next of the server at the latest."""
        self._ended.set()

    def count(self, call: str) -> None:
        with self._lock:
            self.calls[call] += 1

    @property
    def lost(self) -> Optional[tuple[float, BallastError]]:
        """For how many seconds the API server has not been followed, and why; None while it is."""
        with self._lock:
            if not self._lost:
                return None
            since, error = min(self._lost.values(), key=lambda row: row[0])
        return self._host.monotonic() - since, error

    def reading(self) -> Reading:
        with self._lock:
            return self._objects.reading()

    def seen(self, resource: Resource, key: Key) -> Optional[Seen]:
        with self._lock:
            return self._seen[resource.name].get(key)

    def answered(self, resource: Resource, item: Object) -> None:
        """What a write or a read of one object was answered. One that has gone meanwhile stays gone."""
        with self._lock:
            before = self._seen[resource.name].get(key_of(item))
            if before is not None and before.uid == _seen(item).uid:
                self._put(resource, item)

    def gone(self, resource: Resource, key: Key, uid: str) -> None:
        """The server says that there is no such object."""
        with self._lock:
            before = self._seen[resource.name].get(key)
            if before is not None and before.uid == uid:
                self._drop(resource, key)

    # In the threads.

    def _follow(self, resource: Resource) -> None:
        failed = 0
        while not self._ended.is_set():
            try:
                if resource.name in self._lost:
                    self._list(resource)
                    failed = 0
                self._watch(resource)
                self._ended.wait(backoff(0))  # of a server that closes at once, too
            except BallastError as error:
                with self._lock:
                    since, _before = self._lost.get(resource.name, (self._host.monotonic(), error))
                    self._lost[resource.name] = (since, error)
                self.bell.set()
                if error.id != "core-api-gone" or failed:  # of too old a version there is nothing to wait for
                    self._ended.wait(backoff(failed))
                failed += 1

    def _list(self, resource: Resource) -> None:
        found: set[Key] = set()
        version = ""
        for page in self._api.pages(resource.path, resource.params):
            self.count(f"LIST {resource.name}")
            version = page.resource_version
            with self._lock:
                for item in page.items:
                    found.add(key_of(item))
                    self._put(resource, item)
        with self._lock:
            seen = self._seen[resource.name]
            for key in [key for key, own in seen.items() if key not in found and not _newer(own.version, version)]:
                self._drop(resource, key)
            self._versions[resource.name] = self._listed[resource.name] = version
            self._lost.pop(resource.name, None)
        self.bell.set()

    def _watch(self, resource: Resource) -> None:
        """Until the server closes, which it does every few minutes."""
        self.count(f"WATCH {resource.name}")
        params = {**resource.params, "resourceVersion": self._versions[resource.name]}
        for event in self._api.watch(resource.path, params):
            if self._ended.is_set():
                return
            item: Mapping[str, Any] = event["object"]
            with self._lock:
                if event["type"] == "DELETED":
                    self._forget(resource, item)
                elif event["type"] != "BOOKMARK":
                    self._put(resource, item)
            self._versions[resource.name] = text(mapping(item, "metadata", "an event"), "resourceVersion", "an event")

    def _put(self, resource: Resource, item: Object) -> None:
        own, key = _seen(item), key_of(item)
        before = self._seen[resource.name].get(key)
        if before is None and not _newer(own.version, self._listed.get(resource.name, "")):
            return  # by a watch that is late: a list that is newer has it no more
        if before is not None and not _newer(own.version, before.version):
            return
        if resource is NODES:
            self._objects.put_node(item)
        else:
            self._objects.put_pod(item)
        self._seen[resource.name][key] = own
        self.bell.set()

    def _forget(self, resource: Resource, item: Object) -> None:
        own, key = _seen(item), key_of(item)
        before = self._seen[resource.name].get(key)
        if before is not None and (before.uid == own.uid or _newer(own.version, before.version)):
            self._drop(resource, key)

    def _drop(self, resource: Resource, key: Key) -> None:
        del self._seen[resource.name][key]
        if resource is NODES:
            self._objects.drop_node(key[1])
        else:
            self._objects.drop_pod(key)
        self.bell.set()


def _seen(item: Object) -> Seen:
    metadata = mapping(item, "metadata", "an object")
    found = rows(mapping(item, "spec", "an object"), "taints", "an object")
    return Seen(
        text(metadata, "uid", "an object"),
        text(metadata, "resourceVersion", "an object"),
        tuple(found) if any(row.get("key") == TAINT for row in found) else (),
    )


def _newer(one: str, other: str) -> bool:
    """Versions that are no numbers are of a server that we know nothing of: what comes later counts as newer there."""
    return one != other and (not one.isdecimal() or not other.isdecimal() or int(one) > int(other))
