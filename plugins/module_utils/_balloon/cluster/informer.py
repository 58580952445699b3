# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes and pods, listed once and then watched, combined with the answers to our own writes.

Of a watch event and an answer to a write, the newer version of the object is kept. resourceVersions of a resource are compared as
numbers, which Kubernetes guarantees since 1.35 (KEP-5504) and has always done.
"""

from __future__ import annotations

import threading
from typing import NamedTuple, Optional

from ..._core.host.host import Host
from ..._core.kube.client import Api
from ..._core.kube.informer import Informer, Resource
from ..sizing.pod_requests import Object, mapping, rows, text
from .facts import TAINT, Names
from .reading import Key, Machine, Objects, Observation, key_of

NODES = Resource("nodes", "/api/v1/nodes")
# An ended pod uses nothing, and jobs may leave many more ended pods than there are live ones.
PODS = Resource("pods", "/api/v1/pods", {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"})
RESOURCES = (NODES, PODS)


class ObjectVersion(NamedTuple):
    """The last version of an object. `taints`: those of a node with the startup taint."""

    uid: str
    version: str
    taints: tuple[Object, ...] = ()


class FleetInformer(Informer[Resource]):
    """Safe for threads. `bell` is set at every change."""

    def __init__(self, api: Api, host: Host, *, namespace: str, names: Names, machine: Optional[Machine]) -> None:
        super().__init__(lambda: api, RESOURCES, clock=host.monotonic)
        self._objects = Objects(namespace=namespace, names=names, machine=machine)
        self._known: dict[str, dict[Key, ObjectVersion]] = {resource.name: {} for resource in RESOURCES}
        self._list_versions: dict[str, str] = {}  # by resource: the version of its last list
        self.bell = threading.Event()

    def observe(self) -> Observation:
        """The objects as a fleet, which has neither reserves nor limits, and problems of objects."""
        with self._lock:
            return self._objects.observe()

    def version_of(self, resource: Resource, key: Key) -> Optional[ObjectVersion]:
        """None for an object that is not known."""
        with self._lock:
            return self._known[resource.name].get(key)

    def put_answer(self, resource: Resource, item: Object) -> None:
        """Apply the answer to a write or a read of an object. An object that was removed meanwhile stays removed."""
        with self._lock:
            before = self._known[resource.name].get(key_of(item))
            if before is not None and before.uid == _version_of(item).uid:
                self._put(resource, item)

    def remove(self, resource: Resource, key: Key, uid: str) -> None:
        """Drop an object that the server no longer has."""
        with self._lock:
            before = self._known[resource.name].get(key)
            if before is not None and before.uid == uid:
                self._drop(resource, key)

    def _ring(self) -> None:
        self.bell.set()

    def _list(self, api: Api, resource: Resource) -> str:
        listed: set[Key] = set()
        version = ""
        for page in api.pages(resource.path, resource.params):
            self.count(f"LIST {resource.name}")
            version = page.resource_version
            with self._lock:
                for item in page.items:
                    listed.add(key_of(item))
                    self._put(resource, item)
        with self._lock:
            versions = self._known[resource.name]
            for key in [key for key, own in versions.items() if key not in listed and not _newer(own.version, version)]:
                self._drop(resource, key)
            self._list_versions[resource.name] = version
        return version

    def _take(self, resource: Resource, kind: str, item: Object) -> None:
        if kind == "DELETED":
            self._forget(resource, item)
        else:
            self._put(resource, item)

    def _put(self, resource: Resource, item: Object) -> None:
        own, key = _version_of(item), key_of(item)
        before = self._known[resource.name].get(key)
        if before is None and not _newer(own.version, self._list_versions.get(resource.name, "")):
            return  # from a late watch: a newer list no longer has the object
        if before is not None and not _newer(own.version, before.version):
            return
        if resource is NODES:
            self._objects.put_node(item)
        else:
            self._objects.put_pod(item)
        self._known[resource.name][key] = own
        self.bell.set()

    def _forget(self, resource: Resource, item: Object) -> None:
        own, key = _version_of(item), key_of(item)
        before = self._known[resource.name].get(key)
        if before is not None and (before.uid == own.uid or _newer(own.version, before.version)):
            self._drop(resource, key)

    def _drop(self, resource: Resource, key: Key) -> None:
        del self._known[resource.name][key]
        if resource is NODES:
            self._objects.drop_node(key[1])
        else:
            self._objects.drop_pod(key)
        self.bell.set()


def _version_of(item: Object) -> ObjectVersion:
    metadata = mapping(item, "metadata", "an object")
    taints = rows(mapping(item, "spec", "an object"), "taints", "an object")
    return ObjectVersion(
        text(metadata, "uid", "an object"),
        text(metadata, "resourceVersion", "an object"),
        tuple(taints) if any(row.get("key") == TAINT for row in taints) else (),
    )


def _newer(version: str, other: str) -> bool:
    """Whether `version` is newer. For a server whose versions are no numbers, the later arrival counts as newer."""
    return version != other and (not version.isdecimal() or not other.isdecimal() or int(version) > int(other))
