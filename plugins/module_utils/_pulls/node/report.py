# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The values in effect at each level, and their sources."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Optional

from ..._core.host.host import Host
from ..._core.text.errors import BallastError
from ..._kubelet.config import ConfigFile, find_config_dir, read_config_files
from ..._kubelet.find import Kubelet
from ..deployment.installation import INSTALLATION, RUNNING
from ..proxy.settings import Settings
from . import containerd, crio, kubelet
from .containerd_files import read_files, source_of
from .containerd_tables import keys_of
from .model import CRIO, HOST_SPEC, NodeLayout
from .proxy_limits import read_file_limits
from .runtime import find_runtime
from .toml import Tables

DEFAULT = "default"
_PER_IMAGE, _NODE_WIDE = "layers of each image", "layers of all images"


@dataclass
class Seen:
    """What a report has read, for further use by its caller. `errors` by level: why part of it is unknown."""

    kubelet: Optional[Kubelet] = None
    containerd: Optional[containerd.Containerd] = None
    config: Tables = field(default_factory=dict)  # containerd's own merge of its files
    errors: dict[str, list[BallastError]] = field(default_factory=dict)


def read_levels(host: Host, layout: NodeLayout, seen: Seen) -> dict[str, object]:
    """Each level has `settings`, by key `{value, source}`, and `unread`: why part of it is unknown, or ""."""
    return {
        "kubelet": _level(seen, "kubelet", lambda: _kubelet(host, layout, seen)),
        "runtime": _level(seen, "runtime", lambda: _runtime(host, layout, seen)),
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


def _kubelet(host: Host, layout: NodeLayout, seen: Seen) -> dict[str, object]:
    running = seen.kubelet = kubelet.find_kubelet(host, layout)
    unread = seen.errors.setdefault("kubelet", [])
    effective, files = None, None
    try:
        effective = kubelet.read_in_effect(host, layout, running)
    except BallastError as error:
        unread.append(error)
    try:
        files = read_config_files(host, running)
    except BallastError as error:
        unread.append(error)
    flags = {flag.key: flag for flag in kubelet.find_overriding_flags(host, running, tuple(kubelet.FLAGS))}
    settings = {}
    for key in kubelet.DEFAULTS:
        value, source = (None, None) if files is None else from_files(key, files)
        if key in flags:
            value, source = None, f"{flags[key].flag} of {', '.join(flags[key].places)}"
        settings[key] = _row(value if effective is None else effective[key], source)
    return {
        "service": running.service,
        "running": running.pid is not None,
        "managed_by": running.distribution.name if running.distribution else "",
        "config_dir": find_config_dir(host, running),
        "read_back": effective is not None,
        "settings": settings,
        "unread": "; ".join(error.in_one_line for error in unread),
    }


def from_files(key: str, files: Sequence[ConfigFile]) -> tuple[Any, str]:
    """The value of a key, and the last file that sets it. Null removes a key. A base file that limits parallel pulls makes
    serializeImagePulls false unless it sets that key: SetDefaults_KubeletConfiguration."""
    value, source = kubelet.DEFAULTS[key], DEFAULT
    most = next((file.settings.get("maxParallelImagePulls") for file in files if file.is_base), None)
    if key == "serializeImagePulls" and isinstance(most, int) and most > 1:
        value = False
    for file in files:
        if key in file.settings:
            given = file.settings[key]
            value, source = (kubelet.DEFAULTS[key] if given is None else given), file.path
    return value, source


def _runtime(host: Host, layout: NodeLayout, seen: Seen) -> dict[str, object]:
    name, service = find_runtime(host, layout)
    if name == CRIO:
        effective = crio.read_in_effect(host)
        path = os.path.join(crio.CONFIG_DIRECTORY, crio.FILE_NAME)
        ours = (host.read(path) or b"").decode(errors="replace")
        rows = {key: _row(value, path if f"\n{key} =" in ours else None) for key, value in effective.items()}
        return {"name": name, "service": service, "settings": rows, "unread": ""}
    running = seen.containerd = containerd.find_containerd(host, service, layout.runtime_config)
    config = seen.config = containerd.dump_with_cri(host, running)
    files = read_files(host, running.config_path, running.version)
    recorded = next((path for path, _text in files if os.path.basename(path) == containerd.FILE_NAME), None)
    place = containerd.find_place(host, running, config, recorded)
    effective = config.get(place.effective, {})
    rows = {
        key: _row(effective.get(key), source_of(files, place.effective, key, running.version) or DEFAULT)
        for key in keys_of(running.version, place)
    }
    return {
        "name": name,
        "service": service,
        "version": ".".join(map(str, running.version)),
        "config_path": running.config_path,
        "table": place.effective.replace("plugins.", "", 1),
        "scope": _PER_IMAGE if running.version < (2, 1) else _NODE_WIDE,
        "local_pull": place.local_pull,
        "settings": rows,
        "unread": "",
    }


def _host(host: Host) -> dict[str, object]:
    limits = read_file_limits(host)
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
    unread = "" if running is not None else "the proxy does not respond: these are the values in its file"
    return {
        "config_path": INSTALLATION.config,
        "installed": True,
        "running": running is not None,
        "settings": rows,
        "unread": unread,
    }
