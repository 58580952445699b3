# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a model API server keeps: objects, one resourceVersion for all of them, and a log that watches go through.

An object that is kept is never changed: a write puts another in its place. Collections are named as in "pods" and
"coordination.k8s.io/leases". Every write is told to `observers` while the store is locked, so that what they see is a
moment that there was.
"""

from __future__ import annotations

import copy
import threading
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple, Optional

Object = dict[str, Any]
Key = tuple[str, str]  # namespace, name

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"


class Change(NamedTuple):
    version: int
    collection: str
    kind: str  # ADDED, MODIFIED or DELETED
    before: Optional[Object]
    item: Object


class Store:
    def __init__(self) -> None:
        self.lock = threading.Condition(threading.RLock())
        self.observers: list[Callable[[Change], None]] = []
        self.version = 100
        self.forgotten = 0  # a watch from before this version is told 410
        self._objects: dict[str, dict[Key, Object]] = {}
        self._log: list[Change] = []
        self._versions: list[int] = []  # of the log, to search in
        self._uids = 0

    def get(self, collection: str, name: str, namespace: str = "") -> Optional[Object]:
        with self.lock:
            return self._objects.get(collection, {}).get((namespace, name))

    def all(self, collection: str) -> list[Object]:
        """In the order of namespace and name, as a list of the API has them."""
        with self.lock:
            return [item for _key, item in sorted(self._objects.get(collection, {}).items())]

    def put(self, collection: str, item: Object) -> Object:
        """As it is kept: with a resourceVersion, and a uid of its own when it is new."""
        with self.lock:
            kept = copy.deepcopy(item)
            metadata = kept.setdefault("metadata", {})
            objects = self._objects.setdefault(collection, {})
            before = objects.get(_key(kept))
            self.version += 1
            metadata["resourceVersion"] = str(self.version)
            if before is None:
                self._uids += 1
                metadata["uid"] = f"uid-{self._uids}"
                metadata.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
            objects[_key(kept)] = kept
            self._tell(Change(self.version, collection, MODIFIED if before else ADDED, before, kept))
            return kept

    def drop(self, collection: str, name: str, namespace: str = "") -> None:
        with self.lock:
            before = self._objects.get(collection, {}).pop((namespace, name), None)
            if before is None:
                return
            self.version += 1
            last = copy.deepcopy(before)
            last["metadata"]["resourceVersion"] = str(self.version)
            self._tell(Change(self.version, collection, DELETED, before, last))

    def forget(self) -> None:
        """All that was before now, as an API server whose etcd was compacted: a watch of then must list anew."""
        with self.lock:
            self.version += 1
            self.forgotten = self.version
            self._log.clear()
            self._versions.clear()

    def since(self, version: int) -> list[Change]:
        with self.lock:
            return self._log[bisect_right(self._versions, version) :]

    def _tell(self, change: Change) -> None:
        self._log.append(change)
        self._versions.append(change.version)
        for observer in self.observers:
            observer(change)
        self.lock.notify_all()


def _key(item: Object) -> Key:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]
