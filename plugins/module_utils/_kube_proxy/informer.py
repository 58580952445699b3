# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lists and watches the objects that rules are compiled from: Services, EndpointSlices, the Node, ServiceCIDRs.

Only the fields that rules need are kept: a Node's heartbeat or a new resourceVersion is not a change. While the API does not
respond, the last known objects remain valid.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .._core.kube.informer import Informer, Resource
from .._core.text.errors import PeerError
from .._core.text.json_text import mapping_in

if TYPE_CHECKING:
    from .._core.kube.client import Api

_NODES = "/api/v1/nodes"
_METADATA = ("name", "namespace", "labels", "annotations")


@dataclass(frozen=True)
class KindOfObject(Resource):
    """`name` is the kind of the objects."""

    api_version: str = "v1"
    optional: bool = False  # empty if the server does not offer it to kube-proxy


Objects = dict[tuple[str, str], dict[str, Any]]  # by (namespace, name)


def resources_of(node: str) -> tuple[KindOfObject, ...]:
    discovery, networking = "discovery.k8s.io/v1", "networking.k8s.io/v1"
    cidrs = KindOfObject("ServiceCIDR", f"/apis/{networking}/servicecidrs")
    return (
        KindOfObject("Service", "/api/v1/services"),
        replace(KindOfObject("EndpointSlice", f"/apis/{discovery}/endpointslices"), api_version=discovery),
        KindOfObject("Node", _NODES, {"fieldSelector": f"metadata.name={node}"}),
        replace(cidrs, api_version=networking, optional=True),
    )


def list_objects(api: Api, resource: KindOfObject) -> tuple[Objects, str]:
    """All objects of a resource, and the resourceVersion to watch from."""
    try:
        listing = api.list(resource.path, resource.params)
    except PeerError as error:
        if resource.optional and error.id in ("core-api-absent", "core-api-forbidden"):
            return {}, ""
        raise
    return {_key(item): keep_relevant(item, resource) for item in listing.items}, listing.resource_version


def read_snapshot(api: Api, node: str) -> dict[str, Any]:
    """The objects as a `v1 List`, freshly listed."""
    return as_list([list_objects(api, resource)[0] for resource in resources_of(node)])


def read_named_services(api: Api, names: Iterable[str], node: str) -> dict[str, Any]:
    """A `v1 List` of the Node and of the Services named NAMESPACE/NAME that exist. A change that probes two Services must
    not read all those of a large cluster."""
    services, _slices, nodes, _cidrs = resources_of(node)
    chosen = []
    for name in names:
        namespace, _slash, own = name.partition("/")
        selector = {"fieldSelector": f"metadata.namespace={namespace},metadata.name={own}"}
        chosen.append(list_objects(api, replace(services, params=selector))[0])
    return as_list([*chosen, list_objects(api, nodes)[0]])


def read_nodes(api: Api) -> list[dict[str, Any]]:
    """All Nodes, freshly listed."""
    return [item for _key, item in sorted(list_objects(api, KindOfObject("Node", _NODES))[0].items())]


def as_list(objects: Iterable[Objects]) -> dict[str, Any]:
    """A `v1 List` of the objects, each collection sorted by namespace and name."""
    items = [item for by_key in objects for _key, item in sorted(by_key.items())]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def keep_relevant(item: Mapping[str, Any], resource: KindOfObject) -> dict[str, Any]:
    """A copy with its apiVersion and kind, without fields that no rule needs."""
    metadata = mapping_in(item, "metadata")
    kept = {name: metadata[name] for name in _METADATA if metadata.get(name)}
    kept_item = {**item, "apiVersion": resource.api_version, "kind": resource.name, "metadata": kept}
    if resource.name == "Node":
        kept_item["status"] = {"addresses": mapping_in(item, "status").get("addresses") or []}
    return kept_item


class ServiceInformer(Informer[KindOfObject]):
    """Keeps the current objects. `changed` is set when they differ from the result of the last `take`."""

    def __init__(self, connect: Callable[[], Api], node: str) -> None:
        super().__init__(connect, resources_of(node))
        self._objects: dict[str, Objects] = {}
        self.changed = threading.Event()

    @property
    def problem(self) -> str:
        """Why the watch is interrupted; "" if it is not."""
        lost = self.lost
        return "" if lost is None else lost[1].in_one_line

    @property
    def complete(self) -> bool:
        """Whether every resource has been listed."""
        return len(self._objects) == len(self._resources)

    def take(self) -> dict[str, Any]:
        """The current objects as a `v1 List`; only once they are `complete`. Clears `changed`."""
        with self._lock:
            self.changed.clear()
            return as_list([dict(self._objects[resource.name]) for resource in self._resources])

    def _list(self, api: Api, resource: KindOfObject) -> str:
        objects, version = list_objects(api, resource)
        with self._lock:
            if self._objects.get(resource.name) != objects:
                self._objects[resource.name] = objects
                self.changed.set()
        return version

    def _take(self, resource: KindOfObject, kind: str, item: Mapping[str, Any]) -> None:
        objects, key = self._objects[resource.name], _key(item)
        current = None if kind == "DELETED" else keep_relevant(item, resource)
        if objects.get(key) == current:
            return
        if current is None:
            del objects[key]
        else:
            objects[key] = current
        self.changed.set()


def _key(item: Mapping[str, Any]) -> tuple[str, str]:
    metadata = mapping_in(item, "metadata")  # a wrong shape must not end the thread; the parser reports it
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))
