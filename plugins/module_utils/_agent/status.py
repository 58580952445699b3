# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command `status`: what the running program reports about itself, as a table or as JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Callable

from .._core.host.bounded import read_socket
from .._core.host.host import READ_LIMIT
from .._core.text.errors import HostError
from .._core.text.json_text import parse_json
from .._core.text.redaction import redact_json
from .identity import Agent
from .place import control_path, peer_user

if TYPE_CHECKING:
    import asyncio

_TIMEOUT_SECONDS = 5.0
_EVERY_SECONDS = 1.0
_CLEAR = "\x1b[H\x1b[J"
_LIMIT = 100  # characters of a cell


def show_status(agent: Agent, directory: str, table: Callable[[dict[str, Any]], str], *, as_json: bool) -> None:
    """Show the status once, or on a terminal every second until interrupted. HostError if the program is not running."""
    if as_json:
        sys.stdout.write(json.dumps(ask(agent, directory), indent=1) + "\n")
    elif not sys.stdout.isatty():
        sys.stdout.write(table(ask(agent, directory)))
    else:
        _show_live(agent, directory, table)


def ask(agent: Agent, directory: str) -> dict[str, Any]:
    """The status of the program whose control socket is in `directory`."""
    path = control_path(directory)
    try:
        answer: dict[str, Any] = parse_json(read_socket(path, timeout=_TIMEOUT_SECONDS, limit=READ_LIMIT))
        return answer
    except (OSError, ValueError, HostError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "text", None) or str(error)
        raise agent.error("not-running", path=path, found=reason) from None


async def answer_status(status: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """Send the status to a client of the control socket."""
    import asyncio  # only the running program has it loaded; the client does not need it

    try:
        if peer_user(writer.get_extra_info("socket")) not in (0, os.geteuid()):
            return  # somebody has opened the socket to other users
        writer.write(json.dumps(redact_json(status)).encode())
        await asyncio.wait_for(writer.drain(), _TIMEOUT_SECONDS)
    except (OSError, asyncio.TimeoutError):
        pass
    finally:
        writer.close()


def align_rows(rows: Sequence[Sequence[str]], *, numbers: Collection[int]) -> Iterable[str]:
    """The lines of a table; columns in `numbers` are aligned to the right."""
    cells = [[printable(cell)[:_LIMIT] for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        placed = [
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        yield "  ".join(placed).rstrip()


def printable(text: str) -> str:
    """Text without control characters, which a terminal would interpret."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def format_duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _show_live(agent: Agent, directory: str, table: Callable[[dict[str, Any]], str]) -> None:
    try:
        while True:
            text = table(ask(agent, directory))
            sys.stdout.write(_CLEAR + text)
            sys.stdout.flush()
            time.sleep(_EVERY_SECONDS)
    except KeyboardInterrupt:
        return
