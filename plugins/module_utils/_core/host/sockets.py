# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sockets of a machine, as the kernel lists them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from socket import timeout as timed_out
from typing import Optional
from urllib.parse import urlsplit

from ..text.errors import PeerError
from .host import KERNEL_LIMIT, LISTENING, Host, Response, Socket

_ANY = ("0.0.0.0", "::")
_UNCONNECTED = "07"  # TCP_CLOSE, which the kernel shows for an unconnected UDP socket


def parse_sockets(text: str) -> Iterator[Socket]:
    """Parse /proc/net/tcp, tcp6, udp or udp6. A truncated line, which may occur as the kernel writes while we read, is
    skipped."""
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) < 10:
            continue
        address, _colon, port = words[1].partition(":")
        try:
            yield Socket(_address(address), int(port, 16), words[3], words[9], int(words[7]))
        except ValueError:
            continue


def listed_listeners(host: Host) -> list[Socket]:
    """All listening TCP sockets, found in /proc/net/tcp, which lists all sockets and is slow to read."""
    texts = [
        (host.read(path, limit=KERNEL_LIMIT) or b"").decode(errors="replace")
        for path in ("/proc/net/tcp", "/proc/net/tcp6")
    ]
    return [socket for text in texts for socket in parse_sockets(text) if socket.state == LISTENING]


def read_listeners(host: Host, address: str) -> list[Socket]:
    """The TCP sockets that accept connections to this address."""
    return [socket for socket in host.tcp_listeners() if socket.address in (address, *_ANY)]


def read_udp_servers(host: Host, address: str) -> list[Socket]:
    """The UDP sockets that accept packets to this address from any sender."""
    return [socket for socket in udp_servers(host) if socket.address in (address, *_ANY)]


def udp_servers(host: Host) -> list[Socket]:
    """The UDP sockets that accept packets from any sender."""
    texts = [
        (host.read(path, limit=KERNEL_LIMIT) or b"").decode(errors="replace")
        for path in ("/proc/net/udp", "/proc/net/udp6")
    ]
    sockets = [socket for text in texts for socket in parse_sockets(text)]
    return [socket for socket in sockets if socket.state == _UNCONNECTED]


def ask_root(host: Host, url: str, *, timeout: float) -> Optional[Response]:
    """The response of a program of root that listens on this machine; None if none listens or answers.

    Any user may bind a free port above 1023. The answer is known to be root's because the same sockets, owned by root,
    listen before and after the request: while they are bound, nobody else can bind the port.
    """
    held = _root_s(host, url)
    if not held:
        return None
    try:
        answer = host.request(url, timeout=timeout)
    except PeerError:
        return None
    return answer if _root_s(host, url) == held else None


def is_listening(host: Host, path: str, *, timeout: float) -> bool:
    """Whether a program accepts connections on this unix socket and responds or closes them within `timeout` seconds.

    The socket file of a killed program remains, so its existence proves nothing. A program that only speaks HTTP/2 closes
    the connection.
    """
    try:
        host.request(f"unix://{path}:/", timeout=timeout)
    except PeerError as error:
        # In Python 3.9 socket.timeout is not a TimeoutError.
        away = (ConnectionRefusedError, FileNotFoundError, TimeoutError, timed_out)
        return not isinstance(error.__cause__, away)
    return True


def _root_s(host: Host, url: str) -> frozenset[str]:
    """The inodes of the sockets that accept connections to `url`; empty if any of them is not owned by root."""
    parts = urlsplit(url)
    sockets = [socket for socket in read_listeners(host, str(parts.hostname)) if socket.port == parts.port]
    return frozenset(socket.inode for socket in sockets) if all(socket.uid == 0 for socket in sockets) else frozenset()


def _address(text: str) -> str:
    """Parse an address as the kernel prints it: 32-bit words in host byte order, which is little-endian on supported
    machines."""
    data = bytes.fromhex(text)
    words = [data[start : start + 4][::-1] for start in range(0, len(data), 4)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
