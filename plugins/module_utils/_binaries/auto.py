# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chooses the source of each family of binaries: the cache, else the release site, else Go modules.

The cache comes first, so a host that has its binaries contacts no site. An unreachable site costs some seconds, once for all of
its families. Only the existence of a file is tested: a download with a wrong checksum is an error later, and never a reason to
build instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Optional
from urllib.parse import urlsplit

from .._core.engine.plan import Value
from .._core.host.host import Host
from .._core.text.errors import BallastError, HostError
from . import golang
from .families import FAMILIES, VERSION, Family
from .manifest import Manifest, read_manifest
from .release import setting
from .request import GO, RELEASE, Pinned, go_recipe, read_pinned, release_base, release_recipe

CACHED, REACHED, UNRELEASED, MISSING, UNREACHED, ASKED_FOR = (
    "in the cache",
    "the release site has it",
    "upstream publishes no release of it",
    "the release site lacks it",
    "the release site cannot be reached",
    "asked for",
)
_CONNECT_SECONDS, _ANSWER_SECONDS = 3, 8
_NO_SITE = 0  # in place of an HTTP status
_PAGE = r"^content-type: *text/html\b"
# Seconds of a cold build on two processors, used until this host has built the family (docs/binaries.md).
_COLD_SECONDS = {"kubernetes": 400, "containerd": 60, "coredns": 200, "metallb": 200}
_COLD_SECONDS_OF_OTHERS = 60


@dataclass(frozen=True)
class Choice:
    """`source` is GO or RELEASE. `size` is the download in bytes, 0 if unknown; `seconds` the duration of a build."""

    family: str
    version: str
    source: str
    reason: str
    size: int = 0
    seconds: float = 0.0
    measured: bool = False  # whether `seconds` was measured on this host
    site: str = ""  # name of the host that has the release, which may be a mirror

    @property
    def is_made(self) -> bool:
        """Whether something has to be built or downloaded."""
        return self.reason != CACHED


@dataclass(frozen=True)
class Places:
    """Options of the role kubernetes_binaries."""

    cache_dir: str
    toolchain_dir: str
    release_urls: Mapping[str, str]
    go: str = ""  # path of the go command; "" where there is none


class Chooser:
    """For one run: each site is tested once."""

    def __init__(self, host: Host, places: Places, environment: Mapping[str, str]) -> None:
        self._host = host
        self._places = places
        self._environment = environment
        self._silent: set[str] = set()  # addresses of sites that did not answer
        self._builds = sorted(host.listdir(places.cache_dir))
        self._toolchains: dict[tuple[bytes, ...], Optional[golang.Toolchain]] = {}

    def choose(self, name: str, kubernetes: str, *, source: str = "") -> Choice:
        """`source` is an earlier decision. Without it the cache decides, with a Go build before a release."""
        family = FAMILIES[name]
        choice = Choice(name, family.version_with(kubernetes), source or GO, ASKED_FOR)
        for possible in [source] if source else [GO, RELEASE]:
            if self._is_cached(family, choice.version, possible):
                return replace(choice, source=possible, reason=CACHED)
        if source == RELEASE:
            return replace(choice, site=_host_name(self._base(family)))
        if not source:
            choice = self._ask_site(family, choice)
        return choice if choice.source == RELEASE else self._with_seconds(choice)

    def _ask_site(self, family: Family, choice: Choice) -> Choice:
        if not family.release.base or not VERSION.fullmatch(choice.version):
            return replace(choice, reason=UNRELEASED)
        base, size = self._base(family), 0
        for url in release_files(family, choice.version, base):
            if base in self._silent:
                return replace(choice, reason=UNREACHED)
            status, length = probe(self._host, url, self._environment)
            if status in (404, 410):
                return replace(choice, reason=MISSING)
            if not 200 <= status < 300:
                self._silent.add(base)
            size += length
        return replace(choice, reason=UNREACHED) if base in self._silent else _as_release(choice, size, base)

    def _base(self, family: Family) -> str:
        return release_base(family, self._places.release_urls)

    def _is_cached(self, family: Family, version: str, source: str) -> bool:
        """Judged by names and recipes. Contents are compared when the binaries are provided."""
        names = _program_names(family, source)
        possible = [
            manifest.recipe
            for manifest in self._manifests(family, source)
            if manifest.recipe.get("version") == version and names <= set(manifest.programs)
        ]
        return bool(possible) and self._recipe(family, version, source) in possible

    def _recipe(self, family: Family, version: str, source: str) -> Optional[dict[str, Value]]:
        """The recipe of binaries made now: another Go version rebuilds everything, and another mirror downloads everything again."""
        if source == RELEASE:
            return release_recipe(version, self._base(family))
        root = self._places.toolchain_dir
        pinned = read_pinned(self._host, family, version, root=root)
        toolchain = None if pinned is None else self._toolchain(pinned)
        if pinned is None or toolchain is None:
            return None
        return go_recipe(self._host, family, version, pinned, toolchain, root=root)

    def _toolchain(self, pinned: Pinned) -> Optional[golang.Toolchain]:
        """The toolchain for these modules; None when there is no Go that can build them. Modules that require the same version
        share one."""
        lines = tuple(re.findall(rb"^(?:go|toolchain) .*$", pinned.module, re.MULTILINE))
        if lines not in self._toolchains:
            self._toolchains[lines] = None
            with suppress(BallastError):
                if self._places.go:
                    self._toolchains[lines] = golang.describe(
                        self._host, self._places.go, folder=pinned.folder, environment=self._environment
                    )
        return self._toolchains[lines]

    def _manifests(self, family: Family, source: str) -> list[Manifest]:
        manifests = []
        for build in self._builds:
            if re.match(re.escape(family.name) + r"-\d", build):
                try:
                    manifest = read_manifest(self._host, os.path.join(self._places.cache_dir, build))
                except BallastError:  # the run that needs this build reports the damage
                    continue
                if manifest is not None and manifest.recipe.get("source") == source:
                    manifests.append(manifest)
        return manifests

    def _with_seconds(self, choice: Choice) -> Choice:
        """How long a build of this family took here, of any version; the longest one, as Go's own cache may be cold."""
        family = FAMILIES[choice.family]
        spent = [
            sum(float(program.seconds) for program in manifest.programs.values())
            for manifest in self._manifests(family, GO)
        ]
        if spent:
            return replace(choice, seconds=max(spent), measured=True)
        return replace(choice, seconds=_COLD_SECONDS.get(family.name, _COLD_SECONDS_OF_OTHERS))


def _as_release(choice: Choice, size: int, base: str) -> Choice:
    return replace(choice, source=RELEASE, reason=REACHED, size=size, site=_host_name(base))


def _host_name(url: str) -> str:
    """The host in an address, without the password that a mirror's address may have."""
    return urlsplit(url).hostname or ""


def _program_names(family: Family, source: str) -> set[str]:
    """Binaries that a request for the whole family provides."""
    return {part.name for part in family.components if not part.optional and (part.released or source == GO)}


def release_files(family: Family, version: str, base: str) -> list[str]:
    """The addresses of the files that hold its binaries."""
    fields = {"base": base, "version": version, "arch": golang.architecture()}
    names = [part.name for part in family.components if part.released and not part.optional]
    return list(dict.fromkeys(family.release.url.format(**fields, name=name) for name in names))


def probe(host: Host, url: str, environment: Mapping[str, str]) -> tuple[int, int]:
    """HTTP status and length of a file, from a HEAD request; (0, 0) when no site answers within seconds."""
    schemes = "=http,https" if url.startswith("http://") else "=https"
    argv = [
        "curl",
        "--head",
        "--silent",
        "--proto",
        schemes,
        "--location",
        "--proto-redir",
        schemes,
        "--max-redirs",
        "5",
    ]
    argv += ["--connect-timeout", str(_CONNECT_SECONDS), "--max-time", str(_ANSWER_SECONDS), "--config", "-"]
    try:
        done = host.run(argv, timeout=_ANSWER_SECONDS + 5, stdin=setting("url", url), env=environment, check=False)
    except HostError:  # curl is missing, so nothing can be downloaded
        return _NO_SITE, 0
    heads = re.split(r"^HTTP/", done.stdout, flags=re.MULTILINE)[1:]
    status = re.match(r"[\d.]+ (\d{3})\b", heads[-1]) if heads and done.status == 0 else None
    if status is None:
        return _NO_SITE, 0
    if status[1].startswith("2") and re.search(_PAGE, heads[-1], flags=re.MULTILINE | re.IGNORECASE):
        return _NO_SITE, 0  # not from the site: a portal that wants a password, or a proxy
    length = re.search(r"^content-length: *(\d{1,12})\s*$", heads[-1], flags=re.MULTILINE | re.IGNORECASE)
    return int(status[1]), int(length[1]) if length else 0


def describe(choices: Iterable[Choice]) -> list[str]:
    """Texts about what will be downloaded and built; empty when the cache has everything."""
    made = [choice for choice in choices if choice.is_made]
    downloads = [choice for choice in made if choice.source == RELEASE]
    builds = [choice for choice in made if choice.source == GO]
    lines = []
    if downloads:
        size = sum(choice.size for choice in downloads)
        total = f": {_mib(size)} in all" if size and len(downloads) > 1 else ""
        lines.append(f"download: {', '.join(map(_describe_download, downloads))}{total}")
    if builds:
        total = f": about {_minutes(sum(choice.seconds for choice in builds))}"
        lines.append(f"build:    {', '.join(map(_describe_build, builds))}{total}")
    reasons = _describe_reasons(builds)
    return [*lines, f"because   {reasons}"] if reasons else lines


def _describe_download(choice: Choice) -> str:
    return f"{choice.family} {choice.version} of {choice.site}{f' ({_mib(choice.size)})' if choice.size else ''}"


def _describe_build(choice: Choice) -> str:
    spent = f"{choice.seconds:.0f} s last time" if choice.measured else f"about {_minutes(choice.seconds)}"
    return f"{choice.family} {choice.version} ({spent})"


def _describe_reasons(builds: Iterable[Choice]) -> str:
    """Why the families are not downloaded, each reason once."""
    families: dict[str, list[str]] = {}
    for choice in builds:
        if choice.reason != ASKED_FOR:
            families.setdefault(choice.reason, []).append(choice.family)
    return "; ".join(f"{reason}: {', '.join(names)}" for reason, names in families.items())


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _mib(size: int) -> str:
    return f"{max(1, round(size / 2**20))} MiB"
