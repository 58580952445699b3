# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Our own packages as one file that Python runs: for what has to work on a node when no Ansible is there."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from .host import Host
from .kinds import digest
from .plan import ABSENT, Resource, Value

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive can hold
_TOP = "ballast"  # the package that ours are in there


def program(path: str, *, packages: Sequence[str], main: str, group: str) -> Resource:
    """`packages` are those of module_utils that it holds, with all below them, as paths; `main` is the dotted name of a
    function that is called without arguments: `_instance.restore.main`."""
    return Resource(
        kind="program",
        target=path,
        value={"packages": list(packages), "main": main, "digest": sources_digest(packages)},
        title=f"program {path}",
        group=group,
    )


class ZipappKind:
    """`{packages, main, digest}`, the digest of the sources."""

    def read(self, host: Host, target: str) -> Value:
        data = host.read(target)
        if data is None:
            return ABSENT
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                main, digest_found, *packages = archive.comment.decode(errors="replace").split(" ")
                return {"packages": packages, "main": main, "digest": digest_found}
        except (zipfile.BadZipFile, ValueError):
            return {"packages": [], "main": "", "digest": ""}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        if not isinstance(after, dict) or not after["main"]:  # what was there was no program of ours
            host.remove(target)
            return
        main, packages = str(after["main"]), [str(one) for one in after["packages"]]
        host.write(target, _archive(main, packages))

    def remove(self, host: Host, target: str, before: Value) -> None:
        host.remove(target)


PROGRAM_KINDS = {"program": ZipappKind()}


def sources_digest(packages: Sequence[str]) -> str:
    return digest(*(part for name, data in sorted(_sources(packages)) for part in (name, data)))


def _archive(main: str, packages: Sequence[str]) -> bytes:
    module, _dot, function = main.rpartition(".")
    start = f"from {_TOP}.{module} import {function}\n\n{function}()\n"
    above = {str(place) for package in packages for place in PurePosixPath(_TOP, package).parents} - {"."}
    empty = {f"{place}/__init__.py": b"" for place in above}
    files = {"__main__.py": start.encode(), **empty, **dict(_sources(packages))}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, date_time=_EPOCH), data)
        archive.comment = " ".join([main, sources_digest(packages), *packages]).encode()
    return buffer.getvalue()


def _sources(packages: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Name in the program and content of each source.

    On a node our packages lie in the archive that Ansible brought, with those modules alone that the one at work imports,
    elsewhere in a directory.
    """
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    archive, inside = _split_archive(top)
    if archive:
        with zipfile.ZipFile(archive) as opened:
            for name in opened.namelist():
                below = name[len(inside) + 1 :]
                ours = name.startswith(f"{inside}/") and any(below.startswith(f"{package}/") for package in packages)
                if ours and name.endswith(".py"):
                    yield f"{_TOP}/{below}", opened.read(name)
        return
    for package in packages:
        for place, _directories, names in os.walk(os.path.join(top, package)):
            for name in names:
                if name.endswith(".py"):
                    path = os.path.join(place, name)
                    with open(path, "rb") as file:
                        yield f"{_TOP}/{os.path.relpath(path, top)}", file.read()


def _split_archive(path: str) -> tuple[str, str]:
    """The archive that `path` leads into, and the rest of the path; two empty texts when it is a real one."""
    rest: list[str] = []
    while path != "/" and not os.path.exists(path):
        path, name = os.path.split(path)
        rest.insert(0, name)
    return (path, "/".join(rest)) if rest and os.path.isfile(path) else ("", "")
