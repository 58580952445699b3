# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The requested sizes of nodes. All input errors are reported together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Optional

from .._core.engine.events import PROGRESS_LOG
from .._core.kube import connection
from .._core.text.errors import BallastError, Problems
from .._core.text.quantity import parse_quantity
from .cluster.facts import NAME, SIZES, Names
from .messages import MESSAGES
from .sizing.resources import Resources

PRESENT, ABSENT = "present", "absent"
NEVER_PREEMPT, NODE_CRITICAL = "never-preempt", "node-critical"
TIMEOUT_MOST = 3600.0  # seconds
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}", re.ASCII)
_NAME = re.compile(r"(?!system-)[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", re.ASCII)  # part of label keys (63 characters)
_SHARE = re.compile(r"(\d{1,9}/\d{1,9}|\d(\.\d{1,9})?)", re.ASCII)
_CGROUP = re.compile(r"(?!.*\.slice$)[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}", re.ASCII)
_SOCKET = re.compile(r"/[\x21-\x7e]{1,106}", re.ASCII)  # sun_path of sockaddr_un holds 107 bytes and a NUL, unix(7)

_AMOUNT: dict[str, Any] = {"cpu": {"type": "str"}, "memory": {"type": "str"}}
_NODE: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "target": {"type": "dict", "options": _AMOUNT},
    "share": {"type": "str"},
    "weight": {"type": "int"},
    "slice": {"type": "str"},
    "qmp": {"type": "path"},
}
# Options of both modules.
_SHARED: dict[str, Any] = {
    **connection.SPEC,
    "namespace": {"type": "str"},
    "name": {"type": "str", "default": NAME},
    "nodes": {"type": "list", "elements": "dict", "options": _NODE},
    "reserve": {"type": "dict", "options": {name: {**row, "required": True} for name, row in _AMOUNT.items()}},
    "slices": {"type": "bool", "default": False},
    "vm": {"type": "bool", "default": False},
}
INFO_SPEC: dict[str, Any] = {**_SHARED, "readiness": {"type": "bool", "default": False}}
SPEC: dict[str, Any] = {
    **_SHARED,
    "state": {"type": "str", "default": PRESENT, "choices": [PRESENT, ABSENT]},
    "nodes": {**_SHARED["nodes"], "required": True},
    "priority": {"type": "str", "default": NEVER_PREEMPT, "choices": [NEVER_PREEMPT, NODE_CRITICAL]},
    "grow_timeout": {"type": "float", "default": 30.0},
    "image": {"type": "str"},
    **PROGRESS_LOG,
}


@dataclass(frozen=True)
class LimitOption:
    """A key in the rows of `nodes` that names the limit to change in step with the balloon; requires `option`."""

    name: str
    option: str
    form: re.Pattern[str]
    expected: str

    def check(self, row: Mapping[str, Any], path: str, params: Mapping[str, Any], problems: list[BallastError]) -> None:
        """Add a problem when the key is missing, has the wrong form, or is given without `option`. `path` is that of
        the row."""
        path, value, is_on = f"{path}.{self.name}", row.get(self.name), params[self.option]
        fields = {"path": path, "option": self.option, "wanted": self.expected}
        if is_on and not value:
            problems.append(MESSAGES.error("balloon-limit-missing", **fields))
        elif value and not is_on:
            problems.append(MESSAGES.error("balloon-limit-unused", **fields))
        elif value and not self.form.fullmatch(value):
            problems.append(_wrong(path, value, self.expected))


LIMITS = (
    LimitOption("slice", "slices", _CGROUP, "the name of the node's cgroup, such as ballast-lab-n1, without .slice"),
    LimitOption("qmp", "vm", _SOCKET, "the path of the virtual machine's QMP socket"),
)


@dataclass(frozen=True)
class NodeRequest:
    """A row of `nodes`. For each resource the target counts if given, else the share, else the weight."""

    name: str
    target: Mapping[str, int] = field(default_factory=dict)  # "cpu" in millicores, "memory" in bytes: those given
    share: Optional[Fraction] = None  # of the host's unreserved capacity
    weight: Optional[int] = None  # None: 1, if neither target nor share has the resource
    slice: str = ""  # a cgroup's name, "ballast-lab-n1"; "" without `slices`
    qmp: str = ""  # a unix socket's path; "" without `vm`


@dataclass(frozen=True)
class BalloonsRequest:
    state: str  # PRESENT; ABSENT: nodes without balloon and target
    kubeconfig: str  # "" is as in connection.py
    namespace: str  # of the balloon pods; "" until `objects.locate` sets it
    nodes: tuple[NodeRequest, ...]  # empty for the info module: all nodes
    reserve: Optional[Resources]  # of each host; None: the sum of what its kubelets reserve
    priority: str
    grow_timeout: float  # seconds
    slices: bool
    vm: bool
    image: str  # "": the sandbox image of the nodes, see deployment/sandbox_image.py
    names: Names = SIZES
    context: str = ""

    @classmethod
    def to_read(cls, params: Mapping[str, Any]) -> BalloonsRequest:
        """The request from the options of the info module, which has fewer."""
        return cls._of({**{name: row.get("default") for name, row in SPEC.items()}, **params}, [])

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> BalloonsRequest:
        """The request from the options, whose types the argument spec has checked. Raises every problem at once."""
        return cls._of(params, [] if params["nodes"] else [MESSAGES.error("balloon-no-nodes")])

    @classmethod
    def _of(cls, params: Mapping[str, Any], problems: list[BallastError]) -> BalloonsRequest:
        if connection.is_missing(params["kubeconfig"]):
            problems.append(MESSAGES.error("balloon-kubeconfig", path=params["kubeconfig"]))
        for name, form, expected in (
            ("namespace", NAMESPACE, "a namespace's name"),
            ("name", _NAME, "a name of at most 40 lowercase letters, digits and dashes that is not a system namespace"),
            ("image", _IMAGE, "an image's name"),
        ):
            if params[name] is not None and not form.fullmatch(params[name]):
                problems.append(_wrong(name, repr(params[name]), expected))
        # Also false for NaN, which a float may be.
        if not 0 < params["grow_timeout"] <= TIMEOUT_MOST:
            expected = f"a number of seconds above 0 and up to {TIMEOUT_MOST:.0f}"
            problems.append(_wrong("grow_timeout", params["grow_timeout"], expected))
        if params["slices"] and params["vm"]:
            problems.append(MESSAGES.error("balloon-two-limits"))
        beside = params["name"] != NAME
        if beside and (params["slices"] or params["vm"] or params["priority"] != NEVER_PREEMPT):
            problems.append(_wrong("name", params["name"], f"{NAME}, which slices, vm and {NODE_CRITICAL} require"))
        rows = params["nodes"] or []
        nodes = tuple(_node(row, f"nodes[{n}]", params, problems) for n, row in enumerate(rows))
        _unique(nodes, problems)
        reserve = _amounts(params["reserve"], "reserve", problems) if params["reserve"] else {}
        Problems.raise_if(problems)
        return cls(
            state=params["state"],
            kubeconfig=params["kubeconfig"] or "",
            context=params["context"] or "",
            namespace=params["namespace"] or "",
            nodes=nodes,
            reserve=Resources(**reserve) if reserve else None,
            priority=params["priority"],
            grow_timeout=params["grow_timeout"],
            slices=params["slices"],
            vm=params["vm"],
            image=params["image"] or "",
            names=Names(params["name"]),
        )


def _node(row: Mapping[str, Any], path: str, params: Mapping[str, Any], problems: list[BallastError]) -> NodeRequest:
    if not row["name"]:
        problems.append(_wrong(f"{path}.name", repr(row["name"]), "the name of a node"))
    weight = row.get("weight")
    if weight is not None and weight < 1:
        problems.append(_wrong(f"{path}.weight", weight, "a whole number from 1 on"))
    for limit in LIMITS:
        limit.check(row, path, params, problems)
    return NodeRequest(
        name=row["name"],
        target=_amounts(row.get("target") or {}, f"{path}.target", problems),
        share=_share(row.get("share"), f"{path}.share", problems),
        weight=weight,
        slice=row.get("slice") or "",
        qmp=row.get("qmp") or "",
    )


def _amounts(given: Mapping[str, Optional[str]], path: str, problems: list[BallastError]) -> dict[str, int]:
    """Parsed amounts: `{"cpu": "1.5"}` becomes `{"cpu": 1500}`."""
    amounts = {}
    for name in _AMOUNT:
        text = given.get(name)
        if text is None:
            continue
        try:
            quantity = parse_quantity(text, path=f"{path}.{name}")
        except BallastError as error:
            problems.append(error)
            continue
        if quantity.thousandths < 0:
            problems.append(_wrong(f"{path}.{name}", text, "0 or more"))
        amounts[name] = quantity.thousandths if name == "cpu" else quantity.whole
    return amounts


def _share(text: Optional[str], path: str, problems: list[BallastError]) -> Optional[Fraction]:
    """The exact share of `1/3`, `0.25` or `1`."""
    if text is None:
        return None
    try:
        share = Fraction(text) if _SHARE.fullmatch(text) else Fraction(0)
    except ZeroDivisionError:
        share = Fraction(0)
    if not 0 < share <= 1:
        problems.append(_wrong(path, text, "a part of the host above 0 and up to 1, such as 1/3"))
    return share


def _unique(nodes: Sequence[NodeRequest], problems: list[BallastError]) -> None:
    first: dict[str, str] = {}
    for number, node in enumerate(nodes):
        path = f"nodes[{number}]"
        if node.name in first:
            problems.append(
                MESSAGES.error("balloon-node-twice", path=f"{path}.name", name=node.name, first=first[node.name])
            )
        first.setdefault(node.name, path)


def _wrong(path: str, value: object, expected: str) -> BallastError:
    return MESSAGES.error("balloon-value", path=path, value=value, wanted=expected)
