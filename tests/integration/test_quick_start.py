# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""docs/quick-start.md as a reader would follow it: every command of its consoles, in one shell, and what it says they print."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.console import Command, commands, pattern
from tests.integration.lab import ROOT, lab_named

PAGE = ROOT / "docs/quick-start.md"
MARK = "::: command"
SECONDS = 900


def script(found: list[Command]) -> str:
    """Ends at the first command that fails."""
    steps = (f"echo '{MARK} {number}'\n{command.line}\n" for number, command in enumerate(found))
    return "set -eu\n" + "".join(steps) + f"echo '{MARK} {len(found)}'\n"


def printed(output: str) -> list[str]:
    return re.split(rf"^{MARK} \d+\n", output, flags=re.MULTILINE)[1:]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a lab")
def test_the_quick_start_does_what_it_says(tmp_path: Path) -> None:
    with lab_named("quick") as lab:
        page = PAGE.read_text(encoding="utf-8")
        places = {"/var/lib/ballast/lab": lab.directory}
        places.update({f"/root/{name}": f"{tmp_path}/{name}" for name in ("ballast.yml", "ballast-readiness")})
        for written, here in places.items():
            assert written in page
            page = page.replace(written, here)
        found = commands(page)
        # The variables of make and of the inventory plugin, so that the commands stay as they are on the page.
        environment = {
            **os.environ,
            "LAB_DIR": lab.directory,
            "LAB_NAME": lab.name,
            "HOME": str(tmp_path),
            "ANSIBLE_NOCOLOR": "1",
        }
        for outer in (
            "MAKEFLAGS",
            "MAKELEVEL",
            "ANSIBLE_CONFIG",
            "ANSIBLE_COLLECTIONS_PATH",
        ):  # a reader has none of them
            environment.pop(outer, None)
        argv = ["bash", "-c", script(found)]
        done = subprocess.run(
            argv,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        outputs = printed(done.stdout)
        assert done.returncode == 0, f"{found[len(outputs) - 1].line}\n{done.stdout}"
        for command, output in zip(found, outputs):
            as_written = re.search(pattern(command.output), output) is not None
            assert as_written, f"{command.line}\nis to print:\n{command.output}\nprinted:\n{output}"
        assert not Path(lab.directory).exists()
