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
_UNCONNECTED = "07"  # TCP_CLOSE, which the kernel shows for a UDP socket without a peer


def parse_sockets(text: str) -> Iterator[Socket]:
    """/proc/net/tcp, tcp6, udp or udp6. A line that is cut short (the kernel writes while we read) is passed over."""
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
    """All TCP sockets that take connections, from the lists of all sockets, which are slow to read."""
    texts = [
        (host.read(path, limit=KERNEL_LIMIT) or b"").decode(errors="replace")
        for path in ("/proc/net/tcp", "/proc/net/tcp6")
    ]
    return [socket for text in texts for socket in parse_sockets(text) if socket.state == LISTENING]


def read_listeners(host: Host, address: str) -> list[Socket]:
    """The TCP sockets that take connections to this address."""
    return [socket for socket in host.tcp_listeners() if socket.address in (address, *_ANY)]


def read_udp_servers(host: Host, address: str) -> list[Socket]:
    """The UDP sockets that accept packets to this address from any sender."""
    texts = [
        (host.read(path, limit=KERNEL_LIMIT) or b"").decode(errors="replace")
        for path in ("/proc/net/udp", "/proc/net/udp6")
    ]
    sockets = [socket for text in texts for socket in parse_sockets(text)]
    return [socket for socket in sockets if socket.state == _UNCONNECTED and socket.address in (address, *_ANY)]


def ask_root(host: Host, url: str, *, timeout: float) -> Optional[Response]:
    """The answer of root's program that listens there on this machine; None where none listens or answers.

    A port above 1023 is for everybody to take while nobody has it. That it was root's is known by the socket that listens there
    before and after the question: while one has the port, no other does.
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
    """Whether a program accepts connections at this unix socket, and responds or closes them within `timeout` seconds.

    The file of a killed program's socket remains, so it is connected to. One that speaks only HTTP/2 closes the connection.
    """
    try:
        host.request(f"unix://{path}:/", timeout=timeout)
    except PeerError as error:
        # In Python 3.9 socket.timeout is no TimeoutError.
        away = (ConnectionRefusedError, FileNotFoundError, TimeoutError, timed_out)
        return not isinstance(error.__cause__, away)
    return True


def _root_s(host: Host, url: str) -> frozenset[str]:
    """The inodes of the sockets that take a connection to it; none where one of them is not root's."""
    parts = urlsplit(url)
    sockets = [socket for socket in read_listeners(host, str(parts.hostname)) if socket.port == parts.port]
    return frozenset(socket.inode for socket in sockets) if all(socket.uid == 0 for socket in sockets) else frozenset()


def _address(text: str) -> str:
    """The kernel prints each 32-bit word of an address in its own byte order, little-endian where we run."""
    data = bytes.fromhex(text)
    words = [data[start : start + 4][::-1] for start in range(0, len(data), 4)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
