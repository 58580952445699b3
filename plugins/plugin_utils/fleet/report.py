# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a play reports to its operator, from what modules returned on all hosts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import shorten

Result = Mapping[str, Any]  # in the form of `register`
Results = Mapping[str, Optional[Result]]  # by host; None where the task did not run


@dataclass(frozen=True)
class Report:
    lines: tuple[str, ...]
    failure: str = ""  # the text with which the run ends, on a line of its own; "" if it continues
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_result(self) -> dict[str, Any]:
        """For `register`; facts are on the top level."""
        return {"lines": list(self.lines), "failure": self.failure, **self.facts}


def no_answer(result: Result) -> str:
    """Why a host gave no result; "" if it gave one."""
    if not (result.get("failed") or result.get("unreachable")):
        return ""
    return first_line(result.get("msg") or "no reason given")


def first_line(text: object) -> str:
    """The first line of a message; what was found and what to do are on further lines."""
    return shorten(next(iter(str(text).strip().splitlines()), ""))


def confirmation(prefix: str) -> list[str]:
    """The lines at the end of a preview. `prefix` is that of the playbook's variables."""
    return [
        "this was a preview: nothing was changed",
        f"  do:    read what would happen above, then run the same command again with -e {prefix}_confirm=true",
    ]
