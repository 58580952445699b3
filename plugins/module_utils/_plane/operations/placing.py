# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Putting restored data in the place of what was there: by renames, one after the other, each of which can be the last
before a kill. Run again, it goes on where it was.

    STATE_DIR/restore/new/NAME   what is to come; gone once it is in its place
    STATE_DIR/before-restore-*   what was there
"""

from __future__ import annotations

import os

from ..._core.host import Host
from .archive import KEPT, SECONDS

ETCD = "etcd"
_PLACES = {ETCD: ETCD, **KEPT}


def work_path(state_dir: str) -> str:
    return os.path.join(state_dir, "restore")


def new_path(state_dir: str, name: str) -> str:
    return os.path.join(work_path(state_dir), "new", name)


def place_all(host: Host, state_dir: str, *, aside: str) -> None:
    """Every part that is ready under `new`."""
    for name in _PLACES:
        new, place = new_path(state_dir, name), os.path.join(state_dir, _PLACES[name])
        if host.stat(new) is None:
            continue  # not part of this backup, or in its place since before a kill
        if _is_another(host, new, place):
            _move(host, place, os.path.join(aside, name))
        _move(host, new, place)


def _is_another(host: Host, new: str, place: str) -> bool:
    """Whether what is there is to be kept: not nothing, not an empty directory, not the same file."""
    found = host.stat(place)
    if found is None:
        return False
    if found.kind == "directory":
        return bool(host.listdir(place))
    return host.read(place) != host.read(new)


def _move(host: Host, old: str, new: str) -> None:
    host.run(["mv", "--no-target-directory", "--", old, new], timeout=SECONDS)
