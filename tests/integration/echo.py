# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program for network namespaces: `serve ADDRESS...` answers connections, `send` opens those that it is told of.

`hear-sctp` and `send-sctp SOURCE DESTINATION PORT` do with raw IPv4 packets, where the kernel tracks and translates SCTP
but does not speak it: the first chunk of an association is sent, and who hears it says so.

An answer says who gave it and whom it saw as the source: `10.1.0.5:8080 from 192.168.1.10`. Standard library only, no
import from the project: it runs with `ip netns exec`.
"""

from __future__ import annotations

import errno
import json
import selectors
import socket
import struct
import sys
import time
from contextlib import suppress

PORTS = (8080, 8081)
KINDS = {
    "TCP": (socket.SOCK_STREAM, socket.IPPROTO_TCP),
    "UDP": (socket.SOCK_DGRAM, socket.IPPROTO_UDP),
    "SCTP": (socket.SOCK_STREAM, 132),
}
REFUSED = "refused"
SILENT = "silent"
_QUIET_SECONDS = 1.5  # after the last answer; one takes milliseconds where the machine is not busy


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def has(protocol: str) -> bool:
    """Whether this kernel knows the protocol."""
    try:
        socket.socket(socket.AF_INET, *KINDS[protocol]).close()
    except OSError:
        return False
    return True


def text(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def serve(addresses: list[str]) -> None:
    waiting = selectors.DefaultSelector()
    for address in addresses:
        for port in PORTS:
            for protocol in filter(has, KINDS):
                one = socket.socket(family_of(address), *KINDS[protocol])
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind((address, port))
                if protocol != "UDP":
                    one.listen(512)
                one.setblocking(False)
                waiting.register(one, selectors.EVENT_READ, (protocol, text(address, port)))
    print("ready", flush=True)
    while True:
        for key, _events in waiting.select():
            protocol, name = key.data
            one = key.fileobj
            assert isinstance(one, socket.socket)
            # Who asked may be gone by now: then there is nothing to accept, or nobody to send to.
            with suppress(OSError):
                _reply(one, protocol, name)


def _reply(one: socket.socket, protocol: str, name: str) -> None:
    if protocol == "UDP":
        _data, peer = one.recvfrom(100)
        one.sendto(f"{name} from {peer[0]}".encode(), peer)
        return
    connection, peer = one.accept()
    with connection:
        connection.sendall(f"{name} from {peer[0]}".encode())


def send(wanted: list[dict[str, object]]) -> list[str]:
    """For each of `wanted` (source, destination, port, protocol) what came back: an answer, REFUSED or SILENT."""
    found = [SILENT] * len(wanted)
    waiting = selectors.DefaultSelector()
    opened = []
    for number, packet in enumerate(wanted):
        source, destination = str(packet["source"]), str(packet["destination"])
        one = socket.socket(family_of(source), *KINDS[str(packet["protocol"])])
        one.setblocking(False)
        # A connection that is given up leaves nothing behind: the next test begins with a clean table.
        if packet["protocol"] != "UDP":
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.bind((source, 0))
        opened.append(one)
        try:
            one.connect((destination, int(str(packet["port"]))))
            if packet["protocol"] == "UDP":
                one.send(b"?")
        except (BlockingIOError, PermissionError):
            pass  # under way; or a rule stopped it here, and told the socket so or not
        except OSError as error:
            found[number] = _meaning(error)
            continue
        waiting.register(one, selectors.EVENT_READ, number)
    until = time.monotonic() + _QUIET_SECONDS
    while waiting.get_map() and time.monotonic() < until:
        for key, _events in waiting.select(until - time.monotonic()):
            answer = _answer(key.fileobj)
            if answer != SILENT:
                until = time.monotonic() + _QUIET_SECONDS
                found[key.data] = answer
                waiting.unregister(key.fileobj)
    for key in waiting.get_map().values():
        # Linux 6.18 notes what ICMPv6 says of a TCP connection, but does not wake who waits for it.
        found[key.data] = _answer(key.fileobj)
    for one in opened:
        one.close()
    return found


def _answer(one: object) -> str:
    """What the socket has got by now."""
    assert isinstance(one, socket.socket)
    number = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # reading does not always tell of it
    if number:
        return _meaning(OSError(number, ""))
    try:
        # Nothing at its end: an error that was told before (a route gave up) has closed it.
        return one.recv(200).decode() or SILENT
    except OSError as error:
        return _meaning(error)


def _meaning(error: OSError) -> str:
    if error.errno == errno.ECONNREFUSED:
        return REFUSED
    if error.errno in (errno.EAGAIN, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT):
        return SILENT
    return f"error {error.errno}"


def crc32c(data: bytes) -> int:
    """The checksum of SCTP, RFC 9260 appendix A: conntrack takes no packet without it."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _bit in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def send_sctp(source: str, destination: str, port: int) -> None:
    """INIT, RFC 9260 3.3.2: tag 1, window, a stream each way, first number 1."""
    chunk = struct.pack("!BBHIIHHI", 1, 0, 20, 1, 65536, 1, 1, 1)
    checksum = crc32c(struct.pack("!HHII", 40000, port, 0, 0) + chunk)
    header = struct.pack("!HHI", 40000, port, 0) + struct.pack("<I", checksum)
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, 132) as one:
        one.bind((source, 0))
        one.sendto(header + chunk, (destination, 0))


def hear_sctp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, 132) as one:
        one.settimeout(5)
        print("ready", flush=True)
        packet = one.recv(2048)
        length = (packet[0] & 15) * 4
        port = struct.unpack("!H", packet[length + 2 : length + 4])[0]
        print(f"{socket.inet_ntoa(packet[16:20])}:{port} from {socket.inet_ntoa(packet[12:16])}", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2:])
    elif sys.argv[1] == "hear-sctp":
        hear_sctp()
    elif sys.argv[1] == "send-sctp":
        send_sctp(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        json.dump(send(json.load(sys.stdin)), sys.stdout)
