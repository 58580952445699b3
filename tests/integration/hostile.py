# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An unprivileged user of the machine who means harm: `nobody`, with a directory of its own and processes of any name.
docs/security.md says what such a user can and cannot do."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.integration.processes import ended

_SECONDS = 60


class Attacker:
    """`home` is a directory that only this user and root may enter."""

    def __init__(self, home: Path) -> None:
        user = pwd.getpwnam("nobody")
        self.uid, self.gid, self.home = user.pw_uid, user.pw_gid, home
        os.chown(home, self.uid, self.gid)
        self._running: list[subprocess.Popen[bytes]] = []

    def run(self, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """A command of the attacker's, to its end; any status."""
        return subprocess.run(
            argv,
            cwd=self.home,
            user=self.uid,
            group=self.gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )

    def start(self, argv: Sequence[str], *, executable: str | None = None) -> int:
        """A process that calls itself `argv[0]`, whatever program `executable` is. It ends with the attacker. Answers its pid."""
        process = subprocess.Popen(
            argv,
            executable=executable,
            cwd=self.home,
            user=self.uid,
            group=self.gid,
            extra_groups=[],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._running.append(process)
        return process.pid

    def write(self, files: Mapping[str, str]) -> None:
        """Files of the attacker's, by path below `home`."""
        for name, text in files.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            for place in (path, *path.parents):
                if self.home in place.parents:
                    os.chown(place, self.uid, self.gid)

    def end(self) -> None:
        for process in self._running:
            with suppress(subprocess.TimeoutExpired):
                ended(process)


@contextmanager
def attacker() -> Iterator[Attacker]:
    home = Path(tempfile.mkdtemp(prefix="ballast-hostile-"))
    made = Attacker(home)
    try:
        yield made
    finally:
        made.end()
        shutil.rmtree(home)
