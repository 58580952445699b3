# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads untrusted tar archives, compressed or not: from front to back, in pieces, without unpacking.

    with decompress(file) as source:
        for member in read_members(source, entries=100, size=2**30):
            for piece in member.pieces(): ...

`tarfile` trusts an archive: it reads a header of any length into memory, and loops forever on a negative size. Here headers have
a limit, sizes are whole numbers, and decompressed data may only be a multiple of what was read. Every fault raises Damaged, a
ValueError.

Sources: POSIX pax(1), "ustar Interchange Format" and "pax Header Block"; GNU tar, "Basic Tar Format".
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Optional, Protocol

from .._core.host.bounded import PIECE

FILE, DIRECTORY, SYMLINK, LINK, OTHER = "file", "directory", "symlink", "link", "other"
_BLOCK = 512
_HEADER_LIMIT = 2**16  # bytes of an extended header; a path has at most 4,096
_KINDS = {b"0": FILE, b"\0": FILE, b"7": FILE, b"5": DIRECTORY, b"2": SYMLINK, b"1": LINK}
_WITHOUT_CONTENT = (b"1", b"2", b"3", b"4", b"5", b"6")  # whatever size the header states
_EMPTY = bytes(_BLOCK)
# Images and programs compress to about a third; layers of zeros, to a thousandth.
_RATIO = 200
_FREE = 16 * 2**20  # bytes to which the ratio does not apply
_XZ_MEMORY = 128 * 2**20  # for the window of xz; `xz -9` needs 65 MiB


class Damaged(ValueError):
    """The text is the problem of an archive, in a few words."""


class Source(Protocol):
    def read(self, size: int, /) -> Optional[bytes]:
        """At most `size` bytes; none at the end."""


@dataclass
class Member:
    """An entry of an archive. `kind` is FILE, DIRECTORY, or another constant of this module."""

    name: str  # as written, without a leading "./"
    kind: str
    size: int  # bytes of a file
    target: str  # of a link
    pieces: Callable[[], Iterator[bytes]] = field(repr=False)  # the content, to be read once, before the next member


def read_members(source: Source, *, entries: int, size: int) -> Iterator[Member]:
    """All members in order. Damaged when there are more than `entries`, or when they have more than `size` bytes together."""
    tar = _Tar(source)
    long: dict[str, str] = {}
    count = total = 0
    while True:
        header = tar.header()
        if header is None:
            return
        kind, length = header[156:157], _size(header)
        count += 1
        if count > entries:
            raise Damaged(f"more than {entries} entries")
        if kind in (b"L", b"K", b"x", b"g"):
            long.update(_parse_records(kind, tar.whole(length)))
            continue
        length = 0 if kind in _WITHOUT_CONTENT else _number(long.get("size", ""), length)
        total += length
        if total > size:
            raise Damaged(f"more than {size} bytes")
        name, target = long.get("path") or _name(header), long.get("linkpath") or _text(header[157:257])
        long = {}
        member_kind = _KINDS.get(kind, OTHER)
        if member_kind == FILE and name.endswith("/"):  # how tar before 1988 wrote directories
            member_kind = DIRECTORY
        yield tar.member(name[2:] if name.startswith("./") else name, member_kind, length, target)


class _Tar:
    """The blocks of an archive."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._left = 0  # unread bytes of the present member
        self._padding = 0

    def header(self) -> Optional[bytes]:
        """The next header, after a check of its sum; None at the end."""
        for size in (self._left, self._padding):
            for _piece in self._pieces(size):
                pass
        self._left = self._padding = 0
        block = self._exactly(_BLOCK, may_end=True)
        if not block or block == _EMPTY:
            return None
        known = _octal(block[148:156])
        if known != sum(block[:148]) + sum(b" " * 8) + sum(block[156:]):
            raise Damaged("it is not a tar archive, or a header in it is damaged")
        return block

    def whole(self, size: int) -> bytes:
        """The content of an extended header."""
        if size > _HEADER_LIMIT:
            raise Damaged(f"a header of {size} bytes")
        return self._exactly(size + -size % _BLOCK)[:size]

    def member(self, name: str, kind: str, size: int, target: str) -> Member:
        self._left, self._padding = size, -size % _BLOCK

        def content() -> Iterator[bytes]:
            while self._left:
                piece = self._some(self._left)
                self._left -= len(piece)
                yield piece

        return Member(name, kind, size, target, content)

    def _pieces(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self._some(size)
            size -= len(piece)
            yield piece

    def _some(self, size: int) -> bytes:
        piece = self._source.read(min(size, PIECE))
        if not piece:
            raise Damaged("it ends in the middle of a member")
        return piece

    def _exactly(self, size: int, *, may_end: bool = False) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._source.read(size - len(data))
            if not piece:
                if may_end and not data:
                    break
                raise Damaged("it ends in the middle of a header")
            data += piece
        return bytes(data)


def _parse_records(kind: bytes, data: bytes) -> dict[str, str]:
    """What a header says about the next member: GNU's long names, and records of pax, `LENGTH KEY=VALUE\\n`."""
    if kind in (b"L", b"K"):
        return {"path" if kind == b"L" else "linkpath": _text(data)}
    records: dict[str, str] = {}
    while data:
        digits, blank, _rest = data[:20].partition(b" ")
        if not blank or not digits.isdigit() or not len(digits) < int(digits) <= len(data):
            raise Damaged("a pax header that cannot be read")
        record, data = data[len(digits) + 1 : int(digits)], data[int(digits) :]
        key, _equals, value = record.rstrip(b"\n").partition(b"=")
        if key.startswith(b"GNU.sparse."):
            raise Damaged("a sparse file")
        if kind == b"x" and key in (b"path", b"linkpath", b"size"):
            records[key.decode("ascii")] = _text(value)
    return records


def _name(header: bytes) -> str:
    name, prefix = _text(header[:100]), _text(header[345:500])
    # GNU's own format uses these fields for something else.
    return f"{prefix}/{name}" if prefix and header[257:263] == b"ustar\0" else name


def _size(header: bytes) -> int:
    data = header[124:136]
    if data[0] & 0x80:  # base 256, for sizes above 8 GiB
        if data[0] != 0x80:
            raise Damaged("a negative size")
        return int.from_bytes(data[1:], "big")
    return _octal(data)


def _octal(data: bytes) -> int:
    text = data.strip(b"\0 ")
    if not text:
        return 0
    if len(text) > 12 or set(text) - set(b"01234567"):
        raise Damaged("it is not a tar archive, or a header in it is damaged")
    return int(text, 8)


def _number(text: str, otherwise: int) -> int:
    if not text:
        return otherwise
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise Damaged("a pax header that cannot be read")
    return int(text)


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode(errors="surrogateescape")


def decompress(source: Source) -> Source:
    """`source` itself, or its decompressed content if its first bytes are those of gzip, bzip2 or xz."""
    head = b""
    while len(head) < 6:
        piece = source.read(6 - len(head))
        if not piece:
            break
        head += piece
    plain = _Pushed(head, source)
    if head[:2] == b"\x1f\x8b":
        return _Decompressed(plain, _Gzip)
    if head[:3] == b"BZh":
        return _Decompressed(plain, bz2.BZ2Decompressor)
    if head == b"\xfd7zXZ\0":
        return _Decompressed(plain, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY))
    return plain


def unpack(data: bytes, *, limit: int) -> bytes:
    """The decompressed content of `data`. Damaged when it exceeds `limit` bytes."""
    source, made = decompress(io.BytesIO(data)), bytearray()
    while True:
        piece = source.read(PIECE)
        if not piece:
            return bytes(made)
        made += piece
        if len(made) > limit:
            raise Damaged(f"more than {limit} bytes")


class _Pushed:
    """A source whose first bytes, read to identify it, come first again."""

    def __init__(self, head: bytes, source: Source) -> None:
        self._head = head
        self._source = source

    def read(self, size: int, /) -> Optional[bytes]:
        if self._head:
            given, self._head = self._head[:size], self._head[size:]
            return given
        return self._source.read(size)


class _Gzip:
    """zlib's decompressor with the interface of the other two."""

    def __init__(self) -> None:
        self._one = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._rest = b""

    @property
    def eof(self) -> bool:
        return self._one.eof

    @property
    def needs_input(self) -> bool:
        return not self._rest

    @property
    def unused_data(self) -> bytes:
        return self._one.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        made = self._one.decompress(self._rest + data, max_length)
        self._rest = self._one.unconsumed_tail
        return made


class _Decompressed:
    def __init__(self, source: Source, start: Callable[[], Any]) -> None:
        self._source = source
        self._start = start
        self._one = start()
        self._taken = self._made = 0

    def read(self, size: int, /) -> bytes:
        while True:
            data = b""
            if self._one.eof:
                data = self._one.unused_data or self._more()
                if not data.strip(b"\0"):  # the end, perhaps padded
                    return b""
                self._one = self._start()
            elif self._one.needs_input:
                data = self._more()
                if not data:
                    raise Damaged("it ends in the middle of the compressed data")
            try:
                made: bytes = self._one.decompress(data, min(size, PIECE))
            except (zlib.error, OSError, EOFError, lzma.LZMAError, ValueError) as error:
                raise Damaged(f"it cannot be decompressed: {error}") from error
            self._made += len(made)
            if self._made > _FREE + _RATIO * self._taken:
                raise Damaged(f"it expands to more than {_RATIO} times its size")
            if made:
                return made

    def _more(self) -> bytes:
        data = self._source.read(PIECE) or b""
        self._taken += len(data)
        return data
