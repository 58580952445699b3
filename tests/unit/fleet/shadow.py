# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbooks of this collection, run as an operator runs them, on hosts that a file describes.

In a copy of the collection made of links, modules that touch a node are replaced by one action plugin, which answers from that file and
writes down what it was asked.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
STAND_IN = Path(__file__).with_name("stand_in.py")
REPLACED = (
    "kube_proxy_info",
    "kube_proxy_change",
    "kube_proxy_cleanup",
    "kube_proxy_daemonset",
    "image_pull_proxy",
    "image_pull_proxy_info",
    "image_pulls",
    "image_pulls_info",
    "image_pull_priority",
    "balloon",
    "balloon_info",
)


@dataclass
class Done:
    status: int
    output: str

    def lines_of(self, task: str) -> list[str]:
        """What a task printed, the first time that it ran."""
        _before, mark, after = self.output.partition(f"TASK [{task}]")
        assert mark, self.output
        return list(itertools.takewhile(lambda line: not line.startswith("ok: ["), after.splitlines()[1:]))


class Fleet:
    def __init__(self, directory: Path, replaced: Sequence[str] = REPLACED) -> None:
        self.directory = directory
        self._replaced = replaced
        self._shadow = directory / "collections/ansible_collections/ballast/kube"
        self._make_links()

    def _make_links(self) -> None:
        plugins = self._shadow / "plugins"
        plugins.mkdir(parents=True)
        for path in ROOT.iterdir():
            if path.name not in ("plugins", ".git", ".venv", ".build"):
                (self._shadow / path.name).symlink_to(path)
        for path in (ROOT / "plugins").iterdir():
            if path.name != "action":
                (plugins / path.name).symlink_to(path)
        (plugins / "action").mkdir()
        for path in (ROOT / "plugins/action").glob("*.py"):
            if path.stem not in self._replaced:
                (plugins / "action" / path.name).symlink_to(path)
        for name in self._replaced:
            (plugins / "action" / f"{name}.py").symlink_to(STAND_IN)

    def run(
        self, playbook: str, *arguments: str, hosts: Mapping[str, Mapping[str, Any]], variables: Mapping[str, Any]
    ) -> Done:
        """`hosts` are what the stand-ins answer, by host and module; a key `vars` has variables of the inventory."""
        (self.directory / "answers.json").write_text(json.dumps(hosts))
        inventory = {"all": {"hosts": {name: row.get("vars", {}) for name, row in hosts.items()}}}
        (self.directory / "hosts.json").write_text(json.dumps(inventory))
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(self.directory / "collections"),
            "ANSIBLE_HOME": str(self.directory / "home"),
            "ANSIBLE_LOCAL_TEMP": str(self.directory / "tmp"),
            "ANSIBLE_REMOTE_TMP": str(self.directory / "tmp"),
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_FORCE_COLOR": "0",
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "ANSIBLE_GATHERING": "explicit",
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
            "BALLAST_STAND_IN": str(self.directory),
        }
        environment.pop("ANSIBLE_CONFIG", None)
        argv = [
            str(Path(sys.executable).with_name("ansible-playbook")),
            f"ballast.kube.{playbook}",
            "-i",
            str(self.directory / "hosts.json"),
            "-e",
            json.dumps(variables),
            *arguments,
        ]
        done = subprocess.run(
            argv, cwd=self.directory, env=environment, capture_output=True, text=True, timeout=500, check=False
        )
        return Done(done.returncode, done.stdout + done.stderr)

    def calls(self, module: str = "") -> list[tuple[str, str, dict[str, Any]]]:
        """Host, module, options, in order."""
        log = self.directory / "calls.jsonl"
        rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [(host, name, options) for host, name, options in rows if module in ("", name)]
