# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sockets of a machine, as the kernel lists them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import NamedTuple

LISTENING = "0A"  # TCP_LISTEN, include/net/tcp_states.h
_UDP_UNCONNECTED = "07"  # how the kernel shows a UDP socket that takes packets from everyone


class Socket(NamedTuple):
    address: str  # its own
    port: int
    state: str  # as the kernel writes it, "0A"
    inode: str

    @property
    def is_open_to_all(self) -> bool:
        """It takes connections, or packets, from whoever sends them."""
        return self.state in (LISTENING, _UDP_UNCONNECTED)


def parse_sockets(text: str) -> Iterator[Socket]:
    """/proc/net/tcp, tcp6, udp or udp6. A line that is cut short (the kernel writes while we read) is passed over."""
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) < 10:
            continue
        address, _colon, port = words[1].partition(":")
        try:
            yield Socket(_address(address), int(port, 16), words[3], words[9])
        except ValueError:
            continue


def _address(text: str) -> str:
    """The kernel prints each 32-bit word of an address in its own byte order, little-endian where we run."""
    data = bytes.fromhex(text)
    words = [data[start : start + 4][::-1] for start in range(0, len(data), 4)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
