# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A snapshot, a `v1 List` as kubectl prints it, to what this node has to make rules of.

    Snapshot       both families, ready for the compilers
    parse_snapshot        from decoded JSON
    parse_snapshot_text   from its text

Everything that the API server accepts is accepted, and normalised. What it would refuse is refused by name, all faults at
once, and nothing is passed over but what kube-proxy passes over too (services.py, slices.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Optional

from .._core.collector import collection_paused
from .._core.errors import BallastError, Problems
from .frontends import frontends
from .listed import OtherLayout, listed
from .messages import MESSAGES
from .model import FamilyView, NodeView, ServicePort
from .nodes import Node, node_views, parse_node
from .reading import LABEL, SUBDOMAIN, Place, show
from .services import Service, parse_service
from .slices import Slice, endpoints_of, parse_slice

_GROUPS = {  # the API versions that have the fields as they are read here
    "Service": ("v1",),
    "Node": ("v1",),
    "EndpointSlice": ("discovery.k8s.io/v1",),
    "ServiceCIDR": ("networking.k8s.io/v1", "networking.k8s.io/v1beta1"),
}
_Item = tuple[Mapping[str, Any], str, str]  # with its kind and its place in the list
_NAMESPACED = ("Service", "EndpointSlice")
_LIST_SUFFIX = "List"


@dataclass(frozen=True)
class Snapshot:
    """What one node sees of a cluster at one moment."""

    views: tuple[FamilyView, FamilyView]  # of IPv4 and of IPv6

    def view(self, family: int) -> FamilyView:
        """`family` is 4 or 6. Of a family that the cluster does not have, the view has no Services."""
        return next(one for one in self.views if one.family == family)


def parse_snapshot_text(text: str, *, node_name: str, node_ips: Sequence[str]) -> Snapshot:
    """UserError where `text` is no JSON, with line and column where there is one; else as parse_snapshot."""
    with collection_paused():
        objects = _usual_objects(text)
        if objects is None:
            return parse_snapshot(_decoded(text), node_name=node_name, node_ips=node_ips)
        return objects.snapshot(node_name, node_ips)


def parse_snapshot(data: object, *, node_name: str, node_ips: Sequence[str]) -> Snapshot:
    """`node_ips` are the addresses on the node's links, of both families. Problems, with every fault."""
    with collection_paused():
        objects = _Objects()
        for one in _items(data, objects.problems):
            objects.add(one)
        return objects.snapshot(node_name, node_ips)


def _usual_objects(text: str) -> Optional[_Objects]:
    """Those of a List as kubectl prints it and without a fault. None of any other, whose faults `parse_snapshot` tells."""
    objects = _Objects()
    place = Place("snapshot", objects.problems)
    try:
        for index, value in enumerate(listed(text, parse_constant=_refuse_constant)):
            one = _item(place, value, ("", None), index)
            if one is not None:
                objects.add(one)
            if objects.problems:
                return None
    except OtherLayout:
        return None
    return objects


def _decoded(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        reason = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise MESSAGES.error("rules-snapshot-json", reason=reason) from error
    except ValueError as error:
        raise MESSAGES.error("rules-snapshot-json", reason="NaN, Infinity, or thousands of digits") from error
    except RecursionError as error:
        raise MESSAGES.error("rules-snapshot-json", reason="lists in lists, too deep to be read") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


class _Objects:
    """The objects of a list, read one by one."""

    def __init__(self) -> None:
        self.problems: list[BallastError] = []
        self.services: list[Service] = []
        self.slices: list[Slice] = []
        self.nodes: list[Node] = []
        self.service_cidrs: list[tuple[int, str]] = []
        self._titles: set[str] = set()
        self._readers: Mapping[str, Callable[[Place, Mapping[str, Any], Mapping[str, Any]], None]] = {
            "Service": self._add_service,
            "EndpointSlice": self._add_slice,
            "Node": self._add_node,
            "ServiceCIDR": self._add_service_cidr,
        }

    def add(self, one: _Item) -> None:
        item, kind, at = one
        place = Place(at, self.problems)
        metadata = place.mapping(item.get("metadata"), "metadata")
        named = _title(place, metadata, kind)
        if not named:
            return
        place.title = named
        if named in self._titles:
            place.fault("rules-object-twice")
            return
        self._titles.add(named)
        self._readers[kind](place, metadata, item)

    def snapshot(self, node_name: str, node_ips: Sequence[str]) -> Snapshot:
        views = node_views(self.nodes, name=node_name, addresses=node_ips, problems=self.problems)
        Problems.raise_if(self.problems)
        return Snapshot((self.view(4, views[4]), self.view(6, views[6])))

    def view(self, family: int, node: NodeView) -> FamilyView:
        endpoints = endpoints_of(self.slices, family)
        of_family = [one for one in self.services if family in one.families]
        created = {(one.namespace, one.name): one.created for one in of_family}
        services = tuple(sorted((one for of in of_family for one in of.service_ports(family, endpoints)), key=_order))
        found, duplicates = frontends(services, lambda one: created[(one.namespace, one.name)])
        cidrs = tuple(sorted({text for of, text in self.service_cidrs if of == family}))
        return FamilyView(family, node, services, found, duplicates, cidrs)

    def _add_service(self, place: Place, metadata: Mapping[str, Any], item: Mapping[str, Any]) -> None:
        service = parse_service(place, metadata, item)
        if service is not None:
            self.services.append(service)

    def _add_slice(self, place: Place, metadata: Mapping[str, Any], item: Mapping[str, Any]) -> None:
        found = parse_slice(place, metadata, item)
        if found is not None:
            self.slices.append(found)

    def _add_node(self, place: Place, metadata: Mapping[str, Any], item: Mapping[str, Any]) -> None:
        self.nodes.append(parse_node(place, metadata, item))

    def _add_service_cidr(self, place: Place, metadata: Mapping[str, Any], item: Mapping[str, Any]) -> None:
        """One that is being deleted counts as well: addresses of it may still be in use."""
        spec = place.mapping(item.get("spec"), "spec")
        for index, value in enumerate(place.items(spec.get("cidrs"), "spec", "cidrs")):
            network = place.network(value, "spec", "cidrs", index)
            if network is not None:
                self.service_cidrs.append((network.family, network.text))


def _order(service: ServicePort) -> tuple[str, str, str, str]:
    return (service.namespace, service.name, service.protocol, service.port_name)


def _items(data: object, problems: list[BallastError]) -> Sequence[_Item]:
    """Those of a ServiceList, as the API itself answers, do not say their kind."""
    place = Place("snapshot", problems)
    top = place.mapping(data)
    kind = place.text(top.get("kind"), "kind")
    of = kind[: -len(_LIST_SUFFIX)]
    if not isinstance(data, dict) or not kind.endswith(_LIST_SUFFIX) or (of and of not in _GROUPS):
        place.fault("rules-snapshot-kind", "kind", value=show(kind), wanted="a List of Services, EndpointSlices, Nodes")
        return []
    if place.text(place.mapping(top.get("metadata"), "metadata").get("continue"), "metadata", "continue"):
        place.fault("rules-snapshot-page")
    said = (of, top.get("apiVersion") if of else None)
    found = [_item(place, value, said, index) for index, value in enumerate(place.items(top.get("items"), "items"))]
    return [one for one in found if one is not None]


def _item(place: Place, value: object, said: tuple[object, object], index: int) -> Optional[_Item]:
    fields = place.element(value, "items", index)
    kind = _kind(place, fields, said, index) if fields is not None else ""
    return (fields, kind, f"snapshot: items[{index}]") if fields is not None and kind else None


def _kind(place: Place, item: Mapping[str, Any], said: tuple[object, object], index: int) -> str:
    """ "" for a kind that makes no rules, or one of another API: Knative has a Service too. `said` is what the list says of
    its items' kind and version."""
    kind, version = item.get("kind", said[0]), item.get("apiVersion", said[1])
    if isinstance(kind, str) and version in _GROUPS.get(kind, ()):
        return kind
    wanted = ", ".join(f"{one} of {versions[0]}" for one, versions in sorted(_GROUPS.items()))
    name = item.get("metadata")
    name = name.get("name") if isinstance(name, dict) else None
    value = f"{show(kind)} of {show(version)}, {show(name)},"
    place.fault("rules-snapshot-kind", "items", index, value=value, wanted=f"one of {wanted}")
    return ""


def _title(place: Place, metadata: Mapping[str, Any], kind: str) -> str:
    """`Service default/web`, or "" where its name is not one."""
    name = place.name(metadata.get("name"), LABEL if kind == "Service" else SUBDOMAIN, "metadata", "name")
    if not name:
        if not metadata.get("name"):
            place.wrong(metadata.get("name"), "a name", "metadata", "name")
        return ""
    if kind not in _NAMESPACED:
        return f"{kind} {name}"
    namespace = place.name(metadata.get("namespace"), LABEL, "metadata", "namespace")
    if not namespace:
        if not metadata.get("namespace"):
            place.wrong(metadata.get("namespace"), "a name", "metadata", "namespace")
        return ""
    return f"{kind} {namespace}/{name}"
