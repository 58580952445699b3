# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pull proxy as a node runs it: one file, by the system's Python with Debian's packages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._agent.program import ZipappKind, program
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from tests.integration.processes import ended, started

PYTHON = "/usr/bin/python3"
_START_SECONDS = 60
_STATUS_SECONDS = 30


@dataclass
class PullProxy:
    """`settings` is the YAML file's document, without the listeners."""

    place: Path
    runtimes: Mapping[str, str]  # a runtime's socket by the listener's name
    settings: dict[str, Any]
    python: str = PYTHON
    process: Optional[subprocess.Popen[bytes]] = field(default=None, repr=False)

    @property
    def config(self) -> Path:
        return self.place / "config.yml"

    @property
    def log(self) -> Path:
        return self.place / "proxy.log"

    @property
    def environment(self) -> dict[str, str]:
        """A host has one proxy, this machine perhaps one that is no test's: that of a test has its own place, as systemd gives it."""
        return {"RUNTIME_DIRECTORY": f"{self.place}/run", "PYTHONPATH": ""}

    def socket(self, name: str) -> str:
        return f"{self.place}/sockets/{name}.sock"

    def build(self) -> None:
        target = str(self.place / "ballast-pull-proxy")
        made = program(target, packages=["_agent", "_core", "_pulls"], main="_pulls.proxy.main.main", group="proxy")
        ZipappKind().write(Context(None, LocalHost()), target, made.value, ABSENT)

    def write(self, **settings: object) -> None:
        """The file, with these changed."""
        self.settings.update(settings)
        listeners = [
            {"socket": self.socket(name), "runtime": runtime, "name": name} for name, runtime in self.runtimes.items()
        ]
        self.config.write_text(json.dumps({"listeners": listeners, **self.settings}), encoding="utf-8")

    def argv(self, *command: str) -> list[str]:
        return [self.python, str(self.place / "ballast-pull-proxy"), *command, "--config", str(self.config)]

    def start(self) -> None:
        """Until it tells its status."""
        self.process = started(self.argv(), self.log, env=self.environment)
        deadline = time.monotonic() + _START_SECONDS
        while self._ask_status().returncode != 0:
            assert self.process.poll() is None, self.log.read_text(encoding="utf-8")
            assert time.monotonic() < deadline, "the proxy does not start"
            time.sleep(0.1)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Its exit status."""
        assert self.process is not None
        process, self.process = self.process, None
        return ended(process, number)

    def reload(self, **settings: object) -> None:
        assert self.process is not None
        self.write(**settings)
        self.process.send_signal(signal.SIGHUP)

    def status(self) -> dict[str, Any]:
        done = self._ask_status()
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def _ask_status(self) -> subprocess.CompletedProcess[str]:
        argv = self.argv("status", "--json")
        env = {**os.environ, **self.environment}
        return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=_STATUS_SECONDS, check=False)


@contextmanager
def pull_proxy(
    place: Path, runtimes: Mapping[str, str], *, python: str = PYTHON, **settings: object
) -> Iterator[PullProxy]:
    """Started, and ended with the block unless that has been done in it."""
    os.makedirs(place, exist_ok=True)
    made = PullProxy(place, runtimes, {}, python)
    made.build()
    made.write(**settings)
    try:
        made.start()
        yield made
    finally:
        if made.process is not None:
            made.stop(signal.SIGKILL)
