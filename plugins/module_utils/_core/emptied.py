# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Directories that were made for what is removed."""

from __future__ import annotations

import os
from contextlib import suppress

from .errors import HostError
from .host import Host
from .names import MARK


def remove_emptied(host: Host, directory: str) -> None:
    """`directory` when nothing is in it, then what is above it as far as it is ours: `ballast`, and what lies right in that.

    One that cannot go is not ours: somebody has a disk mounted there.
    """
    path, ours = directory, True
    while ours and not host.listdir(path):
        if host.stat(path) is not None:
            with suppress(HostError):
                host.remove_directory(path)
        path = os.path.dirname(path)
        ours = MARK in (os.path.basename(path), os.path.basename(os.path.dirname(path)))
