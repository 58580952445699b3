# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Modules of the collection on this machine, run as an operator runs one: `ansible localhost -m ballast.kube.NAME`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.integration import journal

_ENVIRONMENT = {
    **journal.COLLECTION,
    "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.minimal",
    "ANSIBLE_LOAD_CALLBACK_PLUGINS": "true",
    "ANSIBLE_LOCALHOST_WARNING": "false",
    "ANSIBLE_FORCE_COLOR": "0",  # molecule sets it
}
# With the first, Python reads a module that ansible sends it byte by byte; the second is for tests alone.
_NOT_PASSED_ON = ("PYTHONUNBUFFERED", "PYTHONPATH")


def module(
    name: str,
    /,
    *flags: str,
    fails: bool = False,
    inside: Sequence[str] = (),
    python: str = sys.executable,
    seconds: int = 300,
    **options: object,
) -> dict[str, Any]:
    """What it returns, and as `printed` all that is printed. `inside` is a command that runs it, `python` the interpreter
    on the machine's side. An AssertionError where it fails and was not to, or the other way round."""
    program, *words = journal.module(name, options, python)
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    done = subprocess.run(
        [*inside, str(Path(sys.executable).with_name(program)), *words, *flags],
        env={**kept, **_ENVIRONMENT},
        cwd=journal.ROOT,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert "=> {" in done.stdout, done.stdout + done.stderr
    assert (" | FAILED! => {" in done.stdout) is fails, done.stdout + done.stderr
    result: dict[str, Any] = json.JSONDecoder().raw_decode(done.stdout.partition("=> ")[2])[0]
    return {**result, "printed": done.stdout}
