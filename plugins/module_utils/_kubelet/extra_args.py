# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""KUBELET_EXTRA_ARGS in the environment file that kubeadm's unit leaves to the administrator. Pure.

The file has lines `NAME=VALUE`, of which the last one with a name counts; a value may be quoted, and a backslash at the end of a line
continues it (systemd.exec(5), EnvironmentFile). Removing what was added restores the file byte for byte.
"""

from __future__ import annotations

import re
from typing import Optional

VARIABLE = "KUBELET_EXTRA_ARGS"
_OWN_LINE = "# ballast: the next line\n"
_OWN_FILE = "# ballast: this file\n"
_ASSIGNMENT = re.compile(rf"^[ \t]*{VARIABLE}=[ \t]*([\"']?)", re.MULTILINE)
_QUOTES = "\"'"


def add_flag(text: Optional[str], flag: str) -> str:
    """The text with `flag` (`--name=value`) first among the arguments. None stands for an absent file."""
    at = _start_of_value(text or "")
    if text is None or at is None:
        # At the beginning, so that the end of the file is unchanged, with or without a line end.
        return f"{_OWN_FILE if text is None else _OWN_LINE}{VARIABLE}={flag}\n{text or ''}"
    follows = text[at : at + 1]
    space = "" if not follows or follows in f"{_QUOTES}\n" else " "
    return f"{text[:at]}{flag}{space}{text[at:]}"


def remove_flag(text: str, flag: str) -> Optional[str]:
    """The text without `flag`; None when the file only has what `add_flag` wrote into an absent one."""
    for heading in (_OWN_FILE, _OWN_LINE):
        own = f"{heading}{VARIABLE}={flag}\n"
        if text.startswith(own):
            rest = text[len(own) :]
            return None if heading == _OWN_FILE and not rest else rest
    at = _start_of_value(text)
    if at is None:
        return text
    end = _end_of_value(text, at)
    value = re.sub(rf"(?<![^\s\"']){re.escape(flag)}(?:[ \t]|(?=[\s\"']|$))", "", text[at:end], count=1)
    return text[:at] + value + text[end:]


def find_flag_value(text: str, name: str) -> str:
    """The value of the flag `--name` among the arguments; "" when it is absent."""
    at = _start_of_value(text)
    if at is None:
        return ""
    words = text[at : _end_of_value(text, at)].replace("\\\n", " ").split()
    for word, following in zip(words, [*words[1:], ""]):
        given, equals, value = word.partition("=")
        if given == f"--{name}":
            return value if equals else following
    return ""


def _start_of_value(text: str) -> Optional[int]:
    """Position of the last assignment's value, after the opening quote; None without an assignment."""
    matches = list(_ASSIGNMENT.finditer(text))
    return matches[-1].end() if matches else None


def _end_of_value(text: str, start: int) -> int:
    quote = text[start - 1] if text[start - 1] in _QUOTES else ""
    end = re.compile(re.escape(quote) if quote else r"(?<!\\)\n").search(text, start)
    return end.start() if end else len(text)
