# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The CONNECT requests of the API server, and the proxy's answers. Pure.

It dials as an HTTP/1.1 client (k8s.io/apiserver, egressselector): `CONNECT wardle.default.svc:443 HTTP/1.1`. Any answer but
200 ends the connection; the API server logs the status line and returns it to its own client.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from http import HTTPStatus

HEAD_BYTES = 16 * 1024
HEAD_END = b"\r\n\r\n"
_LINE = re.compile(rb"([A-Z]{1,16}) ([!-~]{1,300}) HTTP/1\.[01]")
_FIELD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*")
_TARGET = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9a-fA-F:.]{2,45}\]):([0-9]{1,5})", re.ASCII)


class Refusal(Exception):
    """`status` and `reason` are those of the answer, `result` is its label in the metrics."""

    def __init__(self, status: HTTPStatus, reason: str, result: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.result = result


def refuse_malformed(status: HTTPStatus, reason: str) -> Refusal:
    """A refusal, to be raised, that the metrics count as "malformed"."""
    return Refusal(status, reason, "malformed")


def parse_connect(head: bytes) -> tuple[str, int]:
    """Host, in lower case and without brackets, and port. `head` ends with an empty line. Refusal for any other request."""
    line, *fields = head[: -len(HEAD_END)].split(b"\r\n")
    match = _LINE.fullmatch(line)
    if match is None or not all(_FIELD.fullmatch(field) for field in fields):
        raise refuse_malformed(HTTPStatus.BAD_REQUEST, "this is not HTTP")
    if match[1] != b"CONNECT":
        raise refuse_malformed(HTTPStatus.METHOD_NOT_ALLOWED, "use CONNECT")
    target = _TARGET.fullmatch(match[2].decode("ascii"))
    if target is None or not 1 <= int(target[2]) <= 65535:
        raise refuse_malformed(HTTPStatus.BAD_REQUEST, "CONNECT takes HOST:PORT")
    return target[1].strip("[]").lower(), int(target[2])


ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


def fault_of(error: BaseException) -> str:
    """Why a connection or a handshake failed, as the system or OpenSSL says it."""
    number = getattr(error, "errno", None)
    if isinstance(number, int) and not isinstance(error, (ssl.SSLError, socket.gaierror)):
        return os.strerror(number)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def answer(refusal: Refusal) -> bytes:
    """The whole response that refuses a CONNECT. `?` replaces characters of the reason that are not printable ASCII."""
    reason = "".join(sign if " " <= sign <= "~" else "?" for sign in refusal.reason)
    return f"HTTP/1.1 {refusal.status.value} {reason}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode()
