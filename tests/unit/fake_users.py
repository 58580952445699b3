# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Users and groups of a machine in memory, and the commands that change them and whose group files are of."""

from __future__ import annotations

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from tests.unit.fakes import Call, FakeHost

PASSWD, GROUP = "/etc/passwd", "/etc/group"


class FakeUsers:
    def __init__(self, host: FakeHost) -> None:
        self._host = host
        host.given(PASSWD, "root:x:0:0:root:/root:/bin/sh\n")
        host.given(GROUP, "root:x:0:\nops:x:50:\n")
        for name, answer, reads in (
            ("getent", self._getent, True),
            ("useradd", self._useradd, False),
            ("userdel", self._userdel, False),
            ("groupdel", self._groupdel, False),
            ("stat", self._stat, True),
            ("chmod", self._chmod, False),
            ("chgrp", self._chgrp, False),
        ):
            host.on(name, answer=answer, reads=reads)

    def given(self, name: str, comment: str) -> None:
        self._add(PASSWD, f"{name}:x:901:901:{comment}:/nonexistent:/bin/sh")
        self._add(GROUP, f"{name}:x:901:")

    def group_of(self, path: str) -> str:
        number = str(self._host.owner(path)[1])
        return next((row[0] for row in self._rows(GROUP) if row[2] == number), "UNKNOWN")

    def _rows(self, path: str) -> list[list[str]]:
        return [line.split(":") for line in self._host.text(path).splitlines()]

    def _add(self, path: str, line: str) -> None:
        self._host.given(path, f"{self._host.text(path)}{line}\n")

    def _drop(self, path: str, name: str) -> int:
        kept = [":".join(row) for row in self._rows(path) if row[0] != name]
        self._host.given(path, "".join(f"{line}\n" for line in kept))
        return 0

    def _getent(self, call: Call) -> Completed:
        database, name = call.argv[1:]
        path = {"passwd": PASSWD, "group": GROUP}[database]
        found = [":".join(row) for row in self._rows(path) if row[0] == name]
        return Completed(call.argv, 0 if found else 2, "".join(f"{line}\n" for line in found), "")

    def _useradd(self, call: Call) -> str:
        self.given(call.argv[-1], call.argv[call.argv.index("--comment") + 1])
        return ""

    def _userdel(self, call: Call) -> int:
        return self._drop(PASSWD, call.argv[1])

    def _groupdel(self, call: Call) -> int:
        return self._drop(GROUP, call.argv[1])

    def _stat(self, call: Call) -> str:
        path = call.argv[-1]
        _user, group, mode = self._host.owner(path)
        return f"{self.group_of(path)} {group} {mode:o}\n"

    def _chmod(self, call: Call) -> str:
        user, group, mode = self._host.owner(call.argv[-1])
        mode = mode & ~0o040 if call.argv[1] == "g-r" else int(call.argv[1], 8)
        self._host.given_owner(call.argv[-1], user, group, mode=mode)
        return ""

    def _chgrp(self, call: Call) -> str:
        user, _group, mode = self._host.owner(call.argv[-1])
        number = next(row[2] for row in self._rows(GROUP) if row[0] == call.argv[1])
        self._host.given_owner(call.argv[-1], user, int(number), mode=mode)
        return ""
