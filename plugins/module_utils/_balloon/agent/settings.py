# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reconciler's settings: one YAML or JSON file, read strictly. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Optional

from ..._agent.settings import metrics_address, parse_file, pause, refuse_twice, section, sections
from ..._core.text.decode import Parsers, Reader, Required, Wrong, absolute_path, boolean, matching
from ..._core.text.errors import BallastError
from ..._core.text.quantity import Quantity, parse_quantity
from ..request import LIMITS, NAMESPACE, NEVER_PREEMPT, PRESENT, TIMEOUT_MOST, BalloonsRequest, NodeRequest
from ..sizing.resources import Resources
from .messages import AGENT

RESTART_KEYS = ("metrics",)  # settings that a reload cannot change
_CONTEXT = re.compile(r"[^\x00-\x1f\x7f]{1,253}")
_NODE_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", re.ASCII)  # a DNS subdomain, as of every Node


@dataclass(frozen=True)
class NodeRow:
    """A node, and its limit to change in step with its balloon: `slice` with `slices: true`, `qmp` with `vm: true`."""

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
    """Seconds before a node that did not reach its target is tried again: `first`, then twice as long each time, up to `most`."""

    first: float = 10.0
    most: float = 600.0


@dataclass(frozen=True)
class Settings:
    """Times are in seconds. Empty `nodes`: all nodes with the annotation. `metrics` is address and port, None for no listener."""

    kubeconfig: str
    context: str = ""  # name in the kubeconfig; "": the current one
    namespace: str = ""  # of the balloons
    nodes: tuple[NodeRow, ...] = ()
    reserve: Optional[Reserve] = None  # of each host; None: the sum of what its kubelets reserve
    slices: bool = False
    vm: bool = False
    interval: float = 60.0  # between two looks without a change
    grow_timeout: float = 30.0
    retry: Retry = field(default_factory=Retry)
    metrics: Optional[tuple[str, int]] = None

    @property
    def reserved(self) -> Optional[Resources]:
        """`reserve` as `Resources`."""
        return None if self.reserve is None else Resources(self.reserve.cpu, self.reserve.memory)

    @property
    def request(self) -> BalloonsRequest:
        """The request for shared code; it has no targets, which are in the annotations."""
        return BalloonsRequest(
            state=PRESENT,
            kubeconfig=self.kubeconfig,
            context=self.context,
            namespace=self.namespace,
            nodes=tuple(NodeRequest(row.name, slice=row.slice, qmp=row.qmp) for row in self.nodes),
            reserve=self.reserved,
            priority=NEVER_PREEMPT,
            grow_timeout=self.grow_timeout,
            slices=self.slices,
            vm=self.vm,
            image="",
        )


def parse_settings(text: str, *, name: str) -> Settings:
    """`text` is the file, `name` its path, for messages.

    UserError where the file is no mapping in YAML or JSON or has an error, Problems where it has several.
    """
    return parse_file(AGENT, text, name=name, settings=Settings, read=_settings)


def _settings(reader: Reader) -> Settings:
    options = {limit.option: reader.read(limit.option, boolean, False) for limit in LIMITS}
    if all(options.values()):
        reader.fault("vm", "two-limits")
    return reader.fill(
        Settings,
        _SETTINGS,
        nodes=_nodes(reader, options),
        reserve=section(reader, "reserve", Reserve, _RESERVE) if reader.has("reserve") else None,
        retry=section(reader, "retry", Retry, {"first": pause, "most": pause}),
        **options,
    )


def _nodes(reader: Reader, options: dict[str, bool]) -> tuple[NodeRow, ...]:
    if not reader.has("nodes"):
        for limit in LIMITS:
            if options[limit.option]:
                reader.fault(limit.option, "limits-of-all", option=limit.option, wanted=limit.name)
        return ()
    rows = sections(reader, "nodes", NodeRow, expected="a list of mappings of name, and slice or qmp")
    nodes = [_node(row, options) for row in rows]
    refuse_twice([(row, "name", node.name) for row, node in zip(rows, nodes)], "node-twice")
    return tuple(sorted(nodes, key=lambda node: node.name))


def _node(row: Reader, options: dict[str, bool]) -> NodeRow:
    parsers: dict[str, Required] = {"name": Required(matching(_NODE_NAME, "the name of a node"), "the name of a node")}
    for limit in LIMITS:
        if options[limit.option]:
            parsers[limit.name] = Required(matching(limit.form, limit.expected), limit.expected)
        elif row.has(limit.name):
            row.fault(limit.name, "limit-unused", option=limit.option)
    return row.fill(NodeRow, parsers)


def _quantity(value: Any) -> Quantity:
    """A quantity; a whole number needs no quotes: `cpu: 2`."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else value
    try:
        quantity = parse_quantity(text) if isinstance(text, str) else None
    except BallastError:
        quantity = None
    if quantity is None or quantity.thousandths < 0:
        raise Wrong(id="quantity")
    return quantity


def _grow_timeout(value: Any) -> float:
    seconds = pause(value)
    if seconds > TIMEOUT_MOST:
        raise Wrong(f"a duration of up to {TIMEOUT_MOST:.0f}s")
    return seconds


_RESERVE: Parsers = {
    "cpu": Required(lambda value: _quantity(value).thousandths, "a quantity, such as '500m'"),
    "memory": Required(lambda value: _quantity(value).whole, "a quantity, such as 1Gi"),
}
_SETTINGS: Parsers = {
    "kubeconfig": Required(absolute_path, "the path of a kubeconfig on this machine"),
    "context": matching(_CONTEXT, "the name of a context of the kubeconfig"),
    "namespace": matching(NAMESPACE, "a namespace's name"),
    "interval": pause,
    "grow_timeout": _grow_timeout,
    "metrics": metrics_address,
}
