# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Our own packages as one file that Python runs: for what has to work on a node when no Ansible is there."""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import PurePosixPath
from typing import Optional

from .host import Host
from .kinds import digest
from .plan import ABSENT, Resource, Value

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive can hold
_TOP = "ballast"  # the package that ours are in there
# Ours import each other so, and in no other way. By a pattern, as Python's own parser takes twenty times as long, at each run.
_IMPORT = re.compile(r"^[ \t]*from[ \t]+(\.+)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)", re.MULTILINE)
_COMMENT = re.compile(r"#[^\n]*")
_Read = Callable[[str], Optional[bytes]]


def program(path: str, *, packages: Sequence[str], main: str, group: str) -> Resource:
    """`main` is the dotted name of a function that is called without arguments: `_instance.restore.main`. The program holds
    what that imports of `packages`, which are packages of module_utils, as paths."""
    return Resource(
        kind="program",
        target=path,
        value={"packages": list(packages), "main": main, "digest": sources_digest(main, packages)},
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
            with zipfile.ZipFile(io.BytesIO(data)) as found:
                main, digest_found, *packages = found.comment.decode(errors="replace").split(" ")
                return {"packages": packages, "main": main, "digest": digest_found}
        except (zipfile.BadZipFile, ValueError):
            return {"packages": [], "main": "", "digest": ""}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        if not isinstance(after, dict) or not after["main"]:  # what was there was no program of ours
            host.remove(target)
            return
        main, packages = str(after["main"]), [str(one) for one in after["packages"]]
        host.write(target, archive(main, packages))

    def remove(self, host: Host, target: str, before: Value) -> None:
        host.remove(target)


PROGRAM_KINDS = {"program": ZipappKind()}


def sources_digest(main: str, packages: Sequence[str]) -> str:
    return digest(*(part for row in sorted(_sources(main, tuple(packages)).items()) for part in row))


def archive(main: str, packages: Sequence[str]) -> bytes:
    """What Python runs as a program, and imports `ballast` from."""
    module, _dot, function = main.rpartition(".")
    start = f"from {_TOP}.{module} import {function}\n\n{function}()\n"
    sources = {f"{_TOP}/{name}": data for name, data in _sources(main, tuple(packages)).items()}
    places = {place for name in sources for place in PurePosixPath(name).parents} - {PurePosixPath(".")}
    files = {"__main__.py": start.encode(), **{f"{place}/__init__.py": b"" for place in places}, **sources}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name, data in sorted(files.items()):
            made.writestr(zipfile.ZipInfo(name, date_time=_EPOCH), data)
        made.comment = " ".join([main, sources_digest(main, packages), *packages]).encode()
    return buffer.getvalue()


@cache  # a run asks several times, and each time all of them would be read
def _sources(main: str, packages: tuple[str, ...]) -> Mapping[str, bytes]:
    """By path below module_utils, the module that `main` is in and all that it imports of the packages.

    No more than that: beside them lies what else the module at work imports, and a program would be another one by each
    module that installs it.
    """
    found: dict[str, bytes] = {}
    left = [main.rpartition(".")[0].replace(".", "/")]
    with _reading() as read:
        while left:
            place = left.pop()
            name = f"{place}.py"
            if name in found or not any(place.startswith(f"{package}/") for package in packages):
                continue
            data = read(name)
            if data is not None:  # else it is a package, or what is imported is no module
                found[name] = data
                left += _imported(place, data.decode())
    return found


def _imported(place: str, text: str) -> Iterator[str]:
    """Places of what may be modules: `from .a import b` is of a/b.py, or of something in a.py."""
    for dots, module, names in _IMPORT.findall(text):
        above = [*place.split("/")[: -len(dots)], *filter(None, module.split("."))]
        yield "/".join(above)
        for name in _COMMENT.sub("", names).strip("()").split(","):
            if name.strip():
                yield "/".join([*above, name.split()[0]])


@contextmanager
def _reading() -> Iterator[_Read]:
    """Reads a source by its path below module_utils, None where there is none. On a node our packages lie in the archive that
    Ansible brought, elsewhere in a directory."""
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path, inside = _split_archive(top)
    if not path:
        yield lambda name: _file(os.path.join(top, name))
        return
    with zipfile.ZipFile(path) as opened:
        there = frozenset(opened.namelist())
        yield lambda name: opened.read(f"{inside}/{name}") if f"{inside}/{name}" in there else None


def _file(path: str) -> Optional[bytes]:
    with suppress(FileNotFoundError, NotADirectoryError), open(path, "rb") as file:
        return file.read()
    return None


def _split_archive(path: str) -> tuple[str, str]:
    """The archive that `path` leads into, and the rest of the path; two empty texts when it is a real one."""
    rest: list[str] = []
    while path != "/" and not os.path.exists(path):
        path, name = os.path.split(path)
        rest.insert(0, name)
    return (path, "/".join(rest)) if rest and os.path.isfile(path) else ("", "")
