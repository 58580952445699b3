# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the binaries of a lab come from. The decision of `auto` is recorded per family, so that a later run does not switch
between built and released binaries."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from .._binaries import golang
from .._binaries.auto import UNREACHED, Choice, Chooser, Places, describe
from .._binaries.messages import MESSAGES as BINARIES_MESSAGES
from .._binaries.request import GO, PATH, RELEASE
from .._binaries.spec import READ
from .._core.host.host import Host
from .._core.text.errors import BallastError
from .addons.catalog import ADDONS
from .messages import MESSAGES
from .place import find_cache_problems
from .resolve import Lab
from .topology import DEFAULT_ADDONS, KUBEADM

AUTO = "auto"
SOURCES = (AUTO, GO, RELEASE, PATH)
OF_EVERY_LAB = ("kubernetes", "etcd", "cni", "containerd", "cri-tools")
_OF_KUBEADM = ("kubeadm", "coredns")

SPEC: dict[str, Any] = {
    "source": {"type": "str", "choices": list(SOURCES)},
    "bin_path": {"type": "path"},
    "toolchain_dir": {"type": "path"},
    "cache_dir": READ["cache_dir"],
    "release_urls": READ["release_urls"],
    "go": READ["go"],
}


@dataclass
class Programs:
    """`sources`: GO or RELEASE by family, decided by this run or an earlier one. `choices`: by family, those examined so far."""

    source: str
    path: str
    kubernetes: str  # version
    can_build: bool  # whether pinned modules exist
    sources: dict[str, str]
    chooser: Optional[Chooser]
    choices: dict[str, Choice] = field(default_factory=dict)

    def choose(self, names: Iterable[str]) -> list[Choice]:
        """The choices of these families; each family is examined once."""
        for name in names:
            if self.chooser is not None and name not in self.choices:
                self.choices[name] = self.chooser.choose(name, self.kubernetes, source=self.source_of(name))
                if self.source == AUTO:
                    self.sources[name] = self.choices[name].source
        return [self.choices[name] for name in names if name in self.choices]

    def source_of(self, name: str) -> str:
        """GO or RELEASE; empty while `auto` has not decided. With another source add-ons are built, as most have no release."""
        if self.source == AUTO:
            return self.sources.get(name, "")
        return self.source if self.source == RELEASE and name not in _families_of(ADDONS) else GO

    def default_addons(self) -> tuple[str, ...]:
        """Add-ons of a new lab. If Kubernetes is downloaded, only those without a build: a first lab is ready in minutes."""
        if not self.can_build or self.source in (RELEASE, PATH):
            return ()
        return tuple(name for name in DEFAULT_ADDONS if name not in self.left_out())

    def left_out(self) -> list[str]:
        """Default add-ons that would have to be built although Kubernetes is downloaded."""
        if not any(choice.source == RELEASE for choice in self.choose(["kubernetes"])):
            return []
        return [
            name
            for name in DEFAULT_ADDONS
            if any(choice.source == GO and choice.is_made for choice in self.choose(_families_of([name])))
        ]


def read_programs(
    params: Mapping[str, Any], previous: Optional[Lab], kubernetes: str, host: Host, environ: Mapping[str, str]
) -> Programs:
    """The decisions in the options, else in the record; records of earlier versions have no source."""
    recorded = (previous or {}).get("programs") or ({"source": GO} if previous else {})
    source = params.get("source") or recorded.get("source", AUTO)
    toolchain = params.get("toolchain_dir") or ""
    places = Places(
        params.get("cache_dir") or str(READ["cache_dir"]["default"]),
        os.path.dirname(toolchain),
        params.get("release_urls") or {},
        golang.find(host, go=params.get("go") or "", search=environ.get("PATH", "")),
    )
    chooser = Chooser(host, places, golang.environment(environ)) if toolchain else None
    path = params.get("bin_path") or recorded.get("path", "")
    sources = dict(recorded.get("sources", {})) if source == AUTO else {}
    return Programs(source, path if source == PATH else "", kubernetes, bool(toolchain), sources, chooser)


def choose_for(programs: Programs, bootstrap: str, addons: Sequence[str]) -> list[Choice]:
    """The choices of all families that the lab needs."""
    names = [*OF_EVERY_LAB, *(_OF_KUBEADM if bootstrap == KUBEADM else ())]
    if programs.source == PATH:
        names = []
    return programs.choose(dict.fromkeys([*names, *_families_of(addons)]))


def _families_of(addons: Iterable[str]) -> list[str]:
    return [str(family["name"]) for addon in addons for family in ADDONS[addon].families]


def announce(choices: Sequence[Choice], left_out: Sequence[str]) -> list[str]:
    """What a run announces before it makes anything; empty when the cache has everything."""
    lines = describe(choices)
    if left_out:
        names = ", ".join(left_out)
        every = ",".join(DEFAULT_ADDONS)
        lines.append(f"omitted because there is no release: {names}; to build them: -e lab_addons={every}")
    return lines


def record_of(programs: Programs) -> dict[str, Any]:
    """The decisions, for lab.json."""
    return {"source": programs.source, "path": programs.path, "sources": dict(sorted(programs.sources.items()))}


def program_parts(lab: Lab) -> dict[str, Any]:
    """Options of the role kubernetes_binaries: `source`, `path`, `families`."""
    record = lab.get("programs") or {"source": GO, "path": "", "sources": {}}
    names = [*OF_EVERY_LAB, *(_OF_KUBEADM if lab.get("bootstrap") == KUBEADM else ())]
    source = GO if record["source"] == AUTO else record["source"]
    families = [with_source(lab, {"name": name}) for name in names]
    return {"source": source, "path": record["path"], "families": families}


def with_source(lab: Lab, family: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the family, with the source that the lab's record has for it, if any."""
    source = (lab.get("programs") or {}).get("sources", {}).get(family["name"])
    return {**family, "source": source} if source else dict(family)


def find_program_problems(
    choices: Sequence[Choice], host: Host, params: Mapping[str, Any], environ: Mapping[str, str]
) -> list[BallastError]:
    """What this host lacks for builds and downloads; module downloads themselves are not tested."""
    builds = [choice for choice in choices if choice.source == GO and choice.is_made]
    has_go = bool(golang.find(host, go=params.get("go") or "", search=environ.get("PATH", "")))
    downloads = any(choice.source == RELEASE and choice.is_made for choice in choices)
    might_download = not has_go and any(choice.reason == UNREACHED for choice in builds)
    problems: list[BallastError] = []
    tools = {"openssl": bool(builds), "curl": downloads or might_download}
    missing = [tool for tool, is_needed in tools.items() if is_needed and host.which(tool) is None]
    if missing:
        problems.append(MESSAGES.error("lab-tools", tools=", ".join(missing), packages=" ".join(missing)))
    if builds and not has_go:
        needs = _needed_go(builds, host, params)
        problems.append(BINARIES_MESSAGES.error("binaries-go-missing", found="", needs=needs))
    if any(choice.is_made for choice in choices):
        problems += find_cache_problems(host, params.get("cache_dir") or str(READ["cache_dir"]["default"]))
    return problems


def find_python_problems() -> list[BallastError]:
    """Problems of this Python, which also runs the modules of the control plane."""
    if importlib.util.find_spec("cryptography") is None:
        return [MESSAGES.error("lab-python", python=sys.executable)]
    return []


def _needed_go(builds: Sequence[Choice], host: Host, params: Mapping[str, Any]) -> str:
    root = os.path.dirname(params.get("toolchain_dir") or "")
    modules = (host.read(os.path.join(root, choice.family, choice.version, "go.mod")) or b"" for choice in builds)
    return max((golang.least_version(module.decode()) for module in modules), key=golang.numbers)
