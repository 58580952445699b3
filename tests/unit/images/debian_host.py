# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine whose packages are a table, on a real file system, and one run of the module there."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Event, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Plan
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import NOTHING, Completed
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import CommandFailed
from ansible_collections.ballast.kube.plugins.module_utils._images.definitions import ImageArchiveRequest
from ansible_collections.ballast.kube.plugins.module_utils._images.engine import ENGINE

REQUEST: dict[str, Any] = {
    "images": ["busybox", "pause"],
    "names": {},
    "definitions": [],
    "state": "present",
}
DEFINITION: dict[str, Any] = {
    "name": "example.local/tool:1",
    "packages": ["tool"],
    "whole": [],
    "files": [{"path": "/tool", "source": "/usr/bin/tool", "content": None}],
    "directories": [],
    "links": [],
    "entrypoint": ["/tool"],
    "cmd": [],
    "env": {},
    "user": "",
    "working_dir": "",
}


class DebianHost(LocalHost):
    """Answers for apt and dpkg out of a table of packages; refuses every other command."""

    def __init__(self, *, installed: Sequence[str] = (), umask: int = 0o022) -> None:
        self.commands: list[str] = []
        self.installed = installed
        self.umask = umask
        self.sources: list[str] = []
        self.fetched_by: set[str] = set()
        self.packages = {
            "catatonit": ("0.1.7-1", {"usr/bin/catatonit": b"ELF catatonit"}),
            # Debian 12 has it in /bin, Debian 13 in /usr/bin.
            "busybox-static": ("1:1.35.0-4", {"bin/busybox": b"ELF busybox"}),
            "tool": ("2", {"usr/bin/tool": b"tool", "usr/share/doc/tool/copyright": b"GPL"}),
        }

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        env: Mapping[str, str] = NOTHING,
        check: bool = True,
        cwd: Optional[str] = None,
    ) -> Completed:
        self.commands.append(" ".join(argv[:2]))
        name = argv[-1].partition("=")[0]
        if argv[:2] == ["dpkg", "--print-architecture"]:
            return self._said(argv, "amd64\n")
        if argv[:2] == ["dpkg-query", "--show"]:
            return self._said(argv, f"installed {self.packages[name][0]}" if name in self.installed else "")
        if argv[:2] == ["dpkg-query", "--listfiles"]:
            return self._said(argv, "\n".join(f"/{path}" for path in self.packages[name][1]))
        if argv[0] == "apt-get":
            self._note_source(argv)
            if "update" in argv:
                return self._said(argv, "")
            assert cwd is not None
            for word in argv[argv.index("download") + 1 :]:
                name = word.partition("=")[0]
                if name not in self.packages:
                    raise CommandFailed(argv, status=100, output=f"E: Unable to locate package {name}")
                version = self.packages[name][0].replace(":", "%3a")
                Path(cwd, f"{name}_{version}_amd64.deb").write_bytes(b"")
            return self._said(argv, "")
        if argv[:2] == ["dpkg-deb", "--extract"]:
            for path, data in self.packages[Path(argv[2]).name.partition("_")[0]][1].items():
                file = Path(argv[3], path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
                file.chmod(0o777 & ~self.umask)
            return self._said(argv, "")
        raise AssertionError(f"unexpected command {argv}")

    def _note_source(self, argv: Sequence[str]) -> None:
        """Which lists a command of apt-get uses: those that a file names, or this machine's own."""
        options = dict(word.split("=", 1) for word in argv if word.startswith(("Dir::", "APT::")))
        listed = options.get("Dir::Etc::SourceList")
        if listed is None:
            self.fetched_by.add("")
            return
        line = Path(listed).read_text(encoding="utf-8").rstrip()
        assert Path(listed).stat().st_mode & 0o077 == 0, "an address may hold a password"
        assert options["Dir::Etc::SourceParts"] == "/dev/null"
        assert Path(options["Dir::State::Lists"]).is_dir()
        if "update" in argv:
            self.sources.append(re.sub(r"https?://\S+", "URL", line))
        else:
            self.fetched_by.add(line.split()[-2])

    def _said(self, argv: Sequence[str], text: str) -> Completed:
        return Completed(argv=tuple(argv), status=0, stdout=text, stderr="")


class Events:
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def emit(self, event: Event) -> None:
        self.told.append((event.kind, event.subject))


def desired(path: Path, **changes: Any) -> ImageArchiveRequest:
    return ImageArchiveRequest.from_params({"path": str(path), **REQUEST, **changes})


def bring_about(wanted: ImageArchiveRequest, host: LocalHost) -> Plan:
    """One run of the module; the second of two has an empty plan."""
    plan = ENGINE.plan(wanted, ENGINE.observe(Context(wanted, host)))
    progress = Progress(Events(), feature="images")
    ENGINE.apply(plan, Context(wanted, host, progress))
    assert ENGINE.verify(Context(wanted, host, progress)) == []
    return plan


def layer_of(path: Path, name: str) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(path) as archive:

        def load(member: str) -> bytes:
            found = archive.extractfile(member)
            assert found is not None
            return found.read()

        docker = json.loads(load("manifest.json"))
        wanted = next(entry for entry in docker if entry["RepoTags"] == [name])
        with tarfile.open(fileobj=io.BytesIO(load(wanted["Layers"][0]))) as layer:
            return {member.name: member for member in layer}
