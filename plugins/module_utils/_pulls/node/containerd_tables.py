# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which table of containerd's configuration limits pulls, by its version and by its way to pull. Pure.

1.6, 1.7   the CRI plugin's table; an imported file would replace the whole table (containerd#5837), so the number is set in
           the main file
2.0        the CRI plugin's table for images, into which imported files are merged (containerd#9982)
2.1        the transfer service's table, for the whole node; the CRI plugin's if containerd pulls without the transfer service
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

from .drop_in import HEADING
from .messages import MESSAGES
from .toml import Tables

CRI_V2 = "plugins.io.containerd.grpc.v1.cri"
CRI_IMAGES = "plugins.io.containerd.cri.v1.images"
TRANSFER = "plugins.io.containerd.transfer.v1.local"
DOWNLOADS = "max_concurrent_downloads"
# The first containerd release that has the key.
_SINCE = {DOWNLOADS: (1, 6), "concurrent_layer_fetch_buffer": (2, 1), "max_concurrent_unpacks": (2, 2)}
_OLDEST, _NEWEST_MAJOR = (1, 6), 2
_DEFAULT_DOWNLOADS = 3
# Settings of the CRI plugin's table that the transfer service does not support: with one of them containerd pulls without it
# (internal/cri/config, CheckLocalImagePullConfigs).
_LOCAL_PULL = {
    "use_local_image_pull": True,
    "disable_snapshot_annotations": False,
    "discard_unpacked_layers": True,
    "image_pull_with_sync_fs": True,
}
_LOCAL_PULL_TABLES = ("registry.mirrors", "registry.configs", "registry.auths")
_VERSION = re.compile(r"\bv?([0-9]+)\.([0-9]+)\.[0-9]+")

OURS = frozenset(f"{table}.{key}" for table in (CRI_V2, CRI_IMAGES, TRANSFER) for key in _SINCE)

Version = tuple[int, int]


@dataclass(frozen=True)
class Place:
    """`effective` is the table's name in a dump, `header` its name in a file of version `file_version`."""

    effective: str
    header: str
    file_version: int
    in_main_file: bool  # a drop-in would replace more than the key
    local_pull: str  # why containerd 2.1 or newer pulls without its transfer service; "" if it uses the service


def parse_version(text: str) -> Optional[Version]:
    """The version in the output of `containerd --version`; None if it has none."""
    match = _VERSION.search(text)
    return None if match is None else (int(match[1]), int(match[2]))


def choose_place(version: Version, file_version: int, dump: Tables, *, ours: Mapping[str, object]) -> Place:
    """`file_version` is that of the main file, which an imported file must not exceed. `ours` is what our drop-in sets in the
    CRI plugin's table. HostError if the limit cannot be set."""
    if version < _OLDEST or version[0] > _NEWEST_MAJOR:
        raise MESSAGES.error("pulls-node-runtime-version", version=".".join(map(str, version)))
    if version < (2, 0):
        return Place(CRI_V2, "io.containerd.grpc.v1.cri", file_version, True, "")
    cri = "io.containerd.cri.v1.images" if file_version > 2 else "io.containerd.grpc.v1.cri"
    if version < (2, 1):
        return Place(CRI_IMAGES, cri, file_version, False, "")
    reason = local_pull(dump, ours)
    if reason:
        return Place(CRI_IMAGES, cri, file_version, False, reason)
    return Place(TRANSFER, "io.containerd.transfer.v1.local", file_version, False, "")


def local_pull(dump: Tables, ours: Mapping[str, object]) -> str:
    """Why containerd pulls without its transfer service; "" if it uses the service. HostError if the number of downloads is the only
    reason: its author wanted another limit, and got another way to pull."""
    images = dump.get(CRI_IMAGES, {})
    for key, value in _LOCAL_PULL.items():
        if images.get(key) is value:
            return f"{key} = {str(value).lower()}"
    for name in _LOCAL_PULL_TABLES:
        if any(table.startswith(f"{CRI_IMAGES}.{name}.") for table in dump):
            return f"{name} is set"
    downloads = images.get(DOWNLOADS, _DEFAULT_DOWNLOADS)
    if downloads != _DEFAULT_DOWNLOADS and DOWNLOADS not in ours:
        raise MESSAGES.error("pulls-node-local-pull", value=downloads)
    return ""


def keys_of(version: Version, place: Place) -> list[str]:
    """The limits that this version has in that table."""
    keys = [key for key, since in _SINCE.items() if since <= version]
    return [key for key in keys if key != "max_concurrent_unpacks" or not place.local_pull]


def check_keys(settings: Mapping[str, object], version: Version, place: Place) -> None:
    """Raise for the first key that this containerd lacks."""
    shown = f"containerd {version[0]}.{version[1]}"
    for key in settings:
        since = _SINCE.get(key)
        if since is None:
            has = ", ".join(name for name, first in _SINCE.items() if first <= version)
            raise MESSAGES.error("pulls-node-runtime-key", key=key, runtime=shown, why="", hint=f"it has {has}")
        if version < since:
            hint = f"omit it, or use containerd {since[0]}.{since[1]} or newer"
            raise MESSAGES.error("pulls-node-runtime-key", key=key, runtime=shown, why="", hint=hint)
        if key == "max_concurrent_unpacks" and place.local_pull:
            why = f", which pulls without its transfer service ({place.local_pull})"
            hint = "omit it, or remove the setting that disables the transfer service"
            raise MESSAGES.error("pulls-node-runtime-key", key=key, runtime=shown, why=why, hint=hint)


def drop_in_text(place: Place, settings: Mapping[str, int]) -> str:
    """A configuration file with the version and the table of `place`, which sets these keys."""
    rows = "".join(f"  {key} = {settings[key]}\n" for key in sorted(settings))
    return f'{HEADING}version = {place.file_version}\n\n[plugins."{place.header}"]\n{rows}'
