# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Directories that were made for what is removed."""

from __future__ import annotations

import os
from contextlib import suppress

from ..host.host import Host
from ..host.names import MARK
from ..text.errors import HostError
from .ownership import has_trusted_owner, release


def remove_emptied(host: Host, directory: str) -> None:
    """`directory` when it has our mark and nothing else is in it, then what is above it as far as it is empty, root's, and
    `ballast` or right in that.

    One that cannot go is not ours: somebody has a disk mounted there.
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
