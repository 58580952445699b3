# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From where this machine gets Debian packages, including those of other releases."""

from __future__ import annotations

import os

from .._core.host.host import Host

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"  # of the package debian-archive-keyring
MIRROR = "http://deb.debian.org/debian"  # Debian's own, used when this machine's apt names none


def debian_mirror(host: Host) -> str:
    """The Debian mirror of this machine's apt; "" if there is none."""
    directory = "/etc/apt/sources.list.d"
    paths = [os.path.join(directory, name) for name in host.listdir(directory) if name.endswith((".sources", ".list"))]
    for path in ["/etc/apt/sources.list", *paths]:
        for line in (host.read(path) or b"").decode(errors="replace").splitlines():
            words = line.split()
            if words and words[0] in ("deb", "URIs:"):
                mirrors = [word for word in words if "://" in word and word.rstrip("/").endswith("/debian")]
                if mirrors:
                    return mirrors[0]
    return ""
