# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sockets of a machine, as the kernel lists them."""

from __future__ import annotations

import ipaddress
from collections.abc import Container, Iterator
from typing import NamedTuple, Optional
from urllib.parse import urlsplit

from ..text.errors import PeerError
from .host import KERNEL_LIMIT, Host, Process, Response
from .processes import is_of_root, list_processes, real_path

LISTENING = "0A"  # TCP_LISTEN, include/net/tcp_states.h
_ANY = ("0.0.0.0", "::")
_ACCEPTS = 0x10000  # of a unix socket that listens: __SO_ACCEPTCON, include/uapi/linux/net.h
_UDP_UNCONNECTED = "07"  # how the kernel shows a UDP socket that takes packets from everyone


class Socket(NamedTuple):
    address: str  # its own
    port: int
    state: str  # as the kernel writes it, "0A"
    inode: str
    uid: int = 0  # of the user that made it

    @property
    def is_open_to_all(self) -> bool:
        """It takes connections, or packets, from any sender."""
        return self.state in (LISTENING, _UDP_UNCONNECTED)


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


def read_listeners(host: Host, address: str) -> list[Socket]:
    """The TCP sockets that take connections to this address."""
    texts = [
        (host.read(path, limit=KERNEL_LIMIT) or b"").decode(errors="replace")
        for path in ("/proc/net/tcp", "/proc/net/tcp6")
    ]
    sockets = (socket for text in texts for socket in parse_sockets(text))
    return [socket for socket in sockets if socket.state == LISTENING and socket.address in (address, *_ANY)]


def find_unix_listener(host: Host, path: str, *, near: int) -> Optional[Process]:
    """Root's process that takes connections to this unix socket; None where none does. `near` is the pid of one in the network
    namespace of its listener, as the kernel lists each namespace's own. A name may hold a line break, and so look like the row of
    another socket: whose process it is decides. Process 1 holds the sockets of socket units too, and counts last."""
    beside = host.process(near)
    listed = "/proc/net/unix" if beside is None or beside.own_network else f"/proc/{near}/net/unix"
    text = (host.read(listed, limit=KERNEL_LIMIT) or b"").decode(errors="replace")
    place = real_path(host, path)
    links = {f"socket:[{inode}]" for inode, bound in _unix_listeners(text) if real_path(host, bound) == place}
    if not links:
        return None
    of_root = (process for process in list_processes(host) if is_of_root(process))
    holders = (process for process in of_root if _holds(host, process.pid, links))
    return min(holders, key=lambda process: (process.pid == 1, process.pid), default=None)


def _unix_listeners(text: str) -> Iterator[tuple[str, str]]:
    """Inode and path of each unix socket with a path that listens, from /proc/net/unix."""
    for line in text.splitlines()[1:]:
        words = line.split(maxsplit=7)
        try:
            if len(words) == 8 and words[7].startswith("/") and int(words[3], 16) & _ACCEPTS:
                yield words[6], words[7]
        except ValueError:
            continue


def _holds(host: Host, pid: int, links: Container[str]) -> bool:
    place = f"/proc/{pid}/fd"
    return any(host.readlink(f"{place}/{name}") in links for name in host.listdir(place))


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
