# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""docs/migrate-a-kubeadm-cluster.md as a reader would follow it: every command of its consoles, and what it says that they print.

The sections are one story and run in the order of the page.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest
import yaml

from tests.integration.console import Command, commands, pattern

SCENARIO = Path(__file__).resolve().parents[1]
ROOT = SCENARIO.parents[1]
PAGE = ROOT / "docs/migrate-a-kubeadm-cluster.md"
LAB_DIR = Path(yaml.safe_load((SCENARIO / "vars/lab.yml").read_text(encoding="utf-8"))["lab_dir"])
SECTIONS = [(name, list(group)) for name, group in groupby(commands(PAGE.read_text("utf-8")), lambda one: one.section)]
_SECONDS = 1500
# What the page says is installed before a command, and a reader's package manager does.
INSTALLED_BEFORE = {
    "kubeadm upgrade apply v1.37.1 --yes": "kubeadm",
    "kubeadm upgrade node": "kubeadm",
    "systemctl restart kubelet": "kubelet",
}


def environment() -> dict[str, str]:
    programs = f"{Path(sys.executable).parent}:{LAB_DIR}/bin"
    return {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build/collections"),
        "ANSIBLE_NOCOLOR": "1",
    }


def on_machine(name: str, line: str) -> list[str]:
    """The command of ssh for a line that is typed on a machine of the lab."""
    lab = json.loads((LAB_DIR / "lab.json").read_text(encoding="utf-8"))
    host = next(row for row in lab["hosts"] if row["name"] == name)
    options = ["-o", f"UserKnownHostsFile={host['known_hosts']}", "-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR"]
    return ["ssh", "-F", "none", "-i", host["ssh_key"], *options, f"{host['user']}@{host['address']}", line]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a reader has: the inventory and the administrator's kubeconfig."""
    place = tmp_path_factory.mktemp("reader")
    source = place / "lab.yml"
    source.write_text(yaml.safe_dump({"plugin": "ballast.kube.lab", "lab_dir": str(LAB_DIR)}), encoding="utf-8")
    argv = ["ansible-inventory", "-i", str(source), "--list", "--yaml", "--export"]
    listed = subprocess.run(argv, env=environment(), cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    (place / "hosts.yml").write_text(listed.stdout, encoding="utf-8")
    source.unlink()
    config = place / "admin.conf"
    config.touch(mode=0o600)
    config.write_bytes((LAB_DIR / "admin.kubeconfig").read_bytes())
    return place


def run(command: Command, place: Path) -> str:
    machine = command.prompt[:-1]
    if machine and command.line in INSTALLED_BEFORE:
        install = on_machine(machine, f"ballast-kubeadm install {INSTALLED_BEFORE[command.line]}")
        subprocess.run(install, stdin=subprocess.DEVNULL, check=True, timeout=_SECONDS)
    argv = on_machine(machine, command.line) if machine else ["bash", "-c", command.line]
    done = subprocess.run(
        argv,
        cwd=place,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    sys.stdout.write(f"{command.prompt} {command.line}\n{done.stdout}")
    assert done.returncode == 0, f"{shlex.join(argv)}: status {done.returncode}"
    return done.stdout


@pytest.mark.parametrize(("section", "typed"), SECTIONS, ids=[name for name, _typed in SECTIONS])
def test_the_page_does_what_it_says(section: str, typed: list[Command], directory: Path) -> None:
    for command in typed:
        printed = run(command, directory)
        as_written = re.search(pattern(command.output), printed) is not None
        assert as_written, f"{command.line}\nis to print:\n{command.output}"
