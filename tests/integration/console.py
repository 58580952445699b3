# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The consoles of a page: what a reader types there, and what the page says that it prints."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    section: str  # the page's heading above it; "" where there is none
    prompt: str  # "#", "$", or "vm1#" of a machine by name
    line: str
    output: str  # as the page has it; nothing is asked of it where it is empty


def commands(page: str) -> list[Command]:
    """In each ```console: a line that begins with a prompt is a command, and what follows is what it prints."""
    found = []
    parts = _HEADING.split(page)
    for section, text in zip(["", *parts[1::2]], parts[::2]):
        for block in _BLOCK.findall(text):
            pieces = re.split(r"^((?:[a-z]+[0-9]+)?[$#]) ", block, flags=re.MULTILINE)
            for prompt, rest in zip(pieces[1::2], pieces[2::2]):
                line, _newline, output = rest.partition("\n")
                found.append(Command(section, prompt, line, output))
    return found


def pattern(output: str) -> str:
    """`...` stands for anything; columns may be wider or narrower."""
    words = [re.escape(word) for word in output.split()]
    return r"\s*".join(words).replace(re.escape("..."), r"[\s\S]*?")
