# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request for binaries, checked and resolved into builds.

A build is a directory in the cache: binaries of one family, made from one source by one recipe. The recipe holds everything that
decides the content and nothing else (no paths, no times). Its hash names the directory, so a change of version, Go toolchain, pinned
modules or flags gives another directory. Everything that uses the old directory keeps working.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Optional

from .._core.engine.plan import Value
from .._core.host.bounded import file_sha256
from .._core.host.host import Host
from .._core.text.errors import BallastError, Problems
from . import golang
from .families import COMPONENTS, FAMILIES, VERSION, Component, Family, version_key
from .messages import MESSAGES

GO, RELEASE, PATH = SOURCES = ("go", "release", "path")


@dataclass(frozen=True)
class Build:
    """`origin`, a folder or an address, is where the content comes from. It does not decide the content, so the recipe lacks it."""

    family: Family
    version: str  # empty for source path: the binaries report it
    source: str
    recipe: Mapping[str, Value]
    programs: tuple[str, ...]
    origin: str

    @property
    def directory(self) -> str:
        """The name of the build's directory in the cache: equal recipes give equal names."""
        key = _digest(self.recipe)[:12]
        parts = [self.family.name, self.version, "" if self.source == GO else self.source, key]
        return "-".join(part for part in parts if part)

    @property
    def label(self) -> str:
        """The version, for people."""
        return self.version or "of the given path"


@dataclass(frozen=True)
class BinariesRequest:
    state_dir: str  # the cache directory: binaries, sets and their journal
    present: bool
    builds: tuple[Build, ...] = ()
    go: str = ""  # the go command, if something is compiled
    go_caches: tuple[str, ...] = ()
    checksums: Mapping[str, str] = field(default_factory=dict)
    # May hold a proxy's password, so it stays out of messages and results.
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def path(self, build: Build, name: str) -> str:
        """Where the cache has this binary of the build."""
        return os.path.join(self.state_dir, build.directory, name)

    @property
    def paths(self) -> dict[str, str]:
        """The file of each binary, sorted by binary."""
        paths = {name: self.path(build, name) for build in self.builds for name in build.programs}
        return dict(sorted(paths.items()))

    @property
    def bin_dir(self) -> str:
        """A stable directory with a link to each binary. Its name changes exactly when a binary does."""
        return os.path.join(self.state_dir, "sets", _digest(self.paths)[:12])

    @classmethod
    def from_params(
        cls, params: Mapping[str, Any], host: Host, environ: Optional[Mapping[str, str]] = None
    ) -> BinariesRequest:
        """Raises all input errors together. Reads pinned modules, given directories and the Go version; changes nothing."""
        cache = str(params["cache_dir"])
        if not os.path.isabs(cache):
            raise MESSAGES.error("binaries-not-absolute", option="cache_dir", path=cache)
        if params.get("state") == "absent":
            return cls(state_dir=cache, present=False)
        resolver = _Resolver(params, host=host, environ=os.environ if environ is None else environ)
        return resolver.resolve(cache)


@dataclass(frozen=True)
class Pinned:
    """The pinned modules of a version of a family."""

    folder: str
    module: bytes  # go.mod
    sums: bytes  # go.sum


def read_pinned(host: Host, family: Family, version: str, *, root: str) -> Optional[Pinned]:
    """The pinned modules below `root`, the directory of all families. None when this version has none."""
    if not os.path.isabs(root) or not VERSION.fullmatch(version):  # checked before it becomes part of a path
        return None
    folder = os.path.join(root, family.name, version)
    module, sums = (host.read(os.path.join(folder, name)) for name in ("go.mod", "go.sum"))
    return None if module is None or sums is None else Pinned(folder, module, sums)


def go_recipe(
    host: Host, family: Family, version: str, pinned: Pinned, toolchain: golang.Toolchain, *, root: str
) -> dict[str, Value]:
    """Everything that decides the content of binaries that are compiled here. Builds with equal recipes are the same."""
    recipe: dict[str, Value] = {
        "source": GO,
        "version": version,
        "modules": hashlib.sha256(pinned.module + b"\0" + pinned.sums).hexdigest(),
        "go": toolchain.version,
        "platform": toolchain.platform,
        "flags": golang.flags(family, version),
    }
    if family.command:
        recipe["command"] = golang.source_digest(host, os.path.join(root, family.name, "command"))
    return recipe


def release_base(family: Family, release_urls: Mapping[str, Any]) -> str:
    """The address below which the family's releases are: the user's, else the publisher's. Without a slash at the end."""
    return str(release_urls.get(family.name) or family.release.base).rstrip("/")


def release_recipe(version: str, base: str) -> dict[str, Value]:
    """Everything that decides the content of binaries that are downloaded from `base`."""
    return {"source": RELEASE, "version": version, "platform": f"linux/{golang.architecture()}", "from": base}


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class _ComponentRequest:
    """One component with its source, before it is resolved."""

    component: Component
    family: Family
    version: str
    source: str
    path: str
    option: str  # the option that requests it, for messages


class _Resolver:
    """Resolves one request into builds and collects the problems."""

    def __init__(self, params: Mapping[str, Any], *, host: Host, environ: Mapping[str, str]) -> None:
        self._params = params
        self._host = host
        self._environment = golang.environment(environ)
        self._search = environ.get("PATH", "")
        self._problems: list[BallastError] = []
        self._go = ""
        self._go_caches: tuple[str, ...] = ()
        self._go_needs: list[str] = []  # Go versions of builds that lack a go command

    def resolve(self, cache: str) -> BinariesRequest:
        requests = self._requests()
        checksums = self._checksums()
        self._check_urls()
        builds = self._builds(requests)
        if self._go_needs:
            go = self._params["go"]
            needs = max(self._go_needs, key=golang.numbers)
            self._problem("binaries-go-missing", found=f"{go} does not exist" if go else "", needs=needs)
        Problems.raise_if(self._problems)
        return BinariesRequest(
            state_dir=cache,
            present=True,
            builds=tuple(builds),
            go=self._go,
            go_caches=self._go_caches,
            checksums=checksums,
            environment=self._environment,
        )

    def _problem(self, id: str, **fields: Any) -> None:
        self._problems.append(MESSAGES.error(id, **fields))

    # Which components are requested, and from which source.

    def _requests(self) -> list[_ComponentRequest]:
        families = self._index_by_name(self._params["families"], option="families", what="family", known=FAMILIES)
        components = self._index_by_name(
            self._params["components"], option="components", what="component", known=COMPONENTS
        )
        requests: list[_ComponentRequest] = []
        for name, entry in families.items():
            base = _ComponentRequest(
                component=FAMILIES[name].components[0],
                family=FAMILIES[name],
                version=entry.get("version") or FAMILIES[name].version_with(self._params["version"]),
                source=entry.get("source") or self._params["source"],
                path=entry.get("path") or self._params["path"] or "",
                option=f"families[{name}]",
            )
            only = self._only(entry, FAMILIES[name])
            for component in base.family.components:
                override = components.get(component.name)
                # A release or a directory need not have binaries that upstream does not publish.
                available = component.released or base.source == GO or base.family.optional
                standard = not component.optional and available
                if override is None and component.name not in only and (only or not standard):
                    continue
                requests.append(_override(replace(base, component=component), override or {}))
        for name, entry in families.items():
            self._check_path(entry, option=f"families[{name}]", inherited=self._params["source"])
        for name, entry in components.items():
            family = COMPONENTS[name].name
            inherited = families.get(family, {}).get("source") or self._params["source"]
            self._check_path(entry, option=f"components[{name}]", inherited=inherited)
            if family not in families:
                self._problem("binaries-family-not-chosen", option="components", name=name, family=family)
        for request in requests:
            self._check(request)
        return requests

    def _only(self, entry: Mapping[str, Any], family: Family) -> list[str]:
        """The binaries to which an entry limits its family; empty without a limit."""
        known = [component.name for component in family.components]
        option = f"families[{family.name}].programs"
        programs = [{"name": name} for name in entry.get("programs") or ()]
        return list(self._index_by_name(programs, option=option, what="program", known=known))

    def _index_by_name(
        self, entries: Iterable[Mapping[str, Any]], *, option: str, what: str, known: Iterable[str]
    ) -> dict[str, Mapping[str, Any]]:
        """The entries by name, in the given order. Unknown and duplicate names are problems."""
        names = list(known)
        by_name: dict[str, Mapping[str, Any]] = {}
        for entry in entries:
            name = str(entry["name"])
            if name in by_name:
                self._problem("binaries-named-twice", option=option, name=name)
            elif name not in names:
                near = difflib.get_close_matches(name, names, n=1)
                nearest = f" (meant: {near[0]})" if near else ""
                self._problem(
                    "binaries-unknown-name",
                    option=option,
                    what=what,
                    name=name,
                    nearest=nearest,
                    known=", ".join(names),
                )
            else:
                by_name[name] = entry
        return by_name

    def _check_path(self, entry: Mapping[str, Any], *, option: str, inherited: str) -> None:
        source = entry.get("source") or inherited
        if entry.get("path") and source != PATH:
            self._problem("binaries-path-unused", option=option, source=source)

    def _check(self, request: _ComponentRequest) -> None:
        if request.source == RELEASE and not request.component.released:
            self._problem("binaries-not-released", option=request.option, name=request.component.name)

    def _checksums(self) -> dict[str, str]:
        """Checksums by download: the component for a family without archive, else the family."""
        known = [
            component.name
            for family in FAMILIES.values()
            if not family.release.archive
            for component in family.components
            if component.released
        ]
        known += [family.name for family in FAMILIES.values() if family.release.archive]
        checksums = {str(name): str(value).lower() for name, value in self._params["checksums"].items()}
        for name, value in checksums.items():
            if name not in known:
                self._problem(
                    "binaries-unknown-name",
                    option="checksums",
                    what="download",
                    name=name,
                    nearest="",
                    known=", ".join(known),
                )
            if not re.fullmatch(r"[0-9a-f]{64}", value):
                self._problem("binaries-checksum-form", option=f"checksums.{name}", value=value)
        return checksums

    def _check_urls(self) -> None:
        published = [name for name, family in FAMILIES.items() if family.release.base]
        for name, url in self._params["release_urls"].items():
            if name not in published:
                self._problem(
                    "binaries-unknown-name",
                    option="release_urls",
                    what="family",
                    name=name,
                    nearest="",
                    known=", ".join(published),
                )
            elif not re.match(r"https?://", str(url)):
                self._problem(
                    "binaries-url-form", option=f"release_urls.{name}", url=url, base=FAMILIES[name].release.base
                )

    # From components to builds.

    def _builds(self, requests: list[_ComponentRequest]) -> list[Build]:
        groups: dict[tuple[str, str, str], list[_ComponentRequest]] = {}
        for request in requests:
            key = (request.family.name, request.source, request.path if request.source == PATH else "")
            groups.setdefault(key, []).append(request)
        makers = {GO: self._resolve_go, RELEASE: self._resolve_release, PATH: self._resolve_path}
        builds = [makers[source](group) for (_family, source, _path), group in groups.items()]
        return [build for build in builds if build is not None]

    def _resolve_go(self, group: list[_ComponentRequest]) -> Optional[Build]:
        first = group[0]
        root = self._params["toolchain_dir"] or ""
        pinned = read_pinned(self._host, first.family, first.version, root=root)
        if pinned is None:
            self._no_module(first, root)
            return None
        toolchain = self._toolchain(first, pinned)
        if toolchain is None:
            return None
        recipe = go_recipe(self._host, first.family, first.version, pinned, toolchain, root=root)
        return _build_of(group, recipe, origin=pinned.folder)

    def _no_module(self, request: _ComponentRequest, root: str) -> None:
        if not os.path.isabs(root) or not self._host.listdir(root):
            self._problem("binaries-no-toolchain", option="toolchain_dir", path=root or "an empty text")
            return
        folders = self._host.listdir(os.path.join(root, request.family.name))
        supported = sorted((name for name in folders if VERSION.fullmatch(name)), key=version_key)
        self._problem(
            "binaries-unknown-version",
            option="version" if request.family.follows else f"{request.option}.version",
            family=request.family.name,
            version=request.version,
            supported=", ".join(supported) or "none",
        )

    def _toolchain(self, request: _ComponentRequest, pinned: Pinned) -> Optional[golang.Toolchain]:
        needs = golang.least_version(pinned.module.decode())
        self._go = self._go or golang.find(self._host, go=self._params["go"] or "", search=self._search)
        if not self._go:
            self._go_needs.append(needs)
            return None
        toolchain = golang.describe(self._host, self._go, folder=pinned.folder, environment=self._environment)
        self._go_caches = toolchain.caches
        if golang.numbers(toolchain.version) < golang.numbers(needs):
            self._problem(
                "binaries-go-too-old",
                found=f"{toolchain.version} at {self._go}",
                family=request.family.name,
                version=request.version,
                needs=needs,
            )
            return None
        return toolchain

    def _resolve_release(self, group: list[_ComponentRequest]) -> Optional[Build]:
        first = group[0]
        if not VERSION.fullmatch(first.version):
            self._problem("binaries-version-form", option=f"{first.option}.version", version=first.version)
            return None
        base = release_base(first.family, self._params["release_urls"])
        return _build_of(group, release_recipe(first.version, base), origin=base)

    def _resolve_path(self, group: list[_ComponentRequest]) -> Optional[Build]:
        first = group[0]
        if not first.path:
            self._problem("binaries-path-absent", option=first.option)
            return None
        if not os.path.isabs(first.path):
            self._problem("binaries-not-absolute", option=f"{first.option}.path", path=first.path)
            return None
        files = {
            name: file_sha256(self._host, os.path.join(first.path, name))
            for name in sorted(w.component.name for w in group)
        }
        missing = [name for name, sha256 in files.items() if sha256 is None]
        if missing:
            self._problem("binaries-path-missing", option=first.option, path=first.path, names=", ".join(missing))
            return None
        sums: dict[str, Value] = {**files}
        return replace(_build_of(group, {"source": PATH, "files": sums}, origin=first.path), version="")


def _override(request: _ComponentRequest, entry: Mapping[str, Any]) -> _ComponentRequest:
    """A component's own source and path override those of its family."""
    if not entry:
        return request
    return replace(
        request,
        source=entry.get("source") or request.source,
        path=entry.get("path") or request.path,
        option=f"components[{request.component.name}]",
    )


def _build_of(group: list[_ComponentRequest], recipe: Mapping[str, Value], *, origin: str) -> Build:
    first = group[0]
    return Build(
        family=first.family,
        version=first.version,
        source=first.source,
        recipe=recipe,
        programs=tuple(request.component.name for request in group),
        origin=origin,
    )
