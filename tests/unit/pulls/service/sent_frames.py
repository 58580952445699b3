# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Frames that a client sends by itself, and a client that reads until its connection is closed."""

from __future__ import annotations

import asyncio

from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy import http2
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.hpack import Header, encode
from tests.unit.pulls.service.given import Proxied
from tests.unit.pulls.service.peer import Peer

MIB = 1024 * 1024
CALM, REFUSED = 11, 7
STREAMS, LIST_BYTES = 2048, 16 * 1024
# What stands for an entry of 4 KiB in the table, and then its path, and its index as often as it is said.
ENTRY = b"\x40\x01x\x7f\xa1\x1e" + b"y" * 4000


async def closed_by(given: Proxied, sent: bytes) -> Peer:
    """A client that sends so much, and reads until the proxy has closed its connection."""
    peer = await given.peer(silent=True)
    peer.send(sent)
    await asyncio.wait_for(peer.until_closed(), 30)
    return peer


def headers(stream: int, block: bytes, *, flags: int = http2.END_HEADERS | http2.END_STREAM) -> bytes:
    return http2.frame(http2.HEADERS, flags, stream, block)


def path(of: str) -> bytes:
    return encode([Header(b":path", of.encode()), Header(b"content-type", b"application/grpc")])


OPEN = headers(1, path("/x/Wait"), flags=http2.END_HEADERS)
