# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Our own packages as one executable Python archive, for programs that must work on a node without Ansible."""

from __future__ import annotations

import hashlib
import io
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import PurePosixPath
from typing import Any, Optional

from .._core.engine.context import Context
from .._core.engine.plan import ABSENT, Resource, Value

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive can hold
_OTHERS_WRITE = 0o022
_START = "__main__.py"
_TOP = "ballast"  # the package that contains ours in the archive
# The only form of import that our packages use for each other. Found by a pattern, because Python's own parser would take
# twenty times as long in each run.
_IMPORT = re.compile(r"^[ \t]*from[ \t]+(\.+)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)", re.MULTILINE)
_COMMENT = re.compile(r"#[^\n]*")
_Read = Callable[[str], Optional[bytes]]
_NO_PROGRAM: Value = {"packages": [], "main": "", "digest": ""}


def program(path: str, *, packages: Sequence[str], main: str, group: str) -> Resource:
    """`main` is the dotted name of a function without arguments: `_instance.restore.main`. The program includes the modules
    that it imports, directly or not, from `packages`, which are paths of packages in module_utils."""
    return Resource(
        kind="program",
        target=path,
        value={"packages": list(packages), "main": main, "digest": sources_digest(main, packages)},
        title=f"program {path}",
        group=group,
    )


class ZipappKind:
    """`{packages, main, digest}`, with the digest of the sources in the file. Service managers execute it without asking us,
    so a file that is damaged, contains anything else or can be written by others counts as another program and is
    replaced."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        data, stat = ctx.host.read(target), ctx.host.stat(target)
        if data is None or stat is None:
            return ABSENT
        if stat.kind != "file" or stat.mode & _OTHERS_WRITE or stat.uid not in (0, os.geteuid()):
            return _NO_PROGRAM
        return _read_archive(data)

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        if not isinstance(after, dict) or not after["main"]:  # an undo: what existed before was not our program
            ctx.host.remove(target)
            return
        main, packages = str(after["main"]), [str(package) for package in after["packages"]]
        ctx.host.write(target, build_archive(main, packages))

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        ctx.host.remove(target)


PROGRAM_KINDS = {"program": ZipappKind()}


def sources_digest(main: str, packages: Sequence[str]) -> str:
    return _digest(_sources(main, tuple(packages)))


def build_archive(main: str, packages: Sequence[str]) -> bytes:
    """An archive that Python can execute, and from which it imports `ballast`."""
    sources = _sources(main, tuple(packages))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name, data in sorted(_files(main, sources).items()):
            made.writestr(zipfile.ZipInfo(name, date_time=_EPOCH), data)
        made.comment = " ".join([main, _digest(sources), *packages]).encode()
    return buffer.getvalue()


def _read_archive(data: bytes) -> Value:
    """The value of an archive, from its actual content. The comment says what it should contain and is not trusted."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            main, _digest_said, *packages = archive.comment.decode().split(" ")
            files = {name: archive.read(name) for name in archive.namelist()}
            several = len(files) != len(archive.namelist())
    # The exceptions that zipfile raises for damaged archives.
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, NotImplementedError, RuntimeError):
        return _NO_PROGRAM
    made = {_START, *(name for name in files if name.endswith("/__init__.py"))}
    sources = {name[len(_TOP) + 1 :]: content for name, content in files.items() if name not in made}
    if several or _files(main, sources) != files:
        return _NO_PROGRAM
    return {"packages": list(packages), "main": main, "digest": _digest(sources)}


def _files(main: str, sources: Mapping[str, bytes]) -> dict[str, bytes]:
    """All files of the archive."""
    module, _dot, function = main.rpartition(".")
    start = f"from {_TOP}.{module} import {function}\n\n{function}()\n"
    inside = {f"{_TOP}/{name}": data for name, data in sources.items()}
    places = {place for name in inside for place in PurePosixPath(name).parents} - {PurePosixPath(".")}
    return {_START: start.encode(), **{f"{place}/__init__.py": b"" for place in places}, **inside}


def _digest(sources: Mapping[str, bytes]) -> str:
    total = hashlib.sha256()
    for name, data in sorted(sources.items()):
        total.update(f"{len(name)} {len(data)} {name}".encode() + data)
    return total.hexdigest()


@cache  # called several times in a run, each of which would read all sources
def _sources(main: str, packages: tuple[str, ...]) -> Mapping[str, bytes]:
    """The module that contains `main` and everything that it imports from `packages`, by path below module_utils.

    No other module is included: next to them are modules that only the running Ansible module imports, and the program would
    differ depending on which module installs it.
    """
    sources: dict[str, bytes] = {}
    left = [main.rpartition(".")[0].replace(".", "/")]
    with _reading() as read:
        while left:
            place = left.pop()
            name = f"{place}.py"
            if name in sources or not any(place.startswith(f"{package}/") for package in packages):
                continue
            data = read(name)
            if data is not None:  # otherwise it is a package, or what is imported is not a module
                sources[name] = data
                left += _find_imports(place, data.decode())
    return sources


def _find_imports(place: str, text: str) -> Iterator[str]:
    """Paths of what may be modules: `from .a import b` may refer to a/b.py, or to a name in a.py."""
    for dots, module, names in _IMPORT.findall(text):
        above = [*place.split("/")[: -len(dots)], *filter(None, module.split("."))]
        yield "/".join(above)
        for name in _COMMENT.sub("", names).strip("()").split(","):
            if name.strip():
                yield "/".join([*above, name.split()[0]])


@contextmanager
def _reading() -> Iterator[_Read]:
    """A function that returns a source by its path below module_utils, None if there is none. On a node our packages are in
    the archive that Ansible has copied, elsewhere in a directory."""
    top = os.path.abspath(os.path.join(__file__, "../.."))
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
    """The archive that `path` leads into, and the rest of the path; two empty strings if the path exists."""
    rest: list[str] = []
    while path != "/" and not os.path.exists(path):
        path, name = os.path.split(path)
        rest.insert(0, name)
    return (path, "/".join(rest)) if rest and os.path.isfile(path) else ("", "")
