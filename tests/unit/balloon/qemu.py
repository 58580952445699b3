# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A QEMU with one guest, as far as its QMP socket shows it. The socket is real."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MIB = 2**20
GREETING = {"QMP": {"version": {"qemu": {"micro": 2, "minor": 2, "major": 7}, "package": ""}, "capabilities": ["oob"]}}
Serve = Callable[[socket.socket], None]


@contextmanager
def served(path: Path, serve: Serve) -> Iterator[str]:
    """`serve` gets one connection after the other, as QEMU serves one client at a time."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(1)
    thread = threading.Thread(target=_accept, args=(listener, serve), daemon=True)
    thread.start()
    try:
        yield str(path)
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        path.unlink()
        thread.join(timeout=10)
        assert not thread.is_alive()


def _accept(listener: socket.socket, serve: Serve) -> None:
    while True:
        try:
            connection, _address = listener.accept()
        except OSError:
            return
        with connection, contextlib.suppress(OSError):
            serve(connection)


class Refused(Exception):
    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass
class Qemu:
    """A guest with a balloon. It gives `step` bytes each time that it is asked, and never less than `least` stays with it."""

    memory: int = 1024 * MIB
    used: int = 100 * MIB
    cpus: int = 2
    step: int = 64 * MIB
    least: int = 0
    has_device: bool = True
    has_driver: bool = True
    now: Callable[[], float] = lambda: 1_700_001_000.0
    actual: int = 0
    target: int = 0
    interval: int = 0
    told_at: int = 0
    commands: list[str] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)  # values of the command `balloon`

    def __post_init__(self) -> None:
        self.actual = self.target = self.memory

    def serve(self, connection: socket.socket) -> None:
        def say(message: object) -> None:
            connection.sendall(json.dumps(message).encode() + b"\r\n")

        say(GREETING)
        capable = False
        for line in connection.makefile("rb"):
            order = json.loads(line)
            command, arguments = order["execute"], order.get("arguments", {})
            assert capable or command == "qmp_capabilities", "a client first says what it is capable of"
            capable = True
            say({"event": "RTC_CHANGE", "data": {"offset": 1}, "timestamp": {"seconds": 1, "microseconds": 2}})
            try:
                say({"return": self.obey(command, arguments), "id": order["id"]})
            except Refused as error:
                say({"error": {"class": error.kind, "desc": str(error)}, "id": order["id"]})

    def obey(self, command: str, arguments: dict[str, Any]) -> object:
        self.commands.append(command)
        if command == "qmp_capabilities":
            return {}
        if command == "query-cpus-fast":
            return [{"cpu-index": number} for number in range(self.cpus)]
        if command == "query-memory-size-summary":
            return {"base-memory": self.memory, "plugged-memory": 0}
        if command in ("query-balloon", "balloon") and not self.has_device:
            raise Refused("DeviceNotActive", "No balloon device has been activated")
        if command == "query-balloon":
            self._give()
            return {"actual": self.actual}
        if command == "balloon":
            self.target = arguments["value"]
            self.asked.append(self.target)
            return {}
        if command == "qom-list":
            named = arguments["path"] == "/machine/peripheral-anon" and self.has_device
            return [
                {"name": "type", "type": "string"},
                *([{"name": "device[0]", "type": "child<virtio-balloon-pci>"}] if named else []),
            ]
        if command in ("qom-get", "qom-set"):
            assert arguments["path"] == "/machine/peripheral-anon/device[0]"
            return self._property(command, arguments)
        raise Refused("CommandNotFound", f"The command {command} has not been found")

    def _property(self, command: str, arguments: dict[str, Any]) -> object:
        if arguments["property"] == "guest-stats":
            available = self.actual - self.used if self.told_at else 2**64 - 1
            return {"stats": {"stat-available-memory": available}, "last-update": self.told_at}
        assert arguments["property"] == "guest-stats-polling-interval"
        if command == "qom-get":
            return self.interval
        if self.interval == 0 and arguments["value"] and self.has_driver:
            self.told_at = int(self.now())
        self.interval = arguments["value"]
        return {}

    def _give(self) -> None:
        if not self.has_driver:
            return
        wanted = max(self.target, self.least)
        self.actual += max(-self.step, min(self.step, wanted - self.actual))
