# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Replaces data with restored data, by one rename after the other. After a kill between two renames, the next run continues.

STATE_DIR/restore/new/NAME   restored data; gone once it is in its place
STATE_DIR/before-restore-*   the replaced data
"""

from __future__ import annotations

import os

from ..._core.engine.ownership import is_only_marked, list_content
from ..._core.host.host import Host
from ..._core.host.names import MARKER
from ..request import MEMBERS
from .archive import KEPT, SECONDS

ETCD = "etcd"
_DATA = [ETCD, *(f"{ETCD}-{number}" for number in range(2, MEMBERS[-1] + 1))]
_PLACES = {**{name: name for name in _DATA}, **KEPT}


def work_path(state_dir: str) -> str:
    """The directory of an unfinished restore."""
    return os.path.join(state_dir, "restore")


def new_path(state_dir: str, name: str) -> str:
    """Where the restored `name` (etcd's data or a kept file) is before it is put in place."""
    return os.path.join(work_path(state_dir), "new", name)


def place_all(host: Host, state_dir: str, *, aside: str) -> None:
    """Move every part that is ready under `new` to its place."""
    for name in _PLACES:
        new, place = new_path(state_dir, name), os.path.join(state_dir, _PLACES[name])
        if host.stat(new) is None:
            continue  # not part of this backup, or already in its place
        if _is_another(host, new, place):
            _move(host, place, os.path.join(aside, name))
        elif is_only_marked(host, place):
            host.remove(os.path.join(place, MARKER))  # the new directory has its own
        _move(host, new, place)


def _is_another(host: Host, new: str, place: str) -> bool:
    """Whether `place` holds data to keep: neither absent, nor an empty directory, nor the same file."""
    stat = host.stat(place)
    if stat is None:
        return False
    if stat.kind == "directory":
        return bool(list_content(host, place))
    return host.read(place) != host.read(new)


def _move(host: Host, old: str, new: str) -> None:
    host.run(["mv", "--no-target-directory", "--", old, new], timeout=SECONDS)
