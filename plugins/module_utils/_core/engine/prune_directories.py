# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removes directories that were created only to hold what is removed now."""

from __future__ import annotations

import os
from contextlib import suppress

from ..host.host import Host
from ..host.names import MARK
from ..text.errors import HostError
from .ownership import has_trusted_owner, release


def remove_emptied(host: Host, directory: str) -> None:
    """Remove `directory` if it has our mark and is otherwise empty. Then remove its parents as long as they are empty,
    belong to root or this user, and are either named `ballast` or directly inside such a directory.

    A parent that cannot be removed is left: somebody has mounted a disk there.
    """
    release(host, directory)
    if host.stat(directory) is not None:
        return
    path = os.path.dirname(directory)
    while MARK in (os.path.basename(path), os.path.basename(os.path.dirname(path))) and not host.listdir(path):
        stat = host.stat(path)
        if stat is not None and has_trusted_owner(stat):
            with suppress(HostError):
                host.remove_directory(path)
        path = os.path.dirname(path)
