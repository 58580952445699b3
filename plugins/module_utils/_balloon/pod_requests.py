# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a pod requests, as the scheduler counts it, and the strict reading of the API's objects that this takes. Pure.

Every reader raises PeerError, `balloon-object`, with the place of what has another form than the API's. What is absent
reads as empty, as Go's zero values are.
Source: PodRequests of k8s.io/component-helpers/resource, with the resources of the status counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from .._core.errors import BallastError
from .._core.quantity import parse_quantity
from .amount import NONE, Amount, total
from .cluster_messages import MESSAGES

Object = Mapping[str, Any]


def pod_requests(pod: Object, where: str) -> Amount:
    """Init containers run one after the other, beside the sidecars that were started before them; what the pod requests
    as a whole counts instead of its containers' sum; a RuntimeClass adds an overhead."""
    spec, status = mapping(pod, "spec", where), mapping(pod, "status", where)
    count = _Counting(where, status)
    running = total(count.container(row) for row in rows(spec, "containers", where))
    sidecars = starting = NONE
    for row in rows(spec, "initContainers", where):
        if row.get("restartPolicy") == "Always":
            sidecars += count.container(row)
        else:
            starting = starting.most(sidecars + amount(mapping(row, "resources", where), "requests", where))
    found = count.whole_pod((running + sidecars).most(starting), spec)
    return found + amount(spec, "overhead", where)


class _Counting:
    """The largest of what is asked for, allocated and actual: room is free only when all three have come down. A resize
    that can never be does not count."""

    def __init__(self, where: str, status: Object) -> None:
        self._where = where
        self._status = status
        groups = [rows(status, name, where) for name in ("containerStatuses", "initContainerStatuses")]
        self._containers = {text(row, "name", where): row for group in groups for row in group}
        self._infeasible = any(
            row.get("type") == "PodResizePending" and row.get("reason") == "Infeasible"
            for row in rows(status, "conditions", where)
        )

    def container(self, container: Object) -> Amount:
        asked = amount(mapping(container, "resources", self._where), "requests", self._where)
        told = self._containers.get(text(container, "name", self._where))
        return asked if told is None or "resources" not in told else self._largest(asked, told)

    def whole_pod(self, containers: Amount, spec: Object) -> Amount:
        """`containers` is their sum, which counts for a resource that the pod does not request as a whole."""
        asked = mapping(mapping(spec, "resources", self._where), "requests", self._where)
        if not asked:
            return containers
        found = amount({"requests": asked}, "requests", self._where)
        found = self._largest(found, self._status) if "resources" in self._status else found
        return Amount(
            found.cpu if "cpu" in asked else containers.cpu,
            found.memory if "memory" in asked else containers.memory,
        )

    def _largest(self, asked: Amount, told: Object) -> Amount:
        actual = amount(mapping(told, "resources", self._where), "requests", self._where)
        there = actual.most(amount(told, "allocatedResources", self._where))
        return there if self._infeasible else there.most(asked)


def amount(values: Object, name: str, where: str) -> Amount:
    """Of `{"cpu": "1750m", "memory": "7Gi"}` under `name`. What is not there is 0."""
    found = mapping(values, name, where)
    return Amount(_thousandths(found, "cpu", where), -(-_thousandths(found, "memory", where) // 1000))


def _thousandths(values: Object, name: str, where: str) -> int:
    written = values.get(name, "0")
    try:
        found = _parsed(written) if isinstance(written, str) else -1
    except BallastError:
        found = -1
    if found < 0:
        raise _wrong(where, f"{name} is no quantity: {written!r}")
    return found


@lru_cache(maxsize=10_000)
def _parsed(written: str) -> int:
    """Thousands of pods write the same few sizes."""
    return parse_quantity(written).thousandths


def mapping(values: Object, name: str, where: str) -> Object:
    found = values.get(name)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise _wrong(where, f"{name} is no object")
    return found


def rows(values: Object, name: str, where: str) -> Sequence[Object]:
    found = values.get(name)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(row, Mapping) for row in found):
        raise _wrong(where, f"{name} is no list of objects")
    return found


def text(values: Object, name: str, where: str) -> str:
    found = values.get(name, "")
    if not isinstance(found, str):
        raise _wrong(where, f"{name} is no text")
    return found


def whole(values: Object, name: str, where: str) -> int:
    found = values.get(name, 0)
    if isinstance(found, bool) or not isinstance(found, int):
        raise _wrong(where, f"{name} is no whole number")
    return found


def _wrong(where: str, found: str) -> BallastError:
    return MESSAGES.error("balloon-object", where=where, found=found)
