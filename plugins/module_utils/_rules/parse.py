# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parse a snapshot, a `v1 List` as kubectl prints it, into what the compilers need on this node.

    Snapshot              both families, ready for the compilers
    parse_snapshot        from decoded JSON
    parse_snapshot_text   from JSON text

Whatever the API server accepts is accepted and normalized. What it would refuse is refused, all faults together. Only what
kube-proxy ignores is ignored (services.py, slices.py); a single value that kube-proxy cannot read and skips is a warning.
gates.py has what depends on kube-proxy's version and configuration.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NoReturn, Optional

from .._core.host.gc_pause import pause_collection
from .._core.kube.kubectl_list import OtherLayout, iterate_items
from .._core.text.decode import Faults, Reader, show, text
from .._core.text.errors import BallastError, Problems
from .frontends import assign_frontends
from .gates import SERVICE_CIDRS, Release, given_gates
from .messages import MESSAGES
from .model import FamilyView, NodeView, ServicePort
from .nodes import Node, build_node_views, parse_node
from .reading import LABEL, SKIPPED, SUBDOMAIN, WORDS, matching_name, network, parse_each
from .services import Service, parse_service
from .slices import Slice, endpoints_of, parse_slice

_GROUPS = {  # the API versions whose fields are the ones read here
    "Service": ("v1",),
    "Node": ("v1",),
    "EndpointSlice": ("discovery.k8s.io/v1",),
    "ServiceCIDR": ("networking.k8s.io/v1", "networking.k8s.io/v1beta1"),
}
_Item = tuple[Reader, str]  # an item and its kind
_NAMESPACED = ("Service", "EndpointSlice")
_LIST_SUFFIX = "List"
_LISTED = 20  # warnings about objects that are listed; the rest is counted
_LABEL, _SUBDOMAIN = matching_name(LABEL), matching_name(SUBDOMAIN)


@dataclass(frozen=True)
class Snapshot:
    """One node's view of a cluster at one moment."""

    views: tuple[FamilyView, FamilyView]  # of IPv4 and IPv6
    warnings: tuple[BallastError, ...] = field(default=(), compare=False)  # values that kube-proxy skips

    def view(self, family: int) -> FamilyView:
        """The view of family 4 or 6. It has no Services if the cluster does not use that family."""
        return next(view for view in self.views if view.family == family)


def parse_snapshot_text(printed: str, *, node_name: str, node_ips: Sequence[str], config: object = None) -> Snapshot:
    """Same as parse_snapshot. UserError with line and column if `printed` is not JSON."""
    with pause_collection():
        objects = _usual_objects(printed)
        if objects is None:
            return parse_snapshot(_decode(printed), node_name=node_name, node_ips=node_ips, config=config)
        return objects.snapshot(node_name, node_ips, config)


def parse_snapshot(data: object, *, node_name: str, node_ips: Sequence[str], config: object = None) -> Snapshot:
    """`node_ips` are the addresses on the node's links, of both families. `config` is the KubeProxyConfiguration, which
    config.py checks: some of its keys change the meaning of objects. Problems, with all faults."""
    with pause_collection():
        objects = _Objects()
        for item in _items(data, objects.problems):
            objects.add(item)
        return objects.snapshot(node_name, node_ips, config)


def _usual_objects(printed: str) -> Optional[_Objects]:
    """The objects of a List in kubectl's layout. None for another layout or after a fault: `parse_snapshot` then reads it
    again and reports the faults."""
    objects = _Objects()
    try:
        for index, value in enumerate(iterate_items(printed, parse_constant=_refuse_constant)):
            item = _item(value, ("", None), index, objects.problems)
            if item is not None:
                objects.add(item)
            if objects.problems and not all(problem.id == SKIPPED for problem in objects.problems):
                return None
    except OtherLayout:
        return None
    return objects


def _decode(printed: str) -> object:
    try:
        return json.loads(printed, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        reason = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise MESSAGES.error("rules-snapshot-json", reason=reason) from error
    except ValueError as error:
        raise MESSAGES.error("rules-snapshot-json", reason="NaN, Infinity, or thousands of digits") from error
    except RecursionError as error:
        raise MESSAGES.error("rules-snapshot-json", reason="lists nested too deeply") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class _Objects:
    """Collects the objects of a list, one by one."""

    def __init__(self) -> None:
        self.problems: list[BallastError] = []
        self.services: list[Service] = []
        self.slices: list[Slice] = []
        self.nodes: list[Node] = []
        self.service_cidrs: list[tuple[int, str]] = []
        self._has_slices = False
        self._titles: set[str] = set()
        self._node_problems: dict[str, list[BallastError]] = {}  # by title
        self._readers: Mapping[str, Callable[[Reader, Reader], None]] = {
            "Service": self._add_service,
            "EndpointSlice": self._add_slice,
            "Node": self._add_node,
            "ServiceCIDR": self._add_service_cidr,
        }

    def add(self, entry: _Item) -> None:
        item, kind = entry
        metadata = item.below("metadata")
        named = title_of(metadata, kind)
        if not named:
            return
        item.faults.title = named
        if named in self._titles:
            item.faults.add("rules-object-twice", "")
            return
        self._titles.add(named)
        self._readers[kind](item, metadata)

    def snapshot(self, node_name: str, node_ips: Sequence[str], config: object) -> Snapshot:
        settings = config if isinstance(config, Mapping) else {}
        views = build_node_views(
            self.nodes,
            name=node_name,
            addresses=node_ips,
            bind_address=settings.get("bindAddress"),
            problems=self.problems,
        )
        self.problems += self._node_problems.pop(f"Node {node_name}", [])
        Problems.raise_if([problem for problem in self.problems if problem.id != SKIPPED])
        release = Release(views[4].minor, given_gates(settings))
        self._drop_unselected(release)
        return Snapshot((self.view(4, views[4], release), self.view(6, views[6], release)), self._warnings())

    def view(self, family: int, node: NodeView, release: Release) -> FamilyView:
        endpoints = endpoints_of(self.slices, family)
        of_family = [service for service in self.services if family in service.families]
        created = {(service.namespace, service.name): service.created for service in of_family}
        ports = (port for of in of_family for port in of.service_ports(family, endpoints, release))
        services = tuple(sorted(ports, key=port_order))
        owned, duplicates = assign_frontends(services, lambda port: created[(port.namespace, port.name)])
        allocated = self.service_cidrs if release.is_on(SERVICE_CIDRS) else ()
        cidrs = tuple(sorted({text for of, text in allocated if of == family}))
        addresses = {(own.text, of.name) for of in self.nodes for own in of.addresses if own.family == family}
        return FamilyView(family, node, services, owned, duplicates, cidrs, tuple(sorted(addresses)))

    def _drop_unselected(self, release: Release) -> None:
        if release.selects_by_both_labels:
            self.services = [service for service in self.services if not service.has_headless_label]
            self.slices = [of_service for of_service in self.slices if not of_service.has_proxy_name_label]

    def _warnings(self) -> tuple[BallastError, ...]:
        """Problems of Nodes other than this one are warnings, since kube-proxy does not read those Nodes."""
        warnings = [*self.problems, *chain.from_iterable(self._node_problems.values())]
        if self.services and not self._has_slices:  # each API server writes one for itself
            warnings.insert(0, MESSAGES.error("rules-snapshot-no-slices", count=len(self.services)))
        more = len(warnings) - _LISTED
        return (*warnings[:_LISTED], *([MESSAGES.error("rules-object-skipped-more", count=more)] if more > 0 else []))

    def _add_service(self, item: Reader, metadata: Reader) -> None:
        service = parse_service(item, metadata)
        if service is not None:
            self.services.append(service)

    def _add_slice(self, item: Reader, metadata: Reader) -> None:
        self._has_slices = True
        endpoint_slice = parse_slice(item, metadata)
        if endpoint_slice is not None:
            self.slices.append(endpoint_slice)

    def _add_node(self, item: Reader, metadata: Reader) -> None:
        """Problems are kept separate until it is known which Node is this one."""
        problems: list[BallastError] = []
        faults = Faults(item.faults.words, item.faults.title, problems)
        self.nodes.append(parse_node(Reader(item.values, faults), Reader(metadata.values, faults, metadata.path)))
        if problems:
            self._node_problems[faults.title] = problems

    def _add_service_cidr(self, item: Reader, _metadata: Reader) -> None:
        """A ServiceCIDR that is being deleted counts too: its addresses may still be in use."""
        cidrs = parse_each(item.below("spec"), "cidrs", network)
        self.service_cidrs += [(cidr.family, cidr.text) for _value, cidr in cidrs if cidr is not None]


def port_order(service: ServicePort) -> tuple[str, str, str, str]:
    """The sort key of the ServicePorts of a FamilyView."""
    return (service.namespace, service.name, service.protocol, service.port_name)


def _items(data: object, problems: list[BallastError]) -> Sequence[_Item]:
    """The items of a list. Those of a typed list, such as the API's ServiceList, have no kind of their own."""
    faults = Faults(WORDS, "snapshot", problems)
    top = Reader({} if data is None else data, faults)
    kind = top.read("kind", text, "")
    of = kind[: -len(_LIST_SUFFIX)]
    if not kind.endswith(_LIST_SUFFIX) or (of and of not in _GROUPS):
        faults.add("rules-snapshot-kind", "kind", value=show(kind), wanted="a List of Services, EndpointSlices, Nodes")
        return []
    if top.below("metadata").read("continue", text, ""):
        faults.add("rules-snapshot-page", "")
    implied = (of, top.get("apiVersion") if of else None)
    items = [_item(value, implied, index, problems) for index, value in enumerate(top.sequence("items"))]
    return [item for item in items if item is not None]


def _item(value: object, implied: tuple[object, object], index: int, problems: list[BallastError]) -> Optional[_Item]:
    """The item with its kind; None if `value` is refused."""
    item = Reader(value, Faults(WORDS, f"snapshot: items[{index}]", problems))
    kind = _kind(item, implied) if item.is_mapping else ""
    return (item, kind) if kind else None


def _kind(item: Reader, implied: tuple[object, object]) -> str:
    """The item's kind; "" for a kind that makes no rules, or one of another API group (Knative has a Service too). `implied`:
    the kind and version that a typed list implies for its items."""
    values = item.values
    kind, version = values.get("kind", implied[0]), values.get("apiVersion", implied[1])
    if isinstance(kind, str) and version in _GROUPS.get(kind, ()):
        return kind
    expected = ", ".join(f"{name} of {versions[0]}" for name, versions in sorted(_GROUPS.items()))
    name = values.get("metadata")
    name = name.get("name") if isinstance(name, dict) else None
    value = f"{show(kind)} of {show(version)}, {show(name)},"
    item.faults.add("rules-snapshot-kind", "", value=value, wanted=f"one of {expected}")
    return ""


def title_of(metadata: Reader, kind: str) -> str:
    """`Service default/web`; "" if its name is invalid."""
    name = metadata.read("name", _LABEL if kind == "Service" else _SUBDOMAIN, "")
    if not name:
        return _refuse_unnamed(metadata, "name")
    if kind not in _NAMESPACED:
        return f"{kind} {name}"
    namespace = metadata.read("namespace", _LABEL, "")
    return f"{kind} {namespace}/{name}" if namespace else _refuse_unnamed(metadata, "namespace")


def _refuse_unnamed(metadata: Reader, key: str) -> str:
    if not metadata.get(key):
        metadata.wrong(key, metadata.get(key), "a name")
    return ""
