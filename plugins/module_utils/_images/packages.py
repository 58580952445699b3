# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of Debian packages: from this machine if a package is installed, else fetched without installing it.

Fetched packages are unpacked below the caller's directory. Nothing from a package is run.
"""

from __future__ import annotations

import os
import re
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Optional

from .._core.host.host import PROGRAM_LIMIT, Host
from .._core.text.errors import CommandFailed
from .debian import KEYRING, MIRROR, debian_mirror
from .layout import Entry, FileEntry, LinkEntry
from .messages import MESSAGES

_QUERY_SECONDS = 30
_FETCH_SECONDS = 300
_LINKS_MAX = 8
_PROGRAM_DIRECTORIES = ("/usr/bin/", "/usr/lib/", "/usr/lib64/", "/usr/sbin/")
_NO_PROGRAMS = re.compile(r"/usr/lib/(systemd|[^/]+/gconv)/")  # systemd units of the host; 8 MiB of character sets
_MERGED = ("/bin/", "/lib/", "/lib64/", "/sbin/")
_INSTALLED = re.compile(r"Inst ([a-z0-9][a-z0-9+.-]+) ", re.ASCII)

# Debian's names of architectures, with Go's names, which image configurations use (dpkg cputable; go tool dist list).
_ARCHITECTURES = {
    "amd64": "amd64",
    "arm64": "arm64",
    "armel": "arm",
    "armhf": "arm",
    "i386": "386",
    "loong64": "loong64",
    "mips64el": "mips64le",
    "ppc64el": "ppc64le",
    "riscv64": "riscv64",
    "s390x": "s390x",
}


@dataclass(frozen=True)
class Source:
    """Where packages come from: this machine's package lists and installed packages, or only a suite of Debian."""

    suite: str = ""
    options: tuple[str, ...] = ()  # options of apt-get that make it use only the suite's lists

    @property
    def has_installed(self) -> bool:
        """Whether packages that are installed on this machine serve as source."""
        return not self.suite


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    root: str  # its file /usr/bin/x is at root + /usr/bin/x
    files: Optional[frozenset[str]]  # the package's own files, if the root also has those of other packages

    @property
    def label(self) -> str:
        return f"{self.name}={self.version}"

    def find(self, host: Host, path: str) -> Optional[FileEntry]:
        """The regular file at `path` in the package, following links within it; None if there is none."""
        for _step in range(_LINKS_MAX):
            present = self._spelling(host, path)
            if present is None:
                return None
            to = host.readlink(self.root + present)
            if to is None:
                stat, data = host.stat(self.root + present), host.read(self.root + present, limit=PROGRAM_LIMIT)
                if stat is None or data is None:
                    return None
                return FileEntry(path=path, data=data, mode=stat.mode & 0o755)
            path = os.path.normpath(os.path.join(os.path.dirname(present), to))
        return None

    def programs(self, host: Host) -> Iterator[Entry]:
        """Its programs and libraries, and the links among them, below /usr, sorted by path."""
        for path in sorted(_walk(host, self.root) if self.files is None else self.files):
            merged = f"/usr{path}" if path.startswith(_MERGED) else path
            if not merged.startswith(_PROGRAM_DIRECTORIES) or _NO_PROGRAMS.match(merged):
                continue
            to = host.readlink(self.root + path)
            if to is not None:
                yield LinkEntry(path=merged, to=to)
                continue
            stat = host.stat(self.root + path)
            if stat is not None and stat.kind == "file":
                yield FileEntry(
                    path=merged, data=host.read(self.root + path, limit=PROGRAM_LIMIT) or b"", mode=stat.mode & 0o755
                )

    def _spelling(self, host: Host, path: str) -> Optional[str]:
        """The path as the package spells it: before Debian 13 some packages omit the /usr of /usr/bin/busybox."""
        for candidate in (path, path[len("/usr") :] if path.startswith("/usr/") else f"/usr{path}"):
            own = self.files is None or candidate in self.files
            stat = host.stat(self.root + candidate) if own else None
            if stat is not None and stat.kind in ("file", "symlink"):
                return candidate
        return None


def architecture(host: Host) -> str:
    """Go's name of the architecture of this machine's packages."""
    name = host.run(["dpkg", "--print-architecture"], timeout=_QUERY_SECONDS).stdout.strip()
    if name not in _ARCHITECTURES:
        raise MESSAGES.error("image-architecture", architecture=name)
    return _ARCHITECTURES[name]


def open_source(host: Host, suite: str, *, directory: str) -> Source:
    """Fetch the suite's package lists below `directory`; this machine's own lists ("") need nothing."""
    if not suite:
        return Source()
    place = os.path.join(directory, "apt")
    sources, status = os.path.join(place, "sources.list"), os.path.join(place, "status")
    for name in ("cache", "lists"):
        host.make_directory(os.path.join(place, name))
    mirror = debian_mirror(host) or MIRROR
    host.write(sources, f"deb [signed-by={KEYRING}] {mirror} {suite} main\n".encode(), mode=0o600)
    host.write(status, b"")
    settings = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": os.path.join(place, "lists"),
        "Dir::State::status": status,
        "Dir::Cache": os.path.join(place, "cache"),
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",  # only root can read the directory
    }
    source = Source(suite, tuple(word for key, value in settings.items() for word in ("--option", f"{key}={value}")))
    try:
        host.run(["apt-get", "--quiet", *source.options, "update", "--error-on=any"], timeout=_FETCH_SECONDS)
    except CommandFailed as error:
        raise MESSAGES.error("image-fetch", package=f"lists of {suite}", name="apt", found=error.found) from error
    return source


def provide(host: Host, source: Source, packages: Sequence[str], *, directory: str) -> dict[str, Package]:
    """Packages by NAME or NAME=VERSION as given. If the source is this machine, an installed package of that version is used in place."""
    installed = {package: _find_installed(host, package) for package in packages} if source.has_installed else {}
    here = {package: entry for package, entry in installed.items() if entry is not None}
    return {**here, **_fetch(host, source, [package for package in packages if package not in here], directory)}


def _find_installed(host: Host, package: str) -> Optional[Package]:
    name, _equals, version = package.partition("=")
    query = ["dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Version}", name]
    status, _blank, installed = host.run(query, timeout=_QUERY_SECONDS, check=False).stdout.partition(" ")
    if status != "installed" or version not in ("", installed):
        return None
    files = host.run(["dpkg-query", "--listfiles", name], timeout=_QUERY_SECONDS).stdout.splitlines()
    return Package(name=name, version=installed, root="", files=frozenset(files))


def resolve_dependencies(host: Host, source: Source, names: Sequence[str], *, directory: str) -> list[str]:
    """The packages with all their dependencies, as apt-get would install them on an empty machine; sorted."""
    if not names:
        return []
    host.make_directory(directory)
    nothing = os.path.join(directory, "status")
    host.write(nothing, b"")
    options = [
        *source.options,
        "--quiet",
        "--simulate",
        "--no-install-recommends",
        "--option",
        f"Dir::State::status={nothing}",
    ]
    try:
        done = host.run(["apt-get", *options, "install", *names], timeout=_FETCH_SECONDS)
    except CommandFailed as error:
        raise MESSAGES.error("image-fetch", package=", ".join(names), name=names[0], found=error.found) from error
    return sorted({match[1] for line in done.stdout.splitlines() if (match := _INSTALLED.match(line))})


def _walk(host: Host, root: str, path: str = "") -> Iterator[str]:
    """Every path below `root` that is no directory, relative to `root`: /usr/bin/x."""
    for name in host.listdir(root + path):
        below = f"{path}/{name}"
        stat = host.stat(root + below)
        if stat is not None and stat.kind == "directory":
            yield from _walk(host, root, below)
        else:
            yield below


def _fetch(host: Host, source: Source, packages: Sequence[str], directory: str) -> dict[str, Package]:
    """Fetches all packages at once, as each call of apt-get reads all lists."""
    if not packages:
        return {}
    place, shown = os.path.join(directory, "packages"), ", ".join(packages)
    host.make_directory(place)
    try:
        host.run(["apt-get", "--quiet", *source.options, "download", *packages], timeout=_FETCH_SECONDS, cwd=place)
    except CommandFailed as error:
        name = packages[0].partition("=")[0]
        raise MESSAGES.error("image-fetch", package=shown, name=name, found=error.found) from error
    # NAME_VERSION_ARCHITECTURE.deb, in which the colon of a version is %3a.
    files = {entry.split("_")[0]: entry for entry in host.listdir(place) if entry.endswith(".deb")}
    fetched = {}
    for package in packages:
        name = package.partition("=")[0]
        if name not in files:
            raise MESSAGES.error("image-fetch", package=package, name=name, found="apt did not download it")
        root = os.path.join(directory, name, "root")
        host.make_directory(root)
        host.run(["dpkg-deb", "--extract", os.path.join(place, files[name]), root], timeout=_FETCH_SECONDS)
        version = urllib.parse.unquote(files[name].split("_")[1])
        fetched[package] = Package(name=name, version=version, root=root, files=None)
    return fetched
