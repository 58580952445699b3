# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors for people: what was asked, what was found, what to do, a stable id.

    BallastError
     ├─ UserError     the input must change
     │   └─ Problems  several of them, reported at once
     ├─ HostError     this machine cannot, as it is
     │   ├─ Unavailable    a tool is missing, which is never the same as an empty answer
     │   └─ CommandFailed  a command ended with a status other than 0
     ├─ PeerError     an API, a runtime or another machine said no, or did not answer
     └─ Bug           ours, the only one that is shown with a traceback

A feature keeps its ids in one table (`Messages`); errors, preflight and the troubleshooting page draw on it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .packages import UNKNOWN, Distribution, install_command, package_of
from .redaction import redact, redact_argv, redact_message

PAGE = "docs/reference/errors-core.md"  # of the ids that all features share
_VALUE_LIMIT = 200  # characters of a value that a message repeats
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_OUTPUT_LINES = 20  # last lines of a command's output that a message repeats


class BallastError(Exception):
    """`text` says what was asked and why it failed; `found` what is on the machine; `remedy` is a command or a setting."""

    exit_code = 1

    def __init__(self, text: str, *, id: str, found: str = "", remedy: str = "", page: str = "") -> None:
        self.text = redact_message(text)
        super().__init__(self.text)
        self.id = id
        self.found = redact(found)
        self.remedy = redact_message(remedy)
        self.page = page

    @property
    def in_one_line(self) -> str:
        """What was asked and what was found, for places with room for one line only."""
        return f"{self.text}: {self.found}" if self.found else self.text

    def __str__(self) -> str:
        where = f"   ({self.page}#{self.id})" if self.page else ""
        rows = [("found: ", self.found), ("do:    ", self.remedy), ("id:    ", self.id + where)]
        lines = [label + value.replace("\n", "\n         ") for label, value in rows if value]
        return "\n  ".join([self.text, *lines])


class UserError(BallastError):
    exit_code = 2


class Problems(UserError):
    """Every input error of one request. Call `raise_if`: an empty list is no error."""

    def __init__(self, problems: Sequence[BallastError]) -> None:
        super().__init__(f"{len(problems)} problems in the request", id="problems")
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)

    @staticmethod
    def raise_if(problems: Sequence[BallastError]) -> None:
        if len(problems) == 1:
            raise problems[0]
        if problems:
            raise Problems(problems)

    @staticmethod
    def of(error: BallastError) -> tuple[BallastError, ...]:
        """Each error that `error` stands for: those of a Problems, else itself."""
        return error.problems if isinstance(error, Problems) else (error,)


class HostError(BallastError):
    exit_code = 3


class Unavailable(HostError):
    """The remedy names the install command of `distribution`, the machine's own; `package` is Debian's name."""

    def __init__(self, tool: str, *, package: str = "", distribution: Distribution = UNKNOWN) -> None:
        super().__init__(
            TOOL_MISSING.text.format(tool=tool),
            id=TOOL_MISSING.id,
            remedy=TOOL_MISSING.remedy.format(command=install_command(distribution, [package or package_of(tool)])),
            page=PAGE,
        )
        self.tool = tool


class CommandFailed(HostError):
    """The command is printed so that it can be pasted; its output is data and is shown capped."""

    def __init__(self, argv: Sequence[str], *, status: int, output: str) -> None:
        super().__init__(
            COMMAND_FAILED.text.format(status=status, command=shlex.join(redact_argv(argv))),
            id=COMMAND_FAILED.id,
            found=last_lines(output) or "no output",
            page=PAGE,
        )
        self.status = status
        self.output = output


class PeerError(BallastError):
    exit_code = 4


class Bug(BallastError):
    exit_code = 70


@dataclass(frozen=True)
class Message:
    """One row of a feature's table. `text` and `remedy` are templates over the fields given to `Messages.error`."""

    id: str
    error: type[BallastError]
    text: str
    remedy: str


# The message of `Unavailable`, here because that class cannot import a table that refers to it.
TOOL_MISSING = Message(
    id="core-tool-missing", error=HostError, text="{tool} is not on this machine", remedy="install it: {command}"
)
COMMAND_FAILED = Message(
    id="core-command-failed", error=HostError, text="command ended with status {status}: {command}", remedy=""
)


class Whole(str):
    """A field of a message that is never shortened: a list from which the reader is to choose."""

    __slots__ = ()


class Messages:
    """The table of a feature. Two rows with one id, or an id of unusual form, are refused on import."""

    def __init__(self, page: str, rows: Iterable[Message]) -> None:
        self.page = page
        self.rows: dict[str, Message] = {}
        for row in rows:
            if row.id in self.rows or not _ID.fullmatch(row.id):
                raise ValueError(f"message id {row.id!r} is taken or is not kebab-case")
            self.rows[row.id] = row

    def error(self, id: str, *, found: str = "", **fields: object) -> BallastError:
        """The error of a row. Field values are shortened, unless they are `Whole`."""
        shown = {name: value if isinstance(value, Whole) else shorten(str(value)) for name, value in fields.items()}
        return self.rows[id].error(**self.texts(id, found=found, **shown))

    def texts(self, id: str, *, found: str = "", **fields: object) -> dict[str, str]:
        """The keyword arguments of an error class or a Finding. Long field values are not shortened."""
        row = self.rows[id]
        text, remedy = row.text.format(**fields), row.remedy.format(**fields)
        return {"text": text, "id": id, "found": found, "remedy": remedy, "page": self.page}


def shorten(text: str, *, limit: int = _VALUE_LIMIT) -> str:
    """At most `limit` characters of `text`, plus a count of those cut from its middle: output of programs often ends with
    the reason."""
    if len(text) <= limit:
        return text
    begin = limit // 2
    return f"{text[:begin]}... ({len(text) - limit} characters left out) ...{text[begin - limit :]}"


def plain_text(text: str) -> str:
    """`text` on one line, without control characters, which a terminal would interpret."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def last_lines(text: str, *, limit: int = _OUTPUT_LINES, width: int = _VALUE_LIMIT) -> str:
    """The last `limit` lines of `text`, each shortened to `width`, headed by a count of what was left out."""
    lines = text.strip().splitlines()
    kept = [shorten(plain_text(line), limit=width) for line in lines[-limit:]]
    left_out = len(lines) - len(kept)
    return "\n".join([f"({left_out} earlier lines left out)", *kept] if left_out else kept)
