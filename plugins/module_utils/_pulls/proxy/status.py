# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`ballast-pull-proxy status`: what the running proxy does, as a table or as JSON."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from .messages import MESSAGES
from .place import control_path

_TIMEOUT_SECONDS = 5.0
_MOST_BYTES = 64 * 1024 * 1024
_EVERY_SECONDS = 1.0
_CLEAR = "\x1b[H\x1b[J"
_LIMIT = 100  # characters of a cell


def show_status(directory: str, *, as_json: bool) -> None:
    """Once, or on a terminal again every second until it is interrupted. HostError where no proxy runs."""
    if as_json:
        sys.stdout.write(json.dumps(ask(directory), indent=1) + "\n")
    elif not sys.stdout.isatty():
        sys.stdout.write(table(ask(directory)))
    else:
        _show_live(directory)


def ask(directory: str) -> dict[str, Any]:
    """`Server.status`, of the proxy whose control socket is in `directory`."""
    path = control_path(directory)
    data = bytearray()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
            control.settimeout(_TIMEOUT_SECONDS)
            control.connect(path)
            while len(data) <= _MOST_BYTES:
                part = control.recv(1 << 16)
                if not part:
                    break
                data += part
        answer: dict[str, Any] = json.loads(data)
        return answer
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or str(error)
        raise MESSAGES.error("pulls-not-running", path=path, found=found) from None


def table(status: dict[str, Any]) -> str:
    """Text of several lines. Pure."""
    limit = status["max_in_flight"] or "no limit"
    head = (
        f"{len(status['in_flight'])} in flight (limit {limit}), {len(status['queued'])} queued, "
        f"{status['connections']} connections, up {_duration(status['seconds'])}   {status['config']}"
    )
    rows = [
        *(_row("in flight", pull) for pull in status["in_flight"]),
        *(_row(str(pull["place"] or "retry"), pull) for pull in status["queued"]),
    ]
    titles = ("STATE", "SECONDS", "CALLERS", "LISTENER", "POD", "IMAGE")
    lines = _aligned([titles, *rows]) if rows else []
    return "\n".join([_plain(head), *lines]) + "\n"


def _show_live(directory: str) -> None:
    try:
        while True:
            text = table(ask(directory))
            sys.stdout.write(_CLEAR + text)
            sys.stdout.flush()
            time.sleep(_EVERY_SECONDS)
    except KeyboardInterrupt:
        return


def _row(state: str, pull: dict[str, Any]) -> tuple[str, ...]:
    pods = pull["pods"]
    shown = pods[0] + (f" and {len(pods) - 1} more" if len(pods) > 1 else "") if pods else "-"
    return state, f"{pull['seconds']:.1f}", str(pull["callers"]), pull["listener"], shown, pull["image"]


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    cells = [[_plain(cell)[:_LIMIT] for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    numbers = (1, 2)
    for row in cells:
        placed = [
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        yield "  ".join(placed).rstrip()


def _plain(text: str) -> str:
    """A terminal would obey what somebody wrote into an image's name."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
