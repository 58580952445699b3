# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the file that names resolvers which pods can reach.

systemd-resolved, the default of Ubuntu and Fedora, makes /etc/resolv.conf name its stub on loopback, where nothing listens in a
network namespace. It writes the real resolvers to another file, see systemd-resolved.service(8). So do NetworkManager, see
NetworkManager.conf(5), and Debian's dnsmasq with resolvconf(8).
"""

from __future__ import annotations

import ipaddress
from typing import Optional

from .._core.host.host import Host

DEFAULT = "/etc/resolv.conf"  # a kubelet's default, kubelet.config.k8s.io/v1beta1
OF_RESOLVED = "/run/systemd/resolve/resolv.conf"
BEHIND_STUBS = (OF_RESOLVED, "/run/NetworkManager/no-stub-resolv.conf", "/run/dnsmasq/resolv.conf")


def find_resolv_conf(host: Host) -> str:
    """The file for pods if it is not the default; "" if the default is usable, or no other file is."""
    if _reachable(host.read(DEFAULT)):
        return ""
    return next((path for path in BEHIND_STUBS if _reachable(host.read(path))), "")


def _reachable(data: Optional[bytes]) -> bool:
    """Whether a file names a resolver that is not on this machine's loopback."""
    rows = [line.split() for line in (data or b"").decode(errors="replace").splitlines()]
    return any(not _is_loopback(row[1]) for row in rows if row[:1] == ["nameserver"] and len(row) > 1)


def _is_loopback(address: str) -> bool:
    try:
        resolver = ipaddress.ip_address(address.partition("%")[0])
        return resolver.is_loopback or resolver.is_unspecified  # resolv.conf(5): 0.0.0.0 is this machine
    except ValueError:
        return True  # no address: no resolver
