# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


"""API objects, parsed one by one into the input of the rules, and the Services that a change affects.

What kube-proxy ignores is ignored, and what the API server would refuse is refused, as for a snapshot (`_rules/parse.py`).
An object that cannot be read changes nothing: its last known state is kept, and a text says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, NamedTuple, Optional, Union

from .._core.text.decode import Faults, Reader
from .._core.text.errors import BallastError
from .._rules.gates import SERVICE_CIDRS, Release
from .._rules.nodes import Node, parse_node
from .._rules.parse import port_order, title_of
from .._rules.reading import SKIPPED, WORDS, network, parse_each
from .._rules.services import Service, parse_service
from .._rules.slices import SERVICE_LABEL, Slice, endpoints_of, parse_slice
from .family_rules import Desired
from .ports import NodeState, ServiceName

SERVICE, SLICE, NODE, CIDR = "Service", "EndpointSlice", "Node", "ServiceCIDR"
TRIGGER_ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time"
_TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
_SECONDS_LENGTH = len("2026-11-21T12:04:15")
_NO_VALUES: Mapping[str, Any] = {}
_NO_SLICES: Mapping[str, Slice] = {}

Key = tuple[str, str]  # (namespace or "", name)
Cidrs = tuple[tuple[int, str], ...]  # (family, network)


class SeenNode(NamedTuple):
    node: Node
    state: NodeState


class Seen(NamedTuple):
    """An object as reported by an event."""

    kind: str
    key: Key
    value: Union[Service, Slice, SeenNode, Cidrs, None] = None  # None: it is gone, or makes no rules
    problem: str = ""  # why it cannot be read
    uid: str = ""
    service: str = ""  # for a slice: the name of its Service
    triggered: float = 0.0  # for a slice: when the change behind it happened


def gone(kind: str, key: Key) -> Seen:
    return Seen(kind, key)


def key_of(item: Mapping[str, Any]) -> Key:
    metadata = part_of(item, "metadata")
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def read_object(kind: str, item: Mapping[str, Any], proxy_name: Optional[str] = None) -> Seen:
    """Parse an object. `proxy_name` as for `parse_service`."""
    key, metadata = key_of(item), part_of(item, "metadata")
    problems: list[BallastError] = []
    faults = Faults(WORDS, f"{kind} {'/'.join(part for part in key if part)}", problems)
    reader = Reader(item, faults)
    below = reader.below("metadata")
    value: Union[Service, Slice, SeenNode, Cidrs, None] = None
    if title_of(below, kind):
        if kind == SERVICE:
            value = parse_service(reader, below, proxy_name)
        elif kind == SLICE:
            value = parse_slice(reader, below)
        elif kind == NODE:
            value = SeenNode(parse_node(reader, below), _node_state(item))
        else:
            cidrs = parse_each(reader.below("spec"), "cidrs", network)
            value = tuple((cidr.family, cidr.text) for _value, cidr in cidrs if cidr is not None)
    wrong = [problem.in_one_line for problem in problems if problem.id != SKIPPED]
    service, triggered = "", 0.0
    if kind == SLICE:
        service = str(part_of(metadata, "labels").get(SERVICE_LABEL) or "")
        triggered = _trigger_seconds(part_of(metadata, "annotations").get(TRIGGER_ANNOTATION))
    return Seen(
        kind, key, None if wrong else value, "; ".join(wrong), str(metadata.get("uid") or ""), service, triggered
    )


def _trigger_seconds(text: object) -> float:
    """The Unix time of a timestamp such as 2026-11-21T12:04:15.123456789Z, with or without a fraction; 0 for anything
    else."""
    head, point, fraction = str(text or "").rstrip("Z").partition(".")
    if len(head) != _SECONDS_LENGTH:
        return 0.0
    try:
        seconds = datetime.fromisoformat(head).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return 0.0
    return seconds + (float(f"0.{fraction}") if point and fraction.isdecimal() else 0.0)


def part_of(item: Any, key: str) -> Mapping[str, Any]:
    """The object at `key`; {} if there is none. Like `mapping_in`, but only for decoded JSON and in a third of the time,
    which matters for 20,000 objects at each start."""
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, dict) else _NO_VALUES


def _node_state(item: Mapping[str, Any]) -> NodeState:
    metadata, taints = part_of(item, "metadata"), part_of(item, "spec").get("taints")
    return NodeState(
        name=str(metadata.get("name")),
        uid=str(metadata.get("uid") or ""),
        deleting=bool(metadata.get("deletionTimestamp")),
        to_be_deleted=any(
            isinstance(taint, dict) and taint.get("key") == _TO_BE_DELETED
            for taint in (taints if isinstance(taints, list) else ())
        ),
        labels={str(name): str(value) for name, value in part_of(metadata, "labels").items()},
    )


@dataclass
class Change:
    """What a batch of events has changed."""

    services: set[ServiceName] = field(default_factory=set)  # Services whose rules may differ
    node: bool = False
    cidrs: bool = False
    events: int = 0  # events of Services
    endpoint_events: int = 0  # events of EndpointSlices
    families: set[int] = field(default_factory=set)  # families of the EndpointSlices
    triggered: list[tuple[int, float]] = field(
        default_factory=list
    )  # for each EndpointSlice: (family, time of the change behind it)
    unreadable: list[tuple[ServiceName, str, str]] = field(default_factory=list)  # (Service, uid, text)
    readable: set[ServiceName] = field(default_factory=set)  # Services that have no unreadable object any more
    faults: list[str] = field(default_factory=list)  # faults of objects that belong to no Service


class Objects:
    """What is known about the cluster. Used in the loop's thread only."""

    def __init__(self, proxy_name: Optional[str] = None) -> None:
        self._proxy_name = proxy_name
        self.services: dict[ServiceName, Service] = {}
        self.uids: dict[ServiceName, str] = {}
        self.node: Optional[SeenNode] = None  # its last known state
        self.node_known = False
        self._slices: dict[ServiceName, dict[str, Slice]] = {}
        self._service_of: dict[Key, ServiceName] = {}  # by slice
        self._cidrs: dict[Key, Cidrs] = {}
        self._unreadable: dict[tuple[str, Key], ServiceName] = {}

    def take(self, seen: Iterable[Seen]) -> Change:
        """Apply what events reported, in order; returns what they changed."""
        change = Change()
        for each in seen:
            if each.kind == SERVICE:
                self._take_service(each, change)
            elif each.kind == SLICE:
                self._take_slice(each, change)
            elif each.problem:
                change.faults.append(each.problem)
            elif each.kind == NODE:
                # If the Node is deleted, rules stay as they are: nothing says that the machine has changed.
                self.node_known = isinstance(each.value, SeenNode)
                self.node = each.value if isinstance(each.value, SeenNode) else self.node
                change.node = True
            else:
                self._take_cidrs(each, change)
        return change

    def cidrs(self, family: int, release: Release) -> tuple[str, ...]:
        """The networks of ServiceCIDRs. Empty next to another proxy, which serves most of their addresses."""
        if self._proxy_name is not None or not release.is_on(SERVICE_CIDRS):
            return ()
        return tuple(sorted({text for cidrs in self._cidrs.values() for of, text in cidrs if of == family}))

    def state_of(self, name: ServiceName, family: int, release: Release) -> Desired:
        """The Service in that family, with its endpoints."""
        service = self.services.get(name)
        if service is None or family not in service.families:
            return Desired()
        slices = list(self._slices.get(name, _NO_SLICES).values())
        if release.selects_by_both_labels and self._proxy_name is None:
            if service.has_headless_label:
                return Desired()
            slices = [each for each in slices if not each.has_proxy_name_label]
        ports = service.service_ports(family, endpoints_of(slices, family), release)
        return Desired(service.created, tuple(sorted(ports, key=port_order)))

    def _take_service(self, seen: Seen, change: Change) -> None:
        name = ServiceName(*seen.key)
        change.events += 1
        if not self._is_readable(seen, name, change):
            return
        change.services.add(name)
        if isinstance(seen.value, Service):
            self.services[name], self.uids[name] = seen.value, seen.uid
        else:
            self.services.pop(name, None)
            self.uids.pop(name, None)

    def _take_slice(self, seen: Seen, change: Change) -> None:
        change.endpoint_events += 1
        namespace, own = seen.key
        if not self._is_readable(seen, ServiceName(namespace, seen.service), change):
            return
        before = self._service_of.pop(seen.key, None)
        if before is not None:
            slices = self._slices[before]
            change.families.add(slices.pop(own).family)
            if not slices:
                del self._slices[before]
            self._touch(before, change)
        if isinstance(seen.value, Slice):
            name = ServiceName(namespace, seen.value.service)
            self._service_of[seen.key] = name
            self._slices.setdefault(name, {})[own] = seen.value
            self._touch(name, change)
            change.families.add(seen.value.family)
            if seen.triggered and name in self.services:  # nothing is programmed for other slices
                change.triggered.append((seen.value.family, seen.triggered))

    def _is_readable(self, seen: Seen, name: ServiceName, change: Change) -> bool:
        """Record whether the object can be read, and whether its Service has no unreadable object any more."""
        of = (seen.kind, seen.key)
        if seen.problem:
            self._unreadable[of] = name
            change.unreadable.append(
                (name, seen.uid if seen.kind == SERVICE else self.uids.get(name, ""), seen.problem)
            )
            return False
        known = self._unreadable.pop(of, None)
        if known is not None and known not in self._unreadable.values():
            change.readable.add(known)
        return True

    def _touch(self, name: ServiceName, change: Change) -> None:
        if name in self.services:
            change.services.add(name)

    def _take_cidrs(self, seen: Seen, change: Change) -> None:
        change.cidrs = True
        if seen.value is not None and not isinstance(seen.value, (Service, Slice, SeenNode)):
            self._cidrs[seen.key] = seen.value
        else:
            self._cidrs.pop(seen.key, None)
