# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Headers of one client: few bytes do not become many, in the table of a connection and in what is decoded."""

from __future__ import annotations

import asyncio
import tracemalloc
from contextlib import suppress

import pytest
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hypothesis import given as over
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy import http2
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.hpack import Decoder, Header, HpackError, encode
from tests.fake_runtime.runtime import PULL_IMAGE
from tests.unit.pulls.service.given import proxied, run
from tests.unit.pulls.service.peer import Answered
from tests.unit.pulls.service.sent_frames import ENTRY, LIST_BYTES, MIB, closed_by, headers, path
from tests.unit.pulls.service.test_peers import BEGUN, still_works


@pytest.mark.parametrize("of", ["/x/Echo", PULL_IMAGE])
@pytest.mark.parametrize("times", [2, 3, 240])
def test_indexed_headers_do_not_become_memory(of: str, times: int) -> None:
    """275 KiB of them took 2 GB."""
    table = BEGUN + headers(1, ENTRY + path(of), flags=http2.END_HEADERS)
    block = path(of) + b"\xbe" * times
    attack, number = table, 3
    while len(attack) < 275 * 1024:
        attack += headers(number, block)
        number += 2

    async def scenario() -> None:
        async with proxied() as given:
            await still_works(given)
            tracemalloc.start()
            try:
                peer = await given.peer(silent=True)
                peer.send(attack)
                with suppress(ConnectionError):
                    await asyncio.wait_for(peer.drain(), 20)
                await asyncio.sleep(1)
                await peer.close()
                _now, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert peak < 64 * MIB
            await still_works(given)

    run(scenario)


@pytest.mark.parametrize("end", [b"", b"\x00"])
def test_trailers_are_passed_on_once(end: bytes) -> None:
    """Each could be as large as what the table holds."""
    flags = http2.END_HEADERS | (http2.END_STREAM if end else 0)

    async def scenario() -> None:
        async with proxied() as given:
            begin = BEGUN + headers(1, ENTRY + path("/x/Echo"), flags=http2.END_HEADERS)
            await closed_by(given, begin + headers(1, b"\xbe\xbe\xbe", flags=flags) * 20000)
            assert "connection-closed" in given.log.getvalue()
            await still_works(given)

    run(scenario)


def test_a_header_list_has_an_end_before_it_is_made() -> None:
    """RFC 7541, 4.1: 32 octets are counted for each, also for those that are empty."""
    for block in (b"\x82" * 1000, b"\x84" + b"\x10\x01a\x00" * 500, b"\x10\x01a\x7f\x81\x7f" + b"z" * (LIST_BYTES)):
        with pytest.raises(HpackError, match=f"{LIST_BYTES} bytes"):
            Decoder().decode(block)
    assert len(Decoder().decode(b"\x82" * (LIST_BYTES // 42))) == LIST_BYTES // 42


@pytest.mark.parametrize("change", [b"\x20", b"\x3f\xe1\x1f"])
def test_the_size_of_the_table_changes_at_most_twice_in_a_block(change: bytes) -> None:
    decoder = Decoder()
    for _turn in range(2):
        assert len(decoder.decode(change * 2 + b"\x82")) == 1
    with pytest.raises(HpackError, match="size"):
        decoder.decode(change * 3 + b"\x82")


def test_an_entry_of_the_table_does_not_hold_the_block_that_it_came_in() -> None:
    """120 small entries, each in a block of its own of nearly 16 KiB."""
    decoder = Decoder()
    tracemalloc.start()
    try:
        for _turn in range(120):
            decoder.decode(b"\x40\x01a\x01b" + b"\x10\x01x\x7f\x81\x7c" + b"y" * 16000)
        now, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert now < 128 * 1024
    assert len(decoder.decode(b"\xbe" * 120)) == 120


@pytest.mark.parametrize("paths", [["/x/Echo", PULL_IMAGE], [PULL_IMAGE, "/x/Echo"], [PULL_IMAGE, PULL_IMAGE], []])
def test_a_request_has_one_path(paths: list[str]) -> None:
    """Else it could be a pull for the runtime, and none for the limit."""
    block = encode([Header(b":path", of.encode()) for of in paths])

    async def scenario() -> None:
        async with proxied() as given:
            peer = await given.peer()
            peer.streams[1] = Answered()
            peer.send(headers(1, block))
            while peer.streams[1].reset is None:
                assert await peer.frame()
            assert peer.streams[1].reset == http2.PROTOCOL_ERROR
            assert given.runtime.pulled == []

    run(scenario)


CODES = {(length, code): symbol for symbol, (length, code) in enumerate(zip(REQUEST_CODES_LENGTH, REQUEST_CODES))}


def bit_by_bit(data: bytes) -> bytes | None:
    """RFC 7541, 5.2, as it is written."""
    decoded, code, length = bytearray(), 0, 0
    for bit in (byte >> shift & 1 for byte in data for shift in range(7, -1, -1)):
        code, length = code << 1 | bit, length + 1
        symbol = CODES.get((length, code))
        if symbol == 256:
            return None
        if symbol is not None:
            decoded.append(symbol)
            code = length = 0
    return bytes(decoded) if length <= 7 and code == (1 << length) - 1 else None


@over(st.binary(max_size=40))
def test_huffman_is_read_as_bit_by_bit(data: bytes) -> None:
    try:
        read: bytes | None = Decoder().decode(b"\x10\x01x" + bytes([0x80 | len(data)]) + data)[0].value
    except HpackError:
        read = None
    assert read == bit_by_bit(data)


@over(st.lists(st.binary(max_size=300), max_size=60))
def test_what_is_decoded_is_never_more_than_the_limit(blocks: list[bytes]) -> None:
    decoder = Decoder()
    with suppress(HpackError):
        for block in blocks:
            read = decoder.decode(ENTRY + block)
            assert sum(len(header.name) + len(header.value) + 32 for header in read) <= LIST_BYTES
