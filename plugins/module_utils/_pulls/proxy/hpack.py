# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""HPACK (RFC 7541): header blocks of HTTP/2 read in full, and written without the table and without Huffman's code.

What is written that way means the same whatever the reader's table holds, and leaves the table as it is. So the proxy
can add blocks of its own to those of a runtime that it passes on unread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

_TABLE_BYTES = 4096  # the size that each side may use unless it was told otherwise: SETTINGS_HEADER_TABLE_SIZE
_ENTRY_BYTES = 32  # counted for each entry besides its name and value: RFC 7541, 4.1
_LIST_BYTES = 1024 * 1024  # of one decoded block: an index of one byte can stand for thousands
_INTEGER_BYTES = 5  # of the continuation: more than any size that is allowed here
_CACHED_BYTES = 256  # longer texts, and those of one use, should not push the others out


class HpackError(Exception):
    """A header block that breaks the rules: the connection is of no use after it."""


class Header(NamedTuple):
    name: bytes
    value: bytes
    never_indexed: bool = False  # it must not be put into a table on the way on either


# RFC 7541, appendix A.
_STATIC = tuple(
    Header(name.encode(), value.encode())
    for name, value in (
        (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
        (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
        (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
        ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
        ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
        ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
        ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""),
        ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""),
        ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""),
        ("last-modified", ""), ("link", ""), ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""),
        ("proxy-authorization", ""), ("range", ""), ("referer", ""), ("refresh", ""), ("retry-after", ""),
        ("server", ""), ("set-cookie", ""), ("strict-transport-security", ""), ("transfer-encoding", ""),
        ("user-agent", ""), ("vary", ""), ("via", ""), ("www-authenticate", ""),
    )
)  # fmt: skip
_STATIC_ENTRIES = len(_STATIC)

# RFC 7541, appendix B. The code is canonical: of the symbols of one length each has the code after the one before, so
# the lengths say all. 256 is the end of a text, which none may hold.
_SYMBOLS_BY_LENGTH = {
    5: "48-50 97 99 101 105 111 115-116",
    6: "32 37 45-47 51-57 61 65 95 98 100 102-104 108-110 112 114 117",
    7: "58 66-87 89 106-107 113 118-122",
    8: "38 42 44 59 88 90",
    10: "33-34 40-41 63",
    11: "39 43 124",
    12: "35 62",
    13: "0 36 64 91 93 126",
    14: "94 125",
    15: "60 96 123",
    19: "92 195 208",
    20: "128 130-131 162 184 194 224 226",
    21: "153 161 167 172 176-177 179 209 216-217 227 229-230",
    22: "129 132-134 136 146 154 156 160 163-164 169-170 173 178 181 185-187 189-190 196 198 228 232-233",
    23: "1 135 137-141 143 147 149-152 155 157-158 165-166 168 174-175 180 182-183 188 191 197 231 239",
    24: "9 142 144-145 148 159 171 206 215 225 236-237",
    25: "199 207 234-235",
    26: "192-193 200-202 205 210 213 218-219 238 240 242-243 255",
    27: "203-204 211-212 214 221-223 241 244-248 250-254",
    28: "2-8 11-12 14-21 23-31 127 220 249",
    30: "10 13 22 256",
}
_END = 256
_LONGEST_PADDING = 7  # bits, all of them 1


def _huffman_codes() -> dict[tuple[int, int], int]:
    """Length and code, to the symbol."""
    codes: dict[tuple[int, int], int] = {}
    code = before = 0
    for length, ranges in _SYMBOLS_BY_LENGTH.items():
        code <<= length - before
        before = length
        for part in ranges.split():
            first, _dash, last = part.partition("-")
            for symbol in range(int(first), int(last or first) + 1):
                codes[length, code] = symbol
                code += 1
    return codes


_HUFFMAN = _huffman_codes()


def encode(headers: Iterable[Header]) -> bytes:
    return b"".join([_literal(*header) for header in headers])


class Decoder:
    """Of the header blocks of one connection's one direction, which have to be given to it all and in order."""

    def __init__(self) -> None:
        self._entries: deque[Header] = deque()  # the newest first
        self._bytes = 0
        self._most = _TABLE_BYTES

    def decode(self, block: bytes) -> list[Header]:
        """HpackError for a block that is cut short, names what is not there, or is too large."""
        headers: list[Header] = []
        total = at = 0
        try:
            while at < len(block):
                first = block[at]
                if first & 0x80:  # an entry of the table, as most are
                    index, at = (first & 0x7F, at + 1) if first < 0xFF else _integer(block, at, 7)
                    header = self._entry(index)
                elif first & 0xE0 == 0x20:
                    at = self._resize(block, at)
                    if headers:
                        raise HpackError("the table's size is changed in the middle of a header block")
                    continue
                else:
                    header, at = self._literal(block, at)
                total += len(header[0]) + len(header[1]) + _ENTRY_BYTES
                if total > _LIST_BYTES:
                    raise HpackError(f"the headers of one request have more than {_LIST_BYTES} bytes")
                headers.append(header)
        except IndexError:
            raise HpackError("a header block is cut short") from None
        return headers

    def _resize(self, block: bytes, at: int) -> int:
        size, at = _integer(block, at, 5)
        if size > _TABLE_BYTES:
            raise HpackError(f"a header table of {size} bytes, where {_TABLE_BYTES} are allowed")
        self._most = size
        self._shrink(size)
        return at

    def _literal(self, block: bytes, at: int) -> tuple[Header, int]:
        first = block[at]
        is_indexed = bool(first & 0x40)
        bits, mask = (6, 0x3F) if is_indexed else (4, 0x0F)
        # A number that fits into its first byte, as nearly all do, costs no call.
        index, at = (first & mask, at + 1) if first & mask < mask else _integer(block, at, bits)
        if index:
            name = self._entry(index).name
        else:
            name, at = _text(block, at)
        value, at = _text(block, at)
        header = Header(name, value, bool(first & 0x10) and not is_indexed)
        if is_indexed:
            self._add(header)
        return header, at

    def _entry(self, index: int) -> Header:
        if 0 < index <= _STATIC_ENTRIES:
            return _STATIC[index - 1]
        if not 0 < index <= _STATIC_ENTRIES + len(self._entries):
            raise HpackError(f"a header has index {index}, which is not in the table")
        return self._entries[index - _STATIC_ENTRIES - 1]

    def _add(self, header: Header) -> None:
        size = len(header.name) + len(header.value) + _ENTRY_BYTES
        self._shrink(max(self._most - size, 0))
        if size <= self._most:
            self._entries.appendleft(header)
            self._bytes += size

    def _shrink(self, most: int) -> None:
        while self._bytes > most:
            oldest = self._entries.pop()
            self._bytes -= len(oldest.name) + len(oldest.value) + _ENTRY_BYTES


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    mask = (1 << bits) - 1
    value = block[at] & mask
    at += 1
    if value < mask:
        return value, at
    for shift in range(0, 7 * _INTEGER_BYTES, 7):
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
    raise HpackError("a number in a header block is too large")


def _text(block: bytes, at: int) -> tuple[bytes, int]:
    first = block[at]
    length, at = (first & 0x7F, at + 1) if first & 0x7F < 0x7F else _integer(block, at, 7)
    end = at + length
    if end > len(block):
        raise HpackError("a header block is cut short")
    data = block[at:end]
    if not first & 0x80:
        return data, end
    return (_cached_huffman(data) if length <= _CACHED_BYTES else _huffman(data)), end


def _huffman(data: bytes) -> bytes:
    decoded = bytearray()
    code = length = 0
    for byte in data:
        for shift in range(7, -1, -1):
            code = code << 1 | byte >> shift & 1
            length += 1
            symbol = _HUFFMAN.get((length, code))
            if symbol is None:
                continue
            if symbol == _END:
                raise HpackError("a header's text holds the sign for its end")
            decoded.append(symbol)
            code = length = 0
    if length > _LONGEST_PADDING or code != (1 << length) - 1:
        raise HpackError("a header's text ends in the middle of a sign")
    return bytes(decoded)


def _write_integer(value: int, bits: int, first: int) -> bytes:
    mask = (1 << bits) - 1
    if value < mask:
        return bytes([first | value])
    written = bytearray([first | mask])
    value -= mask
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _literal(name: bytes, value: bytes, never_indexed: bool) -> bytes:
    if len(value) > _CACHED_BYTES:
        return _write_literal(name, value, never_indexed)
    return _cached_literal(name, value, never_indexed)


def _write_literal(name: bytes, value: bytes, never_indexed: bool) -> bytes:
    kind = b"\x10" if never_indexed else b"\x00"
    return kind + _write_integer(len(name), 7, 0) + name + _write_integer(len(value), 7, 0) + value


_cached_literal = lru_cache(maxsize=1024)(_write_literal)
_cached_huffman = lru_cache(maxsize=1024)(_huffman)
