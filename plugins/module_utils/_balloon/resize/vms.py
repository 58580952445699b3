# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory of virtual machines as limits of nodes, set by QEMU's memory balloon (virtio-balloon).

Start a machine with all the memory that its node may ever have: its kubelet reads the capacity only once. Memory in QEMU's
balloon is in no cgroup of the guest, so its kubelet counts it as free; only the balloon pod keeps it from pods.

Processors are never removed, as a kubelet would not notice. So these limits only cover memory, and their cpu is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

from ..._core.engine.wait import wait_until
from ..._core.host.host import Host
from ..._core.text.errors import BallastError
from ..._core.text.quantity import format_memory
from ..sizing.resources import Resources
from .limit_messages import MESSAGES, check_pages
from .qmp import Qmp

_POLL_SECONDS = 0.05
_STALL_SECONDS = 10.0  # without progress
_MOVE_SECONDS = 600.0  # for a whole change
_STATISTICS_SECONDS = 5.0
_INTERVAL = "guest-stats-polling-interval"  # seconds; 0 is never
_UNKNOWN = 2**64 - 1  # the value of a figure that the guest does not report (QEMU, hw/virtio/virtio-balloon.c)
_DEVICE_PLACES = ("/machine/peripheral", "/machine/peripheral-anon")  # for devices with an id, and without


class VmLimits:
    """`Limits` of nodes that are virtual machines on this host. `sockets`: by node, the socket of QEMU's option -qmp."""

    def __init__(self, host: Host, sockets: Mapping[str, str]) -> None:
        self._host = host
        self._sockets = sockets

    def most(self, node: str) -> Resources:
        with self._machine(node) as machine:
            return machine.most()

    def read(self, node: str) -> Resources:
        with self._machine(node) as machine:
            return Resources(0, machine.memory())

    def write(self, node: str, limit: Resources) -> None:
        check_pages(node, limit)
        with self._machine(node) as machine:
            machine.set_memory(limit.memory)

    @contextmanager
    def _machine(self, node: str) -> Iterator[_Machine]:
        with Qmp(self._sockets[node], node=node) as qmp:
            yield _Machine(self._host, node, qmp)


class _Machine:
    def __init__(self, host: Host, node: str, qmp: Qmp) -> None:
        self._host = host
        self._node = node
        self._qmp = qmp

    def cpu(self) -> int:
        processors = self._qmp.execute("query-cpus-fast")
        if not isinstance(processors, list):
            raise self._qmp.nonsense("not a list of processors")
        return 1000 * len(processors)

    def most(self) -> Resources:
        summary = self._qmp.execute("query-memory-size-summary")
        plugged = self._number(summary, "plugged-memory") if "plugged-memory" in summary else 0
        return Resources(self.cpu(), self._number(summary, "base-memory") + plugged)

    def memory(self) -> int:
        return self._number(self._qmp.execute("query-balloon"), "actual")

    def set_memory(self, memory: int) -> None:
        before = self.memory()
        if memory > self.most().memory:
            raise self._error("balloon-vm-above", memory)
        if memory < before:
            self._refuse_harm(memory, before)
        if memory == before:
            return
        reached = self._move(memory)
        if reached != memory:
            left = self._move(before)
            raise self._error(
                "balloon-vm-stalled",
                memory,
                detail=f"it reached {format_memory(reached)}, and now has {format_memory(left)}",
            )

    def _refuse_harm(self, memory: int, before: int) -> None:
        """Refuse when the guest's kernel would kill processes. Its available memory is free, or can be freed."""
        available = self._available()
        if available is None:
            raise self._error("balloon-vm-mute", memory)
        if available < before - memory:
            raise self._error(
                "balloon-vm-in-use",
                memory,
                detail=f"{format_memory(available)} of its {format_memory(before)} are unused",
            )

    def _available(self) -> Optional[int]:
        """Available bytes, as the guest reports now; None when it reports nothing, for example without a driver."""
        device = self._device()
        interval = self._get(device, _INTERVAL)
        requested_at = int(self._host.now())

        def new_update() -> Optional[Mapping[str, Any]]:
            update = self._get(device, "guest-stats")
            return update if self._number(update, "last-update") >= requested_at else None

        # When the interval is set from 0, QEMU asks the guest at once. Only a later update counts.
        self._set(device, _INTERVAL, 0)
        self._set(device, _INTERVAL, 1)
        try:
            update = wait_until(self._host, new_update, seconds=_STATISTICS_SECONDS, interval=_POLL_SECONDS)
            available = _UNKNOWN if update is None else self._number(update.get("stats"), "stat-available-memory")
            return None if available == _UNKNOWN else available
        finally:
            self._set(device, _INTERVAL, interval)

    def _device(self) -> str:
        for place in _DEVICE_PLACES:
            for row in self._rows(self._qmp.execute("qom-list", path=place)):
                if str(row.get("type", "")).startswith("child<virtio-balloon"):
                    return f"{place}/{row.get('name')}"
        raise MESSAGES.error("balloon-vm-no-device", node=self._node)

    def _move(self, memory: int) -> int:
        """Set the size. Returns the memory that the machine has at the end: the size, or where it made no more progress."""
        self._qmp.execute("balloon", value=memory)
        nearest, stalled = self.memory(), self._host.monotonic() + _STALL_SECONDS

        def has_ended() -> bool:
            nonlocal nearest, stalled
            reached = self.memory()
            if abs(reached - memory) < abs(nearest - memory):
                nearest, stalled = reached, self._host.monotonic() + _STALL_SECONDS
            return nearest == memory or self._host.monotonic() >= stalled

        wait_until(self._host, has_ended, seconds=_MOVE_SECONDS, interval=_POLL_SECONDS)
        return nearest

    def _get(self, device: str, name: str) -> Any:
        return self._qmp.execute("qom-get", path=device, property=name)

    def _set(self, device: str, name: str, value: object) -> None:
        self._qmp.execute("qom-set", path=device, property=name, value=value)

    def _rows(self, answer: object) -> list[Mapping[str, Any]]:
        if not isinstance(answer, list) or not all(isinstance(row, dict) for row in answer):
            raise self._qmp.nonsense("not a list of objects")
        return answer

    def _number(self, answer: object, name: str) -> int:
        value = answer.get(name) if isinstance(answer, dict) else None
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _UNKNOWN:
            raise self._qmp.nonsense(f"no number {name}")
        return value

    def _error(self, id: str, limit: int, *, detail: str = "") -> BallastError:
        return MESSAGES.error(id, found=detail, node=self._node, limit=format_memory(limit))
