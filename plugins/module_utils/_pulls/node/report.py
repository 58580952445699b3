# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is in effect at each level, and where it comes from."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Optional

from ..._core.errors import BallastError
from ..._core.host import Host
from ..deployment.installation import INSTALLATION, RUNNING
from ..proxy.settings import Settings
from . import containerd, crio, kubelet
from .containerd_tables import CRI_IMAGES, CRI_V2, TRANSFER, keys_of
from .model import CRIO, HOST_SPEC, Where
from .proxy_limits import file_limits
from .toml import Tables, head_imports, tables

DEFAULT = "default"
_PER_IMAGE, _NODE_WIDE = "layers of each image", "layers of all images"


@dataclass
class Seen:
    """What was found on the way to a report, for who goes on from there. `errors` by level: why part of it is not known."""

    kubelet: Optional[kubelet.Kubelet] = None
    containerd: Optional[containerd.Containerd] = None
    config: Tables = field(default_factory=dict)  # containerd's own reading of its files
    errors: dict[str, list[BallastError]] = field(default_factory=dict)


def reported(host: Host, where: Where, find_runtime: Callable[[], tuple[str, str]], seen: Seen) -> dict[str, object]:
    """`find_runtime` answers its name and its service. Each level has `settings`, by key `{value, source}`, and `unread`: why
    part of it is not known, "" where all is."""
    return {
        "kubelet": _level(seen, "kubelet", lambda: _kubelet(host, where, seen)),
        "runtime": _level(seen, "runtime", lambda: _runtime(host, where, *find_runtime(), seen)),
        "host": _level(seen, "host", lambda: _host(host)),
    }


def _level(seen: Seen, name: str, read: Callable[[], dict[str, object]]) -> dict[str, object]:
    try:
        return read()
    except BallastError as error:
        seen.errors.setdefault(name, []).append(error)
        return {"settings": {}, "unread": error.in_one_line}


def _row(value: object, source: Optional[str]) -> dict[str, object]:
    return {"value": value, "source": source}


def _kubelet(host: Host, where: Where, seen: Seen) -> dict[str, object]:
    found = seen.kubelet = kubelet.find_kubelet(host, where)
    unread = seen.errors.setdefault("kubelet", [])
    effective, files = None, None
    try:
        effective = kubelet.read_in_effect(host, where, found)
    except BallastError as error:
        unread.append(error)
    try:
        files = kubelet.config_files(host, found)
    except BallastError as error:
        unread.append(error)
    flags = {one.key: one for one in kubelet.flags_found(host, found, tuple(kubelet.FLAGS))}
    settings = {}
    for key in kubelet.DEFAULTS:
        value, source = (None, None) if files is None else from_files(key, files)
        if key in flags:
            value, source = None, f"{flags[key].flag} of {', '.join(flags[key].places)}"
        settings[key] = _row(value if effective is None else effective[key], source)
    return {
        "service": found.service,
        "running": found.pid is not None,
        "config_dir": kubelet.config_dir(host, found),
        "read_back": effective is not None,
        "settings": settings,
        "unread": "; ".join(error.in_one_line for error in unread),
    }


def from_files(key: str, files: list[tuple[str, Mapping[str, Any]]]) -> tuple[Any, str]:
    """The value of a key and the last file that sets it. Null takes a key away. Where the base file limits parallel pulls
    and does not say that they are serial, they are not: SetDefaults_KubeletConfiguration."""
    value, source = kubelet.DEFAULTS[key], DEFAULT
    most = files[0][1].get("maxParallelImagePulls") if files else None
    if key == "serializeImagePulls" and isinstance(most, int) and most > 1:
        value = False
    for path, settings in files:
        if key in settings:
            given = settings[key]
            value, source = (kubelet.DEFAULTS[key] if given is None else given), path
    return value, source


def _runtime(host: Host, where: Where, name: str, service: str, seen: Seen) -> dict[str, object]:
    if name == CRIO:
        effective = crio.read_in_effect(host)
        path = os.path.join(crio.CONFIG_DIRECTORY, crio.FILE_NAME)
        ours = (host.read(path) or b"").decode(errors="replace")
        rows = {key: _row(value, path if f"\n{key} =" in ours else None) for key, value in effective.items()}
        return {"name": name, "service": service, "settings": rows, "unread": ""}
    found = seen.containerd = containerd.find_containerd(host, service, where.runtime_config)
    config = seen.config = containerd.dump(host, found)
    main = (host.read(found.config_path) or b"").decode(errors="replace")
    files = _containerd_files(host, found.config_path, main)
    recorded = next((path for path, _text in files if os.path.basename(path) == containerd.FILE_NAME), None)
    place = containerd.containerd_place(host, found, config, recorded)
    effective = config.get(place.effective, {})
    rows = {
        key: _row(effective.get(key), _containerd_source(files, place.effective, key))
        for key in keys_of(found.version, place)
    }
    return {
        "name": name,
        "service": service,
        "version": ".".join(map(str, found.version)),
        "config_path": found.config_path,
        "table": place.effective.replace("plugins.", "", 1),
        "scope": _PER_IMAGE if found.version < (2, 1) else _NODE_WIDE,
        "local_pull": place.local_pull,
        "settings": rows,
        "unread": "",
    }


def _containerd_files(host: Host, config_path: str, main: str) -> list[tuple[str, str]]:
    """The files that containerd reads, in order, with their text: its own, and what it imports."""
    found = [(config_path, main)]
    for pattern in head_imports(main) or []:
        directory, name = os.path.split(os.path.join(os.path.dirname(config_path), pattern))
        for entry in host.listdir(directory):
            if fnmatch.fnmatchcase(entry, name):
                path = os.path.join(directory, entry)
                found.append((path, (host.read(path) or b"").decode(errors="replace")))
    return found


def _containerd_source(files: list[tuple[str, str]], table: str, key: str) -> str:
    names = (TRANSFER,) if table == TRANSFER else (CRI_IMAGES, CRI_V2)
    setting = [path for path, text in files if any(key in tables(text).get(name, {}) for name in names)]
    return setting[-1] if setting else DEFAULT


def _host(host: Host) -> dict[str, object]:
    limits = file_limits(host)
    if limits is None:
        return {"config_path": INSTALLATION.config, "installed": False, "running": False, "settings": {}, "unread": ""}
    running = RUNNING.running_settings(host)
    effective = {**asdict(Settings(listeners=(), max_in_flight=0)), **(running or {})}
    rows = {
        key: _row(
            effective[key] if running is not None or limits[key] is None else limits[key],
            DEFAULT if limits[key] is None else INSTALLATION.config,
        )
        for key in HOST_SPEC
    }
    unread = "" if running is not None else "the proxy does not answer: these are the values of its file"
    return {
        "config_path": INSTALLATION.config,
        "installed": True,
        "running": running is not None,
        "settings": rows,
        "unread": unread,
    }
