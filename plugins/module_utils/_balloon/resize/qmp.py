# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client of the QEMU Machine Protocol (QMP), over the unix socket of one virtual machine.

    with Qmp("/run/vm1/qmp.sock", node="n1") as qmp:
        qmp.execute("balloon", value=2**30)

Uses only the standard library, as it runs on nodes: QEMU's own qemu.qmp needs asyncio, and no node has it. It sends a command and
reads the answer. It skips events, as QEMU rate-limits the interesting ones: values are queried instead.

Answers are untrusted: lines have a length limit, answers a deadline, and anything but QMP is an error.

Source: QEMU, docs/interop/qmp-spec.rst.
"""

from __future__ import annotations

import json
import socket
import time
from types import TracebackType
from typing import Any, Optional

from ..._core.text.errors import BallastError, last_lines, shorten
from ..._core.text.json_text import parse_json
from .limit_messages import MESSAGES

_SECONDS = 10.0  # for an answer; a running QEMU answers in milliseconds
_LINE_LIMIT = 2**20  # bytes; the longest answer we ask for, a list of processors, is below 64 KiB
_CHUNK = 2**16
_NO_DEVICE = "DeviceNotActive"  # an error class (qapi/error.json); of the commands used here, only those of the balloon return it


class Qmp:
    """One connection, for a `with` block: QEMU serves one client at a time, so close it soon. `node` is for messages.

    Every method raises PeerError: `balloon-qmp-absent`, `-silent`, `-answer`, `-refused`, or `balloon-vm-no-device`.
    """

    def __init__(self, path: str, *, node: str, seconds: float = _SECONDS) -> None:
        self._path = path
        self._node = node
        self._seconds = seconds
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._read = b""  # received, but not parsed yet
        self._number = 0

    def __enter__(self) -> Qmp:
        try:
            self._connect()
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._socket.close()

    def execute(self, command: str, **arguments: object) -> Any:
        """The value that QEMU returns. Argument names are sent unchanged, with underscores."""
        self._number += 1
        order = {"execute": command, "arguments": arguments, "id": self._number}
        deadline = time.monotonic() + self._seconds
        self._send(json.dumps(order).encode() + b"\n", deadline)
        while True:
            answer = self._read_message(deadline)
            if "event" in answer:
                continue
            if answer.get("id") != self._number:
                raise self.nonsense("a response to another request")
            if "error" in answer:
                raise self._refusal(command, answer["error"])
            if "return" not in answer:
                raise self.nonsense("a response without a value")
            return answer["return"]

    def _connect(self) -> None:
        deadline = time.monotonic() + self._seconds
        self._socket.settimeout(self._seconds)
        try:
            self._socket.connect(self._path)
        except (BlockingIOError, socket.timeout) as error:  # too many clients are waiting
            raise self._silent_error() from error
        except OSError as error:
            raise self._absent_error(error) from error
        greeting = self._read_message(deadline)
        if not isinstance(greeting.get("QMP"), dict):
            raise self.nonsense("no greeting")
        self.execute("qmp_capabilities")

    def _send(self, data: bytes, deadline: float) -> None:
        self._socket.settimeout(self._seconds_left(deadline))
        try:
            self._socket.sendall(data)
        except socket.timeout as error:
            raise self._silent_error() from error
        except OSError as error:
            raise self._absent_error(error) from error

    def _read_message(self, deadline: float) -> dict[str, Any]:
        """The next line, a JSON object."""
        while b"\n" not in self._read:
            if len(self._read) > _LINE_LIMIT:
                raise self.nonsense(f"a line of more than {_LINE_LIMIT} bytes")
            self._read += self._receive(deadline)
        line, _newline, self._read = self._read.partition(b"\n")
        try:
            message = parse_json(line)
        except ValueError as error:
            raise self.nonsense("no JSON") from error
        if not isinstance(message, dict):
            raise self.nonsense("no object")
        return message

    def _receive(self, deadline: float) -> bytes:
        self._socket.settimeout(self._seconds_left(deadline))
        try:
            data = self._socket.recv(_CHUNK)
        except socket.timeout as error:
            raise self._silent_error() from error
        except OSError as error:
            raise self._absent_error(error) from error
        if not data:
            raise self._absent_error(ConnectionError("it closed the connection"))
        return data

    def _seconds_left(self, deadline: float) -> float:
        left = deadline - time.monotonic()
        if left <= 0:
            raise self._silent_error()
        return left

    def _absent_error(self, error: OSError) -> BallastError:
        reason = error.strerror or str(error)
        return MESSAGES.error("balloon-qmp-absent", found=reason, node=self._node, path=self._path)

    def _silent_error(self) -> BallastError:
        return MESSAGES.error("balloon-qmp-silent", node=self._node, path=self._path, seconds=f"{self._seconds:g}")

    def nonsense(self, what: str) -> BallastError:
        """The error for an answer that the caller does not recognize as QMP's."""
        return MESSAGES.error("balloon-qmp-answer", found=what, node=self._node, path=self._path)

    def _refusal(self, command: str, error: object) -> BallastError:
        if not isinstance(error, dict):
            return self.nonsense("an error that is not an object")
        kind, text = str(error.get("class", "")), str(error.get("desc", ""))
        id = "balloon-vm-no-device" if kind == _NO_DEVICE else "balloon-qmp-refused"
        return MESSAGES.error(id, found=shorten(last_lines(text)), node=self._node, command=command)
