# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of a plane: a control plane by itself, with a name among the labs and planes of this host.

    PLANE_DIR/settings.json   what it is to be: profile, version, address, ports, options
    PLANE_DIR/plane           what the module control_plane made
    PLANE_DIR/bin             link to the programs

What is not said stays as it was recorded, so that a plain run starts the plane that is there, on the same ports.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ..._core.emptied import remove_emptied
from ..._core.engine import Finding, ResourceEngine
from ..._core.errors import BallastError, Problems
from ..._core.events import Progress
from ..._core.host import Host, LocalHost
from ..._core.kinds import BASE_KINDS, Kind, file
from ..._core.plan import Plan, Resource, Step
from ..._core.registry import left, registered, registered_names, registration
from ..._core.shared import SHARED_KINDS
from ..desired import PORTS, PRESENT, ControlPlane
from ..profiles import GENERIC
from ..spec import MAKE
from .messages import MESSAGES
from .ports import free_ports, kept, listening, tried
from .programs import families

VERSION = 1
DEFAULT_NAME = "plane"
DEFAULT_ADDRESS = "127.0.0.1"
DEFAULT_KUBERNETES_VERSION = "1.37.1"
# Of the module control_plane: what the record decides, what a plane without nodes has no use for, and what is done once.
_DECIDED = {"address", "bin_dir", "events", "kubeconfig", "kubernetes_version", "name", "state", "state_dir"}
_NOT_KEPT = {"nodes", "pod_cidr", "renew_certificates"}
OPTIONS: dict[str, dict[str, Any]] = {option: row for option, row in MAKE.items() if option not in _DECIDED | _NOT_KEPT}
_RESULTS = ("admin.kubeconfig", "bin", "events.jsonl")

SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
    "plane_dir": {"type": "path", "required": True},
    "name": {"type": "str"},
    "kubernetes_version": {"type": "str"},
    "address": {"type": "str"},
    "options": {"type": "dict", "default": {}},
    "toolchain_dir": {"type": "path"},
    "events": {"type": "path"},
}

INFO_SPEC: dict[str, Any] = {"plane_dir": {"type": "path", "required": True}}

Settings = dict[str, Any]
Typed = Callable[[Mapping[str, Mapping[str, Any]], Mapping[str, Any]], tuple[dict[str, Any], list[str]]]


@dataclass(frozen=True)
class Named:
    state: str
    state_dir: str  # PLANE_DIR
    name: str
    settings: Optional[Settings]  # None for absent


def named_from_params(params: Mapping[str, Any], typed: Typed) -> Named:
    """Resolved against what an earlier run wrote down and what listens on this host. `typed` reads options as Ansible does."""
    host = LocalHost()
    plane_dir = params["plane_dir"].rstrip("/") or "/"
    previous = read_settings(host, plane_dir)
    recorded: Mapping[str, Any] = previous or {}
    if params["state"] == "absent":
        return Named(state="absent", state_dir=plane_dir, name=recorded.get("name", ""), settings=None)
    name = params["name"] or recorded.get("name", DEFAULT_NAME)
    if previous is not None and name != previous["name"]:
        raise MESSAGES.error("plane-fixed", value=name, recorded=previous["name"])
    other = registered(host, name)
    if other is not None and other != plane_dir:
        raise MESSAGES.error("plane-name-taken", name=name, directory=other)
    options = {"profile": GENERIC, **recorded.get("options", {}), **params["options"]}
    full, problems = _typed_options(options, typed)
    Problems.raise_if(problems)
    version = (params["kubernetes_version"] or recorded.get("kubernetes_version", DEFAULT_KUBERNETES_VERSION)).lstrip(
        "v"
    )
    versions = host.listdir(params["toolchain_dir"]) if params["toolchain_dir"] else []
    if versions and version not in versions:
        raise MESSAGES.error("plane-version-unbuilt", value=version, versions=", ".join(sorted(versions)))
    address = params["address"] or recorded.get("address", DEFAULT_ADDRESS)
    asked = {option: full[option] for option in PORTS if option in options}
    settings = {
        "version": VERSION,
        "plane_dir": plane_dir,
        "name": name,
        "kubernetes_version": version,
        "address": address,
        "ports": {**_ports(host, plane_dir, address, recorded), **asked},
        "options": {option: full[option] for option in sorted(options) if option not in PORTS},
    }
    # Everything that is wrong with it is said before it is written down.
    control_plane(settings, full)
    return Named(state="present", state_dir=plane_dir, name=name, settings=settings)


def control_plane(settings: Mapping[str, Any], full: Mapping[str, Any]) -> ControlPlane:
    """As the module control_plane will be given it. Problems, when it cannot be meant."""
    given = {
        **full,
        **settings["ports"],
        "state": PRESENT,
        "state_dir": os.path.join(settings["plane_dir"], "plane"),
        "name": settings["name"],
        "kubernetes_version": settings["kubernetes_version"],
        "bin_dir": os.path.join(settings["plane_dir"], "bin"),
        "address": settings["address"],
        "kubeconfig": os.path.join(settings["plane_dir"], "admin.kubeconfig"),
    }
    return ControlPlane.from_params({**{option: row.get("default") for option, row in MAKE.items()}, **given})


class NamedEngine(ResourceEngine[Named]):
    name = "plane"
    kinds: Mapping[str, Kind] = {**BASE_KINDS, **SHARED_KINDS}

    def resources(self, desired: Named) -> list[Resource]:
        if desired.settings is None:
            return []
        text = json.dumps(desired.settings, indent=2, sort_keys=True) + "\n"
        title = f"name {desired.name} among the labs and planes of this host"
        return [
            *registration(desired.name, desired.state_dir, group="plane", title=title),
            file(settings_path(desired.state_dir), text, title="record of the plane", group="plane"),
        ]

    def apply(self, plan: Plan, desired: Named, host: Host, progress: Progress) -> tuple[Step, ...]:
        is_removal = desired.settings is None and bool(desired.name)  # without a record, nothing there is ours
        if is_removal:
            for result in _RESULTS:
                host.remove(os.path.join(desired.state_dir, result))
        done = super().apply(plan, desired, host, progress)
        if is_removal:
            remove_emptied(host, desired.state_dir)
        return done

    def verify(self, desired: Named, host: Host, progress: Progress) -> list[Finding]:
        """After a removal: what stayed."""
        if desired.settings is not None or not desired.name:
            return []
        stayed = list(left(host, name=desired.name, directory=desired.state_dir))
        if not stayed:
            return []
        error = MESSAGES.error("plane-left", name=desired.name, count=len(stayed))
        text = f"{error.text}: {', '.join(stayed)}"
        return [Finding(id=error.id, subject=f"plane {desired.name}", text=text, remedy=error.remedy)]

    def preview(self, desired: Named) -> dict[str, object]:
        return {"plane": told(desired.settings) if desired.settings else None}

    def report(self, desired: Named, host: Host) -> dict[str, object]:
        return self.preview(desired)


ENGINE = NamedEngine()


def told(settings: Settings) -> dict[str, Any]:
    """The record, with what follows from it."""
    endpoint = f"https://{settings['address']}:{settings['ports']['secure_port']}"
    made = control_plane(settings, settings["options"])
    return {**settings, "endpoint": endpoint, "families": families(made.composition.processes)}


def settings_path(plane_dir: str) -> str:
    return os.path.join(plane_dir, "settings.json")


def read_settings(host: Host, plane_dir: str) -> Optional[Settings]:
    """None when there is no plane."""
    path = settings_path(plane_dir)
    data = host.read(path)
    if data is None:
        return None
    try:
        found: Settings = json.loads(data)
        if found["version"] != VERSION:
            raise ValueError(f"version {found['version']}")
    except (ValueError, KeyError, TypeError) as error:
        raise MESSAGES.error("plane-record", path=path, found=str(error)) from error
    return found


def read_plane(host: Host, plane_dir: str) -> dict[str, Any]:
    """The record with what follows from it; UserError when there is no plane."""
    settings = read_settings(host, plane_dir.rstrip("/"))
    if settings is None:
        raise MESSAGES.error("plane-none", directory=plane_dir)
    return {"plane": told(settings)}


def _typed_options(options: Mapping[str, Any], typed: Typed) -> tuple[dict[str, Any], list[BallastError]]:
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        near = {name: difflib.get_close_matches(name, OPTIONS, n=1) for name in unknown}
        meant = {name: f" (meant: plane_{found[0]})" if found else "" for name, found in near.items()}
        return {}, [MESSAGES.error("plane-option-unknown", name=name, nearest=meant[name]) for name in unknown]
    full, reasons = typed(OPTIONS, options)
    return full, [MESSAGES.error("plane-option-value", reason=reason) for reason in reasons]


def _ports(host: Host, plane_dir: str, address: str, recorded: Mapping[str, Any]) -> dict[str, int]:
    mine = recorded.get("ports", {}) if recorded.get("address") == address else {}
    taken = listening(host, address) - set(mine.values())
    for other in _others(host, plane_dir):
        if other["address"] == address:
            taken |= set(other["ports"].values())  # also of planes that are stopped
    free = free_ports(taken)
    if free is None:
        first, last = tried()
        raise MESSAGES.error("plane-ports-used-up", address=address, first=first, last=last)
    return kept(mine, free)


def _others(host: Host, plane_dir: str) -> Iterator[Settings]:
    for name in registered_names(host):
        directory = registered(host, name)
        settings = read_settings(host, directory) if directory and directory != plane_dir else None
        if settings is not None:
            yield settings
