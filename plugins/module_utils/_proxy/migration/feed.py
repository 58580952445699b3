# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects that rules are made of, listed once and watched from then on.

Only what bears on rules is kept: a Node's heartbeat or a new resourceVersion is no change. While the API is away the
objects stay as they were, which is better than none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._core.errors import BallastError, PeerError

if TYPE_CHECKING:
    from ..._core.kubeapi import Api

_METADATA = ("name", "namespace", "labels", "annotations")
_AGAIN_SECONDS = 1.0
_SILENCE_SECONDS = 90.0


class Resource(NamedTuple):
    kind: str
    api_version: str
    path: str
    of_own_node: bool = False
    optional: bool = False  # a server that does not serve it, or not to kube-proxy, has none


RESOURCES = (
    Resource("Service", "v1", "/api/v1/services"),
    Resource("EndpointSlice", "discovery.k8s.io/v1", "/apis/discovery.k8s.io/v1/endpointslices"),
    Resource("Node", "v1", "/api/v1/nodes", of_own_node=True),
    Resource("ServiceCIDR", "networking.k8s.io/v1", "/apis/networking.k8s.io/v1/servicecidrs", optional=True),
)
Objects = dict[tuple[str, str], dict[str, Any]]  # by namespace and name


def listed(api: Api, resource: Resource, node: str) -> tuple[Objects, str]:
    """All of a resource, and the resourceVersion to watch from."""
    try:
        found = api.list(resource.path, _params(resource, node))
    except PeerError as error:
        if resource.optional and error.id in ("core-api-absent", "core-api-forbidden"):
            return {}, ""
        raise
    return {_key(item): relevant(item, resource) for item in found.items}, found.resource_version


def snapshot(api: Api, node: str) -> dict[str, Any]:
    """The `v1 List` of one moment."""
    return as_list({resource: listed(api, resource, node)[0] for resource in RESOURCES})


def as_list(objects: Mapping[Resource, Objects]) -> dict[str, Any]:
    items = [item for found in objects.values() for _key, item in sorted(found.items())]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def relevant(item: Mapping[str, Any], resource: Resource) -> dict[str, Any]:
    metadata = _section(item, "metadata")
    kept = {name: metadata[name] for name in _METADATA if metadata.get(name)}
    found = {**item, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": kept}
    if resource.kind == "Node":
        found["status"] = {"addresses": _section(item, "status").get("addresses") or []}
    return found


class Feed:
    """Threads that keep `objects` as the API has them. `changed` is set when they differ from what was last taken."""

    def __init__(self, connect: Callable[[], Api], node: str) -> None:
        self._connect = connect
        self._node = node
        self._objects: dict[Resource, Objects] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self.changed = threading.Event()
        self.problem = ""  # why the API is not followed at the moment

    def start(self) -> None:
        for resource in RESOURCES:
            threading.Thread(target=self._follow, args=(resource,), daemon=True).start()

    def end(self) -> None:
        """The threads end by themselves, with their next event at the latest."""
        self._ended.set()

    @property
    def complete(self) -> bool:
        return len(self._objects) == len(RESOURCES)

    def take(self) -> dict[str, Any]:
        with self._lock:
            self.changed.clear()
            return as_list({resource: dict(self._objects[resource]) for resource in RESOURCES})

    def _follow(self, resource: Resource) -> None:
        while not self._ended.is_set():
            try:
                # Anew each time: the credentials of a pod end with it, and those of the next one are elsewhere.
                api = self._connect()
                objects, version = listed(api, resource, self._node)
                self._put(resource, objects)
                self.problem = ""
                if version:
                    self._watch(api, resource, version)
                else:
                    self._ended.wait()
            except BallastError as error:
                self.problem = error.in_one_line
            self._ended.wait(_AGAIN_SECONDS)

    def _watch(self, api: Api, resource: Resource, version: str) -> None:
        params = {**_params(resource, self._node), "resourceVersion": version}
        for event in api.watch(resource.path, params, silence_seconds=_SILENCE_SECONDS):
            if self._ended.is_set():
                return
            if event["type"] != "BOOKMARK":
                self._note(resource, event["type"], event["object"])

    def _put(self, resource: Resource, objects: Objects) -> None:
        with self._lock:
            if self._objects.get(resource) != objects:
                self._objects[resource] = objects
                self.changed.set()

    def _note(self, resource: Resource, kind: str, item: Mapping[str, Any]) -> None:
        with self._lock:
            objects, key = self._objects[resource], _key(item)
            if kind == "DELETED":
                if objects.pop(key, None) is not None:
                    self.changed.set()
                return
            found = relevant(item, resource)
            if objects.get(key) != found:
                objects[key] = found
                self.changed.set()


def _params(resource: Resource, node: str) -> dict[str, str]:
    return {"fieldSelector": f"metadata.name={node}"} if resource.of_own_node else {}


def _key(item: Mapping[str, Any]) -> tuple[str, str]:
    metadata = _section(item, "metadata")
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def _section(item: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Empty where it is of another shape, which whoever reads the objects tells of. Here it would end a thread unseen."""
    found = item.get(name)
    return found if isinstance(found, Mapping) else {}
