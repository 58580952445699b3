# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fleets and requests as tests of sizing and of reports need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._balloon.cluster.facts import (
    SETTLED,
    WORKLOAD,
    Balloon,
    Fleet,
    Node,
    Pod,
)
from ansible_collections.ballast.kube.plugins.module_utils._balloon.request import SPEC, BalloonsRequest
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.resources import FLOOR, MIB, NONE, Resources
from ansible_collections.ballast.kube.plugins.module_utils._balloon.sizing.sizing import targets, with_reserves
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems

HOST = "h1"


def amount(cpu: int, mebibytes: int) -> Resources:
    return Resources(cpu, mebibytes * MIB)


CAPACITY = amount(16000, 64 * 1024)
OVERHEAD = amount(100, 356)


def balloon(size: Resources, **changes: Any) -> Balloon:
    """One that is settled at `size`, unless `changes` say otherwise."""
    sizes = {"desired": size, "allocated": size, "actual": size}
    rest = {"namespace": "kube-system", "name": "b", "uid": "u", "resource_version": "1", "state": SETTLED}
    return Balloon(**{**sizes, **rest, **changes})


def node(name: str, **changes: Any) -> Node:
    """A node that sees all of the host, with a balloon at the floor."""
    found = {
        "host": HOST,
        "capacity": CAPACITY,
        "allocatable": CAPACITY - OVERHEAD,
        "version": (1, 36),
        "ready": True,
        "balloon": balloon(FLOOR),
    }
    return Node(name=name, **{**found, **changes})


def pod(name: str, requests: Resources, kind: str = WORKLOAD) -> Pod:
    return Pod("kube-system", name, requests, kind)


def fleet(*nodes: Node, reserve: Optional[Resources] = NONE, capacity: Resources = CAPACITY) -> Fleet:
    """`reserve` None is the sum of the nodes' overheads. Every host has the same `capacity`."""
    hosts = {node.host for node in nodes}
    return with_reserves(Fleet({node.name: node for node in nodes}, dict.fromkeys(hosts, capacity)), reserve)


def params(rows: Optional[Iterable[dict[str, Any]]], **changes: Any) -> dict[str, Any]:
    """Options as Ansible hands them on, with every key."""
    defaults = {name: row.get("default") for name, row in SPEC.items()}
    options = SPEC["nodes"]["options"]
    nodes = None if rows is None else [{**dict.fromkeys(options), **row} for row in rows]
    return {**defaults, "kubeconfig": __file__, "nodes": nodes, **changes}


def request(*rows: dict[str, Any], **changes: Any) -> BalloonsRequest:
    return BalloonsRequest.from_params(params(rows, **changes))


def asked(found: Fleet, *rows: dict[str, Any], **changes: Any) -> dict[str, Resources]:
    return targets(request(*rows, **changes), found)


def problems(call: Callable[[], object]) -> list[BallastError]:
    """What `call` refuses; it must."""
    try:
        call()
    except Problems as error:
        return list(error.problems)
    except BallastError as error:
        return [error]
    raise AssertionError("nothing was refused")


def ids(call: Callable[[], object]) -> list[str]:
    return [problem.id for problem in problems(call)]
