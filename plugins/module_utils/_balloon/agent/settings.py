# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reconciler's settings: one YAML or JSON file, read strictly. Pure."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any, Optional

from ..._core.agent.reading import Reader, Wrong, boolean, duration, matching, metrics_address, parse_file, text_of
from ..._core.errors import BallastError
from ..._core.quantity import Quantity, parse_quantity
from ..amount import Amount
from ..request import LIMITS, NAMESPACE, NEVER_PREEMPT, PAUSE_IMAGE, PRESENT, TIMEOUT_MOST, NodeRequest, Request
from .messages import AGENT

_LEAST_SECONDS = 1.0
_NODE_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", re.ASCII)  # a DNS subdomain, as of every Node


@dataclass(frozen=True)
class NodeRow:
    """A node and what is moved in step with its balloon: `slice` with `slices: true`, `qmp` with `vm: true`."""

    name: str
    slice: str = ""
    qmp: str = ""


@dataclass(frozen=True)
class Reserve:
    """Millicores and bytes."""

    cpu: int = 0
    memory: int = 0


@dataclass(frozen=True)
class Retry:
    """Seconds until a node that did not come to its target is tried again: `first`, then each time twice as long, up to
    `most`."""

    first: float = 10.0
    most: float = 600.0


@dataclass(frozen=True)
class Settings:
    """Times in seconds. `nodes` empty: all that have the annotation. `metrics` is address and port, None for no listener."""

    kubeconfig: str
    namespace: str = "kube-system"
    nodes: tuple[NodeRow, ...] = ()
    reserve: Optional[Reserve] = None  # of each host; None is the sum of what its kubelets reserve
    slices: bool = False
    vm: bool = False
    interval: float = 60.0  # after which everything is looked at, changed or not
    grow_timeout: float = 30.0
    retry: Retry = field(default_factory=Retry)
    metrics: Optional[tuple[str, int]] = None

    @property
    def reserved(self) -> Optional[Amount]:
        return None if self.reserve is None else Amount(self.reserve.cpu, self.reserve.memory)

    @property
    def request(self) -> Request:
        """As far as the shared parts need one; the targets are those of the annotations."""
        return Request(
            state=PRESENT,
            kubeconfig=self.kubeconfig,
            namespace=self.namespace,
            nodes=tuple(NodeRequest(row.name, slice=row.slice, qmp=row.qmp) for row in self.nodes),
            reserve=self.reserved,
            priority=NEVER_PREEMPT,
            grow_timeout=self.grow_timeout,
            slices=self.slices,
            vm=self.vm,
            image=PAUSE_IMAGE,
        )


_DEFAULTS = Settings(kubeconfig="")


def parse_settings(text: str, *, name: str) -> Settings:
    """`text` is the file, `name` its path, for messages.

    UserError where the file is no mapping in YAML or JSON or has one fault, Problems where it has several.
    """
    return parse_file(AGENT, text, name=name, defaults=_DEFAULTS, read=_settings)


def _settings(reader: Reader) -> Settings:
    retry = reader.below("retry", Retry())
    slices, vm = reader.read("slices", boolean), reader.read("vm", boolean)
    if slices and vm:
        reader.wrong("vm", "two-limits")
    return Settings(
        kubeconfig=reader.require("kubeconfig", _path, wanted="the path of a kubeconfig on this machine"),
        namespace=reader.read("namespace", _namespace),
        nodes=_nodes(reader, {"slices": slices, "vm": vm}),
        reserve=_reserve(reader),
        slices=slices,
        vm=vm,
        interval=reader.read("interval", _seconds),
        grow_timeout=reader.read("grow_timeout", _grow_timeout),
        retry=Retry(first=retry.read("first", _seconds), most=retry.read("most", _seconds)),
        metrics=reader.read("metrics", metrics_address),
    )


def _nodes(reader: Reader, options: dict[str, bool]) -> tuple[NodeRow, ...]:
    if not reader.has("nodes"):
        for limit in LIMITS:
            if options[limit.option]:
                reader.wrong(limit.option, "limits-of-all", option=limit.option, wanted=limit.name)
        return ()
    rows = reader.rows("nodes", NodeRow(""), wanted="a list of mappings of name, and slice or qmp")
    nodes = [_node(row, options) for row in rows]
    first: dict[str, Reader] = {}
    for row, node in zip(rows, nodes):
        if node.name and first.setdefault(node.name, row) is not row:
            row.wrong("name", "node-twice", other=first[node.name].at("name"))
    return tuple(sorted(nodes, key=lambda node: node.name))


def _node(row: Reader, options: dict[str, bool]) -> NodeRow:
    name = row.require("name", _node_name, wanted="the name of a node")
    found = {}
    for limit in LIMITS:

        def parse(value: Any, form: re.Pattern[str] = limit.form, wanted: str = limit.wanted) -> str:
            return matching(form, value, wanted)

        if options[limit.option]:
            found[limit.name] = row.require(limit.name, parse, wanted=limit.wanted)
        elif row.has(limit.name):
            row.wrong(limit.name, "limit-unused", option=limit.option)
    return NodeRow(name, **found)


def _reserve(reader: Reader) -> Optional[Reserve]:
    if not reader.has("reserve"):
        return None
    below = reader.below("reserve", Reserve())
    cpu = below.require("cpu", _quantity, wanted="a quantity, such as '500m'")
    memory = below.require("memory", _quantity, wanted="a quantity, such as 1Gi")
    return Reserve(cpu.thousandths if cpu else 0, memory.whole if memory else 0)


def _quantity(value: Any) -> Quantity:
    """A number without quotes is well where it is whole: `cpu: 2`."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else value
    try:
        found = parse_quantity(text_of(text, "quantity"))
    except BallastError:
        raise Wrong("quantity") from None
    if found.thousandths < 0:
        raise Wrong("quantity")
    return found


def _path(value: Any) -> str:
    if not isinstance(value, str) or not os.path.isabs(value) or not value.isprintable():
        raise Wrong("value", wanted="an absolute path")
    return value


def _namespace(value: Any) -> str:
    return matching(NAMESPACE, value, "a namespace's name")


def _node_name(value: Any) -> str:
    return matching(_NODE_NAME, value, "the name of a node")


def _seconds(value: Any) -> float:
    seconds = duration(value)
    if seconds < _LEAST_SECONDS:
        raise Wrong("value", wanted="a duration of 1s or more")
    return seconds


def _grow_timeout(value: Any) -> float:
    seconds = _seconds(value)
    if seconds > TIMEOUT_MOST:
        raise Wrong("value", wanted=f"a duration of up to {TIMEOUT_MOST:.0f}s")
    return seconds
