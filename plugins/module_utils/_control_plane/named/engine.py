# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of a named control plane: one without a lab, with a name among the labs and control planes of this host.

    PLANE_DIR/settings.json   its settings: profile, version, address, ports, options
    PLANE_DIR/plane           the state directory of the module control_plane
    PLANE_DIR/bin             link to the binaries

Omitted options keep their recorded values, so a run without options starts the existing control plane on the same ports.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ..._binaries.families import DEFAULT_KUBERNETES
from ..._core.engine.context import Context
from ..._core.engine.engine import Finding, ResourceEngine
from ..._core.engine.events import PROGRESS_LOG
from ..._core.engine.kinds import BASE_KINDS, Kind, file
from ..._core.engine.plan import Plan, Resource
from ..._core.engine.prune_directories import remove_emptied
from ..._core.engine.shared_directory import SHARED_KINDS
from ..._core.host.host import Host
from ..._core.host.sockets import read_listeners
from ..._core.text.errors import BallastError, Problems
from ..._core.text.json_text import NotJson, parse_json
from ..._core.text.naming import format_name
from ..._registry.names import (
    find_registered_name,
    list_leftovers,
    list_registered_names,
    read_registration,
    registration,
)
from ..profiles.profiles import GENERIC
from ..request import PORTS, PRESENT, ControlPlaneRequest
from ..spec import MAKE
from .messages import MESSAGES
from .ports import free_ports, keep_recorded, port_range
from .programs import required_families

VERSION = 1
DEFAULT_NAME = "plane"
DEFAULT_ADDRESS = "127.0.0.1"
# Options of the module control_plane that are set from the record, and those that need nodes or act only once.
_DECIDED = {"address", "bin_dir", "kubeconfig", "kubernetes_version", "name", "progress_log", "state", "state_dir"}
_NOT_KEPT = {"nodes", "pod_cidr", "renew_certificates"}
OPTIONS: dict[str, dict[str, Any]] = {option: row for option, row in MAKE.items() if option not in _DECIDED | _NOT_KEPT}
_FORMER = {alias: option for option, row in OPTIONS.items() for alias in row.get("aliases", ())}
SETTINGS = "settings.json"  # in PLANE_DIR
_RESULTS = {"admin.kubeconfig": "file", "bin": "symlink", "events.jsonl": "file"}

SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
    "plane_dir": {"type": "path", "required": True},
    "name": {"type": "str"},
    "kubernetes_version": {"type": "str"},
    "address": {"type": "str"},
    "options": {"type": "dict", "default": {}},
    "toolchain_dir": {"type": "path"},
    **PROGRESS_LOG,
}

Settings = dict[str, Any]
Typed = Callable[[Mapping[str, Mapping[str, Any]], Mapping[str, Any]], tuple[dict[str, Any], list[str]]]


@dataclass(frozen=True)
class NamedControlPlaneRequest:
    state: str
    state_dir: str  # PLANE_DIR
    name: str
    settings: Optional[Settings]  # None for absent


def resolve_request(params: Mapping[str, Any], host: Host, typed: Typed) -> NamedControlPlaneRequest:
    """The request, completed from the record and from free ports of this host. `typed` reads options as Ansible does."""
    plane_dir = params["plane_dir"].rstrip("/") or "/"
    previous = read_settings(host, plane_dir)
    recorded: Mapping[str, Any] = previous or {}
    if params["state"] == "absent":
        return NamedControlPlaneRequest(
            state="absent", state_dir=plane_dir, name=recorded.get("name", ""), settings=None
        )
    name = params["name"] or recorded.get("name", DEFAULT_NAME)
    if previous is not None and name != previous["name"]:
        raise MESSAGES.error("plane-fixed", value=name, recorded=previous["name"])
    other = read_registration(host, name)
    if other is not None and other != plane_dir:
        raise MESSAGES.error("plane-name-taken", name=name, directory=other)
    given = {_FORMER.get(option, option) for option in params["options"]}
    kept = {option: value for option, value in recorded.get("options", {}).items() if option not in given}
    options = {"profile": GENERIC, **kept, **params["options"]}
    full, problems = _typed_options(options, typed)
    Problems.raise_if(problems)
    version = (params["kubernetes_version"] or recorded.get("kubernetes_version", DEFAULT_KUBERNETES)).lstrip("v")
    versions = host.listdir(params["toolchain_dir"]) if params["toolchain_dir"] else []
    if versions and version not in versions:
        raise MESSAGES.error("plane-version-unbuilt", value=version, versions=", ".join(sorted(versions)))
    address = params["address"] or recorded.get("address", DEFAULT_ADDRESS)
    requested_ports = {option: full[option] for option in PORTS if option in options}
    names = sorted({_FORMER.get(option, option) for option in options} - set(PORTS))
    settings = {
        "version": VERSION,
        "plane_dir": plane_dir,
        "name": name,
        "kubernetes_version": version,
        "address": address,
        "ports": {**_choose_ports(host, plane_dir, address, recorded), **requested_ports},
        "options": {option: full[option] for option in names},
    }
    # Raises every input error before anything is recorded.
    to_control_plane(settings, full)
    return NamedControlPlaneRequest(state="present", state_dir=plane_dir, name=name, settings=settings)


def to_control_plane(settings: Mapping[str, Any], full: Mapping[str, Any]) -> ControlPlaneRequest:
    """The request for the module control_plane. Raises all input errors."""
    given = {
        **full,
        **settings["ports"],
        "state": PRESENT,
        "state_dir": state_dir_of(settings["plane_dir"]),
        "name": settings["name"],
        "kubernetes_version": settings["kubernetes_version"],
        "bin_dir": os.path.join(settings["plane_dir"], "bin"),
        "address": settings["address"],
        "kubeconfig": os.path.join(settings["plane_dir"], "admin.kubeconfig"),
    }
    return ControlPlaneRequest.from_params({**{option: row.get("default") for option, row in MAKE.items()}, **given})


class NamedControlPlaneEngine(ResourceEngine[NamedControlPlaneRequest]):
    name = "named-plane"
    record = SETTINGS
    kinds: Mapping[str, Kind] = {**BASE_KINDS, **SHARED_KINDS}

    def wanted(self, ctx: Context[NamedControlPlaneRequest]) -> list[Resource]:
        desired = ctx.desired
        if desired.settings is None:
            return []
        text = json.dumps(desired.settings, indent=2, sort_keys=True) + "\n"
        title = f"name {desired.name} among the labs and control planes of this host"
        return [
            *registration(desired.name, desired.state_dir, group="plane", title=title),
            file(settings_path(desired.state_dir), text, title="record of the control plane", group="plane"),
        ]

    def apply(self, plan: Plan, ctx: Context[NamedControlPlaneRequest]) -> Plan:
        desired, host = ctx.desired, ctx.host
        is_removal = desired.settings is None and bool(desired.name)
        if is_removal:
            self.read_recorded(ctx)  # its directory is ours
            for result, kind in _RESULTS.items():
                stat = host.stat(os.path.join(desired.state_dir, result))
                if stat is not None and stat.kind == kind:
                    host.remove(os.path.join(desired.state_dir, result))
        done = super().apply(plan, ctx)
        if is_removal:
            remove_emptied(host, desired.state_dir)
        return done

    def verify(self, ctx: Context[NamedControlPlaneRequest]) -> list[Finding]:
        """What a removal left behind; empty after any other run."""
        desired = ctx.desired
        if desired.settings is not None or not desired.name:
            return []
        leftovers = list(list_leftovers(ctx.host, name=desired.name, directory=desired.state_dir))
        if not leftovers:
            return []
        error = MESSAGES.error("plane-left", name=desired.name, count=len(leftovers))
        text = f"{error.text}: {', '.join(leftovers)}"
        return [
            Finding(id=error.id, subject=format_name("control plane", desired.name), text=text, remedy=error.remedy)
        ]

    def preview(self, ctx: Context[NamedControlPlaneRequest]) -> dict[str, object]:
        settings = ctx.desired.settings
        name = ctx.desired.name or find_registered_name(ctx.host, ctx.desired.state_dir)
        return {"name": name, "plane": describe(settings) if settings else None}


ENGINE = NamedControlPlaneEngine()


def describe(settings: Settings) -> dict[str, Any]:
    """The record, with the endpoint and the binaries that follow from it."""
    endpoint = f"https://{settings['address']}:{settings['ports']['secure_port']}"
    made = to_control_plane(settings, settings["options"])
    return {**settings, "endpoint": endpoint, "families": required_families(made.composition.processes)}


def settings_path(plane_dir: str) -> str:
    return os.path.join(plane_dir, SETTINGS)


def state_dir_of(plane_dir: str) -> str:
    """The state directory of the module control_plane."""
    return os.path.join(plane_dir, "plane")


def read_settings(host: Host, plane_dir: str) -> Optional[Settings]:
    """The settings; None when there is no control plane."""
    path = settings_path(plane_dir)
    data = host.read(path)
    if data is None:
        return None
    try:
        settings: Settings = parse_json(data)
        if settings["version"] != VERSION:
            raise ValueError(f"version {settings['version']}")
        # Records of earlier versions have former names of options.
        settings["options"] = {
            _FORMER.get(option, option): value for option, value in dict(settings["options"]).items()
        }
    except NotJson as error:
        raise MESSAGES.error("plane-record", path=path, found=error.found) from error
    except (ValueError, KeyError, TypeError) as error:
        raise MESSAGES.error("plane-record", path=path, found=str(error)) from error
    return settings


def read_named(host: Host, plane_dir: str) -> dict[str, Any]:
    """The record as `describe` returns it; UserError when there is no control plane."""
    settings = read_settings(host, plane_dir.rstrip("/"))
    if settings is None:
        raise MESSAGES.error(
            "plane-none", directory=plane_dir, names=", ".join(sorted(list_registered_names(host))) or "none"
        )
    return describe(settings)


def _typed_options(options: Mapping[str, Any], typed: Typed) -> tuple[dict[str, Any], list[BallastError]]:
    unknown = sorted(set(options) - set(OPTIONS) - set(_FORMER))
    if unknown:
        near = {name: difflib.get_close_matches(name, OPTIONS, n=1) for name in unknown}
        meant = {name: f" (meant: plane_{matches[0]})" if matches else "" for name, matches in near.items()}
        return {}, [MESSAGES.error("plane-option-unknown", name=name, nearest=meant[name]) for name in unknown]
    full, reasons = typed(OPTIONS, options)
    return full, [MESSAGES.error("plane-option-value", reason=reason) for reason in reasons]


def _choose_ports(host: Host, plane_dir: str, address: str, recorded: Mapping[str, Any]) -> dict[str, int]:
    mine = recorded.get("ports", {}) if recorded.get("address") == address else {}
    taken = {socket.port for socket in read_listeners(host, address)} - set(mine.values())
    for other in _others(host, plane_dir):
        if other["address"] == address:
            taken |= set(other["ports"].values())  # also of stopped control planes
    free = free_ports(taken)
    if free is None:
        first, last = port_range()
        raise MESSAGES.error("plane-ports-used-up", address=address, first=first, last=last)
    return keep_recorded(mine, free)


def _others(host: Host, plane_dir: str) -> Iterator[Settings]:
    for name in list_registered_names(host):
        directory = read_registration(host, name)
        settings = read_settings(host, directory) if directory and directory != plane_dir else None
        if settings is not None:
            yield settings
