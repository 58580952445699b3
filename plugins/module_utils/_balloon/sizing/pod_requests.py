# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a pod requests, as the scheduler counts it, and strict readers of the API's objects. Pure.

Every reader raises PeerError `balloon-object`, naming the part whose form is not the API's. Absent parts read as empty, like
Go's zero values.
Source: PodRequests of k8s.io/component-helpers/resource, with the resources of the status counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..._core.text.errors import BallastError
from ..._core.text.quantity import parse_quantity
from ..cluster.messages import MESSAGES
from .resources import NONE, Resources, total

Object = Mapping[str, Any]


def pod_requests(pod: Object, where: str) -> Resources:
    """The request of a pod. Init containers run in sequence, beside the sidecars started before them; the request of the whole pod
    replaces the sum of its containers; a RuntimeClass adds an overhead."""
    spec, status = mapping(pod, "spec", where), mapping(pod, "status", where)
    count = _Counting(where, status)
    running = total(count.count_container(row) for row in rows(spec, "containers", where))
    sidecars = starting = NONE
    for row in rows(spec, "initContainers", where):
        if row.get("restartPolicy") == "Always":
            sidecars += count.count_container(row)
        else:
            starting = starting.most(sidecars + resources(mapping(row, "resources", where), "requests", where))
    requests = count.count_pod((running + sidecars).most(starting), spec)
    return requests + resources(spec, "overhead", where)


class _Counting:
    """Counts the largest of requested, allocated and actual resources: capacity is free only when all three are lower. An infeasible
    resize does not count."""

    def __init__(self, where: str, status: Object) -> None:
        self._where = where
        self._status = status
        groups = [rows(status, name, where) for name in ("containerStatuses", "initContainerStatuses")]
        self._containers = {text(row, "name", where): row for group in groups for row in group}
        self._infeasible = any(
            row.get("type") == "PodResizePending" and row.get("reason") == "Infeasible"
            for row in rows(status, "conditions", where)
        )

    def count_container(self, container: Object) -> Resources:
        requests = resources(mapping(container, "resources", self._where), "requests", self._where)
        status = self._containers.get(text(container, "name", self._where))
        return requests if status is None or "resources" not in status else self._largest(requests, status)

    def count_pod(self, containers: Resources, spec: Object) -> Resources:
        """`containers` is the containers' sum, used for a resource that the pod does not request as a whole."""
        requests = mapping(mapping(spec, "resources", self._where), "requests", self._where)
        if not requests:
            return containers
        size = resources({"requests": requests}, "requests", self._where)
        size = self._largest(size, self._status) if "resources" in self._status else size
        return Resources(
            size.cpu if "cpu" in requests else containers.cpu,
            size.memory if "memory" in requests else containers.memory,
        )

    def _largest(self, requests: Resources, status: Object) -> Resources:
        actual = resources(mapping(status, "resources", self._where), "requests", self._where)
        there = actual.most(resources(status, "allocatedResources", self._where))
        return there if self._infeasible else there.most(requests)


def resources(values: Object, name: str, where: str) -> Resources:
    """The resources in `{"cpu": "1750m", "memory": "7Gi"}` under `name`. An absent one is 0."""
    value = mapping(values, name, where)
    return Resources(_thousandths(value, "cpu", where), -(-_thousandths(value, "memory", where) // 1000))


def _thousandths(values: Object, name: str, where: str) -> int:
    written = values.get(name, "0")
    try:
        thousandths = _parse(written) if isinstance(written, str) else -1
    except BallastError:
        thousandths = -1
    if thousandths < 0:
        raise _wrong(where, f"{name} is no quantity: {written!r}")
    return thousandths


@lru_cache(maxsize=10_000)
def _parse(written: str) -> int:
    """Cached, as thousands of pods use the same few sizes."""
    return parse_quantity(written).thousandths


def mapping(values: Object, name: str, where: str) -> Object:
    """The object in field `name`; null counts as absent. `where` names the whole in messages, here and below."""
    value = values.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong(where, f"{name} is not an object")
    return value


def rows(values: Object, name: str, where: str) -> Sequence[Object]:
    """The list of objects in field `name`; null counts as absent."""
    value = values.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(row, Mapping) for row in value):
        raise _wrong(where, f"{name} is not a list of objects")
    return value


def text(values: Object, name: str, where: str) -> str:
    """The string in field `name`; null is an error."""
    value = values.get(name, "")
    if not isinstance(value, str):
        raise _wrong(where, f"{name} is not text")
    return value


def whole(values: Object, name: str, where: str) -> int:
    """The integer in field `name`; null is an error."""
    value = values.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(where, f"{name} is not a whole number")
    return value


def _wrong(where: str, detail: str) -> BallastError:
    return MESSAGES.error("balloon-object", where=where, found=detail)
