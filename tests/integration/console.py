# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The consoles of a page: what a reader types there, and what the page says that it prints."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_FILE = re.compile(r"^```\w+\n# (\S+\.\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = "::: command"
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


def files(page: str) -> dict[str, str]:
    """By path, what the reader writes: blocks whose first line is a comment with a path."""
    return dict(_FILE.findall(page))


def run_commands(found: Sequence[Command], *, cwd: Path, environment: Mapping[str, str], seconds: int) -> None:
    """In one shell, as a reader types them. Fails with the first that fails, or prints something else than the page says."""
    steps = (f"echo '{_MARK} {number}'\n{command.line}\n" for number, command in enumerate(found))
    done = subprocess.run(
        ["bash", "-c", f"set -eu\n{''.join(steps)}echo '{_MARK} {len(found)}'\n"],
        cwd=cwd,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    outputs = re.split(rf"{_MARK} \d+\n", done.stdout)[1:]  # also where the last line before has no end
    assert done.returncode == 0, f"{found[len(outputs) - 1].line}\n{done.stdout}"
    for command, output in zip(found, outputs):
        as_written = re.search(pattern(command.output), output) is not None
        assert as_written, f"{command.line}\nis to print:\n{command.output}\nprinted:\n{output}"


def readers_environment(environment: Mapping[str, str], **variables: str) -> dict[str, str]:
    """What a reader's shell has: nothing of a make or an Ansible that runs these tests."""
    outer = ("MAKEFLAGS", "MAKELEVEL", "ANSIBLE_CONFIG", "ANSIBLE_COLLECTIONS_PATH")
    kept = {name: value for name, value in environment.items() if name not in outer}
    return {**kept, "ANSIBLE_NOCOLOR": "1", **variables}
